package Drom::FirstGeneration;
# The methods that only mod_perl 1 has. They are there on every $r, since code of both generations meets
# in one server; what means something else in mod_perl 1 is in the package Apache alone.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

my $SECOND = qr/\b(?:Apache2|APR|ModPerl)::|\bmod_perl2\b|\bMOD_PERL_API_VERSION\b|\bmod_perl::VERSION\b/;

# Whether a handler was written for mod_perl 1 alone: nothing in its source is of the second generation, or
# asks which one this is. Called once for each handler, with the name from the configuration and the file of
# its sub; what counts in the end is whether the directive of mod_perl 1 named it, too.
sub speaks {
    my ($name, $file) = @_;
    return code_of($name) !~ $SECOND if $name =~ /^sub\b/;
    (my $module = $name =~ s/->.*//sr . '.pm') =~ s{::}{/}g;
    my %file = map { $_ => 1 } grep { defined && -f } $file, $INC{$module};
    return !grep { code_of(text_of($_)) =~ $SECOND } keys %file;
}

sub text_of {
    my ($file) = @_;
    open my $handle, '<', $file or return '';
    local $/;
    return scalar(<$handle>) // '';
}

# Without documentation and comments that have a line of their own.
sub code_of {
    my ($text) = @_;
    $text =~ s/^__(?:END|DATA)__\b.*//ms;
    $text =~ s/^=[a-zA-Z].*?(?:^=cut\b.*?$|\z)//gms;
    $text =~ s/^\s*#.*$//gm;
    $text =~ s/\bApache2::compat\b//g;
    return $text;
}

package Apache2::RequestRec;
use Carp ();

# Our head goes out with the first output; here its type is set and the search for CGI headers ends.
sub send_http_header {
    my ($r, $type) = @_;
    $r->content_type($type) if defined $type;
    $r->parse_headers_(0);
    Drom::Request::command($r, Drom::Request::SEND_HEAD);
    return 1;
}

sub content_length { my $r = shift; my $old = $r->content_length_(@_); return $old < 0 ? undef : $old }
sub cgi_header_out { my $r = shift; cgi_header_line($r, "$_[0]: $_[1]"); return }
# mod_perl 1 runs them in their order, Apache2::compat as the pool's.
sub register_cleanup {
    my ($r, @what) = @_;
    return $r->push_handlers(PerlCleanupHandler => $what[0]) if $r->isa('Apache');
    return $r->pool->cleanup_register(@what);
}
sub post_connection { my ($r, @what) = @_; return $r->pool->cleanup_register(@what) }
sub exit { my ($r, $status) = @_; return ModPerl::Util::exit($status // 0) }
sub is_xlate { return 0 }
sub get_handler { return $_[0]->handler }
sub hard_timeout { return }
sub soft_timeout { return }
sub reset_timeout { return }
sub kill_timeout { return }
sub rwrite { my $r = shift; return $r->write(@_) }
sub query_string { my $r = shift; return $r->subprocess_env(QUERY_STRING => @_) }
sub perl_hook { return 0 }
sub define { return 0 }
sub module { my (undef, $name) = @_; require Apache2::Module; return Apache2::Module::loaded($name) }
sub unescape_url { require Apache2::Util; return Apache2::Util::unescape_path($_[-1], 0) }
sub unescape_url_info { require Apache2::Util; return Apache2::Util::unescape_path($_[-1], 1) }
sub escape_uri { require Apache2::Util; return Apache2::Util::escape_path($_[-1]) }

sub chdir_file {
    my ($r, $file) = @_;
    my ($folder) = ($file // $r->filename) =~ m{^(.*/)} or return 0;
    return chdir $folder;
}

# The environment of scripts, as a hash or one of its entries.
sub cgi_env {
    my ($r, @entry) = @_;
    return $r->subprocess_env(@entry) if @entry;
    return wantarray ? map { @$_ } APR::Table::pairs($r->subprocess_env_) : $r->subprocess_env_;
}

# The rest of an open file.
sub send_fd {
    my ($r, $file, $length) = @_;
    my ($sent, $buffer) = (0, '');
    while (!defined $length || $sent < $length) {
        my $want = defined $length && $length - $sent < 65536 ? $length - $sent : 65536;
        my $got = CORE::read($file, $buffer, $want) or last;
        $r->print($buffer);
        $sent += $got;
    }
    return $sent;
}

sub send_fd_length { goto &send_fd }

# A form that was posted: decoded pairs in list context, the body in scalar context. It can be read once.
sub content {
    my ($r) = @_;
    my $type = $r->header_in('Content-Type') // '';
    return unless $type =~ m{^application/x-www-form-urlencoded}i;
    my $body = Drom::Request::kept($r, 'content');
    if (!defined $body) {
        my $length = $r->header_in('Content-Length') // 0;
        $r->read($body, $length) if $length;
        Drom::Request::kept($r, content => '');
    }
    $body //= '';
    return wantarray ? form_pairs($body) : $body;
}

# name=value&name=value as a list; a name without a value has an undefined one.
sub form_pairs {
    my ($text) = @_;
    my @list;
    for my $part (split /[&;]/, $text) {
        my ($name, $value) = map { form_text($_) } split(/=/, $part, 2), undef;
        push @list, $name, $value;
    }
    return @list;
}

sub form_text {
    my ($text) = @_;
    return $text unless defined $text;
    $text =~ tr/+/ /;
    $text =~ s/%([0-9a-fA-F]{2})/chr hex $1/ge;
    return $text;
}

sub cgi_var { goto &cgi_env }

package Apache;
our @ISA = ('Apache2::RequestRec');

sub gensym { require Symbol; return Symbol::gensym() }

# Of the class, start-up code means the server; so it does with what a worker runs at its start and end.
for my $method (qw(push_handlers set_handlers get_handlers)) {
    no strict 'refs';
    my $of_request = \&{"Apache2::RequestRec::$method"};
    *$method = sub {
        my ($r, @what) = @_;
        my $on_server = !Drom::Request::current() || Drom::Child::handlers($what[0] // '');
        return $on_server ? Apache2::ServerUtil::server()->$method(@what) : $of_request->($r, @what);
    };
}

sub request { shift; return Apache2::RequestUtil->request(@_) }
sub server { return ref $_[0] ? $_[0]->SUPER::server : Apache2::ServerUtil::server() }
sub server_root_relative { return Apache2::ServerUtil::server_root_relative($_[1] // '') }
sub httpd_conf { Drom::Request::unsupported('Apache->httpd_conf', 'use the configuration file') }
sub exit { shift if @_ && (ref $_[0] || $_[0] eq 'Apache'); return ModPerl::Util::exit($_[0] // 0) }

# Apache 1.3 sends the line as it is, so its number is the status.
sub status_line {
    my ($r, @new) = @_;
    $r->status($1) if @new && ($new[0] // '') =~ /^(\d{3})(?!\d)/;
    return $r->SUPER::status_line(@new);
}

# Decoded pairs in list context.
sub args {
    my ($r, @new) = @_;
    my $args = $r->SUPER::args(@new);
    return wantarray ? Apache2::RequestRec::form_pairs($args // '') : $args;
}

# A hash in list context.
for my $table (qw(headers_in headers_out err_headers_out)) {
    no strict 'refs';
    my $super = \&{"Apache2::RequestRec::$table"};
    *$table = sub {
        my $all = $super->($_[0]);
        return wantarray ? map { @$_ } APR::Table::pairs($all) : $all;
    };
}

package Apache2::RequestRec;

# Lines for the log of the server: methods of the class Apache in mod_perl 1.
sub log_message { my $r = shift; return $r->log_error(@_) }

1;

=head1 NAME

Drom::FirstGeneration - the methods that only mod_perl 1 has

=head1 SYNOPSIS

    sub My::Old::handler {
        my $r = shift;
        $r->send_http_header('text/plain');
        my %form = $r->method eq 'POST' ? $r->content : $r->args;
        $r->print("$_\n") for sort keys %form;
        return 0;
    }

=head1 DESCRIPTION

C<args>, C<headers_in>, C<headers_out> and C<err_headers_out> give lists only on objects of the class
Apache, which scripts under C<Apache::Registry> and C<Apache::PerlRun> get, and handlers that C<PerlHandler>
names and that were written for mod_perl 1 alone.

=cut
