package ModPerl::Global;
# Lists of END blocks by package.
use strict;
use warnings;

our $VERSION = '2.000012';

my %known;

sub special_list_register { my ($what, $package) = @_; $known{$what}{$package} = 1; return 1 }
sub special_list_call { return 1 }
sub special_list_clear { my ($what, $package) = @_; delete $known{$what}{$package}; return 1 }

1;

=head1 NAME

ModPerl::Global - END blocks by package

=head1 SYNOPSIS

    use ModPerl::Global ();
    ModPerl::Global::special_list_register(END => 'My::Package');

=head1 DESCRIPTION

The server itself keeps the END blocks of scripts and runs them after each request; these names remain for
code that calls them.

=cut
