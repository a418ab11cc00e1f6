# Fifty frames, the main program's among them: forty-seven of `down`, `work`, and what that calls.
use strict;
use warnings;
no warnings 'recursion';

sub leaf { my $number = shift; return $number * 2 + 1 }

sub work {
    while (1) { leaf($_) for 1 .. 1_000 }
}

sub down {
    my $left = shift;
    return $left > 1 ? down( $left - 1 ) : work();
}

$| = 1;
print "ready\n";
down(47);
