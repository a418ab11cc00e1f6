package ModPerl::RegistryBB;
# Scripts compiled once and never again.
use strict;
use warnings;

our $VERSION = '2.000012';

use ModPerl::RegistryCooker ();

our @ISA = ('ModPerl::RegistryCooker');

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

sub should_compile { return $_[0]->should_compile_once }

1;

=head1 NAME

ModPerl::RegistryBB - scripts compiled once

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlResponseHandler ModPerl::RegistryBB
    use ModPerl::RegistryBB ();

=head1 DESCRIPTION

See L<ModPerl::RegistryCooker> for what a subclass can replace.

=cut
