# A heap of 100 MB (10**8 bytes of memory that is no file's): hashes, arrays, strings and names.
use strict;
use warnings;
use POSIX ();

sub private_bytes {
    open my $statm, '<', '/proc/self/statm' or die "statm: $!\n";
    my ( undef, $resident, $shared ) = split ' ', <$statm>;
    return ( $resident - $shared ) * POSIX::sysconf( POSIX::_SC_PAGESIZE() );
}

our %items;
while ( private_bytes() < 100_000_000 ) {
    for ( 1 .. 500 ) {
        my $number = keys %items;
        $items{"item$number"} =
            { name => "the name of item $number", price => $number / 4, tags => [ 'a' .. 'e' ] };
    }
}

$| = 1;
print "ready\n";
<STDIN>;
