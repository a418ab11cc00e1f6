#!/usr/bin/perl
# About 2 ms of Perl; lib/Bench/Heavy.pm is the same work as a handler.
use strict;
use warnings;

my %count;
for my $n (1 .. 11_000) {
    my $word = join '-', $n % 17, ($n * 7) % 23;
    $count{$word} += length $word;
}
my $sum = 0;
$sum += $count{$_} for sort keys %count;
print "Content-Type: text/plain\n\n";
print scalar(keys %count), " words, $sum letters\n";
