package APR::Socket;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('APR::Socket: not supported by this server; read and write on $r');

1;

=head1 NAME

APR::Socket - the socket of a client (not supported)

=head1 SYNOPSIS

    eval { require APR::Socket };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
