package Drom::Clock;
# How much time has passed, and how much of a CPU's this process and its children have had.
use strict;
use warnings;

our $VERSION = '0.1.0';

use Config;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

# getrusage counts microseconds, times() hundredths of a second.
my %GETRUSAGE = (x86_64 => 98, aarch64 => 165);
my ($ARCHITECTURE) = $Config{archname} =~ /\A([^-]+)/;
my $GETRUSAGE = $^O eq 'linux' ? $GETRUSAGE{$ARCHITECTURE} : undef;
my ($SELF, $CHILDREN) = (0, -1);

# Seconds since whenever that was: of all time, and of this process's on a CPU.
sub passed { return (clock_gettime(CLOCK_MONOTONIC), clock_gettime(CLOCK_PROCESS_CPUTIME_ID)) }

# Seconds in the program and in the kernel, of this process and of its children that have ended.
sub used {
    return times if !$GETRUSAGE;
    return (of($SELF), of($CHILDREN));
}

sub of {
    my ($whose) = @_;
    my $usage = "\0" x 256;
    syscall $GETRUSAGE, $whose, $usage;
    my ($user_s, $user_us, $system_s, $system_us) = unpack 'q4', $usage;
    return ($user_s + $user_us / 1e6, $system_s + $system_us / 1e6);
}

1;

=head1 NAME

Drom::Clock - time that has passed, and time on a CPU

=head1 SYNOPSIS

    use Drom::Clock ();
    my ($wall_s, $cpu_s) = Drom::Clock::passed();
    my ($user_s, $system_s, $child_user_s, $child_system_s) = Drom::Clock::used();

=head1 DESCRIPTION

C<passed> gives seconds with nanoseconds behind the point, of the monotonic clock and of the clock of this process's
CPU time. C<used> gives what the kernel counts of both, microseconds on Linux (x86_64, aarch64), hundredths of a second
elsewhere, as C<times> does.

=cut
