package Apache::Connection;
# The connection of mod_perl 1.
use strict;
use warnings;

our $VERSION = '1.01';

use Apache2::Connection ();

our @ISA = ('Apache2::Connection');

1;

=head1 NAME

Apache::Connection - the connection

=head1 SYNOPSIS

    use Apache::Connection ();

=head1 DESCRIPTION

See L<Apache2::Connection>.

=cut
