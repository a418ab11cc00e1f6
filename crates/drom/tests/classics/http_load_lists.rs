//! `drom http_load` with lists of URLs, over TLS, slowly, at uneven times, from several addresses.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::openssl;
use crate::recording::Recording;

/// Runs it in a folder that holds these files; the list of URLs is `urls`.
fn run_with(line: &str, files: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let command = command.arg("http_load").args(line.split_whitespace()).arg("urls");
    command.current_dir(&folder).stdin(Stdio::null()).output().expect("drom starts")
}

fn run(line: &str, urls: &str) -> Output {
    run_with(line, &[("urls", urls)])
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn count(requests: &[String], path: &str) -> usize {
    let start = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: http_load");
    requests.iter().filter(|request| request.starts_with(&start)).count()
}

#[test]
fn addresses_with_colons_are_taken_alone_and_in_lists() {
    let Some(server) = Recording::start_v6() else { return eprintln!("skipped: no IPv6") };
    for list in [server.url("/ok"), [server.url("/ok"), server.url("/ok")].join("\n")] {
        let report = stdout(&run("-parallel 1 -fetches 3", &list));
        assert!(report.starts_with("3 fetches, 1 max parallel, "), "{report}");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 6);
    assert!(requests.iter().all(|asked| asked.contains("\r\nHost: [::1]\r\n")), "{requests:?}");
}

#[test]
fn urls_of_several_servers_are_taken_at_random() {
    let (one, two) = (Recording::start(), Recording::start());
    let list = [one.url("/a?x=1#y"), one.url("/404"), two.url("/ok")].join("\n");
    let report = stdout(&run("-parallel 5 -fetches 300", &list));
    assert!(report.starts_with("300 fetches, 5 max parallel, 1800 bytes, in "), "{report}");
    let (first, second) = (one.requests(), two.requests());
    assert_eq!(first.len() + second.len(), 300);
    let counts = [count(&first, "/a?x=1#y"), count(&first, "/404"), count(&second, "/ok")];
    assert_eq!(counts.iter().sum::<usize>(), 300, "{first:?}");
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    let codes = format!("  code 200 -- {}\n  code 404 -- {}\n", counts[0] + counts[2], counts[1]);
    assert!(report.ends_with(&codes), "{report}");
}

#[test]
fn a_list_that_is_no_text_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("urls"), b"http://a.invalid/\nhttp://a.invalid/\xe9\n")
        .expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let command = command.args(["http_load", "-rate", "1", "-fetches", "1", "urls"]);
    let output = command.current_dir(&folder).stdin(Stdio::null()).output().expect("drom starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("urls:2: a byte that is no UTF-8; write it as %XX"), "{said}");
}

#[test]
fn a_long_list_of_servers_needs_no_socket_for_each() {
    let servers: Vec<Recording> = (0..40).map(|_| Recording::start()).collect();
    let list: Vec<String> = servers.iter().map(|server| server.url("/ok")).collect();
    let report = stdout(&run("-rate 500 -fetches 100", &list.join("\n")));
    assert!(report.starts_with("100 fetches, "), "{report}");
    assert_eq!(servers.iter().map(|server| server.requests().len()).sum::<usize>(), 100);
}

#[test]
fn a_list_can_be_fetched_at_a_rate_and_through_a_proxy() {
    let server = Recording::start();
    let list = [server.url("/a"), server.url("/b")].join("\n");
    let report = stdout(&run("-rate 200 -jitter -fetches 50", &list));
    assert!(report.starts_with("50 fetches, "), "{report}");
    assert_eq!(server.requests().len(), 50);
    let proxy = format!("-proxy {} -parallel 1 -fetches 4", server.address);
    stdout(&run(&proxy, "http://a.invalid/x\nhttp://b.invalid/x\n"));
    let requests = server.requests();
    assert!(requests[50..].iter().all(|request| request.contains(".invalid/x HTTP/1.0\r\n")));
}

#[test]
fn each_url_has_its_own_number_of_bytes() {
    let server = Recording::start();
    let list = [server.url("/var"), server.url("/ok")].join("\n");
    let output = run("-parallel 1 -fetches 60", &list);
    assert!(stdout(&output).contains(" bad byte counts\nHTTP response codes:\n"));
    let wrong = format!("{}: byte count wrong", server.url("/var"));
    assert!(stderr(&output).lines().all(|line| line == wrong), "{}", stderr(&output));
}

#[test]
fn sums_tell_bodies_of_one_length_apart() {
    let server = Recording::start();
    // The number of the request, in a body of always the same length.
    let output = run("-p 1 -f 6 -checksum", &server.url("/number"));
    assert!(stdout(&output).contains("\n5 bad checksums\nHTTP response codes:\n"));
    assert_eq!(stderr(&output), format!("{}: checksum wrong\n", server.url("/number")).repeat(5));
    let same = stdout(&run("-p 1 -f 6 -checksum", &server.url("/ok")));
    assert!(!same.contains(" bad "), "{same}");
}

#[test]
fn a_throttled_fetch_is_slow() {
    let server = Recording::start();
    let begun = Instant::now();
    // 2000 bytes a second; the body has 1500 of them.
    let report = stdout(&run("-p 1 -f 1 -Throttle 20000", &server.url("/large")));
    assert!(begun.elapsed() > Duration::from_millis(600), "{:?}: {report}", begun.elapsed());
    assert!(report.starts_with("1 fetches, 1 max parallel, 1500 bytes, in "), "{report}");
}

#[test]
fn addresses_take_turns() {
    let server = Recording::start();
    let sources = "127.0.0.2\n127.0.0.3\n\n127.0.0.4\n";
    let url = server.url("/ok");
    let files = [("urls", &*url), ("addresses", sources)];
    stdout(&run_with("-p 1 -f 9 -sip addresses", &files));
    let mut peers = server.peers();
    peers.sort_unstable();
    peers.dedup();
    let wanted: Vec<std::net::IpAddr> = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        .map(|address| address.parse().expect("an address"))
        .to_vec();
    assert_eq!(peers, wanted);
}

#[test]
fn https_is_fetched_whatever_the_certificate() {
    if !Path::new(openssl::OPENSSL).exists() {
        eprintln!("skipped: there is no {}", openssl::OPENSSL);
        return;
    }
    let server = openssl::Server::start(&["rsa:2048"]);
    let url = format!("https://127.0.0.1:{}/", server.port);
    let output = run("-p 2 -f 6 -cipher fastsec", &url);
    let report = stdout(&output);
    assert!(report.starts_with("6 fetches, ") && report.ends_with("  code 200 -- 6\n"), "{report}");
    assert!(stderr(&output).contains("-cipher fastsec (RC4-MD5) cannot be had"));
}
