package Devel::Drom;

use strict;
use warnings;

our $VERSION = '0.1.0';

# perl -d turns its debugger on for all that is compiled from now on: nothing of it is needed.
BEGIN { $^P = 0 }

require XSLoader;
XSLoader::load('Devel::Drom', $VERSION);

sub import {
    my ($class, $file) = @_;
    my $folder = delete $ENV{DROM_EXACT};
    _leave_nothing_behind($folder) if defined $folder;
    count(defined $file ? $file : 'drom.out', join ' ', $0, @ARGV);
    return;
}

# `drom profile --exact` makes a folder for this module and its library, which are loaded now.
sub _leave_nothing_behind {
    my ($folder) = @_;
    @INC = grep { $_ ne $folder } @INC;
    delete $INC{'Devel/Drom.pm'};
    unlink "$folder/Devel/Drom.pm", "$folder/auto/Devel/Drom/Drom.so";
    rmdir for map { "$folder/$_" } qw(auto/Devel/Drom auto/Devel auto Devel), '';
    return;
}

1;

__END__

=head1 NAME

Devel::Drom - counts the calls and statements of a Perl program

=head1 SYNOPSIS

    perl -d:Drom script.pl               # writes drom.out
    perl -d:Drom=counts.out script.pl
    drom profile show drom.out

    drom profile --exact script.pl       # both at once

=head1 DESCRIPTION

Counts every call of every sub and every run of every statement that is compiled after this module, with the time that
each took by itself. The counts are a tree of the ways in which subs were reached, and a table of lines: their size does not
depend on how long the program runs. They are written when the interpreter ends, after all C<END> blocks. A process that
is forked counts for itself, into a file with its process number behind the name.

A program that ends by C<exec>, C<POSIX::_exit> or a signal writes nothing. Of several interpreters in a process (threads) the
one that has loaded this module is counted.

Time is wall-clock time, less what counting takes.

=cut
