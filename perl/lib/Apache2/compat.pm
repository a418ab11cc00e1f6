package Apache2::compat;
# mod_perl 1 names in mod_perl 2: they are always there.
use strict;
use warnings;

our $VERSION = '2.000012';

use Apache ();
use Apache::Constants ();
use Apache::File ();
use Apache::Log ();
use Apache::Table ();
use Apache::URI ();
use Apache::Util ();
use Apache2::URI ();

sub override_mp2_api { return }
sub restore_mp2_api { return }

1;

=head1 NAME

Apache2::compat - the API of mod_perl 1

=head1 SYNOPSIS

    use Apache2::compat ();
    print Apache::Util::escape_html('<'), "\n";

=head1 DESCRIPTION

Loads the modules of mod_perl 1 by their old names.

=cut
