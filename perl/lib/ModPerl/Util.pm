package ModPerl::Util;
# exit() of the server itself, and what is known of the running handler. `exit` is the server's.
use strict;
use warnings;

our $VERSION = '2.000012';

sub current_callback { return 'PerlResponseHandler' }
sub current_perl_id { return sprintf '%d:0x%x', $$, 0 }
sub untaint { for (@_) { ($_) = /\A(.*)\z/s if defined } return }

# Forgets everything in a package, not in the packages inside of it.
sub unload_package {
    my ($package) = @_;
    no strict 'refs';
    my $stash = \%{"${package}::"};
    delete $stash->{$_} for grep { !/::\z/ } keys %$stash;
    (my $file = "$package.pm") =~ s{::}{/}g;
    delete $INC{$file};
    return;
}

sub unload_package_xs { goto &unload_package }

1;

=head1 NAME

ModPerl::Util - leave a handler, forget a package

=head1 SYNOPSIS

    use ModPerl::Util ();
    { package My::Short; our $x = 1; sub f { 2 } }
    ModPerl::Util::unload_package('My::Short');
    print My::Short->can('f') ? "still here\n" : "gone\n";

=head1 DESCRIPTION

C<ModPerl::Util::exit> ends the running handler, as does Perl's own C<exit>, which needs no replacement
here: neither is caught by an C<eval>.

=cut
