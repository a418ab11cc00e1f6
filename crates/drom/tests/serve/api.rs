//! What mod_perl's own objects say and do at start and around a request, as real mod_perl does.

use crate::support::Server;

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

const OLD: &str = "\
PerlModule Apache
<Location /old>
  SetHandler perl-script
  PerlHandler Old
</Location>
<Location /both>
  SetHandler perl-script
  PerlHandler Both
</Location>
<Location /new>
  SetHandler perl-script
  PerlResponseHandler Old
</Location>
";

/// A handler as mod_perl 1 sites have it.
const OLD_PM: &str = r#"package Old;
use strict;
use Apache::Constants qw(:common);
# ported from Apache2::Something
sub handler {
    my $r = shift;
    $r->send_http_header('text/plain');
    my %p = $r->args;
    my %h = $r->headers_in;
    my $text = 'by reference';
    $r->print(ref($r), ' ', join(',', map { "$_=$p{$_}" } sort keys %p), " $h{Host} ", \$text);
    my $file = Apache->gensym;
    open $file, '<', '/dev/null' or die $!;
    my $list = $r->get_handlers('PerlHandler');
    my $method = $r->cgi_var('REQUEST_METHOD');
    $r->print(' ', ref $file, " $method ", scalar(@$list), ref $list->[0]);
    $r->register_cleanup(sub { warn 'cleanup has ' . ref($_[0] // $r) });
    return OK;
}
1;
__END__
Apache2::RequestRec is not for us.
"#;

/// One that serves both generations runs as the second, which start-up code says this is.
const BOTH_PM: &str = r#"package Both;
BEGIN {
    if (($ENV{MOD_PERL_API_VERSION} // 0) == 2) { require Apache2::RequestRec }
    else { require Apache }
}
sub handler { my $r = shift; my @args = $r->args; $r->print(ref($r), " @args"); return 0 }
1;
"#;

#[test]
fn a_perl_handler_of_the_first_generation_gets_an_apache() {
    let server = Server::start(OLD, &[("lib/Old.pm", OLD_PM), ("lib/Both.pm", BOTH_PM)]);
    let old = server.get("/old?a=1&b=2").text();
    assert_eq!(old, "Apache a=1,b=2 test by reference GLOB GET 1CODE");
    assert!(server.logged("cleanup has Apache at"));
    assert_eq!(server.get("/both?a=1&b=2").text(), "Apache2::RequestRec a=1&b=2");
    let new = server.get("/new?a=1&b=2").text();
    assert!(new.starts_with("Apache2::RequestRec a=1&b=2= "), "{new}");
}

/// A module that says `no` when it is called, not when it is loaded.
const ABSENT_PL: &str = r"
use APR::Bucket (); use APR::Brigade (); use APR::Socket (); use Apache2::Filter ();
use Apache2::HookRun (); use Apache2::Directive (); use Apache2::PerlSections ();
use Apache2::Command (); use Apache2::Status ();
package My::Filter;
use base qw(Apache2::Filter);
sub upper : FilterRequestHandler { my $f = shift; 1 while $f->read(my $buffer); 0 }
package Absent;
sub try { my $code = shift; eval { $code->(); 1 } ? 'it worked' : $@ }
sub handler {
    my $r = shift;
    $r->print(
        try(sub { APR::Brigade->new($r->pool, $r->connection) }),
        try(sub { APR::Bucket::eos_create() }),
        try(sub { Apache2::Directive::conftree() }),
        try(sub { Apache2::PerlSections->dump }),
        try(sub { $r->run_fixups }),
        try(sub { $r->add_output_filter(\&My::Filter::upper) }),
        Apache2::Filter->can('read') ? 'can' : 'cannot');
    return 0;
}
1;
";

#[test]
fn what_is_not_there_can_be_loaded_and_says_so_when_called() {
    let config = "PerlRequire {}/lib/absent.pl\n<Location /absent>\nSetHandler modperl\n\
                  PerlResponseHandler Absent\n</Location>\n";
    let server = Server::start(config, &[("lib/absent.pl", ABSENT_PL)]);
    let said = server.get("/absent").text();
    let words = [
        "APR::Brigade::new",
        "APR::Bucket::eos_create",
        "Apache2::Directive::conftree",
        "Apache2::PerlSections::dump",
        "run_fixups",
        "add_output_filter",
    ];
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), words.len() + 1, "{said}");
    for (line, word) in lines.iter().zip(words) {
        assert!(line.contains(word) && line.contains("not supported by this server"), "{line}");
        assert!(line.contains("absent.pl line "), "{line}");
    }
    assert_eq!(lines[words.len()], "cannot");
}

/// Handlers for the life of a worker, pushed as mod_perl sites do in their start-up file.
const CHILD_PL: &str = r"package Child;
use Apache2::ServerUtil ();
our @said;
my $s = Apache2::ServerUtil->server;
sub named { push @said, 'named'; 0 }
$s->push_handlers(PerlChildInitHandler => sub {
    my ($pool, $server) = @_;
    push @said, ref($pool), $server->server_hostname, $$;
    $pool->cleanup_register(sub { warn qq{the pool of the child ends with $_[0]} }, 'this');
    0;
});
$s->push_handlers(PerlChildInitHandler => ['Child::named', sub { die q{no luck} }]);
$s->push_handlers(PerlChildInitHandler => \&named);
$s->push_handlers(ChildExitHandler => sub { warn qq{exit of @{[ref $_[1]]}, of $$} });
END { warn 'the end comes last' }
sub handler {
    my $r = shift;
    my $all = $s->get_handlers('PerlChildInitHandler');
    my $place = $said[2] == $$ ? 'here' : 'elsewhere';
    $r->print(join ' ', grep({ $_ ne $$ } @said), $place, scalar @$all,
        $s->push_handlers(PerlNoneHandler => 'x'));
    return 0;
}
1;
";

#[test]
fn handlers_for_the_start_and_the_end_of_a_worker() {
    let config = "ServerName www.example.org\nStartServers 1\nPerlRequire {}/lib/child.pl\n\
                  <Location /child>\nSetHandler modperl\nPerlResponseHandler Child\n</Location>\n";
    let mut server = Server::start(config, &[("lib/child.pl", CHILD_PL)]);
    let said = server.get("/child").text();
    assert_eq!(said, "APR::Pool::Own www.example.org named named here 4 0");
    assert!(server.logged("no luck"));
    assert_eq!(server.terminate(), Some(0));
    let log = server.error_log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text} is not in {log}"));
    assert!(at("ends with this") < at("exit of Apache2::ServerRec"), "{log}");
    assert!(at("exit of Apache2::ServerRec") < at("the end comes last"), "{log}");
}

#[test]
fn the_folder_of_the_server_ends_inc() {
    let config = "PerlRequire first.pl\nPerlModule Beside Deep\n<Location /inc>\n\
                  SetHandler modperl\nPerlResponseHandler Beside\n</Location>\n";
    let beside = "package Beside; sub handler { $_[0]->print(join qq{\\n}, @INC); 0 } 1;";
    let files = [
        ("first.pl", "$INC::first = \"@INC\"; 1;"),
        ("Beside.pm", beside),
        ("lib/perl/Deep.pm", "package Deep; 1;"),
    ];
    let server = Server::start(config, &files);
    let said = server.get("/inc").text();
    let root = server.dir.path().display().to_string();
    assert!(said.ends_with(&format!("\n{root}\n{root}/lib/perl")), "{said}");
    let bare = Server::start(config.replace(" Deep", "").as_str(), &files[..2]);
    let root = bare.dir.path().display().to_string();
    let said = bare.get("/inc").text();
    assert!(said.ends_with(&format!("\n{root}")), "{said}");
}

/// Fields and a status line, as the query says.
const HEADS_PL: &str = r"package Heads;
sub handler {
    my $r = shift;
    $r->content_type('text/plain');
    my $want = $r->args;
    $r->no_cache(1) if $want =~ /cached/;
    $r->no_cache(0) if $want eq 'cached-after-all';
    $r->headers_out->set(Expires => 'never') if $want eq 'own-cached';
    $r->status(404) if $want =~ /status/;
    $r->status_line('404 Gone fishing') if $want =~ /line/;
    $r->print($r->status);
    return $want =~ /return/ ? 404 : 0;
}
1;
";

fn heads() -> Server {
    let config = "PerlRequire {}/lib/heads.pl\n<Location /heads>\nSetHandler modperl\n\
                  PerlResponseHandler Heads\n</Location>\n";
    Server::start(config, &[("lib/heads.pl", HEADS_PL)])
}

#[test]
fn no_cache_sets_expires_too() {
    let server = heads();
    let fields = |query: &str| {
        let answer = server.get(&format!("/heads?{query}"));
        let field = |name: &str| answer.header(name).map(str::to_owned);
        let expires = field("Expires").map(|at| match Some(&at) == field("Date").as_ref() {
            true => "date".to_owned(),
            false => at,
        });
        [field("Pragma"), field("Cache-Control"), expires].map(Option::unwrap_or_default)
    };
    let texts = |all: [&str; 3]| all.map(str::to_owned);
    assert_eq!(fields("cached"), texts(["no-cache", "no-cache", "date"]));
    assert_eq!(fields("own-cached"), texts(["no-cache", "no-cache", "never"]));
    assert_eq!(fields("cached-after-all"), texts(["", "", ""]));
    assert_eq!(fields("cached-return"), texts(["", "", "date"]));
}

#[test]
fn a_status_line_alone_is_no_status() {
    let server = heads();
    for (query, line) in [
        ("line", "HTTP/1.1 200 OK"),
        ("line-status", "HTTP/1.1 404 Gone fishing"),
        ("line-return", "HTTP/1.1 404 Gone fishing"),
        ("status", "HTTP/1.1 404 Not Found"),
    ] {
        let answer = server.get(&format!("/heads?{query}"));
        assert_eq!(answer.head.lines().next(), Some(line), "{query}");
    }
}
