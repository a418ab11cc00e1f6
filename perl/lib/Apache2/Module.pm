package Apache2::Module;
# Which of Apache's modules there would be.
use strict;
use warnings;

our $VERSION = '2.000012';

# What this server does under the names of the modules that do it in Apache.
my %LOADED = map { $_ => 1 } qw(core http_core prefork mod_so mod_mime mod_dir mod_alias mod_env
    mod_log_config
    mod_cgi mod_include mod_perl mod_setenvif);

# 1 or 0; a name may end with .c.
sub loaded {
    my ($name) = @_;
    $name =~ s/\.c\z//;
    return $LOADED{$name} ? 1 : 0;
}

sub top_module { return undef }
sub find_linked_module { my ($name) = @_; return loaded($name) ? bless {name => $name}, __PACKAGE__ : undef }
sub name { return $_[0]{name} }
sub version { return 20120211 }
sub minor_version { return 0 }
sub ap_api_major_version { return 20120211 }
sub get_config { return undef }

sub add {
    require Drom::Request;
    Drom::Request::unsupported('Apache2::Module::add (directives in Perl)',
        'use PerlSetVar and $r->dir_config');
}

1;

=head1 NAME

Apache2::Module - which modules there are

=head1 SYNOPSIS

    use Apache2::Module ();
    print Apache2::Module::loaded('mod_perl.c') ? "yes\n" : "no\n";

=head1 DESCRIPTION

C<loaded> knows the names of Apache modules whose work this server does. Directives written in Perl are
not supported.

=cut
