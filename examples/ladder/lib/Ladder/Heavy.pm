package Ladder::Heavy;
use strict;
use warnings;
use Apache2::RequestRec ();
use Apache2::RequestIO  ();
use Apache2::Const -compile => 'OK';

sub primes {
    my $limit = shift;
    my @composite;
    my @primes;
    for my $n (2 .. $limit) {
        next if $composite[$n];
        push @primes, $n;
        for (my $m = $n * $n; $m <= $limit; $m += $n) { $composite[$m] = 1 }
    }
    return \@primes;
}

sub handler {
    my $r      = shift;
    my $primes = primes(9_000);
    my %by_ending;
    push @{ $by_ending{ $_ % 10 } }, $_ for @$primes;
    my @lines;
    for my $digit (sort { $a <=> $b } keys %by_ending) {
        my @found = @{ $by_ending{$digit} };
        my @words = sort map { scalar reverse } @found;
        push @lines, sprintf "%d: %d primes, the last %d, %s", $digit, scalar @found, $found[-1],
            join ",", @words[0 .. ($#words < 2 ? $#words : 2)];
    }
    $r->content_type('text/plain');
    $r->print(join("\n", @lines), "\n");
    return Apache2::Const::OK;
}

1;

=head1 NAME

Ladder::Heavy - cgi-bin/heavy.pl as a handler

=cut
