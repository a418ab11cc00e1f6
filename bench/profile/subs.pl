# Makes twenty subs. Before each of them and after the last it asks for 5 MB and so many times 1,000
# bytes, so that whoever writes down what the allocator gives knows what is given for which. When it
# is told to, it says what Devel::Size thinks of them, if that is loaded.
use strict;
use warnings;

my $text = '';
for my $number ( 1 .. 20 ) {
    my $body = join ' ', map { "\$sum += \$_[0] * $_;" } 1 .. $number * $number;
    my $code = "sub Made::sub$number { my \$sum = 0; $body return \$sum } 1";
    $text = 'x' x ( 5_000_000 + $number * 1_000 );
    eval $code or die $@;
}
$text = 'x' x ( 5_000_000 + 21 * 1_000 );

$| = 1;
print "ready\n";
<STDIN>;
no strict 'refs';
print join( ' ', map { Devel::Size::size( \&{"Made::sub$_"} ) } 1 .. 20 ), "\n";
