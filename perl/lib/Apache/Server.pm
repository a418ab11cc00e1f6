package Apache::Server;
# The server of mod_perl 1.
use strict;
use warnings;

our $VERSION = '1.01';

use Apache2::ServerRec ();
use Apache2::ServerUtil ();

our @ISA = ('Apache2::ServerRec');
require Cwd;
our $CWD = Cwd::getcwd();
our ($Starting, $ReStarting) = (0, 0);

1;

=head1 NAME

Apache::Server - the server

=head1 SYNOPSIS

    use Apache::Server ();

=head1 DESCRIPTION

See L<Apache2::ServerRec>.

=cut
