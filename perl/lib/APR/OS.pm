package APR::OS;
# The thread that runs.
use strict;
use warnings;

our $VERSION = '0.009000';

sub current_thread_id { return 0 }

1;

=head1 NAME

APR::OS - the thread that runs

=head1 SYNOPSIS

    use APR::OS ();
    print APR::OS::current_thread_id(), "\n";

=head1 DESCRIPTION

C<current_thread_id> is 0: an interpreter has one thread.

=cut
