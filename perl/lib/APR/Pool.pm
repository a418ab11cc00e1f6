package APR::Pool;
# Pools: here they are only the moment at which cleanups run. A request's pool ends with the request.
use strict;
use warnings;

our $VERSION = '2.000012';

sub new { return APR::Pool::Own->make }

sub parent_get { return undef }
sub is_ancestor { return 0 }
sub tag { return }

sub clear { return }
sub destroy { return }

package APR::Pool::Own;
# A pool that a program made: its cleanups run when it is cleared, destroyed or out of sight.
our @ISA = ('APR::Pool');

sub make { return bless {cleanups => [], parent => $_[1]}, __PACKAGE__ }

sub new { return $_[0]->make($_[0]) }

sub parent_get { return $_[0]{parent} }

sub is_ancestor {
    my ($pool, $other) = @_;
    for (my $up = $other; ref $up eq __PACKAGE__; $up = $up->{parent}) {
        return 1 if $up == $pool;
    }
    return 0;
}

sub cleanup_register {
    my ($pool, $code, $argument) = @_;
    push @{$pool->{cleanups}}, [$code, $argument];
    return;
}

sub clear {
    my ($pool) = @_;
    while (my $cleanup = pop @{$pool->{cleanups}}) {
        my ($code, $argument) = @$cleanup;
        no strict 'refs';
        eval { $code->($argument); 1 } or warn "cleanup of a pool: $@";
    }
    return;
}

sub destroy { return $_[0]->clear }

sub DESTROY { return $_[0]->clear }

1;

=head1 NAME

APR::Pool - the moment at which cleanups run

=head1 SYNOPSIS

    use APR::Pool ();
    my $pool = APR::Pool->new;
    $pool->cleanup_register(sub { print "gone: $_[0]\n" }, 'a file');
    $pool->destroy;

=head1 DESCRIPTION

C<< $r->pool->cleanup_register(CODE, ARGUMENT) >> runs the code once the response has been sent. Perl
manages memory, so a pool has nothing else to do.

=cut
