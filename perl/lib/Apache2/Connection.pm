package Apache2::Connection;
# The client's end and ours. Addresses and state come from the server.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

sub remote_ip { return $_[0]->client_ip }
sub remote_addr { return $_[0]->client_addr }

sub client_addr {
    my ($c) = @_;
    require APR::SockAddr;
    return APR::SockAddr->from_text($c->client_ip, $c->client_port);
}

sub local_addr {
    my ($c) = @_;
    require APR::SockAddr;
    return APR::SockAddr->from_text($c->local_ip, $c->local_port);
}

# Names are not looked up: an answer would have to wait for a name server.
sub remote_host { return undef }
sub get_remote_host { return $_[0]->client_ip }
sub remote_logname { return undef }
sub local_host { return $_[0]->local_ip }
sub base_server { return $_[0]->server }
sub double_reverse { return 0 }
sub conn_config { return {} }

sub notes {
    my ($c, @entry) = @_;
    return Apache2::RequestRec::table_call(Apache2::RequestRec::notes_($c), @entry);
}

sub outgoing { return 0 }
sub keepalives { return $_[0]->keepalive ? 1 : 0 }

# mod_perl 1 keeps the user here.
sub user { my $c = shift; return Apache2::RequestRec::user($c, @_) }
sub auth_type { my $c = shift; return Apache2::RequestRec::ap_auth_type($c, @_) }
sub server { return Apache2::RequestRec::server($_[0]) }

sub client_socket {
    Drom::Request::unsupported('$c->client_socket', 'read and write on $r');
}

for my $filters (qw(input_filters output_filters add_input_filter add_output_filter)) {
    no strict 'refs';
    *$filters = sub { Drom::Request::unsupported("\$c->$filters", 'change the output in the handler') };
}

package Apache2::RequestRec;

sub get_remote_host { return $_[0]->connection->get_remote_host }
sub useragent_ip { return $_[0]->connection->client_ip }
sub useragent_addr { return $_[0]->connection->client_addr }

1;

=head1 NAME

Apache2::Connection - the client's end and ours

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = shift;
        my $c = $r->connection;
        $r->print($c->client_ip, ' port ', $c->client_addr->port, "\n");
        return 0;
    }

=head1 DESCRIPTION

C<aborted base_server client_addr client_ip get_remote_host id keepalive keepalives local_addr local_ip
remote_addr remote_host remote_ip user>. Names of hosts are not looked up: C<remote_host> is undef and
C<get_remote_host> the address.

=cut
