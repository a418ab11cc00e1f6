package Drom::BenchRunner;
# Runs batches for `drom bench`, which says over standard input, a socket, whose turn it is and how
# many iterations, and is answered there how long they took. What the program itself prints goes
# where it always goes; its own standard input is empty. Drom::Clock stands before it.
use strict;
use warnings;
no strict 'refs';

our $VERSION = '0.1.0';

# Code that runs so many iterations: of each candidate, with inputs its loops with each of them one
# behind the other; then the bare loops, around an empty sub and around nothing.
my @loops;
# What the candidates are given; without inputs one call gets nothing.
my @inputs = (undef);
my @given;
# What keeps its place in memory.
my @held;

sub main {
    my ($seed, $inputs, $file, @codes) = @_;
    open my $drom, '+<&', \*STDIN or die "no socket: $!\n";
    open STDIN, '<', '/dev/null' or die "no /dev/null: $!\n";
    $drom->autoflush(1);
    my @names = eval {
        given($inputs) if $inputs ne '';
        scatter($seed);
        return ($file ne '' ? load($file) : (), compile(@codes));
    };
    return answer($drom, 'failed', $@) if $@;
    push @loops, around(sub { }, $inputs[0]), looped('', 'nothing', $inputs[0]);
    answer($drom, 'ready', $^V, scalar @inputs, @names);
    while (my $order = readline $drom) {
        my ($verb, @words) = split ' ', $order;
        answer($drom, $verb eq 'grow' ? grown(@words) : round_of(@words));
    }
    return;
}

# Each line of a file is an input.
sub given {
    my ($file) = @_;
    open my $lines, '<', $file or die "$file: $!\n";
    chomp(@inputs = <$lines>);
    @given = @inputs;
    return;
}

# The same code is a per cent faster in one place than in another, and without this each process
# would put the candidates into the same places. Leaves holes of random sizes in the heap for what
# is compiled and allocated afterwards.
sub scatter {
    my ($seed) = @_;
    my $drawn = sub {
        $seed = ($seed * 1_103_515_245 + 12_345) % 2**31;
        return ($seed >> 8) % $_[0];
    };
    my @filled = map { my $filling = 'x' x (16 + $drawn->(6_000)); \$filling } 1 .. 120;
    splice @filled, $drawn->(scalar @filled), 1 for 1 .. 60;
    push @held, @filled;
    return;
}

# Batches one behind the other: a loop's number and how many iterations, in pairs.
sub round_of {
    my (@turns) = @_;
    my @ran;
    while (my ($at, $iterations) = splice @turns, 0, 2) {
        my @times = batch($loops[$at], $iterations) or return ('died', $at, $@);
        push @ran, @times;
    }
    my $changed = changed();
    return $changed eq '' ? ('ran', @ran) : ('failed', $changed);
}

# By so many bytes the data of the process grew, in a loop that runs so many iterations so often.
sub grown {
    my ($at, $iterations, $batches) = @_;
    my $before = data_bytes();
    for (1 .. $batches) {
        batch($loops[$at], $iterations) or return ('died', $at, $@);
    }
    return ('grown', data_bytes() - $before);
}

# Of the heap and what is mapped beside it: counted by the kernel to the page, where what is
# resident is counted in lots.
sub data_bytes {
    open my $statm, '<', '/proc/self/statm' or return 0;
    return 4096 * (split ' ', readline $statm)[5];
}

# The inputs are handed over as they are: who changes them measures something else with each call.
sub changed {
    for my $at (0 .. $#given) {
        next if defined $inputs[$at] && $inputs[$at] eq $given[$at];
        return "an input was changed by the code that was given it (line " . ($at + 1)
            . "): let it work on a copy, as in: my (\$text) = \@_;";
    }
    return '';
}

# The subs that a file defines in the package it begins in, in the order of their lines.
sub load {
    my ($file) = @_;
    my %before = map { $_ => 1 } subs();
    my $path = $file =~ m{\A/} ? $file : "./$file";
    package main;
    my $done = do $path;
    die $@ if $@;
    die "$file: $!\n" if !defined $done && $!;
    package Drom::BenchRunner;
    my @new = sort { line_of($a) <=> line_of($b) } grep { !$before{$_} } subs();
    my @own = grep { file_of($_) eq $path } @new;
    die "$file defines no named sub\n" if !@own;
    for my $name (@own) {
        push @loops, map { around(\&{"main::$name"}, $_) } @inputs;
    }
    return map { "sub $_" } @own;
}

sub subs {
    return grep { defined &{"main::$_"} } grep { !/::\z/ } keys %main::;
}

sub file_of { return B::svref_2object(\&{"main::$_[0]"})->FILE }

sub line_of {
    my $start = B::svref_2object(\&{"main::$_[0]"})->START;
    return $start->can('line') ? $start->line : 0;
}

# Code from the command line, each in a loop of its own.
sub compile {
    my (@codes) = @_;
    my @names;
    for my $named (@codes) {
        my ($name, $code) = $named =~ /\A(\w+)=(.*)\z/s or die "write -e NAME=CODE, not $named\n";
        push @loops, map { looped($code, $name, $_) } @inputs;
        push @names, "code $name";
    }
    return @names;
}

# With an input it is $_, and what is aliased to it cannot be seen by a `my $_left` of the code.
sub looped {
    my ($code, $name) = @_;
    my $loop = eval "package main; no strict; no warnings; sub { my \$Drom_left = shift;\n"
        . "#line 1 \"-e $name\"\nwhile (\$Drom_left-- > 0) { $code\n} }";
    die "$name: $@" if $@;
    return $loop if !@given;
    my $at = \$_[2];
    return sub { $loop->($_[0]) for $$at };
}

sub around {
    my ($code) = @_;
    return sub { my $left = shift; while ($left-- > 0) { &$code() } } if !@given;
    my $at = \$_[1];
    return sub { my $left = shift; while ($left-- > 0) { &$code($$at) } };
}

# Nanoseconds of wall, CPU, user and system time.
sub batch {
    my ($loop, $iterations) = @_;
    my @used = Drom::Clock::used();
    my @passed = Drom::Clock::passed();
    my $lived = eval { $loop->($iterations); 1 };
    my @passed_end = Drom::Clock::passed();
    return if !$lived;
    my @used_end = Drom::Clock::used();
    my @s = ($passed_end[0] - $passed[0], $passed_end[1] - $passed[1], $used_end[0] - $used[0],
        $used_end[1] - $used[1]);
    return map { sprintf '%.0f', 1e9 * $_ } @s;
}

sub answer {
    my ($drom, @words) = @_;
    s/[\t\n]+/ /g, s/, <\$drom> line \d+// for @words;
    print {$drom} join("\t", @words), "\n";
    return;
}

require B;
require IO::Handle;
main(@ARGV);
