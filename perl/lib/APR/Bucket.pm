package APR::Bucket;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('APR::Bucket: not supported by this server; print in the handler');

1;

=head1 NAME

APR::Bucket - pieces of a filtered response (not supported)

=head1 SYNOPSIS

    eval { require APR::Bucket };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
