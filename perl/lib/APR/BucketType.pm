package APR::BucketType;
# Kinds of buckets: there are none.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '0.009000';

Drom::Absent::all(__PACKAGE__, 'change the output in the handler');

1;

=head1 NAME

APR::BucketType - kinds of buckets (not supported)

=head1 SYNOPSIS

    use APR::BucketType ();
    eval { APR::BucketType->name };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
