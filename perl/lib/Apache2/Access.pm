package Apache2::Access;
# Who may: Basic credentials and what the configuration demands.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

package Apache2::RequestRec;

# (status, password); the user lands in $r->user. As in mod_perl, Basic is meant when nothing is said.
sub get_basic_auth_pw {
    my ($r) = @_;
    $r->auth_type('Basic') unless defined $r->auth_type;
    return (-1, undef) if lc $r->auth_type ne 'basic';
    if (!defined $r->auth_name) {
        Drom::Request::log($r, 3, 'need AuthName: ' . $r->uri);
        return (500, undef);
    }
    my $line = $r->header_in($r->proxyreq ? 'Proxy-Authorization' : 'Authorization');
    if (!defined $line || $line !~ /^Basic\s+(\S+)/i) {
        $r->note_basic_auth_failure;
        return (401, undef);
    }
    require MIME::Base64;
    my ($user, $password) = split /:/, MIME::Base64::decode_base64($1), 2;
    $r->user($user);
    $r->ap_auth_type('Basic');
    return (0, $password // '');
}

sub note_basic_auth_failure {
    my ($r) = @_;
    my $realm = $r->auth_name // 'restricted';
    $realm =~ s/(["\\])/\\$1/g;
    my $name = $r->proxyreq ? 'Proxy-Authenticate' : 'WWW-Authenticate';
    $r->err_headers_out->set($name => qq{Basic realm="$realm"});
    return;
}

sub note_auth_failure { return $_[0]->note_basic_auth_failure }

sub note_digest_auth_failure {
    Drom::Request::unsupported('note_digest_auth_failure', 'use Basic authentication over TLS');
}

# The configuration's values; a handler may set them for its request.
sub auth_name { my $r = shift; return Drom::Request::kept($r, auth_name => @_) // $r->auth_name_ }
sub auth_type { my $r = shift; return Drom::Request::kept($r, auth_type => @_) // $r->auth_type_ }

sub allow_options { return $_[0]->allow_options_ // 0 }
sub allow_override_opts { return 0 }
sub allow_overrides { return 0 }
sub get_remote_logname { return undef }

# One { method_mask, requirement } for each Require line.
sub requires {
    my ($r) = @_;
    my @lines = grep { length } split /\n/, $r->requires_ // '';
    return undef unless @lines;
    return [map { {method_mask => -1, requirement => $_} } @lines];
}

sub satisfies { return {all => 0, any => 1}->{lc($_[0]->satisfy_ // '')} // 2 }
sub some_auth_required { return length($_[0]->requires_ // '') && length($_[0]->auth_type // '') ? 1 : 0 }

# Adds to (or with a true first argument replaces) the methods of the Allow header.
sub allow_methods {
    my ($r, $reset, @methods) = @_;
    my $old = $reset ? '' : $r->header_out('Allow') // '';
    my %seen;
    my @all = grep { length && !$seen{$_}++ } split(/,\s*/, $old), @methods;
    $r->header_out(Allow => join ', ', @all);
    return;
}

1;

=head1 NAME

Apache2::Access - Basic credentials and what the configuration demands

=head1 SYNOPSIS

    sub My::Auth::handler {
        my $r = shift;
        $r->auth_name('guests');
        my ($status, $password) = $r->get_basic_auth_pw;
        return $status if $status;
        return 0 if $r->user eq 'guest' && $password eq 'guest';
        $r->note_basic_auth_failure;
        return 401;
    }

=head1 DESCRIPTION

C<get_basic_auth_pw> gives a password where the kind of authentication is Basic and there is an
C<auth_name>; else the status is DECLINED or 500, as in Apache. There are no directives for the two:
call C<< $r->auth_name('My realm') >>.

C<allow_methods allow_options auth_name auth_type get_basic_auth_pw get_remote_logname note_auth_failure
note_basic_auth_failure requires satisfies some_auth_required>. Digest authentication is not supported.

=cut
