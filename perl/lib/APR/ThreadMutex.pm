package APR::ThreadMutex;
# Locks between threads: there are none.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '0.009000';

Drom::Absent::all(__PACKAGE__, 'a worker has one thread of Perl');

1;

=head1 NAME

APR::ThreadMutex - locks between threads (not supported)

=head1 SYNOPSIS

    use APR::ThreadMutex ();
    eval { APR::ThreadMutex->new };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
