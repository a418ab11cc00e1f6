package Apache2::SubRequest;
# Redirects inside of the server. Subrequests are not supported and say so.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

package Apache2::RequestRec;

# Takes place when the handler has returned.
sub internal_redirect {
    my ($r, $uri) = @_;
    Drom::Request::command($r, Drom::Request::REDIRECT, $uri);
    return;
}

sub internal_redirect_handler { goto &internal_redirect }

sub internal_fast_redirect {
    Drom::Request::unsupported('$r->internal_fast_redirect', 'use $r->internal_redirect');
}

for my $lookup (qw(lookup_uri lookup_file lookup_method_uri lookup_dirent)) {
    no strict 'refs';
    *$lookup = sub {
        Drom::Request::unsupported("\$r->$lookup (a subrequest)",
            'use $r->internal_redirect or an HTTP client');
    };
}

1;

=head1 NAME

Apache2::SubRequest - redirects inside of the server

=head1 SYNOPSIS

    sub My::Old::handler {
        my $r = shift;
        $r->internal_redirect('/new/place');
        return 0;
    }

=head1 DESCRIPTION

C<internal_redirect> answers with another local path once the handler has returned. C<lookup_uri>,
C<lookup_file> and C<lookup_method_uri> die: subrequests are not supported.

=cut
