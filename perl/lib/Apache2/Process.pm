package Apache2::Process;
# The process that serves.
use strict;
use warnings;

our $VERSION = '2.000012';

sub pool { require APR::Pool; return APR::Pool->new }
sub pconf { return pool() }
sub short_name { return 'drom' }
sub argc { return 1 }
sub argv { return ['drom'] }

1;

=head1 NAME

Apache2::Process - the process that serves

=head1 SYNOPSIS

    use Apache2::Process ();
    print Apache2::Process->short_name, "\n";

=head1 DESCRIPTION

What C<< $s->process >> returns. Its pools run cleanups when they go out of sight.

=cut
