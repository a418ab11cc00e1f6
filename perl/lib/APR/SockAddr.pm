package APR::SockAddr;
# An address and a port.
use strict;
use warnings;

our $VERSION = '0.009000';

sub from_text {
    my ($class, $ip, $port) = @_;
    return bless {ip => $ip, port => $port}, $class;
}

sub ip_get { return $_[0]{ip} }
sub port { return 0 + ($_[0]{port} // 0) }

sub equal { return $_[0]{ip} eq $_[1]{ip} ? 1 : 0 }

1;

=head1 NAME

APR::SockAddr - an address and a port

=head1 SYNOPSIS

    use APR::SockAddr ();
    my $address = APR::SockAddr->from_text('127.0.0.1', 8080);
    print $address->ip_get, ':', $address->port, "\n";

=head1 DESCRIPTION

What C<< $c->client_addr >> and C<< $c->local_addr >> return: C<ip_get>, C<port>, C<equal>.

=cut
