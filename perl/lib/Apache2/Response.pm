package Apache2::Response;
# Head of the response: conditions, validators, lengths.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

package Apache2::RequestRec;

# `text` is a text to send, a local path or a URL.
sub custom_response {
    my ($r, $status, $text) = @_;
    Drom::Request::command($r, Drom::Request::CUSTOM_RESPONSE, $status . ' ' . ($text // ''));
    return;
}

sub set_content_length {
    my ($r, $length) = @_;
    $r->content_length_($length);
    return;
}

sub update_mtime {
    my ($r, $time) = @_;
    my $values = Drom::Request::values_of($r);
    my $new = $time // $r->mtime;
    return if defined $values->{mtime} && $values->{mtime} >= $new;
    $values->{mtime} = $new;
    $r->mtime($new);
    return;
}

sub set_last_modified {
    my ($r, $time) = @_;
    $r->update_mtime($time) if defined $time;
    my $mtime = $r->rationalize_mtime($r->mtime) or return;
    require APR::Date;
    $r->header_out('Last-Modified' => APR::Date::format_rfc($mtime));
    return;
}

# A page cannot have changed in the future.
sub rationalize_mtime {
    my ($r, $time) = @_;
    my $now = $r->request_time || time;
    return $time > $now ? $now : $time;
}

# From inode, size and time of the file; weak while the file is so young that it may change unseen.
sub make_etag {
    my ($r, $weak) = @_;
    my $file = $r->finfo;
    my $now = $r->request_time || time;
    my @parts = $file && $file->filetype ? ($file->size, $r->mtime * 1_000_000) : ($r->mtime * 1_000_000);
    my $tag = sprintf '"%s"', join '-', map { sprintf '%x', $_ } @parts;
    return ($weak || $now - $r->mtime <= 1 ? 'W/' : '') . $tag;
}

sub set_etag { my ($r) = @_; $r->header_out(ETag => $r->make_etag(0)); return }
sub set_keepalive { return $_[0]->connection->keepalive ? 1 : 0 }

# ---- conditions, as Apache judges them -------------------------------------------------------------

# OK (0), HTTP_NOT_MODIFIED or HTTP_PRECONDITION_FAILED.
sub meets_conditions {
    my ($r) = @_;
    my $status = $r->status;
    return 0 if $status < 200 || $status > 299;
    return precondition_fails($r) ? 412 : not_modified($r);
}

sub precondition_fails {
    my ($r) = @_;
    my $match = $r->header_in('If-Match');
    return 1 if defined $match && !etag_listed($match, $r->header_out('ETag'), 1);
    my $since = condition_time($r, 'If-Unmodified-Since');
    return $since && last_modified($r) > $since;
}

# As ap_meets_conditions: 304 only when tag and time agree, where both are asked for.
sub not_modified {
    my ($r) = @_;
    my $reads = $r->method =~ /^(?:GET|HEAD)$/;
    my ($match, $since) = map { $r->header_in($_) } 'If-None-Match', 'If-Modified-Since';
    if (defined $match) {
        my $strong = !$reads || defined $r->header_in('Range');
        my $listed = etag_listed($match, $r->header_out('ETag'), $strong);
        return 412 if $listed && !$reads;
        return 0 if !$listed;
    }
    return 0 if !$reads || (!defined $match && !defined $since);
    return 304 if !defined $since;
    my $time = condition_time($r, 'If-Modified-Since');
    return $time && $time <= ($r->request_time || time) && last_modified($r) <= $time ? 304 : 0;
}

# Strong comparison takes no weak tag; weak comparison ignores the mark.
sub etag_listed {
    my ($list, $tag, $strong) = @_;
    return 1 if $list =~ /^\s*\*\s*$/;
    return 0 unless defined $tag;
    my ($weak, $opaque) = $tag =~ m{^(W/)?(".*")$} or return 0;
    return 0 if $strong && $weak;
    while ($list =~ m{(W/)?("[^"]*")}g) {
        return 1 if $2 eq $opaque && !($strong && $1);
    }
    return 0;
}

sub condition_time {
    my ($r, $name) = @_;
    my $text = $r->header_in($name) // return 0;
    require APR::Date;
    return APR::Date::parse_http($text);
}

sub last_modified {
    my ($r) = @_;
    my $text = $r->header_out('Last-Modified') // return $r->mtime || $r->request_time || time;
    require APR::Date;
    return APR::Date::parse_http($text =~ s/;.*//sr);
}

# ---- a head as CGI scripts write it ----------------------------------------------------------------

# What follows the empty line is the beginning of the body.
sub send_cgi_header {
    my ($r, $text) = @_;
    my ($head, $body) = split /\r?\n\r?\n/, $text, 2;
    $r->parse_headers_(0);
    cgi_header_line($r, $_) for split /\r?\n/, $head;
    cgi_location($r);
    Drom::Request::command($r, Drom::Request::SEND_HEAD);
    $r->print($body) if length($body // '');
    return;
}

sub cgi_header_line {
    my ($r, $line) = @_;
    my ($name, $value) = $line =~ /^([^:\s]+)\s*:\s*(.*?)\s*$/ or return;
    my $key = lc $name;
    if ($key eq 'status') { $r->status($value =~ /^(\d{3})/ ? $1 : 500); $r->status_line($value) }
    elsif ($key eq 'content-type') { $r->content_type($value) }
    elsif ($key eq 'content-length') { $r->set_content_length($value) }
    elsif ($key eq 'set-cookie') { $r->err_headers_out->add($name, $value) }
    elsif ($key eq 'location') { $r->headers_out->set($name, $value) }
    elsif ($key eq 'last-modified') { cgi_last_modified($r, $value) }
    else { $r->headers_out->add($name, $value) }
    return;
}

sub cgi_last_modified {
    my ($r, $value) = @_;
    require APR::Date;
    my $time = APR::Date::parse_http($value) or return;
    $r->set_last_modified($time);
    return;
}

# A local path is another page of ours, the rest the client has to ask for.
sub cgi_location {
    my ($r) = @_;
    my $location = $r->header_out('Location');
    return unless defined $location && $r->status == 200;
    return $r->status(302) unless $location =~ m{^/};
    $r->headers_out->unset('Location');
    return $r->internal_redirect($location);
}

1;

=head1 NAME

Apache2::Response - validators, conditions and lengths of a response

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = shift;
        $r->set_last_modified(1_000_000_000);
        my $status = $r->meets_conditions;
        return $status if $status;
        $r->set_content_length(5);
        $r->print('hello');
        return 0;
    }

=head1 DESCRIPTION

C<custom_response make_etag meets_conditions rationalize_mtime send_cgi_header set_content_length set_etag
set_keepalive set_last_modified update_mtime>. C<meets_conditions> judges as
C<ap_meets_conditions> does.

=cut
