package APR::Error;
# Errors of APR as exceptions: a number with a text and a place.
use strict;
use warnings;

our $VERSION = '0.009000';

use overload
    nomethod => \&fallback, bool => sub { 1 }, '==' => \&equal, '!=' => sub { !equal(@_) },
    '0+' => sub { $_[0]{rc} }, '""' => \&str, 'eq' => sub { str($_[0]) eq "$_[1]" };

my %TEXT = (
    20014 => 'Internal error (specific information not available)',
    20023 => 'The given path was above the root path',
    70007 => 'The timeout specified has expired',
    70014 => 'End of file found',
    70023 => 'This function has not been implemented on this platform',
);

sub new { my ($class, %self) = @_; return bless {%self}, $class }

sub equal {
    my ($one, $other) = map { ref $_ && UNIVERSAL::isa($_, __PACKAGE__) ? $_->{rc} : $_ } @_[0, 1];
    return $one == $other;
}

sub fallback {
    my ($self, undef, undef, $operator) = @_;
    require Carp;
    Carp::croak("an APR::Error has no operator $operator");
}

sub rc { return $_[0]{rc} }
sub file { return $_[0]{file} }
sub line { return $_[0]{line} }
sub func { return $_[0]{func} }

# The text of a status: APR's own begin at 20000, system errors are errno.
sub strerror {
    my ($rc) = @_;
    return $TEXT{$rc} if $TEXT{$rc};
    return "APR error $rc" if $rc >= 20000;
    local $! = $rc;
    return "$!";
}

sub str {
    my ($self) = @_;
    my $text = ($self->{func} // 'APR') . ": ($self->{rc}) " . strerror($self->{rc});
    return defined $self->{file} ? "$text at $self->{file} line $self->{line}" : $text;
}

sub cluck { my ($self) = @_; require Carp; return Carp::cluck(ref $self ? $self->str : @_) }
sub confess { my ($self) = @_; require Carp; return Carp::confess(ref $self ? $self->str : @_) }

1;

=head1 NAME

APR::Error - an error of APR

=head1 SYNOPSIS

    use APR::Error ();
    my $error = APR::Error->new(rc => 2, func => 'open');
    print "$error\n" if $error == 2;

=head1 DESCRIPTION

Compares as a number, prints as a text: C<rc file line func strerror cluck confess>.

=cut
