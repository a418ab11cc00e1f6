//! `drom httperf` from outside: its report's lines, what the server is asked, how it ends.

use std::process::{Command, Output, Stdio};

use crate::recording::Recording;
use regex::Regex;

fn run(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let command = command.arg("httperf").args(line.split_whitespace());
    command.stdin(Stdio::null()).output().expect("drom starts")
}

fn report(server: &Recording, line: &str) -> String {
    let output = run(&format!("--server=127.0.0.1 --port={} {line}", server.address.port()));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Each line of a report, `#` for its figures.
const FORM: &str = r"^httperf .*
Maximum connect burst length: #

Total: connections # requests # replies # test-duration # s

Connection rate: # conn/s \(# ms/conn, <=# concurrent connections\)
Connection time \[ms\]: min # avg # max # median # stddev #
Connection time \[ms\]: connect #
Connection length \[replies/conn\]: #

Request rate: # req/s \(# ms/req\)
Request size \[B\]: #

Reply rate \[replies/s\]: min # avg # max # stddev # \(# samples\)
Reply time \[ms\]: response # transfer #
Reply size \[B\]: header # content # footer # \(total #\)
Reply status: 1xx=# 2xx=# 3xx=# 4xx=# 5xx=#

CPU time \[s\]: user # system # \(user #% system #% total #%\)
Net I/O: # KB/s \(#\*10\^6 bps\)

Errors: total # client-timo # socket-timo # connrefused # connreset #
Errors: fd-unavail # addrunavail # ftab-full # other #
$";

fn assert_form(report: &str) {
    let form = FORM.replace('#', r"[0-9]+(\.[0-9]+)?");
    assert!(Regex::new(&form).expect("a form").is_match(report), "{report}");
}

#[test]
fn without_a_rate_connections_come_one_after_the_other() {
    let server = Recording::start();
    let report = report(&server, "--num-conns=20 --uri=/ok");
    assert_form(&report);
    assert!(report.contains("\nTotal: connections 20 requests 20 replies 20 test-duration "));
    assert!(report.contains("<=1 concurrent connections)\n"), "{report}");
    assert!(report.contains("\nRequest size [B]: 64.0\n") && report.contains(" 2xx=20 3xx=0 "));
    let wanted = "GET /ok HTTP/1.1\r\nUser-Agent: httperf/0.9.0\r\nHost: 127.0.0.1\r\n\r\n";
    assert_eq!(server.requests(), vec![wanted; 20]);
}

#[test]
fn a_server_is_an_address_with_colons_too() {
    let Some(server) = Recording::start_v6() else { return eprintln!("skipped: no IPv6") };
    let output = run(&format!("--server ::1 --port {} --num-conns 2", server.address.port()));
    let report = String::from_utf8(output.stdout).expect("text");
    assert!(report.contains("\nTotal: connections 2 requests 2 replies 2 "), "{report}");
    assert!(server.requests().iter().all(|asked| asked.contains("\r\nHost: [::1]\r\n")));
}

#[test]
fn a_connection_can_carry_several_calls() {
    let server = Recording::start();
    let line = "--num-conns=3 --num-calls=4 --add-header=Connection:Keep-Alive\\n";
    let report = report(&server, line);
    assert_form(&report);
    assert!(report.contains("\nTotal: connections 3 requests 12 replies 12 "), "{report}");
    assert!(report.contains("\nConnection length [replies/conn]: 4.000\n"), "{report}");
}

#[test]
fn a_rate_starts_connections_by_the_clock() {
    let server = Recording::start();
    let report = report(&server, "--num-conns=50 --rate=100 --hog --timeout=5 --uri=/slow");
    assert_form(&report);
    assert!(report.starts_with("httperf --hog --timeout=5 --client=0/1 --server=127.0.0.1 "));
    assert!(report.contains("\nTotal: connections 50 requests 50 replies 50 "), "{report}");
    let rate = Regex::new(r"\nConnection rate: ([0-9.]+) conn/s").expect("a form");
    let rate: f64 = rate.captures(&report).expect("a rate")[1].parse().expect("a number");
    assert!(rate <= 105.0, "{report}");
}

#[test]
fn what_is_missing_is_said() {
    for (line, what) in [
        ("--wsesspage=10,5", "--wsesspage is not built yet"),
        ("--wset=9,1 --burst-length=2", "--burst-length with a list of URIs is not built yet"),
        ("--wsesslog=1,0,/no/f", "can't open /no/f: No such file or directory"),
        ("--wsesslog=1,0,/dev/null", "no session in /dev/null: write a URI on a line of its own"),
        ("--wsesslog=1,0", "illegal --wsesslog 1,0"),
        ("--ssl --ssl-ciphers=RC4-MD5", "--ssl-ciphers=RC4-MD5: none is spoken here"),
        ("--period=v1,2", "illegal interarrival time v1,2"),
        ("--num-conns=x", "illegal number of connections x"),
        ("--num-calls=0", "at least one connection with one call is needed"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(stderr, format!("httperf: {what}\n"));
    }
}

/// As httperf: a report, and its status is 0.
#[test]
fn a_server_that_is_not_there_is_in_the_report() {
    for line in ["--num-conns=3", "--num-conns=3 --num-calls=4 --rate=50", "--wsess=3,4,0"] {
        let nobody = run(&format!("--server=127.0.0.1 --port=1 {line}"));
        assert_eq!(nobody.status.code(), Some(0), "{line}");
        let report = String::from_utf8(nobody.stdout).expect("text");
        assert!(report.contains("\nTotal: connections 3 requests 0 replies 0 "), "{report}");
        assert!(report.contains("\nErrors: total 3 client-timo 0 socket-timo 0 connrefused 3 "));
    }
}

#[test]
fn a_link_named_httperf_is_httperf() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("httperf");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_drom"), &link).expect("a link");
    let server = Recording::start();
    let port = server.address.port().to_string();
    let words = ["--server", "127.0.0.1", "--port", &port, "--native"];
    let output = Command::new(&link).args(words).output().expect("it starts");
    let report = String::from_utf8(output.stdout).expect("text");
    assert!(report.contains("Total: connections 1 ") && report.contains("Checks"), "{report}");
}

/// Each that finds no descriptor free is an error, and the others are measured.
#[test]
fn open_files_that_run_out_are_counted() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let words = format!("--server 127.0.0.1 --port {port} --rate 500 --num-conns 80 --timeout 1");
    let drom = env!("CARGO_BIN_EXE_drom");
    let shell = format!("ulimit -n 40; exec {drom} httperf {words}");
    let output = Command::new("sh").args(["-c", &shell]).output().expect("a shell");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{report}");
    let number = |before: &str| -> u64 {
        let rest = report.split_once(before).expect("a report").1;
        rest.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let (without, connections) = (number("fd-unavail "), number("Total: connections "));
    assert!((40..80).contains(&without), "{report}");
    assert_eq!((without + connections, number("client-timo ")), (80, connections), "{report}");
}
