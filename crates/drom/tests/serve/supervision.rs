//! What the master does when the process that loads the Perl code ends or hangs, when workers end
//! again and again, and what it says about itself in the error log.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{Server, alive, eventually, kill};

const SITE: &str = "PerlRequire {}/startup.pl\n";
/// Notes the number of the process that loads it: the template.
const NOTE: &str = "open my $f, '>', '{}/template' or die; print $f \"$$\\n\"; close $f;\n";
const VERSION: &str = "print \"Content-type: text/plain\\n\\n$Site::version\";\n";
const NUMBER: &str = "print \"Content-type: text/plain\\n\\n$$\";\n";

fn startup(version: u32) -> String {
    format!("{NOTE}$Site::version = {version};\n1;\n")
}

fn server(config: &str) -> Server {
    let first = startup(1);
    let files =
        [("startup.pl", first.as_str()), ("perl/version.pl", VERSION), ("perl/number.pl", NUMBER)];
    Server::start(&format!("{SITE}{config}"), &files)
}

fn number(path: &Path) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn version(server: &Server) -> String {
    server.get("/registry/version.pl").text()
}

/// A server that is not expected to serve, and its folder.
fn start_alone(code: &str) -> (Child, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let text = "Listen 127.0.0.1:0\nPidFile {}/pid\nErrorLog {}/log\nPerlRequire {}/startup.pl\n";
    let root = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("c.conf"), text.replace("{}", root)).unwrap();
    let code = format!("{NOTE}{code}").replace("{}", root);
    std::fs::write(dir.path().join("startup.pl"), code).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_drom"))
        .args(["serve", "-f"])
        .arg(dir.path().join("c.conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, dir)
}

fn ends(child: &mut Child) -> bool {
    let ended = eventually(Duration::from_secs(10), || child.try_wait().unwrap().is_some());
    if !ended {
        kill(child.id() as i32, libc::SIGKILL);
        let _ = child.wait();
    }
    ended
}

#[test]
fn a_server_that_is_still_loading_can_be_stopped() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let code = "$SIG{TERM} = 'IGNORE'; if (!fork) { sleep 60; exit } while (1) { sleep 1 }\n";
        let (mut child, dir) = start_alone(code);
        let template = dir.path().join("template");
        assert!(eventually(Duration::from_secs(20), || number(&template).is_some()));
        kill(child.id() as i32, signal);
        assert!(ends(&mut child), "signal {signal} is not heard");
        assert!(!alive(number(&template).unwrap()), "the process that loads is left");
        assert!(!dir.path().join("pid").exists(), "the PidFile is left");
    }
}

#[test]
fn start_up_code_that_is_killed_at_the_start_is_named() {
    let (mut child, dir) = start_alone("kill 9, $$; sleep 60;\n");
    assert!(ends(&mut child));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for text in [said, log] {
        assert!(text.contains("was killed by signal 9"), "{text}");
        assert!(text.contains("c.conf:4") && text.contains("startup.pl"), "{text}");
    }
}

#[test]
fn workers_go_on_while_their_template_is_replaced() {
    let server = server("StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2\n");
    let first = number(&server.path("template")).unwrap();
    server.put("startup.pl", "die 'broken for now';");
    kill(first, libc::SIGKILL);
    let mut client = server.connect();
    assert!(eventually(Duration::from_secs(10), || {
        assert_eq!(client.get("/registry/version.pl").text(), "1");
        server.error_log().matches("broken for now").count() >= 2
    }));
    server.put("startup.pl", &format!("select undef, undef, undef, 2;\n{}", startup(2)));
    assert!(eventually(Duration::from_secs(20), || {
        let text = version(&server);
        assert!(text == "1" || text == "2", "{text}");
        text == "2"
    }));
    assert_ne!(number(&server.path("template")), Some(first));
}

#[test]
fn a_worker_without_template_that_ends_is_noticed() {
    let mut server = server("StartServers 1\nMinSpareServers 1\nMaxRequestWorkers 1\n");
    let worker: i32 = server.get("/registry/number.pl").text().parse().unwrap();
    server.put("startup.pl", "die 'broken for now';");
    kill(number(&server.path("template")).unwrap(), libc::SIGKILL);
    assert!(server.logged("broken for now"), "{}", server.error_log());
    kill(worker, libc::SIGKILL);
    assert!(server.logged("no worker is left"), "{}", server.error_log());
    assert!(server.error_log().contains("was killed by signal 9"), "{}", server.error_log());
    let said = server.reload().1;
    assert!(said.contains("no worker of the old code is left"), "{said}");
    server.put("startup.pl", &startup(2));
    assert_eq!(version(&server), "2");
    assert_eq!(server.error_log().matches("no worker is left").count(), 1);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn workers_that_served_before_they_crashed_are_replaced_at_once() {
    let server = server("StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2\n");
    server.put("perl/crash.pl", "kill 11, $$; sleep 60;\n");
    let before = Instant::now();
    let crash = || {
        for _ in 0..60 {
            assert_eq!(server.get("/registry/crash.pl").status, 500);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(crash);
        scope.spawn(crash);
    });
    assert_eq!(version(&server), "1");
    // With pauses of a second, after the tenth and after every few then, it would be half a minute.
    assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
}

#[test]
fn start_up_code_that_ignores_the_end_of_children_leaves_workers_to_be_replaced() {
    let mut server = server("StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2\n");
    server.put("perl/chld.pl", "print \"Content-type: text/plain\\n\\n\", system('true');\n");
    assert_eq!(server.get("/registry/chld.pl").text(), "0");
    server.put("startup.pl", &format!("$SIG{{CHLD}} = 'IGNORE';\n{}", startup(2)));
    assert_eq!(server.reload().0, 0);
    assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        let pid: i32 = server.get("/registry/number.pl").text().parse().unwrap();
        kill(pid, libc::SIGKILL);
        assert!(server.logged(&format!("worker {pid} was killed by signal 9")));
        seen.insert(pid);
    }
    assert_eq!(seen.len(), 4);
    // Scripts have it as start-up code left it, as under mod_perl.
    assert_eq!(server.get("/registry/chld.pl").text(), "-1");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_server_says_when_it_starts_stops_and_is_full() {
    let config = "LogLevel error\nStartServers 1\nMinSpareServers 1\nMaxRequestWorkers 1\n";
    let mut server = server(config);
    let log = server.error_log();
    let line = log.lines().find(|l| l.contains("resuming normal operations")).unwrap_or_default();
    assert!(line.contains("core:notice") && line.contains(" configured -- "), "{log}");
    assert!(line.contains("Drom/") && line.contains("Perl/v5."), "{log}");
    assert!(!log.contains("MaxRequestWorkers"), "{log}");
    server.put("perl/long.pl", "sleep 3; print \"Content-type: x/y\\n\\nok\";\n");
    assert_eq!(server.get("/registry/long.pl").text(), "ok");
    let full = "server reached MaxRequestWorkers setting, consider raising";
    assert!(server.logged(full), "{}", server.error_log());
    assert_eq!(server.get("/registry/long.pl").text(), "ok");
    assert_eq!(server.error_log().matches(full).count(), 1, "{}", server.error_log());
    assert_eq!(server.terminate(), Some(0));
    assert!(server.error_log().contains("caught SIGTERM, shutting down"), "{}", server.error_log());
}

#[test]
fn the_end_of_the_master_is_said() {
    let server = server("StartServers 2\n");
    server.put("perl/long.pl", "sleep 30;\n");
    let mut client = server.connect();
    client.send("GET /registry/long.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(300));
    let family = server.descendants();
    kill(server.pid(), libc::SIGKILL);
    let status = client.answer().map_or(503, |answer| answer.status);
    assert!(status >= 500, "{status}");
    assert!(server.logged(&format!("the master process {} is gone", server.pid())));
    let over = || family.iter().all(|&pid| !alive(pid));
    assert!(eventually(Duration::from_secs(5), over));
    let log = server.error_log();
    assert!(!log.contains("ran too long"), "{log}");
    assert_eq!(log.matches("is gone: the server ends").count(), 1, "{log}");
}
