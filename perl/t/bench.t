# Drom::Bench beside Benchmark: the same names, forms of arguments and lines.
use strict;
use warnings;

use Test::More;

use Benchmark ();
use Drom::Bench qw(:all);

# What a sub prints.
sub printed {
    my ($code) = @_;
    open my $out, '>', \my $text or die $!;
    my $before = select $out;
    my @returned = $code->();
    select $before;
    return ($text, @returned);
}

# A line with its figures taken out.
sub shape {
    my ($text) = @_;
    $text =~ s/\d+(?:\.\d+)?/N/g;
    $text =~ s/ +/ /g;
    return $text;
}

my @some = (1 .. 50);
my %ways = (
    long => sub { my $sum = 0; $sum += $_ for @some, @some, @some; },
    short => sub { my $sum = 0; $sum += $_ for @some; },
);

subtest 'names' => sub {
    is_deeply([sort @Drom::Bench::EXPORT], [sort @Benchmark::EXPORT], 'exported');
    my %of_both = map { $_ => 1 } @Drom::Bench::EXPORT_OK;
    is_deeply([grep { !$of_both{$_} } @Benchmark::EXPORT_OK], [], 'on request');
};

subtest 'counts' => sub {
    my $ran = 0;
    my $time = timeit(1_000, sub { $ran++ });
    is($ran, 1_000, 'so many iterations and no more');
    is($time->iters, 1_000);
    our $in_text = 0;
    timeit(37, '$main::in_text++');
    is($in_text, 37, 'code in a string, too');
    my $for = countit(0.2, sub { my $x = 1 for 1 .. 100 });
    cmp_ok($for->cpu_a, '>=', 0.2, 'so long at least, without the loop');
    cmp_ok($for->cpu_a, '<', 0.5);
    cmp_ok($for->iters, '>', 1_000, 'as many as fit');
    cmp_ok(countit(0.1, '')->cpu_a, '<', 0.1, 'nothing comes to an end');
    ok(!eval { timeit('abc', sub { }); 1 }, 'no number');
    like($@, qr/number of iterations/);
    ok(!eval { timeit(1, 'foo('); 1 }, 'no code');
    like($@, qr/unable to compile 'foo\('/);
};

subtest 'lines' => sub {
    my ($ours) = printed(sub { timethis(20_000, $ways{long}, 'a title') });
    my ($theirs) = printed(sub { Benchmark::timethis(20_000, $ways{long}, 'a title') });
    is(shape((split /\n/, $ours)[0]), shape((split /\n/, $theirs)[0]), 'timethis');
    ($ours) = printed(sub { timethese(5_000, {%ways}) });
    ($theirs) = printed(sub { Benchmark::timethese(5_000, {%ways}) });
    is((split /\n/, $ours)[0], (split /\n/, $theirs)[0], 'timethese begins');
    is((printed(sub { timethis(10, 'my $x = 1', '', 'none') }))[0] // '', '', 'style none');
    my $time = bless [2, 1.5, 0.25, 0, 0, 100], 'Drom::Bench';
    my $same = bless [@$time], 'Benchmark';
    is(timestr($time, $_), Benchmark::timestr($same, $_), $_) for qw(auto all noc nop);
    is(timestr($time, 'noc', '7.3f'), Benchmark::timestr($same, 'noc', '7.3f'), 'format');
    is(timestr(timediff($time, $time)), Benchmark::timestr(Benchmark::timediff($same, $same)));
    is(timesum($time, $time)->iters, 200);
};

subtest 'which is faster' => sub {
    my ($text, $rows) = printed(sub { cmpthese(-0.2, {%ways}) });
    is_deeply($rows->[0], ['', 'Rate', 'long', 'short'], 'slowest first');
    my ($percent) = $rows->[2][2] =~ /\A(\d+)%\z/;
    cmp_ok($percent, '>', 100, 'short is more than twice as fast');
    cmp_ok($percent, '<', 300, 'and less than four times');
    like($rows->[1][3], qr/\A-\d+%\z/);
    my ($low, $high) = $text =~ /short is (\S+) to (\S+) times as fast as long/;
    cmp_ok($low, '<=', 1 + $percent / 100 + 0.1, 'its interval');
    cmp_ok($high, '>=', $low);
    my $times = (printed(sub { timethese(-0.2, {a => $ways{short}, b => $ways{short}}) }))[1];
    (undef, $rows) = printed(sub { cmpthese($times) });
    is($rows->[1][3], '~', 'the same is not called different');
    is($rows->[1][2], '--');
    my $apart = {a => timeit(3_000, $ways{long}), b => timeit(3_000, $ways{short})};
    ($text, $rows) = printed(sub { cmpthese($apart) });
    unlike($text, qr/times as fast/, 'of different runs there is no interval');
    like($rows->[2][2], qr/\A\d+%\z/);
};

subtest 'a script of Benchmark' => sub {
    my $program = 'use Drom::Bench; my $begin = Benchmark->new; my $x = 1 for 1 .. 1e6;'
        . ' print timestr(timediff(Benchmark->new, $begin)), "\n"';
    my $said = `$^X -Iperl/lib -e '$program' 2>&1`;
    like($said, qr/\A ?\d+ wallclock secs \( ?\d+\.\d+ usr \+ +\d+\.\d+ sys = +\d+\.\d+ CPU\)\n\z/);
};

done_testing;
