//! What real Perl applications lean on: modules in C, programs that are started, start-up files.

use std::process::Command;

use crate::support::Server;

const ONE_WORKER: &str = "StartServers 1\nMaxRequestWorkers 1\n";
const HEAD: &str = "print qq{Content-type: text/plain\\n\\n};";

#[test]
fn a_worker_that_crashes_is_reported_with_its_signal() {
    let crash = format!("{HEAD} kill SEGV => $$; sleep 5;");
    let server = Server::start(ONE_WORKER, &[("perl/crash.pl", &crash)]);
    assert_eq!(server.get("/registry/crash.pl").status, 500);
    assert!(server.logged("was killed by signal 11 (SIGSEGV) while it answered"));
}

/// As modules for httpd are: their functions call the server's.
const FOR_HTTPD: &str = "void ap_not_here(void); void boot_ForHttpd(void) { ap_not_here(); }\n";
const FOR_HTTPD_PM: &str = "package ForHttpd; require DynaLoader; our @ISA = 'DynaLoader';\n\
    bootstrap ForHttpd; 1;\n";

#[test]
fn a_module_in_c_that_wants_another_server_is_a_loading_error() {
    let uses = format!("use lib '{{}}/lib'; require ForHttpd; {HEAD} print 'never';");
    let tells = format!(
        "{HEAD} print join ' ', $ENV{{PERL_DL_NONLAZY}} // 'none', `echo \"$PERL_DL_NONLAZY.\"`, $$"
    );
    let files = [
        ("perl/uses.pl", uses.as_str()),
        ("perl/tells.pl", &tells),
        ("lib/ForHttpd.pm", FOR_HTTPD_PM),
        ("lib/auto/ForHttpd/for_httpd.c", FOR_HTTPD),
    ];
    let server = Server::start(ONE_WORKER, &files);
    let folder = server.path("lib/auto/ForHttpd");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "ForHttpd.so", "for_httpd.c"]).current_dir(folder);
    assert!(compiler.status().expect("a C compiler made this program").success());
    let before = server.get("/registry/tells.pl").text();
    assert!(before.starts_with("none .\n "), "{before}");
    for _ in 0..2 {
        assert_eq!(server.get("/registry/uses.pl").status, 500);
    }
    assert!(server.logged("undefined symbol: ap_not_here"));
    assert_eq!(server.get("/registry/tells.pl").text(), before, "the worker lives on");
}

/// Each environment of a program is memory that the next one gives back.
#[test]
fn starting_programs_does_not_grow_a_worker() {
    let script = format!(
        "sub pages {{ open my $f, '<', '/proc/self/statm'; (split ' ', <$f>)[1] }}\n\
         no warnings; my $before;\n\
         for my $i (1 .. 20_000) {{\n\
           $before = pages() if $i == 1000;\n\
           $ENV{{CHANGES}} = $i x 200; exec '/no/such/program';\n\
         }}\n\
         {HEAD} print pages() - $before;"
    );
    let server = Server::start(ONE_WORKER, &[("perl/many.pl", script.as_str())]);
    let pages: i64 = server.get("/registry/many.pl").text().parse().unwrap();
    assert!(pages < 1000, "{pages} pages more");
}

#[test]
fn the_line_number_of_a_request_is_its_own() {
    let script = format!(
        "{HEAD} my @said = $. // 'none'; read STDIN, my $x, 2; push @said, $. // 'none';\n\
         <STDIN>; push @said, $.; my @rest = <STDIN>; push @said, $.; print qq{{@said}};"
    );
    let server = Server::start(ONE_WORKER, &[("perl/lines.pl", script.as_str())]);
    for path in ["/registry/lines.pl", "/registry/lines.pl", "/perlrun/lines.pl"] {
        assert_eq!(server.connect().post(path, b"a\nb\nc\nd").text(), "none none 1 3", "{path}");
    }
}

const CHILD_PL: &str = r"
use Apache ();
Apache->push_handlers(PerlChildInitHandler => sub { warn qq{pushed @{[ref $_[1]]}\n} });
package Configured;
sub begin { warn qq{configured @{[$_[0]->isa(q{APR::Pool})]} @{[ref $_[1]]}\n} }
sub end { warn qq{ended\n} }
1;
";

#[test]
fn workers_begin_and_end_with_the_handlers_of_both_kinds() {
    let config = format!(
        "{ONE_WORKER}PerlRequire {{}}/lib/child.pl\n\
         PerlChildInitHandler Configured::begin\nPerlChildExitHandler Configured->end\n"
    );
    let mut server = Server::start(&config, &[("lib/child.pl", CHILD_PL)]);
    assert!(server.logged("pushed Apache2::ServerRec"));
    let log = server.error_log();
    assert!(log.contains("configured 1 Apache2::ServerRec"), "{log}");
    assert!(log.find("configured") < log.find("pushed"), "{log}");
    server.terminate();
    assert!(server.error_log().contains("ended"), "{}", server.error_log());
}

const HANDLER: &str = r#"package My;
use Apache2::ConnectionUtil (); use APR::Status (); use Apache2::SubProcess ();
my %do = (
    redirect => sub { $_[0]->err_headers_out->set(Location => 'http://example.org/<x>'); 302 },
    limit => sub { $_[0]->print(join ' ', $_[0]->get_limit_req_body, $_[0]->server->loglevel); 0 },
    languages => sub { $_[0]->content_languages(['en', 'de']); $_[0]->print('x'); 0 },
    config => sub {
        my $r = shift;
        $r->add_config(['PerlSetVar Y 2', q{PerlAddVar Y "3 4"}]);
        $r->print(join '|', $r->dir_config->get('Y'), $r->dir_config('X'));
        $r->print(eval { $r->add_config(['ForceType a/b']); 1 } ? 'set' : $@);
        0;
    },
    password => sub {
        my $r = shift;
        my @without = $r->get_basic_auth_pw;
        $r->auth_name('here');
        my @with = $r->get_basic_auth_pw;
        $r->auth_type('Digest');
        my @other = $r->get_basic_auth_pw;
        $r->print(join ' ', map { $_ // 'undef' } @without, @with, @other);
        0;
    },
    probes => sub {
        my ($r, $c) = ($_[0], $_[0]->connection);
        $c->pnotes(a => 1);
        $r->print(join ' ', map { $_ ? 'yes' : 'no' } $c->can('fileno'), $r->can('filter_register'),
            $r->can('filter_input'), $c->pnotes('a'), APR::Status::is_ENOENT(2));
        $r->print(eval { $r->lookup_uri('/'); 1 } || qq{\n$@});
        require Apache2::Status;
        $r->print(eval { Apache2::Status::handler($r); 1 } || $@);
        0;
    },
);
sub handler { my $r = shift; return $do{$r->args}->($r) }
1;
"#;

fn ask(what: &str) -> crate::support::Answer {
    let config = format!(
        "{ONE_WORKER}LimitRequestBody 777\nPerlModule My\n<Location /my>\nSetHandler modperl\n\
         PerlResponseHandler My\nPerlSetVar X 1\n</Location>\n"
    );
    let server = Server::start(&config, &[("lib/My.pm", HANDLER)]);
    let mut client = server.connect();
    client.send(&format!(
        "GET /my?{what} HTTP/1.1\r\nHost: test\r\nAuthorization: Basic Zm9vOmJhcg==\r\n\r\n"
    ));
    client.answer().unwrap()
}

#[test]
fn a_redirect_by_err_headers_out_names_its_place() {
    let answer = ask("redirect");
    assert_eq!(answer.header("Location"), Some("http://example.org/<x>"));
    assert!(answer.text().contains(r#"<a href="http://example.org/&lt;x&gt;">here"#));
}

#[test]
fn a_request_knows_its_limits_and_takes_lines_of_configuration() {
    assert_eq!(ask("limit").text(), "777 6");
    assert_eq!(ask("languages").header("Content-Language"), Some("en,de"));
    let config = ask("config").text();
    let refused = "ForceType in $r->add_config is not supported by this server; put it into the \
                   configuration file at";
    assert!(config.starts_with(&format!("2|3 4|1{refused}")), "{config}");
}

/// The password is for those who are to judge it: Basic, with a name.
#[test]
fn credentials_are_given_as_apache_gives_them() {
    assert_eq!(ask("password").text(), "500 undef 0 bar -1 undef");
}

#[test]
fn what_is_not_there_is_not_found_and_says_so_once() {
    let text = ask("probes").text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "no no no yes yes");
    assert!(
        lines[1].starts_with("$r->lookup_uri (a subrequest) is not supported by this server; use")
    );
    assert!(
        lines[2].starts_with("Apache2::Status is not supported by this server; print"),
        "{text}"
    );
}
