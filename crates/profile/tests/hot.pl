# Recursion by random ways: each call has a line of its own, so that a frame's line says who is called.
use strict;
use warnings;

my ($depth, $n) = (shift // 50, 0);

sub a {
    my $d = shift;
    return 1 if $d <= 0;
    $n = ($n * 1103515245 + 12345) & 0x7fffffff;
    return 1 + b($d - 1) if $n % 3 == 0;
    return 1 + c($d - 1) if $n % 3 == 1;
    return 1 + a($d - 1);
}

sub b {
    my $d = shift;
    return 1 if $d <= 0;
    return 1 + d($d - 1) if $n & 0x10000;
    return 1 + e($d - 1);
}

sub c { my $d = shift; return 1 if $d <= 0; return 1 + f($d - 1) }
sub d { my $d = shift; return 1 if $d <= 0; return 1 + a($d - 1) }
sub e { my $d = shift; return 1 if $d <= 0; return 1 + g($d - 1) }
sub f { my $d = shift; return 1 if $d <= 0; return 1 + a($d - 1) }
sub g { my $d = shift; return 1 if $d <= 0; return 1 + c($d - 1) }

$| = 1;
print "ready\n";
while (1) {
    my $x = a($depth - int(rand($depth / 2)));
}
