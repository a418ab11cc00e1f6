package APR::UUID;
# Unique numbers.
use strict;
use warnings;

our $VERSION = '0.009000';

use overload '""' => \&format;

# Sixteen random bytes, as version 4 of RFC 9562.
sub new {
    my ($class) = @_;
    open my $random, '<:raw', '/dev/urandom' or die "cannot read /dev/urandom: $!\n";
    read $random, my $bytes, 16;
    substr($bytes, 6, 1) = chr(ord(substr $bytes, 6, 1) & 0x0f | 0x40);
    substr($bytes, 8, 1) = chr(ord(substr $bytes, 8, 1) & 0x3f | 0x80);
    return bless \$bytes, $class;
}

sub format { my ($self) = @_; return join '-', unpack 'H8 H4 H4 H4 H12', $$self }

sub parse {
    my (undef, $text) = @_;
    $text //= $_[0];
    my $bytes = pack 'H*', $text =~ tr/-//dr;
    return bless \$bytes, __PACKAGE__;
}

1;

=head1 NAME

APR::UUID - unique numbers

=head1 SYNOPSIS

    use APR::UUID ();
    print APR::UUID->new->format, "\n";

=head1 DESCRIPTION

C<new>, C<format>, C<parse>.

=cut
