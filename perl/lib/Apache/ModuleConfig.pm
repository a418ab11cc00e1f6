package Apache::ModuleConfig;
# Configuration of modules written in Perl: there is none.
use strict;
use warnings;

our $VERSION = '0.01';

sub new { return bless {}, $_[0] }
sub get { return undef }

1;

=head1 NAME

Apache::ModuleConfig - configuration of modules

=head1 SYNOPSIS

    use Apache::ModuleConfig ();
    print defined Apache::ModuleConfig->get ? "some\n" : "none\n";

=head1 DESCRIPTION

Directives written in Perl are not supported: C<get> is undef.

=cut
