package APR::Util;
# Passwords.
use strict;
use warnings;

our $VERSION = '0.009000';

# 1 when the password belongs to the hash: $apr1$, {SHA}, or what crypt(3) knows.
sub password_validate {
    my ($password, $hash) = @_;
    return same('{SHA}' . sha1_base64($password), $hash) if $hash =~ /^\{SHA\}/;
    return same(apr1($password, $1), $hash) if $hash =~ /^\$apr1\$([^\$]{0,8})/;
    my $made = crypt $password, $hash;
    return defined $made && same($made, $hash);
}

sub same { return $_[0] eq $_[1] ? 1 : 0 }

sub sha1_base64 {
    require Digest::SHA;
    my $text = Digest::SHA::sha1_base64($_[0]);
    return $text . '=' x (-length($text) % 4);
}

# The MD5 scheme of FreeBSD's crypt (Poul-Henning Kamp) with Apache's mark.
sub apr1 {
    my ($password, $salt) = @_;
    require Digest::MD5;
    my $inner = Digest::MD5::md5("$password$salt$password");
    my $text = "$password\$apr1\$$salt" . substr $inner x (1 + length($password) / 16), 0, length $password;
    for (my $bits = length $password; $bits; $bits >>= 1) {
        $text .= $bits & 1 ? "\0" : substr $password, 0, 1;
    }
    my $sum = Digest::MD5::md5($text);
    $sum = apr1_round($_, $sum, $password, $salt) for 0 .. 999;
    return "\$apr1\$$salt\$" . apr1_letters($sum);
}

sub apr1_round {
    my ($round, $sum, $password, $salt) = @_;
    my $text = $round & 1 ? $password : $sum;
    $text .= $salt if $round % 3;
    $text .= $password if $round % 7;
    return Digest::MD5::md5($text . ($round & 1 ? $sum : $password));
}

sub apr1_letters {
    my @bytes = unpack 'C16', $_[0];
    my @letters = ('.', '/', 0 .. 9, 'A' .. 'Z', 'a' .. 'z');
    my $text = '';
    for my $group ([0, 6, 12, 4], [1, 7, 13, 4], [2, 8, 14, 4], [3, 9, 15, 4], [4, 10, 5, 4], [11, 2]) {
        my ($count, @places) = (pop @$group, @$group);
        my $number = 0;
        $number = $number << 8 | $bytes[$_] for @places;
        $text .= $letters[$number >> 6 * $_ & 63] for 0 .. $count - 1;
    }
    return $text;
}

1;

=head1 NAME

APR::Util - check passwords

=head1 SYNOPSIS

    use APR::Util ();
    print APR::Util::password_validate('secret', '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=') ? "good\n" : "bad\n";

=head1 DESCRIPTION

C<password_validate(PASSWORD, HASH)> for the schemes of htpasswd: C<$apr1$>, C<{SHA}> and what the C
library knows.

=cut
