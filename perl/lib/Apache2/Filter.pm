package Apache2::Filter;
# Filters: there are none, but a class of filters can be loaded.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

# sub handler : FilterRequestHandler { ... }
sub MODIFY_CODE_ATTRIBUTES {
    my (undef, undef, @names) = @_;
    return grep { !/^Filter(?:Request|Connection|Init|HasInit)/ } @names;
}

Drom::Absent::all(__PACKAGE__, 'change the output in the handler that makes it');
Drom::Absent::methods('Apache2::Connection', 'change the output in the handler that makes it',
    qw(add_input_filter add_output_filter input_filters output_filters));

1;

=head1 NAME

Apache2::Filter - filters (not supported)

=head1 SYNOPSIS

    use Apache2::Filter ();
    eval { Apache2::Filter->read };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
