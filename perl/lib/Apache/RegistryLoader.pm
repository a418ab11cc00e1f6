package Apache::RegistryLoader;
# Scripts compiled before the first request, for mod_perl 1.
use strict;
use warnings;

our $VERSION = '1.93';

use ModPerl::RegistryLoader ();

our @ISA = ('ModPerl::RegistryLoader');

sub new {
    my ($class, %self) = @_;
    return $class->SUPER::new(package => 'Apache::Registry', %self);
}

1;

=head1 NAME

Apache::RegistryLoader - compile scripts at start

=head1 SYNOPSIS

    use Apache::RegistryLoader ();
    Apache::RegistryLoader->new->handler('/perl/hello.pl', '/srv/perl/hello.pl');

=head1 DESCRIPTION

As L<ModPerl::RegistryLoader>, with Apache::Registry as the class.

=cut
