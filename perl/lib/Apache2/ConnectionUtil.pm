package Apache2::ConnectionUtil;
# Values that Perl keeps beside a connection. Requests of one connection may be answered by different
# workers, so they last as long as the request.
use strict;
use warnings;

use Apache2::RequestRec ();

our $VERSION = '2.000012';

package Apache2::Connection;

sub pnotes {
    my ($c, @entry) = @_;
    my $all = Apache2::RequestRec::pnotes($c)->{'Apache2::Connection'} //= {};
    return $all unless @entry;
    $all->{$entry[0]} = $entry[1] if @entry > 1;
    return $all->{$entry[0]};
}

sub pnotes_kill { %{$_[0]->pnotes} = (); return }

1;

=head1 NAME

Apache2::ConnectionUtil - values kept beside a connection

=head1 SYNOPSIS

    use Apache2::ConnectionUtil ();
    sub My::Page::handler {
        my $r = shift;
        $r->connection->pnotes(seen => 1);
        return 0;
    }

=head1 DESCRIPTION

C<pnotes pnotes_kill>. They last as long as the request: the next one of the same connection may be
answered by another process.

=cut
