package Drom::Memory;
# What memory a process takes, with GTop's names, and with what is shared since a fork.
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp ();
use Exporter ();
use Scalar::Util ();

our @ISA = ('Exporter');
our @EXPORT_OK = qw(size_of total_size_of);

# Attributes of a process's memory, in bytes, and where each comes from.
my %STATUS = (vsize => ['VmSize'], size => ['VmSize'], share => ['RssFile', 'RssShmem']);
my %PAGES = (rss => ['Rss'], pss => ['Pss'], uss => ['Private_Clean', 'Private_Dirty'],
    shared => ['Shared_Clean', 'Shared_Dirty'], swap => ['Swap']);

for my $name (keys %STATUS, keys %PAGES) {
    no strict 'refs';
    *{$name} = sub { return figure($_[0], $name) };
}
*resident = \&rss;

# The program that reads a perl's memory.
our $DROM = $ENV{DROM} || 'drom';

# Of what a reference refers to: itself alone, and with all that it leads to.
sub size_of { return measured($_[0])->{bytes} }

sub total_size_of { return measured($_[0])->{total_bytes} }

sub measured {
    my ($reference) = @_;
    Carp::croak('size_of and total_size_of are of what a reference refers to') if !ref $reference;
    my $address = sprintf '0x%x', Scalar::Util::refaddr($reference);
    my @words = ($DROM, 'memory', '--pid', $$, '--heap', '--json', '--value', $address);
    local ($?, $!);
    open my $told, '-|', @words or Carp::croak("$DROM cannot be started: $!; is it in PATH?");
    my $json = do { local $/; <$told> };
    my %figures = (defined $json ? $json : '') =~ /"(\w+)":\s*([0-9]+)/g;
    close $told;
    Carp::croak("$DROM could not look at this process") if !defined $figures{total_bytes};
    return \%figures;
}

sub new { return bless {}, $_[0] }

# As GTop has it; the object is of no use but this.
sub proc_mem {
    my ($self, $pid) = @_;
    return $self->of($pid);
}

# One look, at this process where none is named.
sub of {
    my ($class, $pid) = @_;
    $pid = $$ if !defined $pid;
    Carp::croak("'$pid' is no number of a process") if $pid !~ /\A[1-9][0-9]*\z/;
    my $status = figures("/proc/$pid/status");
    Carp::croak("there is no process $pid") if !$status;
    Carp::croak("process $pid has no memory: it has ended, or is a thread of the kernel")
        if !defined $status->{VmSize};
    my $pages = figures("/proc/$pid/smaps_rollup");
    my $why = $pages ? undef : "$!";
    return bless {pid => $pid, status => $status, pages => $pages, why => $why}, ref $class || $class;
}

sub pid { return $_[0]{pid} }

sub figure {
    my ($self, $name) = @_;
    Carp::croak("$name is of a process: ask what proc_mem or of returns") if !$self->{status};
    my $is_status = exists $STATUS{$name};
    my $from = $is_status ? $self->{status} : $self->{pages};
    Carp::croak("$name of process $self->{pid} may not be read: $self->{why}") if !$from;
    my $sum = 0;
    $sum += $from->{$_} || 0 for @{$is_status ? $STATUS{$name} : $PAGES{$name}};
    return $sum;
}

# Lines like "Rss:    12 kB" of a file, in bytes.
sub figures {
    my ($path) = @_;
    open my $file, '<', $path or return;
    local $/ = "\n";
    my %bytes;
    $! = 0;
    while (defined(my $line = <$file>)) {
        $bytes{$1} = 1024 * $2 if $line =~ /\A(\w+):\s+([0-9]+) kB$/;
    }
    return if $! && !%bytes;
    return \%bytes;
}

1;

=head1 NAME

Drom::Memory - what memory a process takes, and how much of it is its own

=head1 SYNOPSIS

    use Drom::Memory;
    my $memory = Drom::Memory->of($$);
    printf "%d bytes in memory, %d of them nobody else's\n", $memory->rss, $memory->uss;

    my $gtop = Drom::Memory->new;
    my $mem = $gtop->proc_mem($$);
    printf "size %d, share %d\n", $mem->size, $mem->share;

    use Drom::Memory qw(size_of total_size_of);
    my %cart = (items => [1 .. 100]);
    printf "%d bytes, %d with its items\n", size_of(\%cart), total_size_of(\%cart);

=head1 DESCRIPTION

One look at the memory of a process of Linux. C<of> and C<proc_mem> return an object whose methods give bytes as they were
at that moment; a new look is a new object.

=over

=item rss, resident

What of the process is in memory.

=item pss

The same with each page divided among the processes that have it: over all processes of a server it adds up to what they
take together.

=item uss

Pages that nobody else has: what would come back if the process ended.

=item shared

C<rss> less C<uss>: what others have, too, pages included that were not written to since a fork.

=item swap

What is swapped out.

=item size, vsize

All that is mapped, whether or not it is in memory: GTop gives the same figure under both names.

=item share

What GTop calls so: pages of files and of shared memory. B<What processes share since a fork is not in it>, so that C<< size - share >>
or C<< rss - share >> says of a forked worker that it has all of its parent's data for itself. C<uss> is the figure that is meant there.

=item pid

Whose it is.

=back

The class methods are C<new>, whose object has C<proc_mem>, and C<of>, without an argument of this process itself.

=head1 FUNCTIONS

Exported where they are asked for. Both start C<drom>, which reads the memory of this process and takes some 20 ms (half a second
for 100 MB); it is the one in C<PATH>, or that of C<$ENV{DROM}>.

=over

=item size_of(\$value)

Bytes of the value itself: its head and body, and what it has allocated for text, elements, buckets and entries; what it
refers to is not in it.

=item total_size_of(\$value)

The same with all that it leads to, each value once, whoever else has it. Packages, and the subs around a sub, are not gone into.

=back

Names of keys that hashes share are in neither.

=head1 ERRORS

C<of> and C<proc_mem> die where there is no such process, or one without memory (it has ended and waits for its parent, or is a
thread of the kernel). Of another user's process C<size>, C<vsize> and C<share> can be read by anybody; the others die unless the caller
is that user or root.

=cut
