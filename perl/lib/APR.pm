package APR;
# The runtime library is a part of the server: there is nothing to load.
use strict;
use warnings;

our $VERSION = '0.009000';

sub import { return }

1;

=head1 NAME

APR - the portable runtime

=head1 SYNOPSIS

    use APR ();
    print "$APR::VERSION\n";

=head1 DESCRIPTION

For code that loads it before modules of the name APR::*.

=cut
