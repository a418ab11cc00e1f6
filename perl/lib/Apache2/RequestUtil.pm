package Apache2::RequestUtil;
# Configuration, place and phases of a request. The class method `request` is the server's.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

package Apache2::RequestRec;
use Carp ();

# $r->dir_config is the table, with a key one value; a further value replaces it for this request.
sub dir_config { my $r = shift; return table_call($r->dir_config_, @_) }

sub request { shift; return Apache2::RequestUtil->request(@_) }

# The request and the head of the response as text.
sub as_string {
    my ($r) = @_;
    my $text = $r->the_request . "\n";
    my $add = sub { $text .= "$_[0]: $_[1]\n"; 1 };
    $r->headers_in->do($add);
    $text .= "\n" . $r->protocol . ' ' . ($r->status_line // $r->status) . "\n";
    $r->$_->do($add) for qw(headers_out err_headers_out);
    return "$text\n";
}

sub child_terminate { Drom::Request::command($_[0], Drom::Request::RETIRE); return }
sub default_type { return 'text/plain' }

# The name in a URL that leads back here: what the client asked for.
sub get_server_name { return $_[0]->subprocess_env('SERVER_NAME') // $_[0]->server->server_hostname }
sub get_server_port { return $_[0]->subprocess_env('SERVER_PORT') // $_[0]->server->port }

sub get_status_line {
    my ($r) = @_;
    return $r->status_line // $r->status;
}

sub is_initial_req { return $_[0]->subprocess_env('REDIRECT_STATUS') ? 0 : 1 }
sub is_main { return 1 }
sub last { return $_[0] }
sub location_merge { return 0 }
sub new { Drom::Request::unsupported('Apache2::RequestRec->new', 'use the $r that a handler gets') }

# Lines of configuration for this request: PerlSetVar and PerlAddVar.
sub add_config {
    my ($r, $lines) = @_;
    Carp::croak('$r->add_config() has failed: not an array reference') unless ref $lines eq 'ARRAY';
    for my $line (@$lines) {
        my ($name, @words) = map { s/^"(.*)"\z/$1/sr =~ s/\\(["\\])/$1/gr }
            $line =~ /("(?:[^"\\]|\\.)*"|\S+)/g;
        my $method = {perlsetvar => 'set', perladdvar => 'add'}->{lc($name // '')};
        Drom::Request::unsupported("$name in \$r->add_config", 'put it into the configuration file')
            unless $method;
        Carp::croak("\$r->add_config() has failed: $name takes two arguments") unless @words == 2;
        $r->dir_config_->$method(@words);
    }
    return;
}

# What the server has set up for this request.
sub is_perl_option_enabled {
    my ($r, $option) = @_;
    return $r->parse_headers_ if $option eq 'ParseHeaders';
    return exists $ENV{REQUEST_METHOD} ? 1 : 0 if $option eq 'SetupEnv';
    return eval { Apache2::RequestUtil->request; 1 } ? 1 : 0 if $option eq 'GlobalRequest';
    return $option eq 'Enable' || $option eq 'Autoload' ? 1 : 0;
}

sub pnotes_kill { my ($r) = @_; %{$r->pnotes} = (); return }

sub psignature {
    my ($r, $prefix) = @_;
    my $text = $r->subprocess_env('SERVER_SIGNATURE');
    return length($text // '') ? ($prefix // '') . $text : '';
}

sub server_root_relative {
    my ($r, $path) = @_;
    return Apache2::ServerUtil::server_root_relative($r->pool, $path);
}

# Makes it look as if the client had sent these credentials.
sub set_basic_credentials {
    my ($r, $user, $password) = @_;
    require MIME::Base64;
    $r->header_in(Authorization => 'Basic ' . MIME::Base64::encode_base64("$user:$password", ''));
    return;
}

# The whole file of the request, as a reference.
sub slurp_filename {
    my ($r) = @_;
    open my $file, '<', $r->filename or Carp::croak('cannot read ' . $r->filename . ": $!");
    local $/;
    my $text = <$file>;
    return \$text;
}

# ---- phases ----------------------------------------------------------------------------------------

# Only the cleanup phase can be changed by a running request: the others are over or fixed.
sub push_handlers {
    my ($r, $phase, $code) = @_;
    cleanup_phase($phase, 'push_handlers');
    my $list = Drom::Request::values_of($r)->{cleanup_handlers};
    $list = install_cleanups($r) unless $list;
    push @$list, ref $code eq 'ARRAY' ? @$code : $code;
    return 1;
}

sub set_handlers {
    my ($r, $phase, $code) = @_;
    cleanup_phase($phase, 'set_handlers');
    my $list = Drom::Request::values_of($r)->{cleanup_handlers};
    @$list = () if $list;
    return 1 unless defined $code;
    return $r->push_handlers($phase, $code);
}

sub get_handlers {
    my ($r, $phase) = @_;
    return [@{Drom::Request::values_of($r)->{cleanup_handlers} || []}]
        if $phase =~ /^(?:Perl)?CleanupHandler$/;
    return undef unless $phase =~ /^(?:Perl)?(?:Response)?Handler$/;
    return [map { callable($_) } split /\0/, $r->response_handlers_ // ''];
}

sub cleanup_phase {
    my ($phase, $method) = @_;
    return if $phase =~ /^(?:Perl)?CleanupHandler$/;
    Drom::Request::unsupported("$method($phase)", 'name the handlers of this phase in the configuration');
}

# The list is run before the cleanups of the pool.
sub install_cleanups {
    my ($r) = @_;
    my $list = Drom::Request::values_of($r)->{cleanup_handlers} = [];
    Drom::Request::cleanup_phase(sub { run_cleanups($list, @_) });
    return $list;
}

sub run_cleanups {
    my ($list, $r) = @_;
    while (@$list) {
        my $code = shift @$list;
        eval { callable($code)->($r); 1 } or Drom::Request::log($r, 3, "$@");
    }
    return;
}

# A reference, 'Some::sub', 'Class' with a handler, or 'Class->method'.
sub callable {
    my ($code) = @_;
    return $code if ref $code;
    return eval $code || die $@ if $code =~ /^sub\b/;
    my ($class, $method) = $code =~ /^(.+)->(\w+)$/;
    if ($class) {
        load($class) unless $class->can($method);
        return sub { $class->$method(@_) };
    }
    no strict 'refs';
    return \&$code if defined &$code;
    load($code) unless defined &{"${code}::handler"};
    return \&{"${code}::handler"} if defined &{"${code}::handler"};
    Carp::croak("there is no sub $code and no ${code}::handler");
}

sub load {
    my ($class) = @_;
    (my $file = "$class.pm") =~ s{::}{/}g;
    require $file unless $class->can('can') && $class->can('handler');
    return;
}

1;

=head1 NAME

Apache2::RequestUtil - configuration, place and phases of a request

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = Apache2::RequestUtil->request;
        my $title = $r->dir_config('Title') // 'untitled';
        $r->push_handlers(PerlCleanupHandler => sub { warn "done with $title" });
        $r->print($title);
        return 0;
    }

=head1 DESCRIPTION

C<Apache2::RequestUtil-E<gt>request>, and on the request: C<add_config as_string child_terminate default_type
dir_config get_handlers get_limit_req_body get_server_name get_server_port get_status_line is_initial_req
is_perl_option_enabled location_merge no_cache pnotes psignature push_handlers server_root_relative
set_basic_credentials set_handlers slurp_filename>.

C<add_config> takes PerlSetVar and PerlAddVar.

Only PerlCleanupHandler can be pushed and set while a request runs. C<get_handlers> knows it and
PerlResponseHandler, also by the name PerlHandler; for the others there are none.

=cut
