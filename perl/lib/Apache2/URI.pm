package Apache2::URI;
# Addresses of the server and of the request.
use strict;
use warnings;

our $VERSION = '2.000012';

package Apache2::RequestRec;

sub construct_server {
    my ($r, $host, $port) = @_;
    $host //= $r->get_server_name;
    $port //= $r->get_server_port;
    return $port == 80 ? $host : "$host:$port";
}

sub construct_url {
    my ($r, $path) = @_;
    return 'http://' . $r->construct_server . ($path // $r->uri);
}

# The URL of the request in its parts.
sub parsed_uri {
    my ($r) = @_;
    require APR::URI;
    my $uri = APR::URI->parse($r->pool, $r->unparsed_uri);
    return $uri;
}

sub parse_uri { my ($r, $uri) = @_; $r->uri($uri); return }
sub unescape { return Apache2::URI::unescape_url($_[-1]) }

package Apache2::URI;

# Decodes %XX in place and returns Apache's status: 0, 400 for a wrong escape, 404 for a coded / or NUL.
sub unescape_url {
    my $status = 0;
    return 400 if $_[0] =~ /%(?![0-9a-fA-F]{2})/;
    $status = 404 if $_[0] =~ /%(?:2f|00)/i;
    $_[0] =~ s/%([0-9a-fA-F]{2})/chr hex $1/ge;
    return $status;
}

1;

=head1 NAME

Apache2::URI - addresses of the server and the request

=head1 SYNOPSIS

    use Apache2::URI ();
    my $path = '/a%20b';
    Apache2::URI::unescape_url($path);
    print "$path\n";

=head1 DESCRIPTION

C<< $r->construct_server >>, C<< $r->construct_url >>, C<< $r->parsed_uri >> and C<unescape_url>.

=cut
