#!/usr/bin/perl
# The smallest useful answer: what an execution model costs shows undiluted.
use strict;
use warnings;

print "Content-Type: text/plain\n\n";
print "Hello, world!\n";
