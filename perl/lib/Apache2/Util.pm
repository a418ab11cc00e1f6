package Apache2::Util;
# Small texts: dates and escapes.
use strict;
use warnings;

our $VERSION = '2.000012';

# (seconds, format, gmt)
sub ht_time {
    shift if @_ && ref $_[0];
    my ($time, $format, $gmt) = @_;
    require POSIX;
    my @parts = !defined $gmt || $gmt ? gmtime($time // time) : localtime($time // time);
    return POSIX::strftime($format // '%a, %d %b %Y %H:%M:%S GMT', @parts);
}

# What stands in a path of a URL: RFC 3986 unreserved, sub-delimiters, : @ and /.
sub escape_path {
    my ($path) = @_;
    utf8::encode($path) if utf8::is_utf8($path);
    $path =~ s/([^A-Za-z0-9\-._~!\$&'()*+,;=:@\/])/sprintf '%%%02x', ord $1/ge;
    return $path;
}

sub unescape_path {
    my ($text, $plus) = @_;
    $text =~ tr/+/ / if $plus;
    $text =~ s/%([0-9a-fA-F]{2})/chr hex $1/ge;
    return $text;
}

my %ENTITY = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;');

sub escape_html {
    my ($text) = @_;
    return $text unless defined $text;
    $text =~ s/([&<>"])/$ENTITY{$1}/g;
    return $text;
}

1;

=head1 NAME

Apache2::Util - dates and escapes

=head1 SYNOPSIS

    use Apache2::Util ();
    print Apache2::Util::ht_time(undef, 784111777, '%Y', 1), "\n" if 0;
    print Apache2::Util::escape_path('/a b'), "\n";

=head1 DESCRIPTION

C<ht_time>, C<escape_path>.

=cut
