package Apache::Table;
# Tables of mod_perl 1.
use strict;
use warnings;

our $VERSION = '1.01';

use APR::Table ();

our @ISA = ('APR::Table');

# (class, r, size)
sub new { return APR::Table::make() }

1;

=head1 NAME

Apache::Table - tables of mod_perl 1

=head1 SYNOPSIS

    use Apache::Table ();
    my $table = Apache::Table->new(undef);
    $table->add(colour => 'blue');
    print "$table->{Colour}\n";

=head1 DESCRIPTION

Objects are APR::Table objects.

=cut
