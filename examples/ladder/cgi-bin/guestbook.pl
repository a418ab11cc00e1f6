#!/usr/bin/perl
# A guest book as many sites had one: CGI.pm form, DBI on SQLite, HTML out. The database lies in the folder
# that LADDER_DATA names, or else in one of this user's own among the temporary files.
use strict;
use warnings;
use CGI ();
use DBI ();

my $q = CGI->new;
my $folder = $ENV{LADDER_DATA} || own_folder();
my $dbh = DBI->connect("dbi:SQLite:dbname=$folder/guestbook.db", '', '',
    { RaiseError => 1, AutoCommit => 1 });
$dbh->sqlite_busy_timeout(5_000);
$dbh->do('PRAGMA synchronous = OFF');
$dbh->do('CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, name TEXT, message TEXT)');

my $name    = $q->param('name');
my $message = $q->param('message');
if (defined $name && length $name) {
    $dbh->do('INSERT INTO entry (name, message) VALUES (?, ?)', undef, $name, $message);
    $dbh->do('DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - 20');
}
my $entries = $dbh->selectall_arrayref('SELECT name, message FROM entry ORDER BY id DESC LIMIT 5');
$dbh->disconnect;

print $q->header(-type => 'text/html', -charset => 'utf-8');
print "<!doctype html>\n<title>Guest book</title>\n<h1>Guest book</h1>\n";
print qq{<form method="get"><input name="name"><input name="message"><button>Sign</button></form>\n<ul>\n};
for my $entry (@$entries) {
    my ($who, $what) = map { $q->escapeHTML(defined $_ ? $_ : '') } @$entry;
    print "<li><b>$who</b>: $what</li>\n";
}
print "</ul>\n";

# A folder that somebody else made, or can write to, is not trusted.
sub own_folder {
    my $own = ($ENV{TMPDIR} || '/tmp') . "/drom-guestbook-$>";
    mkdir $own, 0700;
    my ($mode, $owner) = (lstat $own)[2, 4];
    die "$own is not a folder of this user's alone; set LADDER_DATA to one\n"
        unless -d _ && $owner == $> && !($mode & 022);
    return $own;
}
