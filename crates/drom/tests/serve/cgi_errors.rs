//! What CGI scripts say on their standard error: lines of the error log with client and script, as
//! httpd's mod_cgi writes them.

use std::time::Duration;

use crate::support::{Server, eventually};

const HEAD: &str = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\";\n";

fn start(config: &str, scripts: &[(&str, &str)]) -> Server {
    let files: Vec<(String, String)> = scripts
        .iter()
        .map(|(name, code)| (format!("cgi-bin/{name}.pl"), format!("{HEAD}{code}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (&n[..], &t[..])).collect();
    Server::start(config, &files)
}

/// The line with this in it; it may be on its way.
fn line_with(server: &Server, text: &str) -> String {
    assert!(server.logged(text), "nothing of {text:?}");
    server.error_log().lines().find(|line| line.contains(text)).unwrap_or_default().to_owned()
}

fn user() -> &'static str {
    // SAFETY: no pointers.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root { "User nobody\nGroup nogroup\n" } else { "" }
}

#[test]
fn a_line_tells_client_and_script() {
    let code = "my $x; my $y = \"a$x\"; print STDERR 'be', \"gun\\n\", \"\\tlast\"; print 'ok'";
    let server = start("", &[("warns", &format!("use warnings;{code}"))]);
    for _ in 0..3 {
        let answer = server.get("/cgi-bin/warns.pl").text();
        assert_eq!(answer, "ok");
    }
    let script = server.path("cgi-bin/warns.pl").display().to_string();
    for text in ["Use of uninitialized value $x", " begun: ", " \\tlast: "] {
        let line = line_with(&server, text);
        assert!(line.contains("[cgi:error] [pid "), "{line}");
        assert!(line.contains("[client 127.0.0.1:"), "{line}");
        assert!(line.ends_with(&format!(": {script}")), "{line}");
    }
}

#[test]
fn a_script_that_opens_its_standard_error_cannot_empty_the_log() {
    let opens =
        "open my $e, $ENV{QUERY_STRING} eq 'a=' ? '>>' : '>', '/dev/stderr' or print \"$!\";
        print $e \"opened $ENV{QUERY_STRING}\\n\"; print 'ok'";
    let server = start(user(), &[("opens", opens), ("says", "print STDERR \"first\\n\"")]);
    server.get("/cgi-bin/says.pl");
    line_with(&server, "] first: ");
    for how in ["a", "w", "again", "end"] {
        assert_eq!(server.get(&format!("/cgi-bin/opens.pl?{how}=")).text(), "ok");
    }
    line_with(&server, "] opened end=: ");
    for earlier in ["resuming normal operations", "] first: ", "] opened w=: "] {
        assert!(server.error_log().contains(earlier), "lost: {earlier}");
    }
}

#[test]
fn any_amount_is_taken() {
    let server =
        start("", &[("much", "print STDERR 'x' x 79, \"\\n\" for 1 .. 10_000; print 'ok'")]);
    assert_eq!(server.get("/cgi-bin/much.pl").text(), "ok");
    let lines = || server.error_log().lines().filter(|line| line.contains("] xxx")).count();
    assert!(eventually(Duration::from_secs(5), || lines() == 10_000), "{}", lines());
}

#[test]
fn a_line_is_there_before_the_script_ends() {
    let server = start("", &[("slow", "print STDERR \"soon\\n\"; sleep 4; print STDERR 'late'")]);
    let began = std::time::Instant::now();
    let mut client = server.connect();
    client.send("GET /cgi-bin/slow.pl HTTP/1.0\r\n\r\n");
    line_with(&server, "] soon: ");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!server.error_log().contains("] late"));
}

const LEAVES: &str = "$| = 1; print 'ok'; if (!fork) { close STDOUT; close STDIN;
    select undef, undef, undef, 0.1 until -e $ENV{QUERY_STRING};
    print STDERR 'one '; print STDERR \"two\\n\"; exit }";

/// The answer is over, its worker has ended: the program in the background is still heard, in the
/// log of now, and keeps nothing of the server's open.
#[test]
fn programs_in_the_background_are_heard() {
    let server = start("StartServers 1\n", &[("leaves", LEAVES)]);
    let file = server.path("go");
    let path = format!("/cgi-bin/leaves.pl?{}", file.display());
    assert_eq!(server.get(&path).text(), "ok");
    std::fs::rename(server.path("error.log"), server.path("old.log")).unwrap();
    assert_eq!(server.reload().0, 0);
    assert_eq!(server.get(&path).text(), "ok");
    let is_free = || open_in(&server.path("old.log")).is_empty();
    assert!(eventually(Duration::from_secs(10), is_free), "{:?}", open_in(&server.path("old.log")));
    std::fs::write(&file, "").unwrap();
    let count = || server.error_log().matches("] one two: ").count();
    assert!(eventually(Duration::from_secs(5), || count() == 2), "{}", count());
    assert!(line_with(&server, "] one two: ").contains("[client 127.0.0.1:"));
}

/// Processes that have a file open.
fn open_in(file: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let fds = std::fs::read_dir(process.path().join("fd"));
        let mut fds = fds.into_iter().flatten().flatten();
        if fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file)) {
            let name = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            found.push(format!("{} {name}", process.path().display()));
        }
    }
    found
}

const ENDLESS: &str =
    "$SIG{ALRM} = sub { exit }; alarm 6; print STDERR \"noise\\n\" x 500 while 1;";

#[test]
fn who_talks_without_end_in_the_background_keeps_no_script_waiting() {
    let code = format!("$| = 1; print 'ok'; if (!fork) {{ close STDOUT; close STDIN; {ENDLESS} }}");
    let server = start("", &[("talks", &code), ("plain", "print 'plain'")]);
    assert_eq!(server.get("/cgi-bin/talks.pl").text(), "ok");
    line_with(&server, "noise");
    let began = std::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(server.get("/cgi-bin/plain.pl").text(), "plain");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn who_talks_without_end_is_stopped_in_time() {
    let config = "StartServers 1\nMaxRequestWorkers 1\nDromRequestTimeout 1\n";
    let mut server = start(config, &[("talks", ENDLESS), ("plain", "print 'plain'")]);
    let began = std::time::Instant::now();
    let mut client = server.connect();
    client.send("GET /cgi-bin/talks.pl HTTP/1.0\r\n\r\n");
    line_with(&server, "noise");
    assert_eq!(server.get("/none.html").status, 404, "the worker has time for others");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    client.answer();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    line_with(&server, "Timeout waiting");
    client = server.connect();
    client.send("GET /cgi-bin/talks.pl HTTP/1.0\r\n\r\n");
    std::thread::sleep(Duration::from_millis(300));
    let began = std::time::Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn who_tells_its_progress_is_not_silent() {
    let code = "for (1 .. 5) { select undef, undef, undef, 0.5; print STDERR \"step $_\\n\" }";
    let code = format!("#!/usr/bin/perl\n{code}\nprint \"Content-Type: text/plain\\n\\ndone\";\n");
    let server = Server::start("Timeout 1\n", &[("cgi-bin/steps.pl", &code)]);
    let answer = server.get("/cgi-bin/steps.pl");
    assert_eq!((answer.status, answer.text().as_str()), (200, "done"));
}

#[test]
fn who_goes_away_does_not_silence_a_script() {
    let code = "print STDERR \"before\\n\"; sleep 1; print STDERR \"after\\n\"";
    let server = start("", &[("goes", code)]);
    let mut client = server.connect();
    client.send("GET /cgi-bin/goes.pl HTTP/1.0\r\n\r\n");
    line_with(&server, "] before: ");
    drop(client);
    line_with(&server, "] after: ");
}

#[test]
fn the_log_level_counts() {
    let server = start("LogLevel crit\n", &[("says", "print STDERR \"unheard\\n\"; print 'ok'")]);
    assert_eq!(server.get("/cgi-bin/says.pl").text(), "ok");
    std::thread::sleep(Duration::from_millis(100));
    assert!(!server.error_log().contains("unheard"), "{}", server.error_log());
}
