package APR::Table;
# The Perl half of tables; make, get, set, add, merge, unset, clear, do and the tied hash are in the server.
use strict;
use warnings;

our $VERSION = '2.000012';

use constant { OVERLAP_TABLES_SET => 0, OVERLAP_TABLES_MERGE => 1 };

# tie my %hash, 'APR::Table', $table
sub TIEHASH {
    my ($class, $table) = @_;
    return tied(%$table) || $table;
}

sub SCALAR { return defined $_[0]->FIRSTKEY ? 1 : 0 }

# A new table with what this one has; the pool that mod_perl wants is of no use here.
sub copy {
    my ($table) = @_;
    my $copy = APR::Table::make();
    $copy->add($_->[0], $_->[1]) for pairs($table);
    return $copy;
}

# The other table's entries come first, so that get finds them, then this one's.
sub overlay {
    my ($table, $other) = @_;
    my $all = APR::Table::make();
    $all->add($_->[0], $_->[1]) for pairs($other), pairs($table);
    return $all;
}

# One entry a key: the last value, or all of them joined.
sub compress {
    my ($table, $how) = @_;
    my @pairs = pairs($table);
    $table->clear;
    put($table, $how, @$_) for @pairs;
    return;
}

# The other table's entries into this one.
sub overlap {
    my ($table, $other, $how) = @_;
    put($table, $how, @$_) for pairs($other);
    return;
}

sub put {
    my ($table, $how, $key, $value) = @_;
    return $how ? $table->merge($key, $value) : $table->set($key, $value);
}

sub pairs {
    my ($table) = @_;
    my @pairs;
    $table->do(sub { push @pairs, [@_]; 1 });
    return @pairs;
}

1;

=head1 NAME

APR::Table - ordered tables whose keys ignore case and may repeat

=head1 SYNOPSIS

    use APR::Table ();
    my $table = APR::Table::make();
    $table->add(Vary => 'Accept');
    $table->merge(vary => 'Cookie');
    print "$table->{VARY}\n";
    $table->do(sub { my ($key, $value) = @_; print "$key: $value\n"; 1 });

=head1 DESCRIPTION

C<get> in list context returns every value of a key. As a hash a table keeps its order; C<each> meets a
key as often as it stands there. Methods: C<make copy clear get set add merge unset do compress overlap
overlay>.

=cut
