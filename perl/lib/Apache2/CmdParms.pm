package Apache2::CmdParms;
# Arguments of directives made in Perl: there are none.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'use PerlSetVar and $r->dir_config');

1;

=head1 NAME

Apache2::CmdParms - arguments of directives made in Perl (not supported)

=head1 SYNOPSIS

    use Apache2::CmdParms ();
    eval { Apache2::CmdParms->info };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
