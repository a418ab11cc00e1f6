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
    while ( my ( undef, $file, $line, $sub ) = caller( $depth++ // 0 ) ) {
        push @seen, "$sub called at $line";
    }
    print map( {"$_\n"} @seen ), ".\n";
    1 while 1;
}

sub named        { hold() }
sub Class::method { hold() }
sub by_number    { hold(); $a <=> $b }

package Text  { use overload '""' => \&as_text; sub as_text { main::hold() } }
package Tied  { sub TIESCALAR { bless [] } sub FETCH { main::hold() } }
package Ended { sub DESTROY { main::hold() } }

package main;

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
    autoload  => sub { no strict 'refs'; *{'Auto::AUTOLOAD'} = sub { hold() }; Auto->missing },
);

sub play { $scene{$wanted}->() }
print join( ' ', sort keys %scene ), "\n" and exit if !$wanted;
play();
