//! Answers beside those of Apache with mod_cgi and mod_perl: each test holds one thing that was
//! once wrong.
//! The expected texts are what Apache 2.4 with mod_perl 2.0.12 sends for the same files.

use crate::support::Server;

const PLAIN: &str = "print \"Content-type: text/plain\\n\\n\";\n";
const LOCATION: &str = "print \"X-Kept: yes\\nContent-type: text/plain\\n\
    Location: $ENV{QUERY_STRING}\\n\\nbody\\n\";\n";
const SHOW_ENV: &str = "print \"Content-type: text/plain\\n\\n\"; \
    print \"$_=$ENV{$_}\\n\" for sort keys %ENV;\n";
const HANDLERS: &str = "package My::Answers; use Apache2::RequestRec (); use Apache2::RequestIO ();
sub handler { my $r = shift; my ($do, $n) = split /,/, $r->args; $r->content_type('text/plain');
  if ($do eq 'return') { return $n }
  if ($do eq 'print') { $r->print(\"printed\\n\"); return $n }
  if ($do eq 'status') { $r->status($n); $r->print(\"printed\\n\"); return 0 }
  if ($do eq 'env') { print \"$_=$ENV{$_}\\n\" for sort keys %ENV; return 0 }
  die \"no such thing\\n\" }
1;\n";
const HANDLER_AT: &str = "<Location /h>\nSetHandler perl-script\n\
    PerlResponseHandler My::Answers\n</Location>\n\
    <Location /modperl>\nSetHandler modperl\nPerlResponseHandler My::Answers\n</Location>\n";

fn cgi(text: &str) -> String {
    format!("#!/usr/bin/perl\n{text}")
}

#[test]
fn a_cgi_script_knows_its_file_whatever_the_length_of_the_name() {
    let text =
        cgi(&format!("{PLAIN}print __FILE__, '|', $0, '|'; eval {{ die 'x' }}; print $@;\n"));
    for name in ["a.pl".to_owned(), format!("{}.pl", "long".repeat(50))] {
        let file = format!("cgi-bin/{name}");
        let server = Server::start("", &[(&file, &text)]);
        let path = server.path(&file).to_str().unwrap().to_owned();
        for _ in 0..2 {
            let answer = server.get(&format!("/cgi-bin/{name}"));
            assert_eq!(answer.text(), format!("{path}|{path}|x at {path} line 3.\n"));
        }
    }
}

#[test]
fn cgi_scripts_find_the_signals_that_programs_start_with() {
    let perl = cgi(&format!(
        "{PLAIN}print join ',', map {{ \"$_=$SIG{{$_}}\" }} \
        grep {{ $SIG{{$_}} }} sort keys %SIG;\n"
    ));
    let shell = "#!/bin/sh\necho 'Content-type: text/plain'; echo\n\
        grep -E '^Sig(Ign|Blk)' /proc/self/status\n";
    let server = Server::start("", &[("cgi-bin/s.pl", &perl), ("cgi-bin/s.sh", shell)]);
    for _ in 0..2 {
        // Perl ignores SIGFPE from its start (perlport, PERL_FPU_INIT); everything else is as
        // usual.
        assert_eq!(server.get("/cgi-bin/s.pl").text(), "FPE=IGNORE");
    }
    let text = server.get("/cgi-bin/s.sh").text();
    for line in text.lines() {
        let mask = line.split_whitespace().last().and_then(|m| u64::from_str_radix(m, 16).ok());
        // From 32 on they are the C library's own.
        assert_eq!(mask.map(|m| m & 0x7fff_ffff), Some(0), "{text}");
    }
}

#[test]
fn what_a_cgi_script_says_on_stderr_is_in_the_error_log() {
    let shell = "#!/bin/sh\necho from the shell >&2\nprintf 'Content-type: text/plain\\n\\n'\n";
    let perl = cgi(&format!("warn 'from perl'; {PLAIN}"));
    let server = Server::start("", &[("cgi-bin/a.sh", shell), ("cgi-bin/a.pl", &perl)]);
    assert_eq!(server.get("/cgi-bin/a.sh").status, 200);
    assert_eq!(server.get("/cgi-bin/a.pl").status, 200);
    assert!(server.logged("from the shell") && server.logged("from perl at"));
    // As logrotate does it.
    std::fs::rename(server.path("error.log"), server.path("error.log.1")).unwrap();
    assert_eq!(server.reload().0, 0);
    assert_eq!(server.get("/cgi-bin/a.sh").status, 200);
    assert_eq!(server.get("/cgi-bin/a.pl").status, 200);
    assert!(server.logged("from the shell") && server.logged("from perl at"), "in the new log");
}

#[test]
fn a_script_knows_its_own_name_in_every_tier() {
    let script = format!("#!/usr/bin/perl\n{PLAIN}print $0;\n");
    let server = Server::start("", &[("perl/name.pl", &script), ("cgi-bin/name.pl", &script)]);
    for (path, file) in [
        ("/registry/name.pl", "perl/name.pl"),
        ("/perlrun/name.pl", "perl/name.pl"),
        ("/cgi-bin/name.pl", "cgi-bin/name.pl"),
    ] {
        for _ in 0..2 {
            assert_eq!(server.get(path).text(), server.path(file).to_str().unwrap(), "{path}");
        }
    }
}

#[test]
fn an_error_document_that_takes_its_time_keeps_the_status() {
    let slow = cgi(&format!(
        "$| = 1; {PLAIN}print \"a\\n\"; select undef, undef, undef, 0.1; print \"b\\n\";\n"
    ));
    let server =
        Server::start("ErrorDocument 404 /cgi-bin/slow.pl\n", &[("cgi-bin/slow.pl", &slow)]);
    for _ in 0..3 {
        let answer = server.get("/nothing");
        assert_eq!((answer.status, &answer.text()[..]), (404, "a\nb\n"));
    }
}

#[test]
fn a_module_finds_what_begin_did_before_it_was_loaded() {
    let script = cgi(&format!(
        "BEGIN {{ $ENV{{POSIXLY_CORRECT}} = 1 }} use Getopt::Long; @ARGV = qw(a -v);\n\
         GetOptions(v => \\my $v); {PLAIN}print $v // 'none';\n"
    ));
    let later = cgi(&format!(
        "require Storable if $ENV{{QUERY_STRING}}; \
         {PLAIN}print $INC{{'Storable.pm'}} ? 1 : 0;\n"
    ));
    let files = [("cgi-bin/early.pl", &script[..]), ("cgi-bin/later.pl", &later)];
    let server = Server::start("", &files);
    for _ in 0..3 {
        assert_eq!(server.get("/cgi-bin/early.pl").text(), "none");
        assert_eq!(server.get("/cgi-bin/later.pl?x").text(), "1");
        assert_eq!(server.get("/cgi-bin/later.pl").text(), "0");
    }
}

/// Getopt::Long looks at POSIXLY_CORRECT when it is loaded.
#[test]
fn a_module_that_is_loaded_ahead_finds_what_is_set_for_its_script() {
    let script = cgi(&format!(
        "use Getopt::Long; @ARGV = qw(a -v); GetOptions(v => \\my $v);\n\
         {PLAIN}print $v // 'none', $ENV{{POSIXLY_CORRECT}} // '';\n"
    ));
    let files = [("cgi-bin/posix.pl", &script[..]), ("cgi-bin/usual.pl", &script)];
    let config = "<Location /cgi-bin/posix.pl>\nSetEnv POSIXLY_CORRECT 7\n</Location>\n";
    for preload in ["", "DromCGIPreload Getopt::Long\n"] {
        let config = format!("{config}{preload}");
        let server = Server::start_by(&["env", "POSIXLY_CORRECT=server"], &config, &files);
        for _ in 0..3 {
            assert_eq!(server.get("/cgi-bin/usual.pl").text(), "1", "{preload}");
            assert_eq!(server.get("/cgi-bin/posix.pl").text(), "none7", "{preload}");
        }
    }
}

#[test]
fn a_registry_can_be_made_out_of_aliases() {
    let class = "package MyReg; use strict; use base qw(ModPerl::RegistryCooker);\n\
        sub handler : method { my $class = (@_ >= 2) ? shift : __PACKAGE__; my $r = shift;\n\
          return $class->new($r)->default_handler() }\n\
        my $parent = 'ModPerl::RegistryCooker';\n\
        __PACKAGE__->install_aliases({ map { my ($k, $v) = split /=/; $k => $parent . \"::$v\" }\n\
          qw(new=new init=init default_handler=default_handler run=run can_compile=can_compile\n\
            make_namespace=make_namespace namespace_root=namespace_root is_cached=is_cached\n\
            namespace_from=namespace_from_filename should_compile=should_compile_if_modified\n\
            flush_namespace=NOP cache_table=cache_table_common cache_it=cache_it\n\
            read_script=read_script shebang_to_perl=shebang_to_perl chdir_file=NOP\n\
            get_script_name=get_script_name get_mark_line=get_mark_line compile=compile\n\
            error_check=error_check strip_end_data_segment=strip_end_data_segment\n\
            convert_script_to_compiled_handler=convert_script_to_compiled_handler) });\n1;\n";
    let config = "PerlModule MyReg\nAlias /my/ {}/perl/\n<Location /my>\nSetHandler perl-script\n\
        PerlResponseHandler MyReg\nOptions +ExecCGI\nPerlOptions +ParseHeaders\n</Location>\n";
    let script = format!("my $n; {PLAIN}print ++$n, \" $0\";\n");
    let server = Server::start(config, &[("lib/MyReg.pm", class), ("perl/a.pl", &script)]);
    let expected = format!("1 {}", server.path("perl/a.pl").display());
    for _ in 0..2 {
        assert_eq!(server.get("/my/a.pl").text(), expected);
    }
}

#[test]
fn programs_that_registry_starts_can_be_interrupted() {
    let script = format!("{PLAIN}print `grep SigIgn /proc/self/status`;\n");
    let server = Server::start("", &[("perl/signals.pl", &script)]);
    let text = server.get("/registry/signals.pl").text();
    let mask = text.split_whitespace().last().and_then(|m| u64::from_str_radix(m, 16).ok());
    let bit = |signal: i32| 1 << (signal - 1);
    let asked = bit(libc::SIGINT) | bit(libc::SIGHUP) | bit(libc::SIGTERM);
    assert_eq!(mask.map(|mask| mask & asked), Some(0), "{text}");
}

#[test]
fn a_cgi_script_can_redirect_to_a_perl_handler_and_fail_into_one() {
    let files = [
        ("cgi-bin/to.pl", cgi(LOCATION)),
        ("cgi-bin/bad.pl", cgi("print \"no head\\n\";\n")),
        ("perl/hello.pl", format!("{PLAIN}print \"from Registry\\n\";\n")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, &t[..])).collect();
    let server = Server::start("ErrorDocument 500 /registry/hello.pl\n", &files);
    let mut client = server.connect();
    for _ in 0..3 {
        let answer = client.get("/cgi-bin/to.pl?/registry/hello.pl");
        assert_eq!((answer.status, &answer.text()[..]), (200, "from Registry\n"));
        assert_eq!(answer.header("X-Kept"), Some("yes"));
        let answer = client.get("/cgi-bin/bad.pl");
        assert_eq!((answer.status, &answer.text()[..]), (500, "from Registry\n"));
    }
}

#[test]
fn a_location_elsewhere_is_a_redirect_with_its_standard_page() {
    let script = cgi(LOCATION);
    let server = Server::start("", &[("cgi-bin/to.pl", &script), ("perl/to.pl", LOCATION)]);
    for place in ["/cgi-bin", "/registry", "/perlrun"] {
        let answer = server.get(&format!("{place}/to.pl?http://example.com/"));
        assert_eq!(answer.status, 302);
        assert_eq!(answer.header("Location"), Some("http://example.com/"));
        assert_eq!(answer.header("Content-Type"), Some("text/html; charset=iso-8859-1"));
        assert!(answer.text().contains("<a href=\"http://example.com/\">here</a>"));
    }
}

#[test]
fn an_error_document_is_told_what_went_before() {
    let script = cgi(SHOW_ENV);
    let config = format!(
        "{HANDLER_AT}SetEnv SITE here\nErrorDocument 404 /cgi-bin/env.pl?x\n\
         ErrorDocument 500 /cgi-bin/env.pl\n"
    );
    let server =
        Server::start(&config, &[("cgi-bin/env.pl", &script), ("lib/My/Answers.pm", HANDLERS)]);
    let text = server.connect().post("/nothing?q", b"a=b").text();
    for line in [
        "REDIRECT_STATUS=404",
        "REDIRECT_URL=/nothing",
        "REDIRECT_QUERY_STRING=q",
        "REDIRECT_REQUEST_METHOD=POST",
        "REDIRECT_SITE=here",
        "REQUEST_METHOD=GET",
        "QUERY_STRING=x",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    let text = server.get("/h?die").text();
    assert!(text.contains("REDIRECT_ERROR_NOTES=no such thing"), "{text}");
    assert!(text.contains("REDIRECT_GATEWAY_INTERFACE=CGI/1.1\n"), "{text}");
}

#[test]
fn what_is_no_status_never_reaches_the_client() {
    let server = Server::start(HANDLER_AT, &[("lib/My/Answers.pm", HANDLERS)]);
    for place in ["/h", "/modperl"] {
        for what in
            ["return,42", "return,999", "return,-7", "status,0", "status,42", "status,70000"]
        {
            let answer = server.get(&format!("{place}?{what}"));
            assert_eq!(answer.status, 500, "{what}: {}", answer.head);
        }
        let answer = server.get(&format!("{place}?print,200"));
        assert_eq!((answer.status, &answer.text()[..]), (200, "printed\n"));
        assert_eq!(answer.header("Content-Type"), Some("text/plain"));
    }
}

#[test]
fn each_tier_gets_its_own_variables_only() {
    let script = cgi(SHOW_ENV);
    let files = [
        ("cgi-bin/env.pl", &script[..]),
        ("perl/env.pl", SHOW_ENV),
        ("lib/My/Answers.pm", HANDLERS),
    ];
    let config = format!("{HANDLER_AT}PerlSetEnv FOR_PERL 1\nSetEnv FOR_ALL 1\n");
    let server = Server::start(&config, &files);
    let cgi = server.get("/cgi-bin/env.pl").text();
    assert!(cgi.contains("FOR_ALL=1\n") && !cgi.contains("FOR_PERL"), "{cgi}");
    assert!(cgi.contains("CONTEXT_PREFIX=/cgi-bin/\n"), "{cgi}");
    let folder = server.path("cgi-bin").to_str().unwrap().to_owned();
    assert!(cgi.contains(&format!("CONTEXT_DOCUMENT_ROOT={folder}/\n")), "{cgi}");
    let registry = server.get("/registry/env.pl").text();
    assert!(registry.contains("FOR_ALL=1\n") && registry.contains("FOR_PERL=1\n"), "{registry}");
}

#[test]
fn scripts_are_run_in_their_folder_by_a_user_who_may_not_enter_the_servers() {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not tested: only root can become another user");
        return;
    }
    let config = "User nobody\nStartServers 1\nMaxRequestWorkers 1\nAlias /prefork/ {}/perl/\n\
        <Location /prefork>\nSetHandler perl-script\nOptions +ExecCGI\nPerlOptions +ParseHeaders\n\
        PerlResponseHandler ModPerl::RegistryPrefork\n</Location>\n";
    let script = format!("{PLAIN}require Cwd; print Cwd::getcwd(), ' ', $$;\n");
    let enter = "mkdir -m 700 {}/mine && cd {}/mine && exec \"$@\"";
    let server = Server::start_by(&["sh", "-c", enter, "sh"], config, &[("perl/cwd.pl", &script)]);
    let first = server.get("/prefork/cwd.pl").text();
    assert!(first.starts_with(&server.path("perl").display().to_string()), "{first}");
    assert_eq!(server.get("/prefork/cwd.pl").text(), first, "the worker lives on");
}

#[test]
fn a_cgi_request_that_waited_for_its_place_has_the_head_of_its_script() {
    let script = cgi("select undef, undef, undef, 0.2; \
        print \"Status: 404 Not here\\nContent-type: text/x-waited\\n\\n$$\\n\";\n");
    let config = "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 1\n";
    let server = Server::start(config, &[("cgi-bin/slow.pl", &script)]);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /cgi-bin/slow.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for client in &mut clients {
        let answer = client.answer().unwrap();
        assert_eq!(answer.status, 404, "{}", answer.head);
        assert_eq!(answer.header("Content-Type"), Some("text/x-waited"));
    }
}

#[test]
fn words_of_a_query_are_safe_for_a_shell() {
    let script = cgi(&format!("{PLAIN}print join '|', @ARGV;\n"));
    let server = Server::start("", &[("cgi-bin/args.pl", &script)]);
    assert_eq!(server.get("/cgi-bin/args.pl?a+b%20c+$(x)").text(), "a|b c|\\$\\(x\\)");
}

#[test]
fn perl_run_frees_a_script_with_subs() {
    let script = "my %seen; our @numbers = (1 .. 2000);\nsub one { $seen{$_[0]}++; two($_[0]) }\n\
        sub two { $_[0] * 2 + scalar keys %seen }\none($_) for 1 .. 20;\n\
        open my $f, '<', '/proc/self/statm'; my ($pages) = (split ' ', <$f>)[1];\n\
        print \"Content-type: text/plain\\n\\n$pages\\n\";\n";
    let server =
        Server::start("StartServers 1\nMaxRequestWorkers 1\n", &[("perl/subs.pl", script)]);
    let mut client = server.connect();
    let mut pages = |times: usize| -> u64 {
        (0..times)
            .map(|_| client.get("/perlrun/subs.pl").text())
            .last()
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    let before = pages(50);
    let after = pages(300);
    assert!(after < before + 500, "{} pages kept by 300 requests", after - before);
}

/// The usual way to switch a script off.
#[test]
fn a_cgi_script_without_its_x_is_not_run() {
    let server = Server::start("", &[("cgi-bin/off.pl", &cgi(&format!("{PLAIN}print 1;\n")))]);
    assert_eq!(
        (server.get("/cgi-bin/off.pl").status, server.get("/cgi-bin/off.pl").status),
        (200, 200)
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(server.path("cgi-bin/off.pl"), mode).unwrap();
    assert_ne!(server.get("/cgi-bin/off.pl").status, 200);
}

#[test]
fn a_worker_that_retires_cuts_nobody_off() {
    let script = cgi(&format!("{PLAIN}print \"cgi\\n\";\n"));
    let flushed =
        cgi(&format!("$| = 1; {PLAIN}select undef, undef, undef, 0.05; print \"cgi\\n\";\n"));
    let files = [
        ("cgi-bin/a.pl", &script[..]),
        ("cgi-bin/b.pl", &flushed[..]),
        ("perl/a.pl", &format!("{PLAIN}print \"registry\\n\";\n")[..]),
    ]
    .map(|(n, t)| (n, t.to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, &t[..])).collect();
    let server =
        Server::start("StartServers 2\nMaxRequestWorkers 2\nMaxConnectionsPerChild 3\n", &files);
    let paths = ["/cgi-bin/a.pl", "/cgi-bin/b.pl", "/registry/a.pl", "/registry/a.pl"];
    std::thread::scope(|scope| {
        for path in paths {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for _ in 0..40 {
                    let answer = client.get(path); // panics when none comes
                    assert_eq!(answer.status, 200);
                    if answer.header("Connection") == Some("close") {
                        client = server.connect();
                    }
                }
            });
        }
    });
}

#[test]
fn handlers_do_not_see_the_environment_of_the_server() {
    let handler = "package Env; sub handler { my $r = shift; $r->content_type('text/plain');\n\
        $r->print(join ',', sort keys %ENV); return 0 } 1;\n";
    let config = "PerlSetEnv GIVEN yes\nPerlPassEnv CARGO_PKG_NAME\nPerlRequire {}/startup.pl\n\
        PerlModule Env\n\
        <Location /env>\nSetHandler modperl\nPerlResponseHandler Env\n</Location>\n";
    let files = [("lib/Env.pm", handler), ("startup.pl", "$ENV{HOME} = '/changed'; 1;\n")];
    let server = Server::start(config, &files);
    let names = server.get("/env").text();
    assert_eq!(names, "CARGO_PKG_NAME,GIVEN,HOME,MOD_PERL,MOD_PERL_API_VERSION,PATH");
}

#[test]
fn what_a_request_keeps_of_its_body_when_it_becomes_another() {
    let script =
        cgi("print \"Content-type: text/plain\\n\\n\", map({ \"$_=$ENV{$_}\\n\" } keys %ENV), \
         'BODY=', <STDIN>, \"\\n\";\n");
    let handler = "package My::Away; use Apache2::SubRequest (); sub handler { my $r = shift;
        my ($to, $read) = split /,/, $r->args; $r->read(my $some, $read) if $read;
        die \"boom\\n\" if $to eq 'die'; $r->internal_redirect($to); return 0 } 1;\n";
    let config = "ErrorDocument 404 /cgi-bin/env.pl?x\nErrorDocument 500 /cgi-bin/env.pl?x\n\
        <Location /h>\nSetHandler modperl\nPerlResponseHandler My::Away\n</Location>\n";
    let files = [
        ("cgi-bin/env.pl", script),
        ("cgi-bin/bad.pl", cgi("<STDIN>; print \"no head\\n\";\n")),
        ("cgi-bin/to.pl", cgi(LOCATION)),
        ("lib/My/Away.pm", handler.to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, &t[..])).collect();
    let server = Server::start(config, &files);
    let large = "y".repeat(200_000);
    for (path, body, method, length, rest) in [
        ("/nothing", "hello", "GET", Some("5"), "hello"),
        ("/nothing", &large, "GET", Some("200000"), &large),
        ("/h?die", "hello", "GET", Some("5"), "hello"),
        ("/h?die,2", "hello", "GET", Some("5"), "llo"),
        ("/h?die,100000", &large, "GET", Some("200000"), &large[100_000..]),
        ("/cgi-bin/bad.pl", "hello", "GET", Some("5"), ""),
        ("/cgi-bin/to.pl?/cgi-bin/env.pl", "hello", "GET", None, ""),
        ("/h?/cgi-bin/env.pl", "hello", "POST", Some("5"), "hello"),
        ("/h?/cgi-bin/env.pl,2", "hello", "POST", Some("5"), "llo"),
    ] {
        let text = server.connect().post(path, body.as_bytes()).text();
        let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name));
        assert_eq!(value("REQUEST_METHOD="), Some(method), "{path}");
        assert_eq!(value("CONTENT_LENGTH="), length, "{path}");
        assert!(value("BODY=") == Some(rest), "{path}: {:?}", value("BODY=").map(str::len));
    }
}

#[test]
fn a_perl_handler_can_ask_what_led_to_it() {
    let script = "my $r = shift; $r->content_type('text/plain'); my $p = $r->prev;
        print 'none' unless $p; exit unless $p;
        print join '|', $p->uri, $p->status, $p->args, $p->method, $p->the_request,
            $r->unparsed_uri, $p->unparsed_uri, $p->filename,
            $p->notes->get('error-notes') // '', $p->next == $r,
            $p->headers_in->get('X-Test'), $p->subprocess_env('QUERY_STRING') // '',
            defined $p->prev ? 1 : 0, $r->is_initial_req;\n";
    let config = format!(
        "{HANDLER_AT}ErrorDocument 404 /registry/prev.pl?e\nErrorDocument 500 /registry/prev.pl\n"
    );
    let to = cgi(LOCATION);
    let files = [("perl/prev.pl", script), ("lib/My/Answers.pm", HANDLERS), ("cgi-bin/to.pl", &to)];
    let server = Server::start(&config, &files);
    let ask = |path: &str| {
        let mut client = server.connect();
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Test: yes\r\n\r\n"));
        client.answer().unwrap().text()
    };
    assert_eq!(ask("/registry/prev.pl"), "none");
    let root = server.path("").display().to_string();
    assert_eq!(
        ask("/nothing?q"),
        format!(
            "/nothing|404|q|GET|GET /nothing?q HTTP/1.1|/registry/prev.pl?e|/nothing?q|\
             {root}htdocs/nothing||1|yes||0|0"
        )
    );
    let failed = ask("/h?die");
    assert!(failed.contains("|no such thing|") && failed.contains("|yes|die|0|0"), "{failed}");
    assert!(ask("/cgi-bin/to.pl?/registry/prev.pl").starts_with("/cgi-bin/to.pl|200|/registry"));
}

#[test]
fn a_cgi_script_has_the_inc_of_perl_itself() {
    let text = "print \"Content-type: text/plain\\n\\n\"; print join(\"\\n\", @INC); \
        eval { require No::Such } or print $@ =~ /(\\(\\@INC.*)/;\n";
    let (plain, tainted) = (cgi(text), format!("#!/usr/bin/perl -T\n{text}"));
    let files = [("cgi-bin/inc.pl", &plain[..]), ("cgi-bin/t.pl", &tainted)];
    // The server's own variables are not for scripts.
    let server = Server::start_by(&["env", "PERL5LIB=/not/for/scripts"], "", &files);
    for name in ["cgi-bin/inc.pl", "cgi-bin/t.pl"] {
        let mut perl = std::process::Command::new(server.path(name));
        let output = perl.env_clear().output().unwrap();
        let alone = String::from_utf8(output.stdout).unwrap();
        let alone = alone.split_once("\n\n").unwrap().1;
        for _ in 0..3 {
            assert_eq!(server.get(&format!("/{name}")).text(), alone);
        }
    }
}

#[test]
fn a_module_that_is_not_there_is_missed_in_folders_only() {
    let text = format!(
        "{PLAIN}require Apache2::Const; require ModPerl::Util; require APR::UUID;
        print join('|', grep {{ ref }} @INC), \"\\n\"; eval {{ require No::Such }}; print $@;
        eval 'use Apache2::NoSuch; 1' or print $@; print $INC{{'APR/UUID.pm'}};\n"
    );
    let server = Server::start("", &[("perl/inc.pl", &text)]);
    for tier in ["registry", "perlrun"] {
        let text = server.get(&format!("/{tier}/inc.pl")).text();
        assert!(text.starts_with("\nCan't locate No/Such.pm in @INC"), "{text}");
        assert!(text.contains("Can't locate Apache2/NoSuch.pm in @INC"), "{text}");
        assert!(text.ends_with("drom/APR/UUID.pm"), "{text}");
        assert!(!text.contains("Drom::Library") && text.contains("(@INC contains: /"), "{text}");
    }
}

#[test]
fn every_request_begins_a_page_of_its_own() {
    let script = format!(
        "{PLAIN}our $x = 'row'; $~ = 'OTHER' if $ENV{{QUERY_STRING}};
format STDOUT_TOP =
Heading
.
format STDOUT =
@<<<<
$x
.
format OTHER =
other
.
write; write; print \"$% $- $^ $~\\n\";\n"
    );
    let server =
        Server::start("StartServers 1\nMaxRequestWorkers 1\n", &[("perl/page.pl", &script)]);
    for tier in ["perlrun", "registry"] {
        let mut client = server.connect();
        for _ in 0..3 {
            let answer = client.get(&format!("/{tier}/page.pl"));
            let whole = "Heading\nrow\nrow\n1 57 STDOUT_TOP STDOUT\n";
            assert_eq!((answer.text().as_str(), answer.status), (whole, 200), "{tier}");
            let other = client.get(&format!("/{tier}/page.pl?1")).text();
            assert_eq!(other, "Heading\nother\nother\n1 57 STDOUT_TOP OTHER\n", "{tier}");
        }
    }
}

#[test]
fn a_status_of_200_with_a_location_elsewhere_is_a_redirect() {
    let text = cgi("print \"Status: 200 OK\\nLocation: http://a/b\\nX-A: 1\\n\\nbody\\n\";\n");
    let server = Server::start("", &[("cgi-bin/to.pl", &text), ("perl/to.pl", &text)]);
    for path in ["/cgi-bin/to.pl", "/registry/to.pl", "/perlrun/to.pl"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 302, "{path}: {}", answer.head);
        assert_eq!(answer.header("Location"), Some("http://a/b"), "{path}");
        assert_eq!(answer.header("X-A"), Some("1"), "{path}");
        assert!(answer.text().contains("The document has moved"), "{path}: {}", answer.text());
        assert!(!answer.text().contains("body\n<"), "{path}: {}", answer.text());
    }
}

#[test]
fn an_nph_script_answers_head_itself() {
    let said = "HTTP/1.0 202 Yes\r\nX-A: 1\r\n\r\n";
    let text = cgi(&format!("$| = 1; print \"{}\";\n", said.escape_default()));
    let files = [("cgi-bin/nph-a.pl", &text[..]), ("perl/nph-a.pl", &text)];
    let server = Server::start("", &files);
    for path in ["/cgi-bin/nph-a.pl", "/registry/nph-a.pl", "/perlrun/nph-a.pl"] {
        let mut client = server.connect();
        client.send(&format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let answer = client.answer_to("HEAD").unwrap_or_else(|| panic!("{path}: nothing"));
        assert_eq!((answer.status, answer.header("X-A")), (202, Some("1")), "{path}");
        assert!(client.is_closed(), "{path}");
    }
}

/// `ModPerl::RegistryCooker` makes a changed status the handler's own result.
#[test]
fn a_registry_script_that_only_sets_a_status_gets_the_servers_page() {
    let redirect = cgi("use CGI; print CGI->new->redirect(-uri => 'http://a/b', \
        -status => $ENV{QUERY_STRING});\n");
    let missing = cgi("use CGI; print CGI->new->header(-status => '404 Nope');\n");
    let spoken = cgi("use CGI; print CGI->new->header(-status => '404 Nope'), \"body\\n\";\n");
    let gone = cgi("my $r = shift; $r->status(410);\n");
    let raw = cgi("print \"Status: 404 Nope\\n\\n\";\n");
    let files = [
        ("perl/redirect.pl", &redirect[..]),
        ("perl/missing.pl", &missing),
        ("perl/spoken.pl", &spoken),
        ("perl/gone.pl", &gone),
        ("perl/raw.pl", &raw),
    ];
    let server = Server::start("ErrorDocument 410 gone\n", &files);
    for tier in ["registry", "perlrun"] {
        for status in [301, 302, 303, 307] {
            let answer = server.get(&format!("/{tier}/redirect.pl?{status}"));
            assert_eq!(answer.status, status, "{}", answer.head);
            assert_eq!(answer.header("Location"), Some("http://a/b"));
            assert_eq!(answer.header("Content-Type"), Some("text/html; charset=iso-8859-1"));
            assert!(answer.text().contains("<a href=\"http://a/b\">here</a>"), "{}", answer.text());
        }
        let answer = server.get(&format!("/{tier}/missing.pl"));
        assert!(answer.head.starts_with("HTTP/1.1 404 Nope\r\n"), "{}", answer.head);
        assert!(answer.text().contains("<title>404 Nope</title>"), "{}", answer.text());
        assert_eq!(server.get(&format!("/{tier}/spoken.pl")).text(), "body\n");
        let answer = server.get(&format!("/{tier}/gone.pl"));
        assert_eq!((answer.status, &answer.text()[..]), (410, "gone"));
        let answer = server.get(&format!("/{tier}/raw.pl"));
        assert_eq!(
            (answer.status, &answer.text()[..]),
            (404, ""),
            "as mod_perl, which reads it late"
        );
    }
}

/// Apache answers 500 when a field has bytes that none may have.
#[test]
fn a_control_character_in_a_field_goes_to_no_client() {
    let head =
        |field: &str| cgi(&format!("print \"Content-type: text/plain\\n{field}\\n\\nbody\\n\";\n"));
    let (one, delete, cookie) =
        (head("X-A: a\\x01b"), head("X-A: a\\x7f"), head("Set-Cookie: a\\x01"));
    let (tab, line) = (head("X-A: a\\tb"), head("Status: 200 a\\x01b"));
    let handler = "package My::Field; use Apache2::RequestRec (); use Apache2::RequestIO ();
        use APR::Table; sub handler { my $r = shift; $r->content_type('text/plain');
        $r->headers_out->set('X-A' => \"a\\x01b\"); $r->print('x');
        if ($r->args) { $r->rflush; $r->print('y' x 100_000) } 0 } 1;\n";
    let files = [
        ("cgi-bin/one.pl", &one[..]),
        ("cgi-bin/delete.pl", &delete),
        ("cgi-bin/cookie.pl", &cookie),
        ("cgi-bin/tab.pl", &tab),
        ("cgi-bin/line.pl", &line),
        ("perl/one.pl", &one),
        ("lib/My/Field.pm", handler),
    ];
    let config = "<Location /h>\nSetHandler modperl\nPerlResponseHandler My::Field\n</Location>\n";
    let server = Server::start(config, &files);
    for path in ["/cgi-bin/one.pl", "/cgi-bin/delete.pl", "/cgi-bin/cookie.pl", "/registry/one.pl"]
        .iter()
        .chain(&["/h", "/h?flush"])
    {
        let answer = server.get(path);
        assert_eq!(answer.status, 500, "{path}: {}", answer.head);
        assert!(answer.text().ends_with("</html>\n"), "{path}: {}", answer.text());
        assert!(!answer.head.contains('\x01'), "{path}: {}", answer.head);
    }
    assert!(server.logged("X-A"));
    assert_eq!(server.get("/cgi-bin/tab.pl").header("X-A"), Some("a\tb"));
    assert!(server.get("/cgi-bin/line.pl").head.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn an_error_document_that_fails_too_is_told_beside_the_first_error() {
    let fails = cgi("exit 1;\n");
    let to_none = cgi("print \"Location: /none\\n\\n\";\n");
    let config = "ErrorDocument 404 /missing.html\nErrorDocument 403 /cgi-bin/fails.pl\n\
        ErrorDocument 500 /missing.html\n<Location /deny>\nRequire all denied\n</Location>\n";
    let files = [("cgi-bin/fails.pl", &fails[..]), ("cgi-bin/to_none.pl", &to_none)];
    let server = Server::start(config, &files);
    for (path, status, second) in [
        ("/nothing", 404, "a 404 Not Found"),
        ("/deny/x", 403, "a 500 Internal Server Error"),
        ("/cgi-bin/fails.pl", 500, "a 404 Not Found"),
        ("/cgi-bin/to_none.pl", 404, "a 404 Not Found"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let words = format!(
            "<p>Additionally, {second}\nerror was encountered while trying to use an \
             ErrorDocument to handle the request.</p>\n</body></html>\n"
        );
        assert!(answer.text().ends_with(&words), "{path}: {}", answer.text());
    }
}

#[test]
fn a_path_is_translated_as_a_request_for_it_would_be() {
    let show = cgi(&format!("{PLAIN}print $ENV{{PATH_TRANSLATED}};\n"));
    let files = [
        ("cgi-bin/show.pl", &show[..]),
        ("perl/show.pl", &show),
        ("htdocs/index.html", "x"),
        ("htdocs/d/index.html", "x"),
        ("htdocs/e/other", "x"),
    ];
    let server = Server::start("", &files);
    for (info, file) in [
        ("/", "htdocs/index.html"),
        ("/d/", "htdocs/d/index.html"),
        ("/d", "htdocs/d"),
        ("/e/", "htdocs/e/"),
        ("/none/x", "htdocs/none/x"),
        ("/cgi-bin/show.pl/x", "cgi-bin/show.pl/x"),
    ] {
        let want = server.path("").to_str().unwrap().to_owned() + file;
        for script in ["/cgi-bin/show.pl", "/registry/show.pl"] {
            assert_eq!(server.get(&format!("{script}{info}")).text(), want, "{script}{info}");
        }
    }
}

/// One worker, so that every request finds what the one before left.
const ONE: &str = "StartServers 1\nMaxRequestWorkers 1\n";

#[test]
fn scripts_have_the_warnings_of_mod_perl() {
    let wide = format!("{PLAIN}print \"\\x{{20ac}}\"; my $x; my $y = \"a$x\";\n");
    let files = [
        ("perl/quiet.pl", wide.clone()),
        ("perl/loud.pl", format!("#!/usr/bin/perl -w\n{wide}")),
        ("perl/asks.pl", format!("use warnings;\n{wide}")),
        ("perl/carp.pl", format!("use CGI::Carp;\n{PLAIN}warn 'carped';\n")),
        ("perl/data.pl", format!("{PLAIN}<DATA>; print <DATA>;\n__DATA__\na\nb\n")),
        ("perl/die.pl", format!("{PLAIN}eval {{ die 'x' }}; print $@; warn 'told';\n")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, &t[..])).collect();
    let server = Server::start(ONE, &files);
    for place in ["/registry", "/perlrun"] {
        assert_eq!(server.get(&format!("{place}/data.pl")).text(), "b\n");
        let text = server.get(&format!("{place}/die.pl")).text();
        assert!(text.ends_with("die.pl line 2.\n"), "{text}");
        for script in ["quiet", "loud", "asks", "carp"] {
            assert_eq!(server.get(&format!("{place}/{script}.pl")).status, 200);
        }
    }
    assert!(server.logged("] -e: carped at"));
    let log = server.error_log();
    for (script, times) in [("quiet", 0), ("loud", 2), ("asks", 2)] {
        let file = format!("{}", server.path(&format!("perl/{script}.pl")).display());
        for what in ["Wide character in print", "Use of uninitialized value $x in"] {
            let said = log.lines().filter(|l| l.contains(what) && l.contains(&file)).count();
            assert_eq!(said, times, "{script}.pl: {what}");
        }
    }
    assert!(!log.contains("<DATA>"), "{log}");
}

#[test]
fn output_without_headers_begins_after_two_line_ends() {
    let texts =
        ["'\\n\\nbody'", "'\\n', '\\nbody'", "'\\n\\n\\nbody'", "'\\nbody'", "'\\n'", "'\\n\\n'"];
    let texts = texts.map(|text| format!("print {};\n", text.replace('\'', "\"")));
    let bodies = ["body", "body", "\nbody", "body", "", ""];
    let server = Server::start("", &[]);
    for (text, body) in texts.iter().zip(bodies) {
        server.put("perl/lines.pl", text);
        let answer = server.get("/perlrun/lines.pl");
        assert_eq!((answer.status, &answer.text()[..]), (200, body), "{text}");
    }
    server.put("perl/flush.pl", "$| = 1; print \"\\n\"; print \"\\nbody\";\n");
    assert_eq!(server.get("/registry/flush.pl").text(), "\nbody", "what was flushed was the head");
}

/// As in Apache: only a script that says so itself makes another status of an error.
#[test]
fn an_error_document_that_names_another_place_keeps_the_status() {
    let script =
        |head: &str| format!("#!/usr/bin/perl\nprint \"{head}Location: /x.html\\n\\n\";\n");
    let (plain, told) = (script(""), script("Status: 302 Found\\n"));
    let config = "<Location /plain>\nErrorDocument 404 /cgi-bin/plain.pl\n</Location>\n\
        <Location /told>\nErrorDocument 404 /registry/told.pl\n</Location>\n";
    let files = [("cgi-bin/plain.pl", &*plain), ("perl/told.pl", &*told), ("htdocs/x.html", "x")];
    let server = Server::start(config, &files);
    for (path, status) in [("/plain/none", 404), ("/told/none", 302), ("/cgi-bin/plain.pl", 200)] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("location").is_some(), status != 200, "{path}");
    }
}
