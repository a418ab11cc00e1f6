package Apache2::Directive;
# The tree of directives, which Perl does not see.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'keep settings in PerlSetVar and ask $r->dir_config');

1;

=head1 NAME

Apache2::Directive - the tree of directives (not supported)

=head1 SYNOPSIS

    use Apache2::Directive ();
    eval { Apache2::Directive::conftree() };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
