package Drom::Child::Begin;
# Loaded by each worker when it starts. Its END block is the last that was met, so it runs before all others.
use strict;
use warnings;

use Drom::Child ();

our $VERSION = '2.000012';
my $process = $$;

Drom::Child::begin();

END { Drom::Child::end() if $$ == $process }

1;

=head1 NAME

Drom::Child::Begin - the start of a worker

=head1 SYNOPSIS

    use Drom::Child::Begin ();

=head1 DESCRIPTION

Not for users. Loading it runs what L<Drom::Child> has collected.

=cut
