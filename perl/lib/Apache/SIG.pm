package Apache::SIG;
# A client that goes away kills no worker here: SIGPIPE is ignored already.
use strict;
use warnings;

our $VERSION = '1.91';

sub set { return }
sub handler { return 0 }

1;

=head1 NAME

Apache::SIG - signals

=head1 SYNOPSIS

    use Apache::SIG ();
    Apache::SIG->set;

=head1 DESCRIPTION

Nothing has to be done.

=cut
