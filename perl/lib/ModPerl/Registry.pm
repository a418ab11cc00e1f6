package ModPerl::Registry;
# Scripts compiled once and again when they change. Under this very name the server runs them itself; the
# class is there for those made out of it.
use strict;
use warnings;

our $VERSION = '2.000012';

use ModPerl::RegistryCooker ();

our @ISA = ('ModPerl::RegistryCooker');

# Errors name the lines of the script.
our $MarkLine = 1;

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

1;

=head1 NAME

ModPerl::Registry - scripts compiled once, again when they change

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlResponseHandler ModPerl::Registry
    use ModPerl::Registry ();

=head1 DESCRIPTION

See L<ModPerl::RegistryCooker> for what a subclass can replace.

=cut
