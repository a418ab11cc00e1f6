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

sub push_handlers {
    my (undef, $phase, $code) = @_;
    my $list = Drom::Child::handlers($phase) // return phase_refused('push_handlers', $phase);
    push @$list, ref $code eq 'ARRAY' ? @$code : $code;
    return 1;
}

sub set_handlers {
    my ($s, $phase, $code) = @_;
    my $list = Drom::Child::handlers($phase) // return phase_refused('set_handlers', $phase);
    @$list = ();
    return defined $code ? $s->push_handlers($phase, $code) : 1;
}

sub get_handlers {
    my (undef, $phase) = @_;
    my $list = Drom::Child::handlers($phase);
    return $list && @$list ? [map { Apache2::RequestRec::callable($_) } @$list] : undef;
}

# A handler that would never run may be the one that keeps people out: no start without it. What no version
# of Apache knows is ignored, as there.
sub phase_refused {
    my ($method, $phase) = @_;
    return 0 unless $phase =~ /^(?:Perl)?(?:PostReadRequest|Trans|MapToStorage|HeaderParser|Init|
        Access|Authen|Authz|Type|Fixup|Response|Log|Cleanup|OpenLogs|PostConfig|PreConnection|
        ProcessConnection|InputFilter|OutputFilter|)Handler\z/x;
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
C<push_handlers>, C<set_handlers> and C<get_handlers> take PerlChildInitHandler and PerlChildExitHandler: start-up
code pushes them, each worker runs them when it starts and before its END blocks. They get a pool, which ends with
the worker, and the server. Handlers of other phases are refused.

=cut
