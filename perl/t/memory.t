# Drom::Memory: figures that add up, true sharing since a fork, words for what cannot be read.
use strict;
use warnings;

use Test::More;

use Drom::Memory;

# What dies says.
sub refusal {
    my ($code) = @_;
    return eval { $code->(); 1 } ? '' : $@;
}

# A process with this much of its parent's memory; ends when the test is done with it.
sub forked {
    my ($code) = @_;
    pipe my $ready, my $told or die $!;
    pipe my $wait, my $hold or die $!;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        close $hold;
        $code->();
        syswrite $told, "\n";
        sysread $wait, my $byte, 1;
        require POSIX;
        POSIX::_exit(0);
    }
    close $told;
    sysread $ready, my $byte, 1;
    return ($pid, $hold);
}

subtest 'this process' => sub {
    my $memory = Drom::Memory->of;
    is($memory->pid, $$, 'whose');
    cmp_ok($memory->uss, '<=', $memory->pss, 'uss is in pss');
    cmp_ok($memory->pss, '<=', $memory->rss, 'pss is in rss');
    cmp_ok($memory->uss, '>', 500_000, 'perl has memory of its own');
    cmp_ok($memory->rss, '<=', $memory->size, 'rss is in size');
    is($memory->shared, $memory->rss - $memory->uss, 'shared is the rest');
    is($memory->resident, $memory->rss, 'resident');
};

subtest 'names of GTop' => sub {
    my $gtop = Drom::Memory->new;
    my $memory = $gtop->proc_mem($$);
    is($memory->size, $memory->vsize, 'size is all that is mapped');
    open my $statm, '<', '/proc/self/statm' or die $!;
    my ($size, undef, $share) = split ' ', <$statm>;
    is($memory->size, 4096 * $size, 'size is that of statm');
    cmp_ok(abs($memory->share - 4096 * $share), '<', 1 << 20, 'and so is share');
};

subtest 'what grows' => sub {
    my $before = Drom::Memory->of($$);
    my $text = 'x' x 8_000_000;
    my $after = Drom::Memory->of($$);
    cmp_ok($after->uss - $before->uss, '>=', 7_500_000, 'its own');
    cmp_ok($after->size, '>', $before->size, 'and mapped');
    cmp_ok(Drom::Memory->of->swap, '>=', 0, 'swap is a figure');
};

subtest 'what is shared since a fork' => sub {
    my $data = 'x' x 20_000_000;
    my ($pid, $hold) = forked(sub { });
    my $child = Drom::Memory->of($pid);
    cmp_ok($child->shared, '>', 20_000_000, 'is shared');
    cmp_ok($child->uss, '<', 5_000_000, 'not its own');
    cmp_ok($child->share, '<', 20_000_000, 'which GTop did not see');
    close $hold;
    waitpid $pid, 0;
    my ($writer, $held) = forked(sub { substr $data, 0, length $data, 'y' x length $data });
    cmp_ok(Drom::Memory->of($writer)->uss, '>', 20_000_000, 'until it is written to');
    close $held;
    waitpid $writer, 0;
};

subtest 'what cannot be read' => sub {
    my ($pid, $hold) = forked(sub { });
    close $hold;
    waitpid $pid, 0;
    like(refusal(sub { Drom::Memory->of($pid) }), qr/\Athere is no process $pid at \Q$0\E line/,
        'gone');
    my $ended = fork // die $!;
    require POSIX;
    POSIX::_exit(0) if !$ended;
    select undef, undef, undef, 0.01 while `cat /proc/$ended/stat` !~ /\) Z /;
    like(refusal(sub { Drom::Memory->of($ended) }), qr/\Aprocess $ended has no memory/, 'ended');
    waitpid $ended, 0;
    like(refusal(sub { Drom::Memory->of('x') }), qr/\A'x' is no number of a process/, 'no number');
    like(refusal(sub { Drom::Memory->new->rss }), qr/\Arss is of a process/, 'of none');
};

subtest 'of somebody else' => sub {
    plan skip_all => 'takes root' if $>;
    my $parent = getppid;
    my $code = '$> = 65534; my $m = Drom::Memory->of(@ARGV); print $m->size > 0 ? "size " : "";'
        . ' eval { $m->uss }; print $@';
    my @switches = ((map { "-I$_" } @INC), '-MDrom::Memory');
    open my $said, '-|', $^X, @switches, '-e', $code, $parent or die $!;
    my $out = do { local $/; <$said> };
    like($out, qr/\Asize uss of process $parent may not be read: Permission denied/, 'size alone');
};

done_testing;
