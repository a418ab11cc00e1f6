package APR::Brigade;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('APR::Brigade: not supported by this server; print in the handler');

1;

=head1 NAME

APR::Brigade - lists of pieces of a filtered response (not supported)

=head1 SYNOPSIS

    eval { require APR::Brigade };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
