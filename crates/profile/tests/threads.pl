# Three threads in a sub each, and the main one in another. They end when standard input does.
use strict;
use warnings;
use threads;
use threads::shared;

my $over : shared = 0;

sub spin  { 1 for 1 .. 1000 }
sub one   { spin() until $over }
sub two   { my $text = ''; $text .= 'x' x 10, length $text > 1e5 and $text = '' until $over }
sub three { my %seen; $seen{ $_ % 7 }++ for 1 .. 1e9; }
sub waits { scalar <STDIN> }

$| = 1;
my @threads = map { threads->create($_) } qw(one two three);
$threads[2]->detach;
my $short = threads->create( sub { 1 } );
$short->join;
print "ready\n";
waits();
$over = 1;
$_->join for @threads[ 0, 1 ];
print "joined\n";
waits();
