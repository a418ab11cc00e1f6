package Apache2::SubProcess;
# Programs that a request starts: not in Apache's way.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::methods('Apache2::RequestRec', q{use open '-|' or system}, 'spawn_proc_prog');

1;

=head1 NAME

Apache2::SubProcess - programs that a request starts (not supported)

=head1 SYNOPSIS

    use Apache2::SubProcess ();
    sub My::Page::handler {
        my $r = shift;
        open my $program, '-|', 'date' or die $!;
        $r->print(<$program>);
        return 0;
    }

=head1 DESCRIPTION

Can be loaded. C<spawn_proc_prog> dies with a message that says what to do instead.

=cut
