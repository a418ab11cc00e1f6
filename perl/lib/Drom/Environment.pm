package Drom::Environment;
# Remembers the environment that the server was started with, before any code of a user runs.
use strict;
use warnings;

our $VERSION = '2.000012';
our %keep    = map { $_ => 1 } qw(PATH TZ MOD_PERL MOD_PERL_API_VERSION), split ' ',
    delete $ENV{DROM_KEEP_ENV} // '';
our %start = %ENV;

1;

=head1 NAME

Drom::Environment - the environment at the server's start

=head1 SYNOPSIS

    use Drom::Environment;
    print "the server was started with a HOME\n" if exists $Drom::Environment::start{HOME};

=head1 DESCRIPTION

Loaded first by the process that loads a server's Perl code. L<Drom::Environment::Forget> uses what is
remembered here.

=cut
