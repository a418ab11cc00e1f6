//! `drom http_load` from outside: its report's lines, what the server is asked, how it ends.

use std::process::{Command, Output, Stdio};

use crate::recording::Recording;
use regex::Regex;

/// Runs it with a URL file that holds these lines.
fn run(line: &str, urls: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    std::fs::write(&file, urls).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let command = command.arg("http_load").args(line.split_whitespace()).arg(&file);
    command.stdin(Stdio::null()).output().expect("drom starts")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

const NUMBER: &str = r"[0-9]+(\.[0-9]+)?(e[+-][0-9]{2})?";

/// The form of a report without timeouts and bad byte counts.
fn form() -> Regex {
    let n = NUMBER;
    let form = format!(
        "^(?<f>[0-9]+) fetches, (?<p>[0-9]+) max parallel, (?<b>{n}) bytes, in (?<s>{n}) seconds\n\
         {n} mean bytes/connection\n{n} fetches/sec, {n} bytes/sec\n\
         msecs/connect: {n} mean, {n} max, {n} min\n\
         msecs/first-response: {n} mean, {n} max, {n} min\n\
         HTTP response codes:\n  code (?<c>[0-9]{{3}}) -- (?<d>[0-9]+)\n$"
    );
    Regex::new(&form).expect("a form")
}

#[test]
fn fetches_in_parallel_are_counted() {
    let server = Recording::start();
    let report = stdout(&run("-p 4 -f 40", &server.url("/slow")));
    let found = form().captures(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&found["f"], &found["p"], &found["b"]), ("40", "4", "240"), "{report}");
    assert_eq!((&found["c"], &found["d"]), ("200", "40"));
    let requests = server.requests();
    assert_eq!(requests.len(), 40);
    let wanted = "GET /slow HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: http_load";
    assert!(requests.iter().all(|request| request.starts_with(wanted)), "{requests:?}");
}

#[test]
fn a_rate_starts_each_fetch_by_the_clock() {
    let server = Recording::start();
    // 300 a second are one each 3 ms.
    let report = stdout(&run("-rate 300 -fetches 100", &server.url("/ok")));
    let found = form().captures(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&found["f"], server.requests().len()), ("100", 100), "{report}");
    let seconds: f64 = found["s"].parse().expect("a number");
    assert!(seconds > 0.2999, "{report}");
}

#[test]
fn seconds_end_the_run() {
    let server = Recording::start();
    let report = stdout(&run("-parallel 2 -seconds 1", &server.url("/slow")));
    let found = form().captures(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&found["s"], &found["p"]), ("1", "2"), "{report}");
}

#[test]
fn another_length_is_a_bad_byte_count() {
    let server = Recording::start();
    let output = run("-p 1 -f 6", &server.url("/var"));
    assert!(stdout(&output).contains("\n4 bad byte counts\nHTTP response codes:\n"));
    let wrong = format!("{}: byte count wrong\n", server.url("/var"));
    assert_eq!(stderr(&output), wrong.repeat(4));
}

#[test]
fn what_is_missing_is_said() {
    let refused = |line: &str, urls: &str| {
        let output = run(line, urls);
        assert_eq!(output.status.code(), Some(1), "{line}");
        stderr(&output)
    };
    assert!(refused("-p 1", "http://127.0.0.1/").starts_with("usage:  http_load "));
    assert!(refused("-p 1 -f 1", "http://127.0.0.1:1/").contains("refused the connection"));
}

#[test]
fn a_link_named_http_load_is_http_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let (link, file) = (folder.path().join("http_load"), folder.path().join("urls"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_drom"), &link).expect("a link");
    let server = Recording::start();
    std::fs::write(&file, server.url("/ok")).expect("written");
    let words = ["-p", "1", "-f", "3", "--native"];
    let output = Command::new(&link).args(words).arg(&file).output().expect("it starts");
    let report = stdout(&output);
    assert!(report.starts_with("3 fetches, 1 max parallel, 18 bytes, in "), "{report}");
    assert!(report.contains("  code 200 -- 3\n\n") && report.contains("Checks"), "{report}");
}
