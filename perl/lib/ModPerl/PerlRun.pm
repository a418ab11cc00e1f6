package ModPerl::PerlRun;
# Scripts compiled for each request and forgotten afterwards.
use strict;
use warnings;

our $VERSION = '2.000012';

use ModPerl::RegistryCooker ();

our @ISA = ('ModPerl::RegistryCooker');

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

sub should_compile { return 1 }
sub cache_it { return }
sub flush_namespace { return $_[0]->flush_namespace_normal }

1;

=head1 NAME

ModPerl::PerlRun - scripts compiled for each request

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlResponseHandler ModPerl::PerlRun
    use ModPerl::PerlRun ();

=head1 DESCRIPTION

See L<ModPerl::RegistryCooker> for what a subclass can replace.

=cut
