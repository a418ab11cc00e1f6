package ModPerl::Const;
# How exit looks to mod_perl.
use strict;
use warnings;

our $VERSION = '2.000012';

use Drom::Constants ();

Drom::Constants::define(__PACKAGE__, 'common: EXIT=120000');

sub import { my $class = shift; return Drom::Constants::import_into($class, scalar caller, @_) }

1;

=head1 NAME

ModPerl::Const - constants of mod_perl

=head1 SYNOPSIS

    use ModPerl::Const -compile => 'EXIT';
    print ModPerl::Const::EXIT, "\n";

=head1 DESCRIPTION

C<EXIT>. Here exit is not an exception, so that no C<$@> ever equals it.

=cut
