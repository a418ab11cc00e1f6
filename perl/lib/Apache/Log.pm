package Apache::Log;
# Logging of mod_perl 1: its methods are on $r and $s already.
use strict;
use warnings;

our $VERSION = '1.01';

use Apache2::Log ();

1;

=head1 NAME

Apache::Log - logging

=head1 SYNOPSIS

    use Apache::Log ();

=head1 DESCRIPTION

See L<Apache2::Log>.

=cut
