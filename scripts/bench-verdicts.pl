#!/usr/bin/perl
# How often `drom bench` is wrong: the same code against itself, and against 2 % more of it, on a
# machine that does other work as well (three comparisons at once, whatever else runs). Prints a
# table in Markdown.
#
#     scripts/bench-verdicts.pl target/release/drom [COMPARISONS]
use strict;
use warnings;

use File::Temp ();
use JSON::PP ();

my ($DROM, $COMPARISONS) = @ARGV;
die "usage: $0 DROM [COMPARISONS]\n" if !$DROM;
$COMPARISONS ||= 200;
my $AT_ONCE = 3;

# Pieces of code with the place of a number of turns in them.
my @CODES = (
    'my $s = 0; $s += $_ for 1 .. %d',
    'my $s = ""; $s .= "$_," for 1 .. %d',
    'my %%h; $h{$_ %% 16}++ for 1 .. %d',
    'my @a = map { $_ * 2 } 1 .. %d',
    'my $n = () = ("abc " x %d) =~ /[ac]/g',
);
my ($TURNS, $MORE) = (100, 102);

sub main {
    my $folder = File::Temp->newdir;
    print "# How often `drom bench` is wrong\n\nWritten by `make bench-verdicts`; do not edit.\n\n",
        machine(), "\n";
    print "| | comparisons | called different | asked |\n|---|---|---|---|\n";
    my ($same, @by) = compared($folder, $TURNS, $COMPARISONS);
    printf "| the same code | %d | %d (%.1f %%%s) | at most 5 %% |\n", $COMPARISONS, $same,
        100 * $same / $COMPARISONS, @by ? '; by ' . join(', ', @by) : '';
    my ($found) = compared($folder, $MORE, $COMPARISONS);
    printf "| 2 %% more | %d | %d (%.1f %%) | at least 80 %% |\n", $COMPARISONS, $found,
        100 * $found / $COMPARISONS;
    return;
}

sub machine {
    my ($load) = split ' ', slurp('/proc/loadavg');
    my ($kernel) = slurp('/proc/version') =~ /version (\S+)/;
    my $cores = () = slurp('/proc/cpuinfo') =~ /^processor/mg;
    my @now = gmtime;
    my $date = sprintf '%04d-%02d-%02d', $now[5] + 1900, $now[4] + 1, $now[3];
    return "$date; $cores cores, Linux $kernel, perl $^V, load $load when it began; $AT_ONCE at once.\n";
}

# How many were called different, and by how many per cent.
sub compared {
    my ($folder, $turns, $count) = @_;
    my ($running, @by) = (0);
    for my $number (1 .. $count) {
        if ($running == $AT_ONCE) {
            wait;
            $running--;
        }
        $running++;
        my @command = ($DROM, qw(bench --format json -o), "$folder/$turns.$number",
            ways($folder, $turns, $number));
        my $child = fork // die "no process: $!\n";
        next if $child;
        exec @command or die "$DROM: $!\n";
    }
    1 while wait != -1;
    for my $number (1 .. $count) {
        my $told = JSON::PP::decode_json(slurp("$folder/$turns.$number"));
        my ($ratio) = @{$told->{ratios}};
        push @by, sprintf '%+.1f %%', 100 * ($ratio->{time_ratio} - 1) if $ratio->{is_different};
    }
    return (scalar @by, @by);
}

# Every second time as subs of a file, otherwise as code; and the longer one first or last.
sub ways {
    my ($folder, $turns, $number) = @_;
    my $code = $CODES[$number % @CODES];
    my @both = map { sprintf $code, $_ } $number % 4 < 2 ? ($TURNS, $turns) : ($turns, $TURNS);
    return ('-e', "a=$both[0]", '-e', "b=$both[1]") if $number % 2;
    my $file = "$folder/$turns.$number.pl";
    open my $out, '>', $file or die "$file: $!\n";
    print {$out} "sub a { $both[0]; return }\nsub b { $both[1]; return }\n";
    close $out or die "$file: $!\n";
    return $file;
}

sub slurp {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    return scalar readline $in;
}

main();
