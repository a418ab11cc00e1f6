package Apache2::PerlSections;
# Not supported: loading it says so at once, rather than a handler failing later.
use strict;
use warnings;

our $VERSION = '2.000012';

require Carp;
Carp::croak('<Perl> sections: not supported by this server; write directives, or load code with PerlRequire');

1;

=head1 NAME

Apache2::PerlSections - configuration written in Perl (not supported)

=head1 SYNOPSIS

    eval { require Apache2::PerlSections };
    print $@;

=head1 DESCRIPTION

Dies when it is loaded, with a message that says what to do instead.

=cut
