package Apache2::PerlSections;
# <Perl> sections: the configuration is no code.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'move the code to a file and PerlRequire that');

1;

=head1 NAME

Apache2::PerlSections - sections of Perl in the configuration (not supported)

=head1 SYNOPSIS

    use Apache2::PerlSections ();
    eval { Apache2::PerlSections->dump };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
