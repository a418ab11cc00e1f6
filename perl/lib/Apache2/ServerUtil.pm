package Apache2::ServerUtil;
# The server as a whole: folders, version, start and stop.
use strict;
use warnings;

our $VERSION = '2.000012';

sub server { my $none = 0; return bless \$none, 'Apache2::ServerRec' }

sub server_root { return server()->server_root // '/' }

# (path) or (pool, path); the folder itself ends with a slash, as APR has it.
sub server_root_relative {
    my $path = @_ > 1 ? $_[1] : ref $_[0] ? undef : $_[0];
    $path //= '';
    return without_dots($path =~ m{^/} ? $path : server_root() . "/$path");
}

# The same path without . and .. and doubled slashes.
sub without_dots {
    my ($path) = @_;
    my @parts;
    for my $part (grep { length && $_ ne '.' } split m{/}, $path) {
        if ($part eq '..') { pop @parts }
        else { push @parts, $part }
    }
    my $end = @parts && $path =~ m{/\.{0,2}\z} ? '/' : '';
    return '/' . join('/', @parts) . $end;
}

sub get_server_version { return server()->server_software // 'Drom' }
sub get_server_banner { return get_server_version() }
sub get_server_description { return get_server_version() }
sub get_server_built { return '' }
sub user_id { return $> }
sub group_id { return 0 + (split ' ', $))[0] }

# Start-up code runs once here, when Apache runs it twice; 2 is what says "this is for real".
sub restart_count { return 2 }

sub exists_config_define { return 0 }

# Runs when this process ends.
my @at_end;
sub server_shutdown_cleanup_register {
    my ($code, @argument) = @_;
    push @at_end, [$code, @argument];
    return;
}

END {
    while (my $cleanup = shift @at_end) {
        my ($code, @argument) = @$cleanup;
        eval { $code->(@argument); 1 } or warn $@;
    }
}

package Apache2::ServerRec;

sub get_server_version { return Apache2::ServerUtil::get_server_version() }
sub server_root_relative { my (undef, $path) = @_; return Apache2::ServerUtil::server_root_relative($path) }
sub server_shutdown_cleanup_register { goto &Apache2::ServerUtil::server_shutdown_cleanup_register }

1;

=head1 NAME

Apache2::ServerUtil - the server as a whole

=head1 SYNOPSIS

    use Apache2::ServerUtil ();
    print Apache2::ServerUtil::server_root(), "\n";
    print Apache2::ServerUtil::server_root_relative('logs/extra'), "\n";

=head1 DESCRIPTION

C<server server_root server_root_relative restart_count user_id group_id get_server_version
exists_config_define server_shutdown_cleanup_register>. Start-up code runs once, so C<restart_count> is
always 2.

=cut
