package Apache::StatINC;
# Modules loaded again when their files change.
use strict;
use warnings;

our $VERSION = '1.07';

my %SEEN;

# Loads again each module whose file has changed since it was loaded or looked at.
sub handler {
    for my $name (sort keys %INC) {
        my $file = $INC{$name};
        next if !defined $file || ref $file || $name !~ /\.pm\z/;
        my $time = (stat $file)[9] // next;
        my $known = $SEEN{$name} //= $^T;
        next if $time <= $known;
        $SEEN{$name} = $time;
        again($name);
    }
    return 0;
}

sub again {
    my ($name) = @_;
    my $old = delete $INC{$name};
    no warnings 'redefine';
    return if eval { require $name; 1 };
    $INC{$name} //= $old;
    warn "$name has changed but cannot be loaded: $@";
    return;
}

1;

=head1 NAME

Apache::StatINC - reload changed modules

=head1 SYNOPSIS

    # in the configuration: PerlInitHandler Apache::StatINC
    use Apache::StatINC ();
    Apache::StatINC::handler();

=head1 DESCRIPTION

For development. A module that no longer compiles stays as it was, with a warning.

=cut
