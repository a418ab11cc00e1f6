package APR::Base64;
# Base64, with APR's names.
use strict;
use warnings;

our $VERSION = '0.009000';

use MIME::Base64 ();

sub encode { return MIME::Base64::encode_base64($_[0], '') }
sub decode { return MIME::Base64::decode_base64($_[0]) }
sub encode_len { return 4 * int(($_[0] + 2) / 3) + 1 }

1;

=head1 NAME

APR::Base64 - base64

=head1 SYNOPSIS

    use APR::Base64 ();
    print APR::Base64::decode(APR::Base64::encode('hello')), "\n";

=head1 DESCRIPTION

C<encode>, C<decode>, C<encode_len>.

=cut
