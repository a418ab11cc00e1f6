package Apache2::RequestRec;
# The request: most of its fields are read and written by the server itself (shim/methods.def); here are
# those whose meaning depends on how they are called.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

# $r->notes is the table; with a key, one of its entries.
sub notes { my $r = shift; return table_call($r->notes_, @_) }

# As notes. Without arguments and without anybody who wants the result it fills %ENV.
sub subprocess_env {
    my $r = shift;
    return table_call($r->subprocess_env_, @_) if @_ || defined wantarray;
    return Drom::Request::fill_env($r);
}

sub table_call {
    my ($table, $key, @value) = @_;
    return $table unless defined $key;
    return replace($table, $key) if ref $key;
    return scalar $table->get($key) unless @value;
    my $old = $table->get($key);
    defined $value[0] ? $table->set($key, $value[0]) : $table->unset($key);
    return $old;
}

sub replace {
    my ($table, $new) = @_;
    my @pairs = APR::Table::pairs($new);
    $table->clear;
    $table->add(@$_) for @pairs;
    return $table;
}

sub assbackwards {
    my ($r, @on) = @_;
    Drom::Request::command($r, Drom::Request::ASSBACKWARDS) if @on && $on[0];
    return Drom::Request::kept($r, assbackwards => @on) // 0;
}

sub allowed {
    my ($r, @mask) = @_;
    return Drom::Request::kept($r, allowed => @mask) // 0;
}

sub finfo {
    my ($r) = @_;
    require APR::Finfo;
    my $values = Drom::Request::values_of($r);
    return $values->{finfo} //= APR::Finfo::stat($r->filename, APR::Finfo::NORM(), $r->pool);
}

sub content_languages {
    my ($r, @new) = @_;
    my $old = [split /,/, $r->content_languages_ // ''];
    $r->content_languages_(join ',', @{$new[0] // []}) if @new;
    return $old;
}

# There are no subrequests.
sub main { return undef }
sub next { return undef }

# What led here by an internal redirect is over, but its facts are kept.
sub prev {
    my ($r) = @_;
    my $facts = $r->previous_;
    return undef unless defined $facts->get('uri');
    require Drom::Previous;
    return Drom::Previous->new($r, $facts);
}

sub no_local_copy { my $r = shift; return Drom::Request::kept($r, no_local_copy => @_) // 0 }
sub used_path_info { my $r = shift; return Drom::Request::kept($r, used_path_info => @_) // 2 }

sub canonical_filename { return $_[0]->filename }
sub sent_bodyct { return $_[0]->headers_sent_ }
sub chunked { my $r = shift; return Drom::Request::kept($r, chunked => @_) // 0 }
sub range { return scalar $_[0]->header_in('Range') }
sub read_length { return $_[0]->header_in('Content-Length') // 0 }
sub vlist_validator { return undef }
sub mtime_us { return $_[0]->mtime * 1_000_000 }
sub per_dir_config { return $_[0] }
sub request_config { return $_[0]->pnotes }

for my $filters (qw(input_filters output_filters proto_input_filters proto_output_filters
    add_input_filter add_output_filter)) {
    no strict 'refs';
    *$filters = sub { Drom::Request::unsupported("\$r->$filters", 'change the output in the handler') };
}

1;

=head1 NAME

Apache2::RequestRec - the request that a handler gets

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = shift;
        $r->content_type('text/plain');
        $r->headers_out->{'X-Path'} = $r->uri;
        $r->print('hello, ', $r->headers_in->{'User-Agent'} // 'nobody');
        return 0;
    }

=head1 DESCRIPTION

Fields: C<allowed ap_auth_type args assbackwards bytes_sent connection content_encoding content_languages
content_type err_headers_out filename finfo handler header_only headers_in headers_out hostname location
main method method_number mtime next no_local_copy notes path_info pnotes pool prev proto_num protocol
proxyreq request_time server status status_line subprocess_env the_request unparsed_uri uri user>.

C<next> and C<main> are undef. C<prev> is the request that an C<ErrorDocument>, a local C<Location> or
C<internal_redirect> led away from, to be read (L<Drom::Previous>). Filters are not supported and say so. An object must not be used
after its request: it dies then.

=cut
