package Drom::Constants;
# Makes constants from a text of groups (`group: NAME=value ...`) and exports them by name or group.
use strict;
use warnings;

use Carp ();

our $VERSION = '2.000012';

my %GROUPS;

# Defines every constant of the text in `class`.
sub define {
    my ($class, $text) = @_;
    my $group;
    for my $word (split ' ', $text) {
        if ($word =~ /^(\w+):$/) { $group = $1; next }
        my ($name, $value) = split /=/, $word, 2;
        add($class, $group, $name, $value =~ /^-?\d+\z/ ? 0 + $value : $value);
    }
    return;
}

sub add {
    my ($class, $group, $name, $value) = @_;
    push @{$GROUPS{$class}{$group}}, $name;
    no strict 'refs';
    return if defined &{"${class}::$name"};
    *{"${class}::$name"} = sub () { $value };
    return;
}

# A constant that belongs to a further group too.
sub alias {
    my ($class, $group, $name) = @_;
    return add($class, $group, $name, $class->can($name)->());
}

# The import of a module of constants: -compile defines only, which has been done already.
sub import_into {
    my ($class, $target, @names) = @_;
    my $only = @names && $names[0] eq '-compile' ? shift @names : '';
    @names = (':common') unless @names || $only;
    for my $name (map { expand($class, $_) } @names) {
        no strict 'refs';
        my $code = $class->can($name);
        Carp::croak("unknown ${class}:: constant $name") unless $code && $name =~ /^[A-Z]\w*\z/;
        *{"${target}::$name"} = $code unless $only;
    }
    return;
}

sub expand {
    my ($class, $name) = @_;
    my ($group) = $name =~ /^:(\w+)\z/ or return $name;
    my $names = $GROUPS{$class}{$group} or Carp::croak("unknown $class group `$group'");
    return @$names;
}

sub groups { my ($class) = @_; return $GROUPS{$class} }

1;

=head1 NAME

Drom::Constants - constants from a table

=head1 SYNOPSIS

    use Drom::Constants ();
    Drom::Constants::define('My::Const', 'sizes: SMALL=1 LARGE=2');
    Drom::Constants::import_into('My::Const', 'main', ':sizes');
    print main->can('LARGE')->(), "\n";

=head1 DESCRIPTION

Not for users: L<Apache2::Const>, L<APR::Const> and L<Apache::Constants> are made with it.

=cut
