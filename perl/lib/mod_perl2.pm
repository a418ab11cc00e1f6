package mod_perl2;
# The version of the API, as code for the second generation asks for it.
use strict;
use warnings;

our $VERSION = '2.000012';

sub Version { return $VERSION }

1;

=head1 NAME

mod_perl2 - the version of the API

=head1 SYNOPSIS

    use mod_perl2 1.999022;
    print "$mod_perl2::VERSION\n";

=head1 DESCRIPTION

C<use mod_perl2 VERSION> is enough for code that needs a certain API.

=cut
