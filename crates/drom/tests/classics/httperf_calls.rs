//! `drom httperf` with several calls on a connection, lists of URIs, sessions, uneven times, TLS.

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use crate::openssl;
use crate::recording::Recording;

const KEEP: &str = "--add-header=Connection:Keep-Alive\\n";

fn report_at(port: u16, line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["httperf", "--server=127.0.0.1"]).arg(format!("--port={port}"));
    let command = command.args(line.split_whitespace()).stdin(Stdio::null());
    let output = command.output().expect("drom starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn report(server: &Recording, line: &str) -> String {
    report_at(server.address.port(), line)
}

/// A server that answers all that one read brings, one connection after the other.
struct Pipelined {
    port: u16,
    /// What each read brought.
    reads: Arc<Mutex<Vec<String>>>,
}

impl Pipelined {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let reads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&reads);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    let answers = answer.repeat(text.matches("\r\n\r\n").count());
                    seen.lock().expect("nobody has panicked").push(text);
                    stream.write_all(&answers).expect("the client reads");
                }
            }
        });
        Self { port, reads }
    }

    /// The request lines of each read.
    fn lines(&self) -> Vec<Vec<String>> {
        let reads = self.reads.lock().expect("nobody has panicked");
        let lines = |read: &String| {
            let lines = read.lines().filter_map(|line| line.strip_suffix(" HTTP/1.1"));
            lines.map(str::to_owned).collect()
        };
        reads.iter().map(lines).collect()
    }

    fn most_in_a_read(&self) -> Option<usize> {
        self.lines().iter().map(Vec::len).max()
    }
}

fn paths(server: &Recording) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).map(str::to_owned);
    server.requests().iter().filter_map(path).collect()
}

#[test]
fn a_rate_is_of_connections_with_all_their_calls() {
    let server = Recording::start();
    let report = report(&server, &format!("--rate=50 --num-conns=10 --num-calls=3 {KEEP}"));
    assert!(report.contains("\nTotal: connections 10 requests 30 replies 30 "), "{report}");
    assert!(report.contains("\nConnection length [replies/conn]: 3.000\n"), "{report}");
    assert_eq!((server.requests().len(), server.peers().len()), (30, 10));
}

#[test]
fn calls_of_a_burst_are_written_together() {
    let server = Pipelined::start();
    let report = report_at(server.port, "--num-conns=2 --num-calls=7 --burst-length=3");
    assert!(report.contains("\nTotal: connections 2 requests 14 replies 14 "), "{report}");
    assert_eq!(server.most_in_a_read(), Some(3));
}

#[test]
fn so_they_are_with_a_rate_and_in_sessions() {
    let server = Pipelined::start();
    let rated = report_at(server.port, "--rate=50 --num-conns=2 --num-calls=7 --burst-length=3");
    assert!(rated.contains("\nTotal: connections 2 requests 14 replies 14 "), "{rated}");
    assert_eq!(server.most_in_a_read(), Some(3));
    let server = Pipelined::start();
    let session = report_at(server.port, "--wsess=2,9,0.01 --burst-length=4");
    assert!(session.contains("\nTotal: connections 2 requests 18 replies 18 "), "{session}");
    assert!(session.ends_with("\nSession length histogram: 0 0 0 0 0 0 0 0 0 2\n"), "{session}");
    // The first call of a burst is alone.
    let parts: Vec<usize> = server.lines().iter().map(Vec::len).collect();
    assert_eq!(parts, [1, 3, 1, 3, 1, 1, 3, 1, 3, 1]);
}

#[test]
fn a_log_of_sessions_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sessions");
    let text = "# two sessions\n/a think=0.2\n\t/b\n\t/c method=HEAD\n\t/d\n\
                /e method=POST contents='x y'\n\n/f\n";
    std::fs::write(&file, text).expect("written");
    let server = Pipelined::start();
    let report = report_at(server.port, &format!("--wsesslog=3,0,{}", file.display()));
    assert!(report.contains("\nTotal: connections 3 requests 11 replies 11 "), "{report}");
    assert!(report.ends_with("\nSession length histogram: 0 1 0 0 0 2\n"), "{report}");
    let first: [&[&str]; 3] = [&["GET /a"], &["GET /b", "HEAD /c", "GET /d"], &["POST /e"]];
    let second: [&[&str]; 1] = [&["GET /f"]];
    assert_eq!(server.lines(), [&first[..], &second, &first].concat());
    let reads = server.reads.lock().expect("nobody has panicked");
    assert!(reads[2].ends_with("\r\nContent-length: 3\r\n\r\nx y"), "{}", reads[2]);
}

#[test]
fn a_set_of_pages_is_walked_through() {
    let server = Recording::start();
    let line = format!("--num-conns=2 --num-calls=2 --wset=12,0.5 --uri=/p {KEEP}");
    let report = report(&server, &line);
    assert!(report.lines().next().is_some_and(|line| line.ends_with(" --wset=12,0.500")));
    assert!(report.contains("\nTotal: connections 2 requests 4 replies 4 "), "{report}");
    assert_eq!(paths(&server), ["/p/0/0.html", "/p/0/1.html", "/p/0/1.html", "/p/0/2.html"]);
}

#[test]
fn a_list_of_uris_begins_again_or_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("uris");
    std::fs::write(&file, "/a\0/bb\0/c\0").expect("written");
    let server = Recording::start();
    let line = format!("--num-conns=5 --wlog=y,{}", file.display());
    let first = report(&server, &line);
    assert!(first.contains("\nTotal: connections 5 requests 5 replies 5 "), "{first}");
    assert_eq!(paths(&server), ["/a", "/bb", "/c", "/a", "/bb"]);
    let server = Recording::start();
    let line = format!("--num-conns=5 --num-calls=2 --wlog=n,{} {KEEP}", file.display());
    let report = report(&server, &line);
    assert!(report.contains(" requests 3 replies 3 "), "{report}");
    assert_eq!(paths(&server), ["/a", "/bb", "/c"]);
}

#[test]
fn sessions_think_between_their_calls() {
    let server = Recording::start();
    let report = report(&server, &format!("--rate=20 --wsess=4,3,0.2 {KEEP}"));
    assert!(report.contains("\nTotal: connections 4 requests 12 replies 12 "), "{report}");
    assert!(report.contains(" stddev 0.00 (4/4)\nSession: avg 1.00 connections/session\n"));
    assert!(report.ends_with("\nSession length histogram: 0 0 0 4\n"), "{report}");
    let lifetime = report.split("Session lifetime [s]: ").nth(1).expect("a lifetime");
    let seconds: f64 = lifetime.lines().next().unwrap_or_default().parse().expect("a number");
    assert!(seconds >= 0.4, "{report}");
}

/// A server that says the end of each connection after one reply: the figures are those of httperf
/// 0.9.0 beside the same one.
#[test]
fn a_call_into_a_closed_connection_is_a_connreset() {
    let server = Recording::start();
    for (line, total) in [
        ("--num-conns=20 --num-calls=3", "connections 20 requests 40 replies 20"),
        ("--num-conns=20 --num-calls=3 --rate=200", "connections 20 requests 40 replies 20"),
        ("--wsess=10,4,0", "connections 40 requests 70 replies 40"),
    ] {
        let report = report(&server, line);
        assert!(report.contains(&format!("\nTotal: {total} ")), "{report}");
        let resets = if line.contains("wsess") { 30 } else { 20 };
        let errors = format!("\nErrors: total {resets} client-timo 0 ");
        assert!(report.contains(&errors), "{report}");
        assert!(report.contains(&format!(" connrefused 0 connreset {resets}\n")), "{report}");
        let sessions = report.contains(" (10/10)\nSession: avg 4.00 connections/session\n");
        assert_eq!(sessions, line.contains("wsess"), "{report}");
    }
}

#[test]
fn a_session_without_an_answer_has_failed() {
    let server = Recording::start();
    // Each fifth call is closed without an answer.
    let report = report(&server, &format!("--wsess=3,4,0 --uri=/close {KEEP}"));
    assert!(report.contains(" (2/3)\n"), "{report}");
    assert!(report.ends_with("\nSession length histogram: 1 0 0 0 2\n"), "{report}");
}

#[test]
fn periods_can_be_uneven_and_a_run_can_be_cut() {
    let server = Recording::start();
    let uneven = report(&server, "--num-conns=20 --period=u0.001,0.02");
    assert!(uneven.contains(" --period=u0.001,0.02 ") && server.requests().len() == 20);
    let cut = report(&server, "--num-conns=100000 --rate=50 --runtime=1");
    assert!(cut.contains("\nTotal: connections ") && server.requests().len() < 1_000, "{cut}");
}

#[test]
fn requests_are_printed() {
    let server = Recording::start();
    let report = report(&server, "--num-conns=2 --print-request --uri=/x");
    let wanted = "SH1:GET /x HTTP/1.1\r\nSH1:User-Agent: httperf/0.9.0\r\n\
                  SH1:Host: 127.0.0.1\r\nSH1:\r\n\
                  SS1: header 63 content 0\nMaximum connect burst";
    assert!(report.contains("\nSH0:GET /x") && report.contains(wanted), "{report}");
}

#[test]
fn https_is_asked_whatever_the_certificate() {
    if !Path::new(openssl::OPENSSL).exists() {
        eprintln!("skipped: there is no {}", openssl::OPENSSL);
        return;
    }
    let server = openssl::Server::start(&["rsa:2048"]);
    let ciphers = "--ssl-ciphers=ECDHE-RSA-AES128-GCM-SHA256:EXP-RC4-MD5";
    let report = report_at(server.port, &format!("--ssl --ssl-no-reuse --num-conns=3 {ciphers}"));
    assert!(
        report.contains(&format!(" --ssl {ciphers} --ssl-no-reuse --num-conns=3 ")),
        "{report}"
    );
    assert!(report.contains("\nTotal: connections 3 requests 3 replies 3 "), "{report}");
}
