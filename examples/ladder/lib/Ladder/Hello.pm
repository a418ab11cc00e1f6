package Ladder::Hello;
use strict;
use warnings;
use Apache2::RequestRec ();
use Apache2::RequestIO  ();
use Apache2::Const -compile => 'OK';

sub handler {
    my $r = shift;
    $r->content_type('text/plain');
    $r->print("Hello, world!\n");
    return Apache2::Const::OK;
}

1;

=head1 NAME

Ladder::Hello - cgi-bin/hello.pl as a handler

=head1 SYNOPSIS

    PerlModule Ladder::Hello
    <Location /modperl/hello>
        SetHandler modperl
        PerlResponseHandler Ladder::Hello
    </Location>

=cut
