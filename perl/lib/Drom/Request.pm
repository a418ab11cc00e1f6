package Drom::Request;
# What the public modules share: values that live as long as one request, and clear refusals.
use strict;
use warnings;

use Carp ();

our $VERSION = '2.000012';

# Numbers of `enum drom_command` in shim.h.
use constant {
    REDIRECT => 0, CUSTOM_RESPONSE => 1, RETIRE => 2, ASSBACKWARDS => 3, PRELOAD => 4, SEND_HEAD => 5,
};

my ($owner, %values) = (0);

# A hash for values that Perl keeps beside a request. Emptied when another request asks.
sub values_of {
    my $id = ${plain($_[0])};
    my $now = current();
    Carp::croak('this request is over: a request object must not be kept beyond its request')
        unless $now && $$now == $id;
    if ($id != $owner) {
        %values = ();
        $owner = $id;
    }
    return \%values;
}

# Our object inside of a subclass that wraps it in a hash.
sub plain {
    my $r = shift;
    return $r if ref $r && UNIVERSAL::isa($r, 'SCALAR');
    if (UNIVERSAL::isa($r, 'HASH')) {
        my $inner = $r->{r} // $r->{_r};
        return $inner if UNIVERSAL::isa($inner, 'SCALAR');
    }
    return current() // Carp::croak('no request is being answered');
}

# A get-and-set method over values_of.
sub kept {
    my ($r, $name, @new) = @_;
    my $values = values_of($r);
    my $old = $values->{$name};
    $values->{$name} = $new[0] if @new;
    return $old;
}

# Dies with the place in the user's code, not in one of our modules.
sub unsupported {
    my ($what, $instead) = @_;
    my ($level, @place) = (0);
    do { @place = caller $level++ } while @place && $place[1] =~ m{^drom/.*\.pm\z};
    @place = caller 0 unless @place;
    my $text = "$what is not supported by this server" . (defined $instead ? "; $instead" : '');
    die "$text at $place[1] line $place[2].\n";
}

1;

=head1 NAME

Drom::Request - what the modules around $r share

=head1 SYNOPSIS

    use Drom::Request ();
    eval { Drom::Request::unsupported('Brewing', 'use a kettle') };
    print $@;

=head1 DESCRIPTION

Not for users. C<values_of($r)> is a hash that is new for each request, C<kept> an accessor over it,
C<plain> finds the request object in a subclass, C<unsupported> dies with a message that says what to do.

=cut
