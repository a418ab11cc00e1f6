package APR::Brigade;
# Lists of pieces of a filtered response: there are no filters.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'print in the handler');

1;

=head1 NAME

APR::Brigade - lists of pieces of a filtered response (not supported)

=head1 SYNOPSIS

    use APR::Brigade ();
    eval { APR::Brigade->new };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
