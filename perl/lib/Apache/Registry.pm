package Apache::Registry;
# Scripts of mod_perl 1 in their own folder. Under this very name the server runs them itself.
use strict;
use warnings;

our $VERSION = '2.01';

use ModPerl::RegistryPrefork ();

our @ISA = ('ModPerl::RegistryPrefork');

# mod_perl 1 names packages after the URI.
sub namespace_root { return 'Apache::ROOT' }
sub namespace_from {
    my ($self) = @_;
    return join '::', map { ModPerl::RegistryCooker::component($_) }
        grep { length } split m{/}, $self->{URI};
}

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

1;

=head1 NAME

Apache::Registry - scripts compiled once, again when they change

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlHandler Apache::Registry
    use Apache::Registry ();

=head1 DESCRIPTION

See L<ModPerl::RegistryCooker> for what a subclass can replace.

=cut
