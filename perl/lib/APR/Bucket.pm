package APR::Bucket;
# Pieces of a filtered response: there are no filters.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'print in the handler');

1;

=head1 NAME

APR::Bucket - pieces of a filtered response (not supported)

=head1 SYNOPSIS

    use APR::Bucket ();
    eval { APR::Bucket::eos_create() };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
