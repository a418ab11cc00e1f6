package ModPerl::RegistryPrefork;
# Registry in the script's own folder.
use strict;
use warnings;

our $VERSION = '2.000012';

use ModPerl::Registry ();

our @ISA = ('ModPerl::Registry');

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

sub chdir_file { my $self = shift; return $self->chdir_file_normal(@_) }

1;

=head1 NAME

ModPerl::RegistryPrefork - Registry in the folder of the script

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlResponseHandler ModPerl::RegistryPrefork
    use ModPerl::RegistryPrefork ();

=head1 DESCRIPTION

As L<ModPerl::Registry>.

=cut
