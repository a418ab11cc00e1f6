# Scenes that profilers of Perl have told wrongly. `perl scenes.pl NAME` plays one: hold() says how
# it was called, by caller, and then runs on until somebody ends it.
use strict;
use warnings;
use feature 'lexical_subs';
use List::Util ();

$| = 1;
my $wanted = shift // '';

sub hold {
    my ( @seen, $depth );
    while ( my ($line) = ( caller( $depth++ // 0 ) )[2] ) {
        # Of a format it gives what cannot be copied.
        my $sub = eval { ( caller $depth )[3] } // 'main::HELD';
        push @seen, "$sub called at $line";
    }
    syswrite STDOUT, join "\n", @seen, ".\n";
    1 while 1;
}

sub named        { hold() }
sub Class::method { hold() }
sub by_number    { hold(); $a <=> $b }
sub named_too    { 1 }

package Text  { use overload '""' => \&as_text; sub as_text { main::hold() } }
package Tied  { sub TIESCALAR { bless [] } sub FETCH { main::hold() } }
package Ended { sub DESTROY { main::hold() } }
package EndedInDie { sub DESTROY { eval { main::hold() } } }
package Number { use overload '<=>' => sub { main::hold() } }
package Derived { our @ISA = 'Class'; sub method { my $class = shift; $class->SUPER::method } }
package Nested { sub TIEHASH { bless {} } sub FETCH { '' . bless [], 'Text' } }

package main;

sub in_begin { eval "BEGIN { hold() } 1" or die }
sub local_topic { for (1) { local $_ = 2; hold() } }
{ my $kept = 1; sub closes { my $own = $kept; return sub { $own++; hold() } } }
format HELD =
@<<<<
hold()
.

my %scene = (
    named     => sub { named() },
    method    => sub { Class->method },
    recursion => sub { my $again; $again = sub { $_[0] ? $again->( $_[0] - 1 ) : hold() }; $again->(60) },
    lexical   => sub { my sub inner { hold() } inner() },
    sort      => sub { my @sorted = sort by_number 2, 1 },
    sort_block => sub { my @sorted = sort { hold() } 2, 1 },
    overload  => sub { my $text = '' . bless [], 'Text' },
    tie       => sub { tie my $tied, 'Tied'; my $copy = $tied },
    destroy   => sub { my $ended = bless [], 'Ended'; undef $ended },
    eval_text => sub { eval "package Other; sub here { main::hold() }\nhere(); 1" or die },
    eval_block => sub { eval { hold(); 1 } or die },
    callback  => sub { List::Util::first { hold() } 1 },
    glob      => sub { no strict 'refs'; *{'main::assigned'} = sub { hold() }; assigned() },
    signal    => sub { local $SIG{USR1} = sub { hold() }; kill USR1 => $$; 1 while 1 },
    regex     => sub { 'ab' =~ /a(?{ hold() })b/ },
    warn      => sub { local $SIG{__WARN__} = sub { hold() }; warn 'x' },
    die       => sub { local $SIG{__DIE__} = sub { hold() }; die 'x' },
    goto      => sub { my $target = sub { hold() }; my $via = sub { goto &$target }; $via->() },
    begin     => sub { in_begin() },
    import    => sub { $INC{'Held.pm'} = 1; no warnings 'once'; *Held::import = sub { hold() }; eval "use Held; 1" or die },
    require   => sub { require "./tests/held.pl" },
    do_file   => sub { do "./tests/held.pl"; die $@ },
    format    => sub { open HELD, '>', \my $page; write HELD },
    local_topic => sub { local_topic() },
    closure   => sub { closes()->() },
    evals     => sub { eval { eval { eval "eval { hold() }; 1" or die; 1 } or die; 1 } or die },
    deep_sort => sub { my $by = sub { hold() }; my @sorted = map { sort $by 2, 1 } 1 },
    nested_tie => sub { tie my %tied, 'Nested'; my $copy = $tied{1} },
    map_block => sub { my @all = map { hold() } grep { named_too($_) } 1 },
    substitution => sub { ( my $text = 'a' ) =~ s/a/hold()/e },
    loop_label => sub { OUTER: for my $n ( 1 .. 2 ) { for (1) { hold(); next OUTER } } },
    die_in_destroy => sub { my $ended = bless [], 'EndedInDie'; eval { die 'x' } ; undef $ended },
    overload_sort => sub { my @sorted = sort { $a <=> $b } map { bless [$_], 'Number' } 2, 1 },
    constant_sub => sub { use constant ONE => 1; hold() if ONE },
    prototype => sub { sub block(&) { $_[0]->() } block { hold() } },
    can       => sub { my $method = Class->can('method'); Class->$method },
    next_method => sub { Derived->method },
    code_in_argument => sub { named_too( hold() ) },
    string_in_regex => sub { my $re = qr/a(?{ hold() })/; 'a' =~ $re },
    autoload  => sub { no strict 'refs'; *{'Auto::AUTOLOAD'} = sub { hold() }; Auto->missing },
);

sub play { $scene{$wanted}->() }
print "$^V\n" and exit if $wanted eq 'version';
print join( ' ', sort keys %scene ), "\n" and exit if !$wanted;
play();
