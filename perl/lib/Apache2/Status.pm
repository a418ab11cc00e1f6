package Apache2::Status;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('Apache2::Status: not supported by this server; see the status page of the server');

1;

=head1 NAME

Apache2::Status - pages about the interpreter (not supported)

=head1 SYNOPSIS

    eval { require Apache2::Status };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
