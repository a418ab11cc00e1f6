package Apache::Util;
# Texts of mod_perl 1: dates, escapes, sizes.
use strict;
use warnings;

our $VERSION = '1.02';

use APR::Date ();
use APR::String ();
use APR::Util ();
use Apache2::Util ();
use Exporter ();

our @ISA = ('Exporter');
our @EXPORT_OK = qw(escape_html escape_uri unescape_uri unescape_uri_info parsedate ht_time size_string
    validate_password);
our %EXPORT_TAGS = (all => \@EXPORT_OK);

sub escape_html { return Apache2::Util::escape_html(@_) }
sub escape_uri { return Apache2::Util::escape_path(@_) }
sub unescape_uri { return Apache2::Util::unescape_path($_[0], 0) }
sub unescape_uri_info { return Apache2::Util::unescape_path($_[0], 1) }
sub parsedate { return APR::Date::parse_http($_[0]) }
sub ht_time { return Apache2::Util::ht_time(@_) }
sub size_string { return APR::String::format_size(@_) }
sub validate_password { return APR::Util::password_validate(@_) }

1;

=head1 NAME

Apache::Util - dates, escapes, sizes

=head1 SYNOPSIS

    use Apache::Util qw(escape_html parsedate);
    print escape_html('<b>'), ' ', parsedate('Sun, 06 Nov 1994 08:49:37 GMT'), "\n";

=head1 DESCRIPTION

C<escape_html escape_uri unescape_uri unescape_uri_info parsedate ht_time size_string validate_password>.

=cut
