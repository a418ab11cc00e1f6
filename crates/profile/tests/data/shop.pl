package Shop;
sub price { my ($self, $n) = @_; my $sum = 0; $sum += $_ for 1 .. $n; return $sum }
sub total { my $self = shift; my $all = 0; $all += $self->price($_) for @_; return $all }
package main;
sub fib   { my $n = shift; return $n < 2 ? $n : fib( $n - 1 ) + fib( $n - 2 ) }
sub fails { Shop->price(1_000_000 * $ENV{SIZE}); die "no\n" }
sub over  { goto &fails }
sub text  { my $out = ''; $out .= "$_," =~ s/,/;/r for 1 .. 20 * $ENV{SIZE}; return $out }

my $shop = bless {}, 'Shop';
$shop->total( map { 1_000_000 * $ENV{SIZE} * $_ } 1 .. 3 ) for 1 .. 2;
fib(6);
eval { over() };
eval { fails() };
text() for 1 .. 2;
my @sorted = sort { $b <=> $a } 1 .. 5;
