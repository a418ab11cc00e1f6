//! What mod_perl's own objects say and do at start and around a request, as real mod_perl does.

mod support;

use support::Server;

const STARTED: &str = "\
ServerName www.example.org
ServerAdmin me@example.org
PerlRequire {}/lib/started.pl
PerlSetVar Foo bar
PerlAddVar Foo baz
<Location /app>
  SetHandler modperl
  PerlResponseHandler Started
  PerlSetVar Foo here
</Location>
";

/// Writes what the server says of itself while start-up code runs; its page says it again.
const STARTED_PL: &str = r"package Started;
use Apache2::ServerUtil (); use Apache2::ServerRec (); use Apache2::Process (); use Apache ();
my $pool = Apache2::ServerUtil->server->process->pool;
sub lines {
    my $s = shift;
    return join '', map { ($_ // 'undef') . qq{\n} } Apache2::ServerUtil::server_root(),
        Apache2::ServerUtil::server_root_relative($pool, 'lib'),
        Apache2::ServerUtil::server_root_relative($pool, 'a/.//../b/'),
        Apache2::ServerUtil::server_root_relative($pool),
        Apache2::ServerUtil::server_root_relative($pool, '/a/../b'),
        Apache->server_root_relative('conf'), $s->server_hostname, $s->server_admin,
        $s->error_fname, $s->timeout, $s->dir_config('Foo'),
        join('+', $s->dir_config->get('Foo')), $s->dir_config('None'), $s->is_virtual;
}
open my $file, '>', '{}/started' or die $!;
print $file lines(Apache2::ServerUtil->server), lines(Apache->server);
close $file;
sub handler { my $r = shift; $r->print(lines($r->server), $r->dir_config('Foo')); return 0 }
1;
";

#[test]
fn start_up_code_is_told_of_the_server() {
    let server = Server::start(STARTED, &[("lib/started.pl", STARTED_PL)]);
    let root = server.dir.path().display().to_string();
    let said = format!(
        "{root}\n{root}/lib\n{root}/b/\n{root}/\n/b\n{root}/conf\nwww.example.org\nme@example.org\n\
         {root}/error.log\n30000000\nbar\nbar+baz\nundef\n0\n"
    );
    let started = std::fs::read_to_string(server.path("started")).unwrap();
    assert_eq!(started, format!("{said}{said}"));
    assert_eq!(server.get("/app").text(), format!("{said}here"));
}
