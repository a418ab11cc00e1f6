package Drom::Environment::Forget;
# Takes out of %ENV what a page must not be able to print: everything the server was started with, but
# PATH, TZ, what PerlPassEnv names, and what start-up code has changed. mod_perl lets through the same.
use strict;
use warnings;

use Drom::Environment ();

our $VERSION = '2.000012';

sub _is_forgotten {
    my $name = shift;
    return 0 if $Drom::Environment::keep{$name} || !defined $ENV{$name};
    return $ENV{$name} eq ($Drom::Environment::start{$name} // '');
}

delete @ENV{ grep { _is_forgotten($_) } keys %Drom::Environment::start };

1;

=head1 NAME

Drom::Environment::Forget - handlers do not see the server's own environment

=head1 SYNOPSIS

    use Drom::Environment::Forget;

=head1 DESCRIPTION

Loaded once, after all start-up code. Variables that start-up code set or changed stay.

=cut
