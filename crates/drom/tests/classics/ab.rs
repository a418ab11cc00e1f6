//! `drom ab` beside the ab that is installed: the same server, the same words, the same lines.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::recording::Recording;
use regex::Regex;

const REAL: &str = "/usr/bin/ab";

fn real_is_there() -> bool {
    let there = Path::new(REAL).exists();
    if !there {
        eprintln!("skipped: there is no {REAL} to compare with");
    }
    there
}

fn ours(arguments: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("ab").args(arguments).stdin(Stdio::null()).output().expect("drom starts")
}

fn real(arguments: &[String]) -> Output {
    Command::new(REAL).args(arguments).stdin(Stdio::null()).output().expect("ab starts")
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Lines that depend on time, each a form with figures in it.
const TIMED: &[&str] = &[
    r"^Time taken for tests:   [0-9]+\.[0-9]{3} seconds$",
    r"^Requests per second:    [0-9]+\.[0-9]{2} \[#/sec\] \(mean\)$",
    r"^Time per request:       [0-9]+\.[0-9]{3} \[ms\] \(mean\)$",
    r"^Time per request:       [0-9]+\.[0-9]{3} \[ms\] \(mean, across all concurrent requests\)$",
    r"^Transfer rate:          [0-9]+\.[0-9]{2} \[Kbytes/sec\] received$",
    r"^                        [0-9]+\.[0-9]{2} kb/s (sent|total)$",
    r"^(Connect|Processing|Waiting|Total): +[0-9]+ +[0-9]+ +[0-9]+\.[0-9] +[0-9]+ +[0-9]+$",
    r"^(Connect|Processing|Waiting|Total): +[0-9]+ +[0-9]+ +[0-9]+$",
    r"^ {1,2}[0-9]{2,3}% +[0-9]+( \(longest request\))?$",
    r"^<tr [^>]*><th colspan=2 [^>]*>(Time taken for tests|Requests per second|Transfer rate):.*$",
    r"^<tr [^>]*><td colspan=2 [^>]*>&nbsp;</td><td colspan=2 [^>]*>[0-9.]+ kb/s (sent|total)<.*$",
    r"^<tr [^>]*><th [^>]*>(Connect|Processing|Total):</th>(<td [^>]*> *-?[0-9]+</td>){3}</tr>$",
];

/// A report without its banner, with the form in place of what depends on time.
fn comparable(output: &Output, address: &str) -> Vec<String> {
    let forms: Vec<Regex> = TIMED.iter().map(|form| Regex::new(form).expect("a form")).collect();
    let said = text(&output.stdout).replace(address, "HOST");
    let port = address.rsplit(':').next().expect("a port");
    let said = said.replace(port, "PORT");
    let doubt = ["WARNING: The med", "ERROR: The med", "        These results", "       deviation"];
    let banner = if said.starts_with('<') { 5 } else { 3 };
    let lines = said.lines().skip(banner).filter(|line| !doubt.iter().any(|d| line.starts_with(d)));
    let form = |line: &str| {
        let found = forms.iter().position(|form| form.is_match(line));
        found.map_or_else(|| line.to_owned(), |at| TIMED[at].to_owned())
    };
    lines.map(form).collect()
}

/// Runs both against servers of their own; `URL` in the line is the server's.
fn both(line: &str) -> [(Output, Recording); 2] {
    [real as fn(&[String]) -> Output, ours].map(|run| {
        let server = Recording::start();
        let output = run(&words(&line.replace("URL", &server.url(""))));
        (output, server)
    })
}

fn assert_same(line: &str) {
    let [(real, at), (ours, at_ours)] = both(line);
    assert_eq!(real.status.code(), ours.status.code(), "{line}: {}", text(&ours.stderr));
    let wanted = comparable(&real, &at.address.to_string());
    assert_eq!(wanted, comparable(&ours, &at_ours.address.to_string()), "{line}");
    assert_eq!(text(&real.stderr), text(&ours.stderr), "{line}");
}

#[test]
fn reports_are_abs_line_by_line() {
    if !real_is_there() {
        return;
    }
    for line in [
        "URL/ok",
        "-n 20 -c 3 URL/ok",
        "-n 20 -c 3 -k URL/ok",
        "-kn20 URL/var",
        "-n 20 URL/var",
        "-l -n 20 -c 2 URL/var",
        "-n 5 URL/404",
        "-i -n 5 URL/ok",
        "-S -d -n 9 URL/ok",
        "-q -n 160 -k URL/ok",
        "-n 320 -k -c 2 URL/ok",
        "-n 10 -b 20000 -B 127.0.0.1 URL/ok",
    ] {
        assert_same(line);
    }
}

#[test]
fn answers_that_are_cut_off_are_counted_as_ab_counts_them() {
    if !real_is_there() {
        return;
    }
    for line in ["-n 20 URL/short", "-n 20 -k URL/short", "-n 20 URL/close", "-n 20 -k URL/close"] {
        assert_same(line);
    }
}

#[test]
fn resets_end_the_run_or_are_counted_thrice() {
    if !real_is_there() {
        return;
    }
    for line in
        ["-n 20 URL/reset", "-n 20 -k URL/reset", "-n 20 -r URL/reset", "-r -l -n 20 -k URL/reset"]
    {
        assert_same(line);
    }
}

#[test]
fn tables_are_abs_line_by_line() {
    if !real_is_there() {
        return;
    }
    for line in ["-w -n 3 URL/ok", "-x border=1 -y a -z b -k -n 5 URL/var", "-w -i -n 3 URL/404"] {
        assert_same(line);
    }
}

#[test]
fn the_server_is_asked_the_same_bytes() {
    if !real_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, "a=b&c=d").expect("written");
    let file = file.to_str().expect("text");
    for line in [
        "-n 2 URL/x?y=z".to_owned(),
        "-k -C a=1 -C b=2 -A u:p -P x:y -H X-A:1 -H User-Agent:foo -H Host:h URL/ok".to_owned(),
        "-i -H accept:q URL/ok".to_owned(),
        "-m OPTIONS -n 2 -k URL/ok".to_owned(),
        format!("-p {file} -T a/b -n 2 URL/ok"),
        format!("-k -u {file} -n 2 URL/ok"),
    ] {
        let [(_, at), (ours, at_ours)] = both(&line);
        assert_eq!(at.requests(), at_ours.requests(), "{line}: {}", text(&ours.stderr));
        assert!(!at.requests().is_empty(), "{line}");
    }
    assert_same(&format!("-p {file} -n 7 -c 2 URL/ok"));
    assert_same(&format!("-w -p {file} -n 7 URL/ok"));
}

#[test]
fn a_proxy_is_asked_the_same_bytes() {
    if !real_is_there() {
        return;
    }
    let asked = [real as fn(&[String]) -> Output, ours].map(|run| {
        let server = Recording::start();
        let output = run(&words(&format!("-X {} http://foo.bar:81/baz", server.address)));
        (server.requests(), comparable(&output, &server.address.to_string()))
    });
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn wrong_words_end_as_abs_do() {
    if !real_is_there() {
        return;
    }
    for line in [
        "",
        "-h",
        "-n",
        "-n 0 a/",
        "-n 2 -c 3 a/",
        "-n 500000 -c 200001 a/",
        "http://127.0.0.1",
        "a/ b/",
        "-i -p /etc/hosts a/",
        "-p /no/such/file a/",
        "-n 1 http://127.0.0.1:1/",
        "-n 1 http://no.such.name.invalid/",
    ] {
        let (real, ours) = (real(&words(line)), ours(&words(line)));
        assert_eq!(real.status.code(), ours.status.code(), "{line}");
        let first = |output: &Output| {
            let stderr = text(&output.stderr);
            let first = stderr.lines().next().unwrap_or_default().replace(REAL, "ab");
            // The resolver's own words depend on what it reached.
            first.split(": Temporary failure").next().unwrap_or_default().to_owned()
        };
        let (real, ours) = (first(&real), first(&ours));
        assert!(ours.starts_with(&real), "{line}: {real:?}, ours {ours:?}");
    }
}

#[test]
fn files_are_abs() {
    if !real_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let lines = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(path(name)).expect("a file");
        text.lines().map(str::to_owned).collect()
    };
    for (run, name) in [(real as fn(&[String]) -> Output, "real"), (ours, "ours")] {
        let server = Recording::start();
        let (csv, plot) = (path(&format!("{name}.csv")), path(&format!("{name}.tsv")));
        run(&words(&format!("-n 9 -e {csv} -g {plot} {}", server.url("/ok"))));
    }
    let (real, ours) = (lines("real.csv"), lines("ours.csv"));
    assert_eq!((real[0].clone(), real.len()), (ours[0].clone(), ours.len()));
    let percent = Regex::new(r"^[0-9]+,[0-9]+\.[0-9]{3}$").expect("a form");
    assert!(ours[1..].iter().chain(&real[1..]).all(|line| percent.is_match(line)), "{ours:?}");
    let (real, ours) = (lines("real.tsv"), lines("ours.tsv"));
    assert_eq!((real[0].clone(), real.len()), (ours[0].clone(), ours.len()));
    let row = r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9:]{8} [0-9]{4}\t[0-9]{10}(\t[0-9]+){4}$";
    let row = Regex::new(row).expect("a form");
    assert!(ours[1..].iter().chain(&real[1..]).all(|line| row.is_match(line)), "{ours:?}");
    // Both ran within a minute, in the same zone.
    assert_eq!(ours[1][..13], real[1][..13]);
}

#[test]
fn a_wait_that_is_too_long_ends_the_run() {
    let server = Recording::start();
    let output = ours(&words(&format!("-s 1 -n 3 {}", server.url("/hang"))));
    assert_eq!(output.status.code(), Some(119));
    let stderr = text(&output.stderr);
    assert_eq!(stderr, "apr_pollset_poll: The timeout specified has expired (70007)\n");
}

/// 192.0.2.1 is nobody's (RFC 5737).
#[test]
fn an_address_of_others_cannot_be_bound_to() {
    let server = Recording::start();
    let output = ours(&words(&format!("-n 2 -B 192.0.2.1 {}", server.url("/ok"))));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(libc::EADDRNOTAVAIL), "{stderr}");
    assert_eq!(stderr, "bind: Cannot assign requested address (99)\n");
}

#[test]
fn a_time_limit_ends_the_run_with_a_report() {
    let server = Recording::start();
    let began = Instant::now();
    let output = ours(&words(&format!("-t 1 -c 2 -k {}", server.url("/slow"))));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(output.status.code(), Some(0));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("Failed requests:        0\n"), "{stdout}");
    assert!(stderr.starts_with("Finished ") && stderr.ends_with(" requests\n"), "{stderr}");
}

#[test]
fn ctrl_c_prints_what_there_is() {
    let server = Recording::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let command = command.args(["ab", "-n", "100000", "-c", "2", &server.url("/slow")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("drom starts");
    let until = Instant::now() + Duration::from_secs(20);
    while server.requests().len() < 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: a signal to a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(
        stdout.contains("\nComplete requests:      ") && stdout.contains("\n 100% "),
        "{stdout}"
    );
    assert!(!text(&output.stderr).contains("Finished"));
}

#[test]
fn a_link_named_ab_is_ab() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("ab");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_drom"), &link).expect("a link");
    let server = Recording::start();
    let output = Command::new(&link).args(["-n3", &server.url("/ok")]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Complete requests:      3\n"));
}

#[test]
fn the_native_report_stands_below() {
    let server = Recording::start();
    let output = ours(&words(&format!("--native -n 30 -c 3 {}", server.url("/ok"))));
    let stdout = text(&output.stdout);
    let (old, native) = stdout.split_once("(longest request)\n").expect("both");
    assert!(old.contains("Complete requests:      30\n"));
    assert!(native.contains("Latency") && native.contains("Checks"), "{native}");
}

#[test]
fn what_tls_cannot_do_is_said() {
    for (line, what) in [
        ("-f TLS1.1 https://127.0.0.1/", "-f TLS1.1: TLS 1.2 and 1.3 are built"),
        ("-Z RC4 https://127.0.0.1/", "error setting cipher list [RC4]"),
    ] {
        let output = ours(&words(line));
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(text(&output.stderr).starts_with(&format!("ab: {what}")), "{line}");
    }
}
