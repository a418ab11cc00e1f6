package Ladder::Guestbook;
use strict;
use warnings;
use Apache2::RequestRec ();
use Apache2::RequestIO  ();
use Apache2::Const -compile => 'OK';
use CGI ();
use DBI ();

my $dbh;

# One connection per worker, opened by the first request: a handle must not cross a fork.
# Under SetHandler modperl %ENV has only what was there at startup; the request's environment has the rest.
sub database {
    my $r = shift;
    return $dbh if $dbh && $dbh->ping;
    my $folder = $r->subprocess_env('LADDER_DATA') || $ENV{LADDER_DATA} || own_folder();
    $dbh = DBI->connect("dbi:SQLite:dbname=$folder/guestbook.db", '', '',
        { RaiseError => 1, AutoCommit => 1 });
    $dbh->sqlite_busy_timeout(5_000);
    $dbh->do('PRAGMA synchronous = OFF');
    $dbh->do('CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, name TEXT, message TEXT)');
    return $dbh;
}

# A folder that somebody else made, or can write to, is not trusted.
sub own_folder {
    my $own = ($ENV{TMPDIR} || '/tmp') . "/drom-guestbook-$>";
    mkdir $own, 0700;
    my ($mode, $owner) = (lstat $own)[2, 4];
    die "$own is not a folder of this user's alone; set LADDER_DATA to one\n"
        unless -d _ && $owner == $> && !($mode & 022);
    return $own;
}

sub handler {
    my $r    = shift;
    my $q    = CGI->new($r);
    my $dbh  = database($r);
    my $name = $q->param('name');
    my $message = $q->param('message');
    if (defined $name && length $name) {
        $dbh->do('INSERT INTO entry (name, message) VALUES (?, ?)', undef, $name, $message);
        $dbh->do('DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - 20');
    }
    my $entries =
        $dbh->selectall_arrayref('SELECT name, message FROM entry ORDER BY id DESC LIMIT 5');
    $r->content_type('text/html; charset=utf-8');
    $r->print("<!doctype html>\n<title>Guest book</title>\n<h1>Guest book</h1>\n");
    $r->print(qq{<form method="get"><input name="name"><input name="message">}
        . qq{<button>Sign</button></form>\n<ul>\n});
    for my $entry (@$entries) {
        my ($who, $what) = map { $q->escapeHTML(defined $_ ? $_ : '') } @$entry;
        $r->print("<li><b>$who</b>: $what</li>\n");
    }
    $r->print("</ul>\n");
    return Apache2::Const::OK;
}

1;

=head1 NAME

Ladder::Guestbook - cgi-bin/guestbook.pl as a handler

=head1 DESCRIPTION

The same page from the same database, for GET. The database lies in the folder that the environment
variable C<LADDER_DATA> names, or else in one of this user's own among the temporary files.

=cut
