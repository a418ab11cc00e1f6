package Drom::Child;
# Handlers for the start and the end of a worker, which start-up code pushes onto the server.
use strict;
use warnings;

use APR::Pool ();

our $VERSION = '2.000012';

my %handlers = (ChildInit => [], ChildExit => []);
my $pool;

# The handlers of PerlChildInitHandler or PerlChildExitHandler; undef for another phase.
sub handlers {
    my ($phase) = @_;
    my ($name) = $phase =~ /^(?:Perl)?(\w+)Handler\z/ or return undef;
    return $handlers{$name};
}

# Those of the configuration come first.
sub begin {
    unshift @{$handlers{ChildInit}}, configured('child_init_');
    unshift @{$handlers{ChildExit}}, configured('child_exit_');
    $pool = APR::Pool->new;
    run_all('ChildInit');
    return;
}

sub configured {
    my ($field) = @_;
    my $get = Apache2::ServerRec->can($field) or return;
    return split /\0/, $get->(Apache2::ServerUtil::server()) // '';
}

sub end {
    $pool->clear;
    run_all('ChildExit');
    return;
}

# One that dies keeps neither the others nor the worker from going on.
sub run_all {
    my ($phase) = @_;
    for my $code (@{$handlers{$phase}}) {
        eval { Apache2::RequestRec::callable($code)->($pool, Apache2::ServerUtil::server()); 1 }
            or warn "Perl${phase}Handler: $@";
    }
    return;
}

1;

=head1 NAME

Drom::Child - handlers for the start and the end of a worker

=head1 SYNOPSIS

    use Drom::Child ();
    push @{Drom::Child::handlers('PerlChildInitHandler')}, sub { my ($pool, $s) = @_; srand };

=head1 DESCRIPTION

Not for users, who call C<< Apache2::ServerUtil->server->push_handlers >>.

=cut
