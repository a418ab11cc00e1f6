package Apache2::Filter;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('Filters: not supported by this server; change the output in the handler that makes it');

1;

=head1 NAME

Apache2::Filter - filters (not supported)

=head1 SYNOPSIS

    eval { require Apache2::Filter };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
