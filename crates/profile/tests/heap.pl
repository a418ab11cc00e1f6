# For tests of heaps: says "ready", waits. Lengths are reckoned: of constants 5.42 makes one string.
use strict;
use warnings;

package Shop;
our %cache = map { ( "item$_" => { name => "name $_", tags => [ 'a' .. 'e' ] } ) } 1 .. 500;
our @rows  = map { "x" x ( 1_000 + 0 * $_ ) } 1 .. 300;
my $private = { list => [ map { "y" x ( 2_000 + @ARGV ) } 1 .. 100 ] };

sub add {
    my ( $self, $item ) = @_;
    $private->{last} = $item;
    my $double = $item * 2;
    return $double + 1;
}

sub counter { my $count = shift; return sub { return $count++ } }

package Node;
sub new { return bless {}, shift }

package main;

for ( 1 .. 10 ) {
    my ( $parent, $child ) = ( Node->new, Node->new );
    $parent->{child} = $child;
    $child->{parent} = $parent;
}
my $again;
$again = sub { my $left = shift; return $left ? $again->( $left - 1 ) : 0 };
$again->(3);
our $big = 'z'; $big x= 3_000_000;
our $counter = Shop::counter(1);
our $secret  = { 'joe@example.org' => [ 1 .. 2_000 ] };

for my $number ( 1 .. 20 ) {
    my $body = join ' ', map { "\$sum += \$_[0] * $_;" } 1 .. $number * $number;
    eval "sub Made::sub$number { my \$sum = 0; $body return \$sum } 1" or die $@;
}

$| = 1;
print "ready\n";
while ( my $line = <STDIN> ) {
    push @rows, map { 'w' x ( 1_000 + 0 * $_ ) } 1 .. 200 if $line eq "grow\n";
    print "done\n";
}
