package Apache2::Directive;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('Apache2::Directive: not supported by this server; '
    . 'keep settings in PerlSetVar and ask $r->dir_config');

1;

=head1 NAME

Apache2::Directive - the tree of directives (not supported)

=head1 SYNOPSIS

    eval { require Apache2::Directive };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
