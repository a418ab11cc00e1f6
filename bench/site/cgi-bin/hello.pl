#!/usr/bin/perl
print "Content-Type: text/plain\n\n";
print "Hello, world!\n";
