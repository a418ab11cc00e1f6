package mod_perl;
# The name by which code asks whether it runs under mod_perl, and which.
use strict;
use warnings;

our $VERSION = '2.000012';

use Drom::Startup ();

our $VERSION_TRIPLET = '2.0.12';

# mod_perl 1 code asks for hooks that were compiled in: all are.
sub hook { return 1 }
sub import { return }

1;

=head1 NAME

mod_perl - the version of the API

=head1 SYNOPSIS

    use mod_perl ();
    print "$mod_perl::VERSION\n";

=head1 DESCRIPTION

C<$mod_perl::VERSION> is that of the API of mod_perl which this server offers.

=cut
