package Apache2::Status;
# The status page of an interpreter.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

use constant INSTEAD => 'print what you need of %INC and @INC from a handler of your own';

# Modules add their page when they are loaded.
sub menu_item { return }
sub handler { Drom::Request::unsupported('Apache2::Status', INSTEAD) }

Drom::Absent::all(__PACKAGE__, INSTEAD);

1;

=head1 NAME

Apache2::Status - the status page of an interpreter (not supported)

=head1 SYNOPSIS

    use Apache2::Status ();
    eval { Apache2::Status->handler };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
