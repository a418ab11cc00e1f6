package Apache2::HookRun;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('Apache2::HookRun: not supported by this server; name handlers in the configuration');

1;

=head1 NAME

Apache2::HookRun - running a phase by hand (not supported)

=head1 SYNOPSIS

    eval { require Apache2::HookRun };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
