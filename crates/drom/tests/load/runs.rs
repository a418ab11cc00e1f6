//! `drom load` from outside: what it prints, what it refuses, how it ends.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::loading::{document, drom, server};
use serde_json::{Value, json};

/// Answers each connection's first request with `answer` and closes; tells the requests it saw.
fn answering(answer: &'static [u8]) -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/p", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            request.truncate(length);
            // The test may be over before the last request is.
            let _ = tell.send(request);
            let _ = stream.write_all(answer);
        }
    });
    (url, told)
}

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The client shares the machine with other tests, so that it may be found to be the limit.
fn assert_measured(output: &Output) {
    assert!(
        matches!(output.status.code(), Some(0 | 3 | 6)),
        "{} {}",
        output.status,
        stderr(output)
    );
}

#[test]
fn json_has_the_documented_keys_and_counts_that_add_up() {
    let (_server, url) = server();
    let output = drom(&[&url, "-c", "4", "-n", "500", "--json"]);
    assert_measured(&output);
    let found = document(&output);
    let keys: Vec<&str> =
        found.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut wanted = "schema version url opened_at plan streams_max engine fallback ".to_owned();
    wanted += "duration_s requests bytes_read rate_rps latency_us phases status errors error_us ";
    wanted += "client kernel checks ";
    wanted += "thresholds series";
    assert_eq!(keys.join(" "), wanted);
    assert_eq!(found["schema"], "drom-load/1");
    assert_eq!(
        found["requests"],
        json!({"sent": 500, "ok": 500, "failed": 0, "in_flight": 0, "resent": 0})
    );
    assert_eq!((&found["status"], &found["errors"]), (&json!({"200": 500}), &json!({})));
    let latency = &found["latency_us"];
    let at = |key: &str| latency[key].as_f64().expect("a number");
    assert!(["p50", "p90", "p99", "p999", "max"].map(at).is_sorted() && at("p50") > 0.0);
    assert!(at("mean") > 0.0 && found["client"]["cpu_us_per_request"].as_f64() > Some(0.0));
    assert!(found["client"]["limited"].is_boolean());
    assert_eq!(found["client"]["limited"] == true, found["client"]["cause"].is_string());
    assert!(found["client"]["held_share"].as_f64().is_some_and(|share| share <= 1.0));
    assert!(found["kernel"]["retransmits"].is_u64() && found["kernel"]["ports"].is_u64());
    assert_eq!(found["kernel"]["is_server_local"], true);
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    assert_eq!((&found["url"], &found["plan"]["requests"]), (&json!(url), &json!(500)));
}

#[test]
fn the_exit_status_follows_the_checks() {
    let (_server, url) = server();
    let output = drom(&[&url, "-n", "2000", "--json"]);
    let found = document(&output);
    let checks = found["checks"].as_array().expect("checks").iter();
    let failed: Vec<&Value> =
        checks.filter(|check| check["state"] == "failed").map(|check| &check["name"]).collect();
    let wanted = match &failed[..] {
        [] => 0,
        [only] if *only == "client" => 3,
        _ => 6,
    };
    assert_eq!(output.status.code(), Some(wanted), "{failed:?}");
}

#[test]
fn the_text_report_is_complete_and_uncoloured() {
    let (_server, url) = server();
    let output = drom(&[&url, "-d", "200ms", "--warmup", "100ms", "-t", "2"]);
    assert_measured(&output);
    let text = stdout(&output);
    for word in ["Target", &url, "Rate", "answers/s", "p99.9", "200", "In flight", "warm-up"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let checks = ["counts", "errors", "connections", "little", "client", "retransmits"];
    for check in checks.into_iter().chain(["listen_queue", "ports", "descriptors"]) {
        assert!(text.contains(check), "{check} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    assert!(
        text.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line),
        "{text}"
    );
}

#[test]
fn the_request_is_what_the_flags_say() {
    let (url, told) = answering(CLOSING);
    let output = drom(&[&url, "-n", "1", "--data", "a=1", "-H", "X-Y:  z", "-H", "Host: other"]);
    assert_measured(&output);
    let request = told.recv_timeout(Duration::from_secs(5)).expect("a request");
    let text = "POST /p HTTP/1.1\r\nX-Y: z\r\nHost: other\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=1";
    assert_eq!(String::from_utf8_lossy(&request), text);
}

#[test]
fn a_data_file_is_sent_and_a_missing_one_named() {
    let (url, told) = answering(CLOSING);
    let file = std::env::temp_dir().join(format!("drom-load-test-{}", std::process::id()));
    std::fs::write(&file, b"bytes\0").expect("a file");
    let name = file.to_str().expect("a name");
    let output = drom(&[&url, "-n", "1", "-m", "PUT", "--no-keepalive", "--data-file", name]);
    std::fs::remove_file(&file).expect("removed");
    assert_measured(&output);
    let request = told.recv_timeout(Duration::from_secs(5)).expect("a request");
    let text = String::from_utf8_lossy(&request).into_owned();
    assert!(text.starts_with("PUT /p ") && text.contains("Connection: close\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nbytes\0"), "{text}");
    let missing = drom(&[&url, "-n", "1", "--data-file", name]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains(name));
}

#[test]
fn errors_are_counted_by_kind() {
    let (url, _told) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    let output = drom(&[&url, "-c", "2", "-n", "6", "--json"]);
    assert_eq!(output.status.code(), Some(1), "not one answer");
    let found = document(&output);
    assert_eq!(found["errors"], json!({"closed": 6}));
    assert_eq!(found["requests"]["failed"], 6);
    assert!(found["latency_us"]["p50"].is_null(), "no answer has no latency");
}

#[test]
fn bad_flags_and_urls_are_usage_errors_that_say_what_to_do() {
    let cases: [(&[&str], &str); 28] = [
        (&["--self-test", "--pipeline", "16"], "cannot be used with '--pipeline <N>'"),
        (&["--self-test", "--cacert", "/none"], "cannot be used with"),
        (&["localhost:80/x"], "did you mean http://localhost:80/x ?"),
        (&["http://127.0.0.1/", "-c", "-5"], "no whole number"),
        (&["http://127.0.0.1/", "-n", "10x"], "no whole number; write 32, 10k or 2M"),
        (&["http://127.0.0.1/", "-n", "0"], "1 or more"),
        (&["http://127.0.0.1/", "-t", "0"], "1 or more"),
        (&["http://127.0.0.1/", "-c", "5000M"], "more than can be"),
        (&["http://127.0.0.1/", "-k", "--no-keepalive"], "cannot be used with"),
        (&["https://127.0.0.1/", "--cacert", "/nonexistent"], "/nonexistent"),
        (&["http://127.0.0.1/", "--cacert", "/nonexistent"], "/nonexistent cannot be used for TLS"),
        (&["http://127.0.0.1/", "--cert", "/none", "--key", "/dev/null"], "/none cannot be used"),
        (&["http://a/{{seq}}", "--resolve", "127.0.0.1", "--cacert", "/none"], "/none cannot be"),
        (&["http://127.0.0.1/", "--resolve", "foo"], "'--resolve <ADDR[:PORT]>': an address is"),
        (&["http://127.0.0.1/", "--resolve", "127.0.0.1:0"], "a number from 1 to 65535"),
        (&["http://127.0.0.1/", "--source-address", "x"], "no IP address"),
        (&["http://127.0.0.1/", "--cert", "x"], "--key"),
        (&["http://127.0.0.1/", "--pipeline", "2", "--no-keepalive"], "cannot be used with"),
        (&["127.0.0.1:80"], "must begin with http://"),
        (&["ftp://127.0.0.1/"], "http://"),
        (&["http://127.0.0.1:x/"], "port"),
        (&["http://127.0.0.1/", "-d", "soon"], "10s"),
        (&["http://127.0.0.1/", "-c", "0"], "connection"),
        (&["http://127.0.0.1/", "-c", "1", "-t", "2"], "threads"),
        (&["http://127.0.0.1/", "-n", "1", "-d", "1s"], "cannot be used with"),
        (&["http://127.0.0.1/", "-H", "nonsense"], "Name: value"),
        (&["http://127.0.0.1/", "-H", "Content-Length: 1"], "framing"),
        (&[], "URL"),
    ];
    for (arguments, hint) in cases {
        let output = drom(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn habits_of_ab_and_wrk_are_understood() {
    let (_server, url) = server();
    let output = drom(&[&url, "-k", "-c", "20", "-n", "1k", "--json"]);
    assert_measured(&output);
    assert_eq!(document(&output)["requests"]["ok"], 1_000);
    let few = drom(&[&url, "-c", "20", "-n", "5"]);
    assert!(stdout(&few).contains("5 connections (of 20: one request each)"), "{}", stdout(&few));
    let closing = drom(&[&url, "-n", "5", "-H", "Connection: close"]);
    assert!(stdout(&closing).contains("a connection for each request"), "{}", stdout(&closing));
}

#[test]
fn a_server_that_never_answers_is_told_by_kind() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let output = drom(&[&url, "-n", "2", "--timeout", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2 requests failed (2 x timeout)"), "{}", stderr(&output));
    let output = drom(&[&url, "-d", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("no request ended in the window"), "{}", stdout(&output));
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    drop(listener);
    let output = drom(&[&url, "-d", "30s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("refused"), "{}", stderr(&output));
}

#[test]
fn too_many_connections_name_the_limit() {
    let script = "ulimit -n 100; exec \"$0\" load http://127.0.0.1:1/ -c 200";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_drom")]).output();
    let output = output.expect("sh");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("limit is 100"), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -n"), "{}", stderr(&output));
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let (_server, url) = server();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", &url, "-d", "60s", "--json"]).stdout(Stdio::piped());
    let child = command.spawn().expect("drom can be started");
    thread::sleep(Duration::from_millis(500));
    // SAFETY: a signal to a child of this test that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(document(&output)["requests"]["ok"].as_u64() > Some(0));
}

#[test]
fn stopped_in_the_warm_up_nothing_was_measured() {
    let (_server, url) = server();
    for (form, words) in [("--quiet", "nothing was measured"), ("--json", "\"rate_rps\": null")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
        command.args(["load", &url, "--warmup", "60s", form]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        drom_observe::clock::sleep(Duration::from_millis(700));
        // SAFETY: a signal to the process that this test started.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(130));
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
        assert!(!stdout(&output).contains("answers/s"), "{}", stdout(&output));
    }
}

#[test]
fn an_old_locale_gets_ascii_alone() {
    let (_server, url) = server();
    let run = |locale: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
        command.args(["load", &url, "-d", "300ms", "-c", "1"]).env("LC_ALL", locale);
        stdout(&command.stdin(Stdio::null()).output().expect("runs"))
    };
    assert!(run("C").is_ascii() && run("C").contains(" us"), "{}", run("C"));
    assert!(run("C.UTF-8").contains(" \u{b5}s"), "{}", run("C.UTF-8"));
}

#[test]
fn two_hosts_are_refused() {
    let output = drom(&["http://127.0.0.1:1/", "-H", "Host: a", "-H", "host: b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("Host is given twice"), "{}", stderr(&output));
}
