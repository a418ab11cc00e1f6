package APR::Status;
# What an error number of APR means. Ours are the system's.
use strict;
use warnings;

use Errno ();

our $VERSION = '0.009000';

my %means = (
    is_EACCES => [Errno::EACCES()], is_EAGAIN => [Errno::EAGAIN(), Errno::EWOULDBLOCK()],
    is_ECONNABORTED => [Errno::ECONNABORTED()], is_ECONNRESET => [Errno::ECONNRESET()],
    is_ENOENT => [Errno::ENOENT()], is_EOF => [70014], is_TIMEUP => [70007, Errno::ETIMEDOUT()],
);

for my $name (keys %means) {
    no strict 'refs';
    my %numbers = map { $_ => 1 } @{$means{$name}};
    *$name = sub { return $numbers{0 + $_[0]} ? 1 : 0 };
}

1;

=head1 NAME

APR::Status - what an error number means

=head1 SYNOPSIS

    use APR::Status ();
    sub My::Page::handler {
        my $r = shift;
        eval { $r->sendfile('/no/such/file') };
        return 404 if ref $@ && APR::Status::is_ENOENT($@);
        return 0;
    }

=head1 DESCRIPTION

C<is_EACCES is_EAGAIN is_ECONNABORTED is_ECONNRESET is_ENOENT is_EOF is_TIMEUP>.

=cut
