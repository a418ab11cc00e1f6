package APR::Date;
# Dates of HTTP and mail to seconds since the epoch, and back.
use strict;
use warnings;

use Time::Local ();

our $VERSION = '0.009000';

my @DAYS = qw(Sun Mon Tue Wed Thu Fri Sat);
my @MONTHS = qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec);
my %MONTH = map { $MONTHS[$_] => $_ } 0 .. 11;

# The three forms of RFC 9110, 5.6.7. 0 when the text is no date.
sub parse_http {
    my ($text) = @_;
    return 0 unless defined $text && $text =~ s/^\s*(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat)[a-z]*,?\s+//;
    return seconds($1, $2, $3, $4, $5, $6)
        if $text =~ /^(\d{1,2})[ -]([A-Z][a-z]{2})[ -](\d{2,4}) (\d\d):(\d\d):(\d\d)/;
    return seconds($2, $1, $6, $3, $4, $5)
        if $text =~ /^([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})/;
    return 0;
}

# As parse_http, and honours a zone such as +0200.
sub parse_rfc {
    my ($text) = @_;
    $text = "Sun, $text" if $text =~ /^\s*\d/;
    $text =~ s/ (\d):(\d\d:\d\d)/ 0$1:$2/;
    $text =~ s/(\d\d:\d\d)(?= *(?:[+-]|GMT|UT|$))/$1:00/ unless $text =~ /\d\d:\d\d:\d\d/;
    my $time = parse_http($text);
    my ($sign, $hours, $minutes) = $text =~ /([+-])(\d\d)(\d\d)\s*$/ or return $time;
    my $away = ($hours * 60 + $minutes) * 60;
    return $sign eq '+' ? $time - $away : $time + $away;
}

sub seconds {
    my ($day, $month, $year, $hour, $minute, $second) = @_;
    return 0 unless exists $MONTH{$month};
    $year += $year < 70 ? 2000 : 1900 if length $year == 2;
    my $time = eval { Time::Local::timegm_modern($second, $minute, $hour, $day, $MONTH{$month}, $year) };
    return defined $time && $time > 0 ? $time : 0;
}

# Seconds since the epoch in the form that HTTP wants.
sub format_rfc {
    my ($second, $minute, $hour, $day, $month, $year, $weekday) = gmtime $_[0];
    return sprintf '%s, %02d %s %04d %02d:%02d:%02d GMT',
        $DAYS[$weekday], $day, $MONTHS[$month], $year + 1900, $hour, $minute, $second;
}

1;

=head1 NAME

APR::Date - dates of HTTP

=head1 SYNOPSIS

    use APR::Date ();
    print APR::Date::parse_http('Sun, 06 Nov 1994 08:49:37 GMT'), "\n";
    print APR::Date::format_rfc(784111777), "\n";

=head1 DESCRIPTION

C<parse_http> and C<parse_rfc> return seconds since the epoch, 0 for what is no date.

=cut
