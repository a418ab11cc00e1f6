package Drom::Bench;
# Benchmark's interface; candidates run in turn, clocks count nanoseconds, ratios have intervals.
use strict;
use warnings;

our $VERSION = '0.1.0';

# Before any lexical of this file: code from strings sees none of them.
sub compiled {
    no strict;
    no warnings;
    return eval $_[0];
}

use Drom::Clock ();
use Exporter ();
use Time::HiRes ();

our @ISA = ('Exporter');
our @EXPORT = qw(timeit timethis timethese timediff timestr);
our @EXPORT_OK = qw(timesum cmpthese countit clearcache clearallcache disablecache enablecache);
our %EXPORT_TAGS = (all => [@EXPORT, @EXPORT_OK]);

my ($REAL, $USER, $SYSTEM, $CHILD_USER, $CHILD_SYSTEM, $ITERATIONS, $ROUNDS) = 0 .. 6;
# Seconds that a batch takes at least, and a candidate where nothing else is asked for.
my ($BATCH_S, $DEFAULT_S, $LEAST_S) = (0.0005, 3, 0.1);
# More than was asked for by this much, for the loop's share is known better in the end.
my $MARGIN = 1.01;
# What is next to nothing beside the loop ends all the same, after so many times the time.
my $GROSS = 4;
# One process cannot tell a smaller difference from where code came to lie in its memory.
my $LEAST_SHARE = 0.03;
my $NULL_ITERATIONS = 2_000;
my $NULL_EVERY = 8;
# Rounds without which there is no interval.
my $ROUNDS_MIN = 12;
my ($STYLE, $FORMAT) = ('auto', '5.2f');
my $is_hires = 0;
my $runs = 0;

sub import {
    my ($class, @words) = @_;
    $is_hires ||= grep { $_ eq ':hireswallclock' } @words;
    no strict 'refs';
    # `Benchmark->new` of a script whose `use` line alone was changed.
    *{'Benchmark::new'} = sub { shift; return __PACKAGE__->new(@_) } if !Benchmark->can('new');
    $class->export_to_level(1, $class, grep { $_ ne ':hireswallclock' } @words);
    return;
}

sub new {
    my ($class, $iterations) = @_;
    return bless [Time::HiRes::time(), Drom::Clock::used(), $iterations || 0], $class;
}

sub real { return $_[0][$REAL] }
sub iters { return $_[0][$ITERATIONS] }
sub cpu_p { return $_[0][$USER] + $_[0][$SYSTEM] }
sub cpu_c { return $_[0][$CHILD_USER] + $_[0][$CHILD_SYSTEM] }
sub cpu_a { return $_[0]->cpu_p + $_[0]->cpu_c }

# Kept for scripts that call them: each run measures its own loop.
sub clearcache { return }
sub clearallcache { return }
sub disablecache { return }
sub enablecache { return }

sub timediff {
    my ($one, $other) = @_;
    return bless [map { $one->[$_] - ($other->[$_] || 0) } $REAL .. $ITERATIONS], ref $one;
}

sub timesum {
    my ($one, $other) = @_;
    return bless [map { $one->[$_] + ($other->[$_] || 0) } $REAL .. $ITERATIONS], ref $one;
}

sub timestr {
    my ($time, $style, $format) = @_;
    $style = style_of($time, $style);
    return '' if $style eq 'none';
    $format ||= $FORMAT;
    my ($user, $system, $child_user, $child_system)
        = map { sprintf "%$format", $_ } @{$time}[$USER .. $CHILD_SYSTEM];
    my $own = "$user usr + $system sys";
    my $all = "$user usr $system sys + $child_user cusr $child_system csys";
    my %parts = (noc => $own, all => $all, nop => "$child_user cusr + $child_system csys");
    my $cpu = cpu_of($time, $style);
    my $text = sprintf $is_hires ? '%2g' : '%2d', $time->real;
    $text .= sprintf " wallclock secs ($parts{$style} = %$format CPU)", $cpu;
    $text .= sprintf " @ %$format/s (n=%s)", $time->iters / $cpu, $time->iters
        if $time->iters && $cpu > 0;
    return $text;
}

sub style_of {
    my ($time, $style) = @_;
    $style ||= $STYLE;
    return $style if $style ne 'auto';
    return $time->cpu_c > 0 ? 'all' : 'noc';
}

sub cpu_of {
    my ($time, $style) = @_;
    return $time->cpu_c if $style eq 'nop';
    return $style eq 'noc' ? $time->cpu_p : $time->cpu_a;
}

sub timeit {
    my ($count, $code) = @_;
    return measured($count, [$code], scalar caller)->[0];
}

sub countit {
    my ($seconds, $code) = @_;
    return measured(-($seconds || $DEFAULT_S), [$code], scalar caller)->[0];
}

sub timethis {
    my ($count, $code, $title, $style) = @_;
    my $time = ref $code && eval { $code->isa(__PACKAGE__) }
        ? $code : measured($count, [$code], scalar caller)->[0];
    $style = $STYLE if !defined $style;
    $title = $count > 0 ? "timethis $count" : 'timethis for ' . seconds_of($count)
        if !defined $title;
    show_one($title, $time, $style);
    return $time;
}

sub timethese {
    my ($count, $codes, $style) = @_;
    return these($count, $codes, $style, scalar caller);
}

sub these {
    my ($count, $codes, $style, $package) = @_;
    $style = $STYLE if !defined $style;
    my @names = sort keys %$codes;
    my $list = join ', ', @names;
    my $each = @names > 1 ? ', each' : '';
    show($style, $count > 0 ? "Benchmark: timing $count iterations of $list...\n"
        : "Benchmark: running $list for at least " . seconds_of($count) . " CPU seconds$each...\n");
    my $times = measured($count, [@{$codes}{@names}], $package);
    show_one($names[$_], $times->[$_], $style) for 0 .. $#names;
    return {map { $names[$_] => $times->[$_] } 0 .. $#names};
}

# Results, or a count and what is to be run.
sub cmpthese {
    my ($results, $style) = ref $_[0] eq 'HASH' ? @_ : ();
    ($results, $style) = (these(@_[0 .. 2], scalar caller), $_[2]) if !$results;
    $style = $STYLE if !defined $style;
    my @ways = map { way($_, $results->{$_}, $style) } keys %$results;
    @ways = sort { $a->{rate} <=> $b->{rate} || $a->{name} cmp $b->{name} } @ways;
    my $is_rate = !@ways || $ways[$#ways / 2]{rate} > 1;
    my @rows = (['', $is_rate ? 'Rate' : 's/iter', map { $_->{name} } @ways]);
    for my $row (@ways) {
        push @rows, [$row->{name}, figure($row->{rate}, $is_rate), map { cell($row, $_) } @ways];
    }
    show($style, table(@rows), intervals(@ways));
    return \@rows;
}

# ----- what was measured, in words

sub show {
    my ($style, @words) = @_;
    print @words if $style ne 'none';
    return;
}

sub show_one {
    my ($title, $time, $style) = @_;
    local $| = 1;
    show($style, sprintf("%10s: ", $title), timestr($time, $style), "\n");
    show($style, "            (warning: it cannot be told from an empty loop)\n")
        if $time->cpu_a <= 0;
    return;
}

sub seconds_of {
    my ($count) = @_;
    my $seconds = -$count || $DEFAULT_S;
    return $seconds < $LEAST_S ? $LEAST_S : $seconds;
}

# Its rate is that of the middle round where there are enough, as the intervals are.
sub way {
    my ($name, $time, $style) = @_;
    my @rounds = grep { $_ } @{($time->[$ROUNDS] || {})->{s} || []};
    my $cpu = @rounds >= $ROUNDS_MIN ? median(@rounds) * $time->iters
        : cpu_of($time, style_of($time, $style));
    return {name => $name, time => $time, rate => $cpu > 0 ? $time->iters / $cpu : 9e99};
}

sub figure {
    my ($rate, $is_rate) = @_;
    my $value = $is_rate ? $rate : 1 / $rate;
    return '-' if $rate >= 9e99;
    my $format = $value >= 100 ? '%0.0f' : $value >= 10 ? '%0.1f' : $value >= 1 ? '%0.2f'
        : $value >= 0.1 ? '%0.3f' : '%0.2e';
    return sprintf($format, $value) . ($is_rate ? '/s' : '');
}

# By how much the row is faster than the column; ~ where that may be chance.
sub cell {
    my ($row, $column) = @_;
    return '--' if $row == $column;
    return '-' if grep { $_->{rate} >= 9e99 } $row, $column;
    my ($low, $high) = interval($row->{time}, $column->{time});
    return '~' if defined $low && $low < 1 + $LEAST_SHARE && $high > 1 / (1 + $LEAST_SHARE);
    return sprintf '%.0f%%', 100 * ($row->{rate} / $column->{rate} - 1);
}

# Each beside the fastest.
sub intervals {
    my (@ways) = @_;
    my $fastest = pop @ways or return;
    my @lines;
    for my $way (reverse @ways) {
        my ($low, $high) = interval($fastest->{time}, $way->{time}) or next;
        push @lines, sprintf "  %s is %.2f to %.2f times as fast as %s\n", $fastest->{name}, $low,
            $high, $way->{name};
    }
    push @lines, sprintf "  ~ no difference of more than %.0f %% is shown\n", 100 * $LEAST_SHARE
        if @lines;
    return @lines;
}

sub table {
    my (@rows) = @_;
    my @widths;
    for my $row (@rows) {
        for my $at (0 .. $#$row) {
            my $width = length $row->[$at];
            $widths[$at] = $width if $width > ($widths[$at] || 0);
        }
    }
    my $format = join(' ', map { "%${_}s" } @widths) . "\n";
    return map { sprintf $format, @$_ } @rows;
}

# ----- ratios

# How many times as fast the one is as the other: 99 %, of the median of the rounds in which both
# ran. The binomial distribution says between which of them it lies, whatever theirs is.
sub interval {
    my ($one, $other) = @_;
    my ($ours, $theirs) = map { $_->[$ROUNDS] || {} } $one, $other;
    return if !$ours->{run} || $ours->{run} != ($theirs->{run} || 0);
    my @both = grep { $ours->{s}[$_] && $theirs->{s}[$_] } 0 .. $#{$ours->{s}};
    my @ratios = sort { $a <=> $b } map { $theirs->{s}[$_] / $ours->{s}[$_] } @both;
    return if @ratios < $ROUNDS_MIN;
    my $from = int(@ratios / 2 - 2.576 * sqrt(@ratios) / 2 - 0.5);
    $from = 0 if $from < 0;
    return ($ratios[$from], $ratios[-1 - $from]);
}

sub median {
    my (@values) = sort { $a <=> $b } @_;
    return @values ? $values[$#values / 2] : 0;
}

# ----- running

# So many iterations of each, or each for so many seconds of CPU time: batches in turn.
sub measured {
    my ($count, $codes, $package) = @_;
    die "timing takes a number of iterations, or of seconds below 0\n"
        if ref $count || $count !~ /\A\s*[-+]?[.\d]/;
    my @all = map { candidate($_, $package, $count) } @$codes;
    my %null = map { $_->{kind} => [] } @all;
    $runs++;
    for (my $round = 0; grep { is_wanted($_) } @all; $round++) {
        measure_null(\%null, $package) if $round % $NULL_EVERY == 0;
        for my $one ($round % 2 ? reverse @all : @all) {
            my $null_s = $null{$one->{kind}}[-1];
            push @{$one->{s}}, is_wanted($one) ? batch($one, $null_s) : 0;
        }
    }
    return [map { result($_, median(@{$null{$_->{kind}}})) } @all];
}

sub candidate {
    my ($code, $package, $count) = @_;
    my $limit = $count > 0 ? {left => int $count} : {seconds => seconds_of($count)};
    my $kind = ref $code eq 'CODE' ? 'sub' : 'text';
    return {%$limit, kind => $kind, loop => loop_of($code, $package), size => 1,
        iterations => 0, used => [(0) x 5], cpu => 0, gross => 0, s => []};
}

# Each iteration has a $_ of its own, and code in a string the package that it was written in.
sub loop_of {
    my ($code, $package) = @_;
    return sub { my $left = shift; while ($left-- > 0) { local $_; &$code } }
        if ref $code eq 'CODE';
    my $loop = compiled("package $package; sub { my \$Drom_left = shift;"
        . " while (\$Drom_left-- > 0) { local \$_; $code;\n} }");
    die "unable to compile '$code': $@" if !$loop;
    return $loop;
}

sub is_wanted {
    my ($one) = @_;
    return $one->{left} > 0 if defined $one->{left};
    return $one->{cpu} < $MARGIN * $one->{seconds} && $one->{gross} < $GROSS * $one->{seconds};
}

# Seconds of CPU time an iteration, once batches are long enough. Time without the loop counts
# towards those that were asked for.
sub batch {
    my ($one, $null_s) = @_;
    my $size = $one->{size};
    $size = $one->{left} if defined $one->{left} && $one->{left} < $size;
    my @used = timed($one->{loop}, $size);
    $one->{iterations} += $size;
    $one->{left} -= $size if defined $one->{left};
    $one->{used}[$_] += $used[$_] for 0 .. 4;
    my $cpu = $used[5] + $used[3] + $used[4];
    $one->{gross} += $cpu;
    $one->{cpu} += $cpu - $null_s * $size;
    return $cpu / $size if $used[0] >= $BATCH_S && $size == $one->{size};
    $one->{size} *= 2 if $used[0] < $BATCH_S;
    return 0;
}

# Seconds: wall, user, system, of children both, and CPU by the finer clock.
sub timed {
    my ($loop, $iterations) = @_;
    my @used = Drom::Clock::used();
    my @passed = Drom::Clock::passed();
    $loop->($iterations);
    my @passed_end = Drom::Clock::passed();
    my @used_end = Drom::Clock::used();
    return ($passed_end[0] - $passed[0], map({ $used_end[$_] - $used[$_] } 0 .. 3),
        $passed_end[1] - $passed[1]);
}

sub measure_null {
    my ($null, $package) = @_;
    my %empty = (sub => sub { }, text => '');
    for my $kind (keys %$null) {
        my @used = timed(loop_of($empty{$kind}, $package), $NULL_ITERATIONS);
        push @{$null->{$kind}}, $used[5] / $NULL_ITERATIONS;
    }
    return;
}

# Less the loop: the program's part of it is what an empty one takes.
sub result {
    my ($one, $null_s) = @_;
    my @used = @{$one->{used}};
    my $null = $null_s * $one->{iterations};
    $_ = $_ > $null ? $_ - $null : 0 for @used[0, 1];
    my @s = map { $_ > $null_s ? $_ - $null_s : 0 } @{$one->{s}};
    return bless [@used, $one->{iterations}, {run => $runs, s => \@s}], __PACKAGE__;
}

1;

=head1 NAME

Drom::Bench - Benchmark's interface with numbers that can be believed

=head1 SYNOPSIS

    use Drom::Bench qw(timethese cmpthese);
    my @words = map { "word$_" } 1 .. 20;
    cmpthese(-0.1, {
        join   => sub { my $text = join ',', @words },
        concat => sub { my $text = ''; $text .= "$_," for @words },
    });

=head1 DESCRIPTION

The subs of L<Benchmark>, with its names, its forms of arguments and its lines: a script that uses it needs another C<use>
line and nothing else, C<< Benchmark->new >> included.

What is different is how it measures. Candidates run in turn, in batches of half a millisecond, so that
what else the machine does meets all of them. Clocks count nanoseconds, where Benchmark's come in hundredths of a second. The empty loop
is measured in between, not once before. C<cmpthese> has a C<~> where two candidates cannot be told apart, and says below the table how many
times as fast the fastest is as each of the others: an interval of 99 %.

One process cannot tell a difference below 3 % from where code and data came to lie in its memory; C<drom bench> starts
many, and can.

=head1 EXPORT

C<timeit>, C<timethis>, C<timethese>, C<timediff>, C<timestr>; on request C<timesum>, C<cmpthese>, C<countit>, C<clearcache>,
C<clearallcache>, C<disablecache>, C<enablecache> (the last four do nothing: nothing is kept), C<:all> and
C<:hireswallclock>.

=cut
