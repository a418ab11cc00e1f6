package APR::String;
# Sizes for people.
use strict;
use warnings;

our $VERSION = '0.009000';

# Four characters: "  5 ", "1.2K", " 20M".
sub format_size {
    my ($size) = @_;
    return '  - ' if $size < 0;
    return sprintf '%3d ', $size if $size < 973;
    for my $unit (qw(K M G T P E)) {
        my $rest = $size % 1024;
        $size = ($size - $rest) / 1024;
        next if $size >= 973;
        return small($size, $rest, $unit) if $size < 9 || $size == 9 && $rest < 973;
        return sprintf '%3d%s', $size + ($rest >= 512 ? 1 : 0), $unit;
    }
    return '****';
}

# One digit after the point, rounded.
sub small {
    my ($size, $rest, $unit) = @_;
    my $tenths = int(($rest * 5 + 256) / 512);
    ($size, $tenths) = ($size + 1, 0) if $tenths >= 10;
    return sprintf '%d.%d%s', $size, $tenths, $unit;
}

1;

=head1 NAME

APR::String - sizes for people

=head1 SYNOPSIS

    use APR::String ();
    print APR::String::format_size(42_000), "\n";

=head1 DESCRIPTION

C<format_size> writes a number of bytes in four characters.

=cut
