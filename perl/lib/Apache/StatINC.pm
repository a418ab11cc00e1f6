package Apache::StatINC;
# Modules loaded again when their files change: the name that mod_perl 1 has for Apache2::Reload.
use strict;
use warnings;

our $VERSION = '1.07';

use Apache2::Reload ();

sub handler { goto &Apache2::Reload::handler }

1;

=head1 NAME

Apache::StatINC - reload changed modules

=head1 SYNOPSIS

    # in the configuration: PerlInitHandler Apache::StatINC
    use Apache::StatINC ();
    Apache::StatINC::handler();

=head1 DESCRIPTION

For development. A module that no longer compiles stays as it was, with a warning.

=cut
