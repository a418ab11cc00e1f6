package Apache2::Command;
# The directives of a module: Perl makes none.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'keep settings in PerlSetVar and ask $r->dir_config');

1;

=head1 NAME

Apache2::Command - the directives of a module (not supported)

=head1 SYNOPSIS

    use Apache2::Command ();
    eval { Apache2::Command->next };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
