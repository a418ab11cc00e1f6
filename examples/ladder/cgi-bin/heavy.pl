#!/usr/bin/perl
# About 2 ms of Perl: a sieve, string work and a sort, the same answer every time.
use strict;
use warnings;

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

print "Content-Type: text/plain\n\n";
print join("\n", @lines), "\n";
