package Apache2::RequestIO;
# Reading and writing on $r. print, puts, write, read and rflush are the server's.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

package Apache2::RequestRec;
use Carp ();

sub printf {
    my ($r, $format, @values) = @_;
    return $r->print(sprintf $format, @values);
}

# Without anybody who wants the status an error is thrown, as in mod_perl 2.
sub sendfile {
    my ($r, $path, $offset, $length) = @_;
    $length = -1 unless $length;
    my $errno = Drom::Request::send_file($r, $path, $offset // 0, $length);
    return $errno if defined wantarray || !$errno;
    local $! = $errno;
    Carp::croak("cannot send $path: $!");
}

sub discard_request_body {
    my ($r) = @_;
    my $buffer;
    1 while $r->read($buffer, 65536);
    return 0;
}

sub setup_client_block { return 0 }
sub get_client_block { my $r = shift; return $r->read($_[0], $_[1]) }

sub should_client_block {
    my ($r) = @_;
    my $length = $r->headers_in->get('Content-Length');
    return $length || $r->headers_in->get('Transfer-Encoding') ? 1 : 0;
}

# ---- tie *HANDLE => $r -----------------------------------------------------------------------------

sub TIEHANDLE { my ($class, $r) = @_; return ref $class ? $class : $r || $class->request }
sub PRINT { my $r = shift; return $r->print(joined(@_)) }
sub PRINTF { my $r = shift; return $r->printf(@_) }
sub WRITE { my $r = shift; return $r->write(@_) }
sub BINMODE { return 1 }
sub CLOSE { return 1 }
sub FILENO { return undef }
sub UNTIE { return }

sub joined {
    return join(defined $, ? $, : '', @_) . (defined $\ ? $\ : '');
}

sub READ { my $r = shift; return $r->read($_[0], $_[1], $_[2] // 0) }

sub GETC {
    my ($r) = @_;
    my $values = Drom::Request::values_of($r);
    return unless fill($r, $values, 1);
    return substr $values->{input}, 0, 1, '';
}

sub EOF {
    my ($r) = @_;
    return fill($r, Drom::Request::values_of($r), 1) ? '' : 1;
}

# Lines as $/ has them.
sub READLINE {
    my ($r) = @_;
    my $values = Drom::Request::values_of($r);
    return next_line($r, $values) unless wantarray;
    my @lines;
    while (defined(my $line = next_line($r, $values))) {
        push @lines, $line;
    }
    return @lines;
}

sub next_line {
    my ($r, $values) = @_;
    my $end = $/;
    $values->{input} //= '';
    if (defined $end) {
        my $separator = length $end ? $end : "\n\n";
        while (1) {
            my $at = index $values->{input}, $separator;
            return substr $values->{input}, 0, $at + length $separator, '' if $at >= 0;
            last unless fill($r, $values, length($values->{input}) + 1);
        }
    } else {
        1 while fill($r, $values, length($values->{input}) + 1);
    }
    return length $values->{input} ? substr $values->{input}, 0, length $values->{input}, '' : undef;
}

# At least `want` bytes into the buffer, if there are so many.
sub fill {
    my ($r, $values, $want) = @_;
    $values->{input} //= '';
    while (length $values->{input} < $want) {
        $r->read(my $more, 8192) or return 0;
        $values->{input} .= $more;
    }
    return 1;
}

# open STDOUT on a tied handle: a reopened handle goes on to the client.
sub OPEN { return 1 }

1;

=head1 NAME

Apache2::RequestIO - reading and writing on the request object

=head1 SYNOPSIS

    sub My::Upload::handler {
        my $r = shift;
        $r->read(my $body, $r->headers_in->{'Content-Length'} // 0);
        $r->printf("%d bytes\n", length $body);
        $r->rflush;
        return 0;
    }

=head1 DESCRIPTION

C<print puts printf write rflush read sendfile discard_request_body>, and the methods that make
C<< tie *STDOUT, $r >> work.

=cut
