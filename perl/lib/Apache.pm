package Apache;
# The request of mod_perl 1. Its methods are loaded with the server (Drom::FirstGeneration).
use strict;
use warnings;

use Drom::FirstGeneration ();

our $VERSION = '1.27';

1;

=head1 NAME

Apache - the request object of mod_perl 1

=head1 SYNOPSIS

    use Apache ();
    sub My::Old::handler {
        my $r = Apache->request;
        $r->send_http_header('text/plain');
        $r->print('hello');
        return 0;
    }

=head1 DESCRIPTION

All methods of L<Apache2::RequestRec>, and those of mod_perl 1 (L<Drom::FirstGeneration>).

=cut
