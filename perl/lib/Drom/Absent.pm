package Drom::Absent;
# For modules of mod_perl whose work this server does not do: they can be loaded, and a call dies with
# a message that names it, its place and what to do instead.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';
our $AUTOLOAD;

# Every sub and method of a package that it has not itself.
sub all {
    my ($class, $instead) = @_;
    no strict 'refs';
    *{"${class}::AUTOLOAD"} = sub {
        my $name = $AUTOLOAD;
        Drom::Request::unsupported($name, $instead) unless $name =~ /::DESTROY\z/;
    };
    return;
}

# These methods of a class of ours.
sub methods {
    my ($class, $instead, @names) = @_;
    no strict 'refs';
    for my $name (grep { !defined &{"${class}::$_"} } @names) {
        *{"${class}::$name"} = sub { Drom::Request::unsupported("${class}::$name", $instead) };
    }
    return;
}

1;

=head1 NAME

Drom::Absent - modules that can be loaded and do nothing

=head1 SYNOPSIS

    use Drom::Absent ();
    Drom::Absent::all('My::Kettle', 'use a pan');
    eval { My::Kettle->boil };
    print $@;

=head1 DESCRIPTION

Not for users. Start-up files of mod_perl sites load modules that no request may ever need.

=cut
