package ModPerl::RegistryCooker;
# Runs scripts as subs, step by step, each step a method that a subclass may replace. The server does the
# same steps itself for ModPerl::Registry and its like; this is for classes made out of them.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

# Packages of scripts hold the name of the virtual host when they are named after the URI.
our $NameWithVirtualHost = 1;

use constant { OK => 0, DECLINED => -1, FORBIDDEN => 403, NOT_FOUND => 404, SERVER_ERROR => 500 };

sub new {
    my ($class, $r) = @_;
    my $self = bless {}, $class;
    $self->init($r);
    return $self;
}

sub init {
    my ($self, $r) = @_;
    @$self{qw(REQ URI FILENAME)} = ($r, $r->uri, $r->filename);
    return;
}

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

# Compiles when that is needed, runs, and lets the script decide the status.
sub default_handler {
    my ($self) = @_;
    $self->make_namespace unless $self->{PACKAGE};
    if ($self->should_compile) {
        my $status = $self->can_compile;
        $status = $self->convert_script_to_compiled_handler if $status == OK;
        return $status unless $status == OK;
    }
    my $before = $self->{REQ}->status;
    my $status = $self->run;
    my $after = $self->{REQ}->status($before);
    return $status == OK && $after != $before ? $after : $status;
}

sub run {
    my ($self) = @_;
    my ($r, $package) = @$self{qw(REQ PACKAGE)};
    my $code = $package->can('handler');
    $self->set_script_name;
    $self->chdir_file;
    my $lived = eval { $code->($r); 1 };
    my $status = $lived ? OK : $self->error_check;
    $self->chdir_file('');
    $self->flush_namespace;
    return $status;
}

# ---- may it be compiled, must it be ----------------------------------------------------------------

sub can_compile {
    my ($self) = @_;
    my $file = $self->{FILENAME};
    return DECLINED if -e $file && !-f _;
    return $self->refuse(NOT_FOUND, "$file not found or unable to stat") unless -e _;
    my $options = $self->{REQ}->allow_options_;
    return $self->refuse(FORBIDDEN, "Options ExecCGI is off in this directory: $file")
        if defined $options && !($options & 8);
    $self->{MTIME} = (stat _)[9];
    return OK;
}

sub refuse {
    my ($self, $status, $why) = @_;
    $self->log_error($why);
    return $status;
}

sub should_compile { return $_[0]->should_compile_if_modified }
sub should_compile_if_modified {
    my ($self) = @_;
    return 1 unless $self->is_cached;
    my $mtime = (stat $self->{FILENAME})[9];
    $self->{MTIME} = $mtime;
    my $known = $self->cache_table->{$self->{PACKAGE}}{mtime};
    return defined $mtime && defined $known && $mtime == $known ? 0 : 1;
}
sub should_compile_once { return $_[0]->is_cached ? 0 : 1 }

our %CACHE;
sub cache_table { return $_[0]->cache_table_common }
sub cache_table_common { no warnings 'once'; return \%ModPerl::RegistryCache }
sub is_cached { my ($self) = @_; return exists $self->cache_table->{$self->{PACKAGE}}{mtime} ? 1 : 0 }

sub cache_it {
    my ($self) = @_;
    $self->cache_table->{$self->{PACKAGE}}{mtime} = $self->{MTIME} // 0;
    return;
}

sub uncache_myself { my ($self) = @_; delete $self->cache_table->{$self->{PACKAGE}}; return }

# ---- the package -----------------------------------------------------------------------------------

sub namespace_root { return 'ModPerl::ROOT::' . ref $_[0] }

sub make_namespace {
    my ($self) = @_;
    return $self->{PACKAGE} = $self->namespace_root . '::' . $self->namespace_from;
}

sub namespace_from { return $_[0]->namespace_from_filename }

sub namespace_from_filename {
    my ($self) = @_;
    return join '_', map { component($_) } grep { length } split m{/}, $self->{FILENAME};
}

sub namespace_from_uri {
    my ($self) = @_;
    my $r = $self->{REQ};
    my $uri = $self->{URI};
    my $info = $r->path_info // '';
    $uri = substr $uri, 0, -length $info if length $info && $uri =~ /\Q$info\E\z/;
    $uri =~ s{/\z}{/__INDEX__};
    my $host = $NameWithVirtualHost && $r->server->is_virtual ? $r->get_server_name : undef;
    return join '_', map { component($_) } grep { length } $host // (), split m{/}, $uri;
}

# Characters that no name has become their number.
sub component {
    my ($text) = @_;
    $text =~ s/([^A-Za-z0-9_])/sprintf '_%2x', ord $1/ge;
    return $text =~ /^\d/ ? "_$text" : $text;
}

# ---- from file to sub ------------------------------------------------------------------------------

sub read_script {
    my ($self) = @_;
    my $file;
    if (!open $file, '<:raw', $self->{FILENAME}) {
        my $status = $!{EACCES} ? FORBIDDEN : $!{ENOENT} ? NOT_FOUND : SERVER_ERROR;
        return $self->refuse($status, "$self->{FILENAME}: $!");
    }
    local $/;
    my $text = <$file>;
    $self->{CODE} = \$text;
    return OK;
}

sub convert_script_to_compiled_handler {
    my ($self) = @_;
    my $status = $self->read_script;
    return $status unless $status == OK;
    $self->rewrite_shebang;
    $self->set_script_name;
    $self->chdir_file;
    $self->strip_end_data_segment;
    my $text = $self->wrapped;
    $self->flush_namespace_normal if $self->is_cached;
    $status = $self->compile(\$text);
    $self->chdir_file('');
    return $status unless $status == OK;
    $self->cache_it;
    return OK;
}

sub wrapped {
    my ($self) = @_;
    my $name = $self->get_script_name =~ s/([\\'])/\\$1/gr;
    my $nph = $self->{FILENAME} =~ m{/nph-[^/]+\z} ? '$_[0]->assbackwards(1);' : '';
    return "package $self->{PACKAGE};sub handler {local \$0 = '$name';" . $nph
        . ($self->{SWITCHES} // '') . $self->get_mark_line . ${$self->{CODE}} . "\n}\n1;";
}

sub get_mark_line {
    my ($self) = @_;
    no warnings 'once';
    return $ModPerl::Registry::MarkLine // 1 ? "\n#line 1 " . $self->get_script_name . "\n" : "\n";
}

sub get_script_name { return $_[0]{FILENAME} }
sub set_script_name { return }

# The switches of the first line as code.
sub shebang_to_perl { my ($self) = @_; return $self->{SWITCHES} = switches(${$self->{CODE}}) }
sub rewrite_shebang { return $_[0]->shebang_to_perl }

sub switches {
    my ($line) = $_[0] =~ /^#!([^\n]*perl[^\n]*)/ or return '';
    my (undef, @words) = split ' ', $line;
    for my $word (@words) {
        last if $word eq '--' || $word !~ /^-/;
        return 'use warnings;' if $word =~ /^-\w*w/;
    }
    return '';
}

sub strip_end_data_segment {
    my ($self) = @_;
    ${$self->{CODE}} =~ s/^__(?:END|DATA)__.*//ms;
    return;
}

# Evaluated where no lexical of ours is in sight.
sub compile {
    my ($self, $text) = @_;
    $self->{REQ}->clear_rgy_endav if $self->{REQ}->can('clear_rgy_endav');
    ModPerl::RegistryCooker::Compile::text($text);
    return $@ ? $self->error_check : OK;
}

# What $@ says goes to the log and to the page of the error.
sub error_check {
    my ($self) = @_;
    my $error = $@ // '';
    return OK unless length $error;
    $self->log_error("$error");
    $self->{REQ}->notes('error-notes' => "$error") if $self->{REQ}->can('notes');
    $@{$self->{URI}} = "$error";
    return SERVER_ERROR;
}

# ---- folder, leftovers -----------------------------------------------------------------------------

sub chdir_file { return }

# In the script's folder, and with '' back again.
sub chdir_file_normal {
    my ($self, $folder) = @_;
    if (defined $folder) {
        my $home = delete $self->{HOME};
        chdir $home if defined $home;
        return;
    }
    require Cwd;
    $self->{HOME} = Cwd::getcwd();
    my ($place) = $self->{FILENAME} =~ m{^(.*/)};
    chdir $place if defined $place;
    return;
}

sub flush_namespace { return }

sub flush_namespace_normal {
    my ($self) = @_;
    require ModPerl::Util;
    ModPerl::Util::unload_package($self->{PACKAGE});
    return;
}

# Names of steps, each with the full name of the sub that does it: how classes for mod_perl choose theirs.
sub install_aliases {
    my ($class, $aliases) = @_;
    for my $step (sort keys %$aliases) {
        no strict 'refs';
        my $code = *{$aliases->{$step}}{CODE}
            or die "$class: $step aliasing failed; sub $aliases->{$step} doesn't exist";
        no warnings 'redefine';
        *{"${class}::$step"} = $code;
    }
    return;
}

sub NOP { return '' }
sub TRUE { return 1 }
sub FALSE { return 0 }

sub debug { my ($self, @text) = @_; Drom::Request::log($self->{REQ}, 7, join '', @text); return }
sub log_error { my ($self, @text) = @_; Drom::Request::log($self->{REQ}, 3, join '', @text); return }

package ModPerl::RegistryCooker::Compile;
no strict;
no warnings;

sub text { return eval ${$_[0]} }

1;

=head1 NAME

ModPerl::RegistryCooker - run scripts as subs, with replaceable steps

=head1 SYNOPSIS

    package My::Registry;
    use parent 'ModPerl::RegistryCooker';
    sub namespace_root { 'My::ROOT' }
    sub should_compile { $_[0]->should_compile_once }
    sub chdir_file { my $self = shift; $self->chdir_file_normal(@_) }

    # in the configuration: PerlResponseHandler My::Registry->handler

=head1 DESCRIPTION

Steps: C<new init default_handler run can_compile should_compile should_compile_if_modified
should_compile_once is_cached cache_it make_namespace namespace_root namespace_from namespace_from_filename
namespace_from_uri read_script rewrite_shebang shebang_to_perl strip_end_data_segment get_mark_line
get_script_name compile install_aliases convert_script_to_compiled_handler error_check chdir_file chdir_file_normal
flush_namespace flush_namespace_normal>. An object has C<REQ URI FILENAME PACKAGE CODE MTIME>.

END blocks of scripts that run through this class run when the worker ends; those of scripts under
ModPerl::Registry itself, which the server runs, run after each request.

=cut
