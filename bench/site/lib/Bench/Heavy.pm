package Bench::Heavy;
# The work of cgi-bin/heavy.pl as a handler.
use strict;
use warnings;
use Apache2::RequestRec ();
use Apache2::RequestIO  ();
use Apache2::Const -compile => 'OK';

sub handler {
    my $r = shift;
    my %count;
    for my $n (1 .. 11_000) {
        my $word = join '-', $n % 17, ($n * 7) % 23;
        $count{$word} += length $word;
    }
    my $sum = 0;
    $sum += $count{$_} for sort keys %count;
    $r->content_type('text/plain');
    $r->print(scalar(keys %count), " words, $sum letters\n");
    return Apache2::Const::OK;
}

1;
