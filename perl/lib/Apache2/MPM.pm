package Apache2::MPM;
# How the server divides its work: one request at a time in each process.
use strict;
use warnings;

our $VERSION = '2.000012';

sub show { return 'prefork' }
sub is_threaded { return 0 }
sub query { return {2 => 0, 3 => 1}->{$_[-1]} // 0 }

1;

=head1 NAME

Apache2::MPM - how the server divides its work

=head1 SYNOPSIS

    use Apache2::MPM ();
    print Apache2::MPM->show, "\n";

=head1 DESCRIPTION

C<show> is prefork, C<is_threaded> 0.

=cut
