package APR::Socket;
# The socket of a client, which is the event loop's.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'read and write on $r');

1;

=head1 NAME

APR::Socket - the socket of a client (not supported)

=head1 SYNOPSIS

    use APR::Socket ();
    eval { APR::Socket->fileno };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
