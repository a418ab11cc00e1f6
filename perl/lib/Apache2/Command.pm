package Apache2::Command;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('Apache2::Command: not supported by this server; '
    . 'keep settings in PerlSetVar and ask $r->dir_config');

1;

=head1 NAME

Apache2::Command - the directives of a module (not supported)

=head1 SYNOPSIS

    eval { require Apache2::Command };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
