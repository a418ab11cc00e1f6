package Apache2::ServerRec;
# The server that answers. Names, ports and files come from its configuration.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

sub is_virtual { return $_[0]->is_virtual_ ? 1 : 0 }
sub next { return undef }
sub server_hostname_or_default { return $_[0]->server_hostname // 'localhost' }
sub keep_alive { return 1 }
sub keep_alive_max { return 100 }
sub keep_alive_timeout { return 5_000_000 }
sub limit_req_fields { return 100 }
sub limit_req_fieldsize { return 8190 }
sub limit_req_line { return 8190 }
sub defn_name { return undef }
sub defn_line_number { return 0 }
sub names { return [] }
sub wild_names { return [] }
sub path { return undef }
sub pathlen { return 0 }
sub addrs { return undef }
sub server_scheme { return 'http' }
sub module_config { return {} }
sub lookup_defaults { return {} }

sub process { require Apache2::Process; return bless {}, 'Apache2::Process' }

sub is_perl_option_enabled {
    my (undef, $option) = @_;
    return $option =~ /^(?:Enable|Autoload)$/ ? 1 : 0;
}

# PerlSetVar outside of all sections; what a section says is $r's to know.
sub dir_config { my $s = shift; return Apache2::RequestRec::table_call($s->dir_config_, @_) }

sub push_handlers { return phase_refused('push_handlers', @_) }
sub set_handlers { return phase_refused('set_handlers', @_) }
sub get_handlers { return phase_refused('get_handlers', @_) }

sub phase_refused {
    my ($method, undef, $phase) = @_;
    Drom::Request::unsupported("$method($phase) on the server", 'name the handler in the configuration');
}

sub add_config {
    Drom::Request::unsupported('$s->add_config', 'put the directives into the configuration file');
}

sub add_version_component { return }

1;

=head1 NAME

Apache2::ServerRec - the server that answers

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = shift;
        my $s = $r->server;
        $r->print('this is ', $s->server_hostname, ':', $s->port, "\n");
        return 0;
    }

=head1 DESCRIPTION

C<dir_config error_fname is_virtual log log_error port process server_admin server_hostname timeout warn>.
Handlers cannot be added to a running server.

=cut
