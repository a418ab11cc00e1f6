# Works as often as it is told to, and says the CPU time that each time took, as the kernel counts
# it for the process, user and system: `work.pl fib` or `work.pl pod`. With a number of times behind
# that it does them all and ends.
use strict;
use warnings;
use Pod::Man;
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);

my ( $what, $times ) = @ARGV;

sub fib {
    my $n = shift;
    return $n < 2 ? $n : fib( $n - 1 ) + fib( $n - 2 );
}

# What pod2man does; perldiag comes with every perl, for `use diagnostics`.
my ($pod) = grep { -e } map { "$_/pod/perldiag.pod" } @INC;

sub pod {
    my $text   = '';
    my $parser = Pod::Man->new;
    $parser->output_string( \$text );
    $parser->parse_file($pod);
    length $text > 100_000 or die "pod2man wrote next to nothing\n";
}

my %works = ( fib => sub { fib(20) for 1 .. 10 }, pod => \&pod );
my $work  = $works{$what} or die "there is no such work: $what\n";
$what eq 'fib' or $pod or die "this perl has no pod/perldiag.pod\n";

if ($times) {
    $work->() for 1 .. $times;
    exit;
}

$| = 1;
print "ready\n";
while ( my $line = <STDIN> ) {
    my $began = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    $work->();
    printf "%.9f\n", clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $began;
}
