//! The access log has one line for every request, however it ended: also when the process that ran
//! it did not live to write one.

use std::time::Duration;

use crate::support::{Server, eventually};

const PLAIN: &str = "print \"Content-type: text/plain\\n\\n\";";
const FORMAT: &str = "CustomLog {}/access.log \
    \"%h %u \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" %m %U %q %X %P\"\n";
const WORKERS_2: &str = "StartServers 2\nMaxRequestWorkers 2\n";

/// The lines for a path, without what differs each time, once there is one. Then a while passes
/// in which a second one could come.
fn lines(server: &Server, path: &str) -> Vec<String> {
    let of = || {
        let text = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        let lines = text.lines().filter(|l| l.contains(&format!(" {path} ")));
        lines.map(|l| l.rsplit_once(' ').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    eventually(Duration::from_secs(10), || !of().is_empty());
    std::thread::sleep(Duration::from_millis(300));
    of()
}

#[test]
fn a_request_that_took_its_worker_along_is_in_the_access_log() {
    let stream = format!("$| = 1; {PLAIN} print 'x' x 10; kill SEGV => $$; sleep 5;\n");
    let cleanup = format!(
        "{PLAIN} print 'done'; shift->pool->cleanup_register(sub {{ kill KILL => $$; sleep 5 }});\n"
    );
    let long = format!("/registry/kill.pl?{}", "x".repeat(3000));
    let files = [
        ("perl/crash.pl", "kill SEGV => $$; sleep 5;\n"),
        ("perl/kill.pl", "kill KILL => $$; sleep 5;\n"),
        ("perl/leave.pl", "use POSIX (); POSIX::_exit(0);\n"),
        ("perl/swallow.pl", "while (1) { eval { select undef, undef, undef, 5 } }\n"),
        ("perl/slow.pl", "select undef, undef, undef, 30;\n"),
        ("perl/stream.pl", &stream),
        ("perl/cleanup.pl", &cleanup),
        ("cgi-bin/crash.pl", "#!/usr/bin/perl\nkill SEGV => $$; sleep 5;\n"),
        ("cgi-bin/slow.pl", "#!/usr/bin/perl\nsleep 30;\n"),
    ];
    let server = Server::start(&format!("{WORKERS_2}{FORMAT}DromRequestTimeout 1\n"), &files);
    // Status and bytes as they went out; a client that got nothing has 500 and none.
    for (path, answered, logged) in [
        ("/registry/crash.pl", Some(500), "500 44 \"r\" GET /registry/crash.pl ?q=1 -"),
        ("/registry/kill.pl", None, "500 - \"r\" GET /registry/kill.pl ?q=1 X"),
        ("/registry/leave.pl", None, "500 - \"r\" GET /registry/leave.pl ?q=1 X"),
        ("/registry/swallow.pl", Some(504), "504 47 \"r\" GET /registry/swallow.pl ?q=1 -"),
        ("/registry/stream.pl", None, "200 10 \"r\" GET /registry/stream.pl ?q=1 X"),
        ("/registry/cleanup.pl", Some(200), "200 4 \"r\" GET /registry/cleanup.pl ?q=1 +"),
    ] {
        let mut client = server.connect();
        client.send(&format!("GET {path}?q=1 HTTP/1.1\r\nHost: x\r\nReferer: r\r\n\r\n"));
        assert_eq!(client.answer().map(|a| a.status), answered, "{path}");
        let want = format!("127.0.0.1 - \"GET {path}?q=1 HTTP/1.1\" {logged}");
        assert_eq!(lines(&server, path), [want], "{path}");
    }
    for path in ["/registry/slow.pl", "/cgi-bin/slow.pl"] {
        assert_eq!(server.get(path).status, 504, "{path}");
        let found = lines(&server, path);
        assert_eq!(found.len(), 1, "{path}");
        assert!(found[0].contains(" HTTP/1.1\" 504 "), "{found:?}");
    }
    assert_eq!(server.get("/cgi-bin/crash.pl").status, 500);
    assert!(lines(&server, "/cgi-bin/crash.pl")[0].contains(" HTTP/1.1\" 500 "));
    // More than the scoreboard holds: the line is cut, not lost.
    let mut client = server.connect();
    client.send(&format!("GET {long} HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(client.answer().is_none());
    let text = || std::fs::read_to_string(server.path("access.log")).unwrap();
    let cut = || text().lines().last().is_some_and(|l| l.contains("\"GET /registry/kill.pl?xxx"));
    assert!(eventually(Duration::from_secs(5), cut), "{}", text());
    assert!(text().lines().last().unwrap().contains("x\" 500 - "), "{}", text());
}

#[test]
fn a_crash_of_what_a_script_forked_is_not_the_workers() {
    let script = "print \"Content-type: text/plain\\n\\n\"; my $pid = fork;
        if (!$pid) { kill SEGV => $$; sleep 5; exit } waitpid $pid, 0; print \"$$ $?\\n\";\n";
    let config = format!("StartServers 1\nMinSpareServers 1\nMaxRequestWorkers 1\n{FORMAT}");
    let server = Server::start(&config, &[("perl/fork.pl", script)]);
    let first = server.get("/registry/fork.pl").text();
    assert!(first.ends_with(" 11\n"), "{first}");
    for _ in 0..3 {
        assert_eq!(server.get("/registry/fork.pl").text(), first, "the same worker goes on");
    }
    assert_eq!(lines(&server, "/registry/fork.pl").len(), 4);
    assert!(!server.error_log().contains("worker"), "{}", server.error_log());
}

/// In Apache's words, each with the file; its module names and AH numbers are not ours.
#[test]
fn what_is_refused_is_in_the_error_log_with_its_file() {
    let script = format!("#!/usr/bin/perl\n{PLAIN} print 1;\n");
    // SAFETY: asks who runs this.
    let is_root = unsafe { libc::geteuid() } == 0;
    let user = if is_root { "User nobody\nGroup nogroup\n" } else { "" };
    let config = "LogLevel error\n<Directory {}/htdocs>\nAddHandler cgi-script .cgi\n\
        AcceptPathInfo Off\n</Directory>\n<Location /deny>\nRequire ip 10.1\n</Location>\n\
        <Location /old>\nOrder allow,deny\n</Location>\n";
    let files = [
        ("cgi-bin/dir/file", "x"),
        ("cgi-bin/bare.pl", &script),
        ("htdocs/off.cgi", &script),
        ("htdocs/closed.html", "x"),
        ("htdocs/open.html", "x"),
        ("htdocs/deny/x.html", "x"),
        ("htdocs/old/x.html", "x"),
    ];
    let server = Server::start(&format!("{user}{config}"), &files);
    for (file, mode) in [("htdocs/closed.html", 0o000), ("cgi-bin/bare.pl", 0o644)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(server.path(file), mode).unwrap();
    }
    for (path, status, said, file) in [
        ("/cgi-bin/none.pl", 404, "script not found or unable to stat", "cgi-bin/none.pl"),
        ("/cgi-bin/dir/", 403, "attempt to invoke directory as script", "cgi-bin/dir"),
        ("/off.cgi", 403, "Options ExecCGI is off in this directory", "htdocs/off.cgi"),
        ("/closed.html", 403, "file permissions deny server access", "htdocs/closed.html"),
        ("/deny/x.html", 403, "client denied by server configuration", "htdocs/deny/x.html"),
        ("/deny/none", 403, "client denied by server configuration", "htdocs/deny/none"),
        ("/old/x.html", 403, "client denied by server configuration", "htdocs/old/x.html"),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
        let file = server.path(file).to_str().unwrap().to_owned();
        let line = format!("[client 127.0.0.1:PORT] {said}: {file}");
        let without_port = |text: &str| {
            let (before, rest) = text.split_once("127.0.0.1:")?;
            Some(format!("{before}127.0.0.1:PORT{}", rest.trim_start_matches(char::is_numeric)))
        };
        let found = || {
            let log = server.error_log();
            log.lines().filter_map(without_port).any(|l| l.contains(&line))
        };
        assert!(eventually(Duration::from_secs(5), found), "{line}\n{}", server.error_log());
    }
    // A program that cannot be run is said with time and process.
    assert_eq!(server.get("/cgi-bin/bare.pl").status, 500);
    let bare = server.path("cgi-bin/bare.pl").to_str().unwrap().to_owned();
    let said = "cannot run the script: Permission denied";
    assert!(server.logged(said));
    let log = server.error_log();
    let line = log.lines().find(|l| l.contains(said)).unwrap();
    assert!(line.starts_with('[') && line.contains("[cgi:error] [pid "), "{line}");
    assert!(line.ends_with(&format!(": {bare}")), "{line}");
}

#[test]
fn what_start_up_code_says_to_the_server_is_a_line_of_the_error_log() {
    let startup = "use Apache2::ServerUtil (); use Apache2::Log ();\n\
        my $s = Apache2::ServerUtil->server;\n\
        $s->log_error('an error'); $s->warn('a warning'); $s->log->info('hidden');\n1;\n";
    let config = "PerlRequire {}/startup.pl\nLogLevel warn\n";
    let server = Server::start(config, &[("startup.pl", startup)]);
    assert!(server.logged("an error"), "{}", server.error_log());
    let log = server.error_log();
    for (level, text) in [("error", "an error"), ("warn", "a warning")] {
        let line = log.lines().find(|line| line.ends_with(text)).expect(text);
        assert!(
            line.starts_with('[') && line.contains(&format!("] [perl:{level}] [pid ")),
            "{line}"
        );
    }
    assert!(!log.contains("hidden"), "{log}");
}
