//! What `drom record` writes, when, and of which requests; and what it makes of others' files.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use crate::recorder::{Behind, Recorder};
use crate::support::{Client, eventually, kill};
use drom_scenario::Scenario;

fn drom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drom")).arg("record").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_pause_writes_the_file_and_a_kill_leaves_it() {
    let behind = Behind::usual();
    let mut recorder = Recorder::start(&behind.url(), &["-q"]);
    let mut client = Client::new(recorder.address);
    client.get("/one");
    let has = |text: &str| eventually(Duration::from_secs(10), || recorder.text().contains(text));
    assert!(has("url = \"/one\""));
    client.get("/two");
    assert!(has("url = \"/two\""));
    assert_eq!(recorder.said(), "", "quiet");
    let text = recorder.text();
    assert!(text.contains("think = \""), "it took more than a second: {text}");
    kill(recorder.pid(), libc::SIGKILL);
    recorder.wait();
    assert_eq!(recorder.text(), text);
    Scenario::read(&recorder.file(), &[]).unwrap();
    let names = std::fs::read_dir(recorder.dir.path()).unwrap();
    assert_eq!(names.count(), 1, "nothing beside it");
}

#[test]
fn a_number_of_requests_ends_it() {
    let behind = Behind::usual();
    let mut recorder = Recorder::start(&behind.url(), &["-n", "2", "-o", "-"]);
    let mut client = Client::new(recorder.address);
    client.get("/one");
    client.get("/two");
    let ended = recorder.wait();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout.matches("[[step]]").count(), 2, "{}", ended.stdout);
    Scenario::parse(&ended.stdout, Path::new("a.toml"), &[], &|_| unreachable!()).unwrap();
}

#[test]
fn some_requests_are_left_out() {
    let behind = Behind::usual();
    let flags = ["--skip-type", "image/*,text/CSS", "--only", "/s", "--only", "/h"];
    let mut recorder = Recorder::start(&behind.url(), &flags);
    let mut client = Client::new(recorder.address);
    for path in ["/see", "/style.css", "/hello", "/other"] {
        assert_eq!(client.get(path).status, 200);
    }
    let text = recorder.scenario();
    assert_eq!(text.matches("[[step]]").count(), 2, "{text}");
    assert!(text.contains("/see") && text.contains("/hello"), "{text}");
    assert!(recorder.said().contains("(left out)"), "{}", recorder.said());
}

#[test]
fn nothing_recorded_is_no_success() {
    let behind = Behind::usual();
    let mut recorder = Recorder::start(&behind.url(), &[]);
    let ended = recorder.interrupt();
    assert_eq!(ended.status, Some(1));
    assert!(ended.stderr.contains("nothing was recorded"), "{}", ended.stderr);
    assert!(!recorder.file().exists());
}

#[test]
fn wrong_flags_say_what_is_wrong() {
    let cases: [(&[&str], &str); 8] = [
        (&[], "--to"),
        (&["--to", "http://127.0.0.1:1/app"], "--only PREFIX"),
        (&["--to", "127.0.0.1:1"], "did you mean http://127.0.0.1:1"),
        (&["--to", "http://127.0.0.1:1", "--listen", "x"], "127.0.0.1:8888"),
        (&["--to", "http://127.0.0.1:1", "-o", "/no/such/folder/a"], "cannot be written"),
        (&["--to", "http://127.0.0.1:1", "--from-har", "a"], "cannot be used with"),
        (&["--from-har", "a", "-n", "1"], "cannot be used with"),
        (&["--from-har", "a", "--keep-host"], "cannot be used with"),
    ];
    for (flags, words) in cases {
        let output = drom(flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?} {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{flags:?} {}", stderr(&output));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let output = drom(&["--to", "http://127.0.0.1:1", "--listen", &listen]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot listen on"), "{}", stderr(&output));
}

const HAR: &str = r#"{"log": {"entries": [
 {"startedDateTime": "2026-01-31T10:00:00Z", "time": 20,
  "request": {"method": "GET", "url": "http://a.example/x?token=s3cret", "headers": []},
  "response": {"status": 200, "headers": [{"name": "Content-Type", "value": "text/html"}]}},
 {"startedDateTime": "2026-01-31T10:00:01Z", "time": 5,
  "request": {"method": "GET", "url": "http://cdn.example/a.png", "headers": []},
  "response": {"status": 200, "headers": [{"name": "content-type", "value": "image/png"}]}}
]}}"#;

#[test]
fn an_archive_becomes_a_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let (har, toml) = (dir.path().join("x.har"), dir.path().join("x.toml"));
    std::fs::write(&har, HAR).unwrap();
    let (har, out) = (har.to_str().unwrap(), toml.to_str().unwrap());
    let output = drom(&["--from-har", har, "-o", out, "--mask"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(&toml).unwrap();
    assert!(!text.contains("s3cret") && text.matches("[[step]]").count() == 2, "{text}");
    Scenario::read(&toml, &[]).unwrap();
    let output = drom(&["--from-har", har, "--skip-type", "image/*"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("a.example") && !text.contains("cdn.example"), "{text}");
    let output = drom(&["--from-har", har, "--host", "cdn.example"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("[[step]]").count(), 1);
    assert!(stderr(&output).contains("1 request recorded"), "{}", stderr(&output));
    let output = drom(&["--from-har", har, "--host", "nowhere.example"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    std::fs::write(dir.path().join("bad.har"), "{").unwrap();
    let output = drom(&["--from-har", dir.path().join("bad.har").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.har:1: this is no HAR file"), "{}", stderr(&output));
}

#[test]
fn a_log_is_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let line = |second: u32, request: &str| {
        format!("::1 - - [31/Jan/2026:10:00:{second:02} +0000] \"{request}\" 200 5\n")
    };
    let lines = [line(0, "GET / HTTP/1.1"), line(10, "GET /a HTTP/1.1"), "what?\n".to_owned()];
    std::fs::write(&log, lines.concat() + &line(11, "POST /b HTTP/1.1")).unwrap();
    let output = drom(&["--from-log", log.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("2 requests in 10 s, 0.20 a second"), "{text}");
    assert!(text.contains("1 more that are neither GET nor HEAD"), "{text}");
    assert!(text.contains("line 3: "), "{text}");
}
