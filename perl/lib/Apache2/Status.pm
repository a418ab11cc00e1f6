package Apache2::Status;
# The status page of an interpreter.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

# Modules add their page when they are loaded.
sub menu_item { return }
sub handler { Drom::Request::unsupported('Apache2::Status', 'see the status page of the server') }

Drom::Absent::all(__PACKAGE__, 'see the status page of the server');

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
