//! `drom load --find-capacity` from outside, against servers whose limit is known. The margins are
//! wide, for the machine does other things beside: how near the search comes is tested in
//! simulation (`crates/load/src/capacity/search_tests.rs`) and measured by the example `capacity`
//! of the test kit.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::Duration,
};

use crate::loading::{document, drom};
use drom_testkit::{Script, Server, Turn, Window};
use serde_json::Value;

fn start(script: Script) -> (Server, String) {
    let server = Server::start(script).expect("a server");
    let url = format!("http://{}/", server.address());
    (server, url)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_known_limit_is_found_with_an_interval() {
    let (_server, url) = start(Script::limited(300.0));
    // A second and a half of standstill keeps no condition from holding; a queue that grows does.
    let flags = ["--find-capacity", "p99<1500ms,failed<1%", "--capacity-time", "25s", "--json"];
    let output = drom(&[&[url.as_str()][..], &flags].concat());
    let told = document(&output);
    assert_eq!(told["schema"], "drom-load-capacity/1");
    assert_eq!(told["conditions"], serde_json::json!(["p99<1500ms", "failed<1%"]));
    let tries = told["tries"].as_array().expect("tries");
    assert!(tries.len() > 5 && number(&told["duration_s"]) < 120.0, "{told}");
    // A machine with no time for the server or the client cannot give what is there.
    let rate = number(&told["capacity_rps"]);
    assert!((60.0..360.0).contains(&rate), "{told:#}");
    match told["verdict"].as_str() {
        Some("found") => {
            let (lower, upper) = (number(&told["lower_rps"]), number(&told["upper_rps"]));
            assert!(lower <= rate && rate <= upper, "{told:#}");
            assert!(matches!(output.status.code(), Some(0 | 6)), "{}", output.status);
        }
        Some("at_least") => assert!(matches!(output.status.code(), Some(3 | 6)), "{told:#}"),
        other => panic!("{other:?}: {told:#}"),
    }
}

/// Six hundred requests are a queue of six seconds: neither what the closed loop leaves nor a try
/// that is shorter than the queue it makes is taken for the server's rest.
#[test]
fn many_connections_are_no_capacity() {
    let (_server, url) = start(Script::limited(100.0));
    let flags = ["-c", "600", "--find-capacity", "p99<5s", "--capacity-time", "20s", "--json"];
    let output = drom(&[&[url.as_str()][..], &flags].concat());
    let told = document(&output);
    let rate = number(&told["capacity_rps"]);
    assert!((40.0..130.0).contains(&rate), "{told:#}");
}

#[test]
fn a_server_that_is_too_slow_at_any_rate_has_no_capacity() {
    let slow = Turn { status: 503, ..Turn::default() };
    let (_server, url) = start(Script::always(slow));
    let csv = tempfile::NamedTempFile::new().expect("a file");
    let output = drom(&[
        &url,
        "--find-capacity",
        "failed<0.1%",
        "--capacity-time",
        "20s",
        "--capacity-start",
        "40",
        "--capacity-min",
        "20",
        "--csv",
        csv.path().to_str().expect("a name"),
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(10), "{text}");
    assert!(text.contains("none: no rate held, the lowest tried was 20.0/s"), "{text}");
    assert!(text.contains("not failed<0.1%") && !text.contains('\x1b'), "{text}");
    let lines = std::fs::read_to_string(csv.path()).expect("a file");
    assert!(lines.starts_with("rate_rps,duration_s,ended,"), "{lines}");
    // A machine that stands still meanwhile makes it a try that the client has spoiled.
    let ended = |line: &str| line.contains(",failed,") || line.contains(",client,");
    assert!(lines.lines().skip(1).all(ended) && lines.contains(",failed,"), "{lines}");
    assert!(lines.lines().count() > 3, "{lines}");
}

#[test]
fn what_holds_at_the_highest_rate_is_a_lower_bound() {
    let (_server, url) = start(Script::always(Turn::default()));
    let flags = ["--find-capacity", "p99<5s", "--capacity-time", "20s", "--capacity-start", "50"];
    let more = ["--capacity-max", "60", "--quiet"];
    let output = drom(&[&[url.as_str()][..], &flags, &more].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // On a machine that has no time for the client it is the client that is named.
    let highest = text.contains("at least 60.0/s") && text.contains("--capacity-max");
    match output.status.code() {
        Some(0) => assert!(highest, "{text}"),
        Some(3 | 6) => assert!(text.contains("at least") && text.contains("client"), "{text}"),
        code => panic!("{code:?}: {text}"),
    }
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each answer takes 100 ms, on however many connections: two of them carry 20 a second. Each has a
/// thread; what the search asks over one has one.
#[test]
fn too_few_connections_are_named_as_the_limit() {
    let delay = drom_testkit::Delay::Constant(Duration::from_millis(100));
    let (_server, url) = start(Script::always(Turn::after(delay)));
    let flags = ["-c", "2", "-t", "2", "--find-capacity", "p99<1s", "--capacity-time", "20s"];
    let output = drom(&[&[url.as_str()][..], &flags, &["--json"]].concat());
    let told = document(&output);
    assert!(matches!(output.status.code(), Some(3 | 6)), "{told:#}");
    assert_eq!(told["verdict"], "at_least", "{told:#}");
    // A machine that has no time for the client has it named first.
    assert!(told["wall"] == "connections" || told["wall"] == "client", "{told:#}");
    assert!((5.0..25.0).contains(&number(&told["capacity_rps"])), "{told:#}");
}

/// Eight requests are under way at the server's limit of 100 a second: with ten connections its
/// answers take a quarter longer, and all of the connections are in use. It is full all the same.
#[test]
fn a_server_as_full_as_its_connections_has_a_capacity() {
    let delay = drom_testkit::Delay::Constant(Duration::from_millis(70));
    let script = Script { capacity_rps: Some(100.0), ..Script::always(Turn::after(delay)) };
    let (_server, url) = start(script);
    let flags = ["-c", "10", "--find-capacity", "p99<1s", "--capacity-time", "20s", "--json"];
    let told = document(&drom(&[&[url.as_str()][..], &flags].concat()));
    assert!((50.0..115.0).contains(&number(&told["capacity_rps"])), "{told:#}");
    // A machine that has no time for the client has it named.
    assert!(told["verdict"] == "found" || told["wall"] == "client", "{told:#}");
}

/// What was seen last is the end of the server, not its limit.
#[test]
fn a_server_that_does_not_answer_any_more_has_no_capacity() {
    let script =
        Script { freezes: vec![Window::new(5_000, 25_000)], ..Script::always(Turn::default()) };
    let (_server, url) = start(script);
    let flags = ["--find-capacity", "p99<250ms", "--capacity-time", "20s"];
    let more = ["--capacity-start", "100", "--json"];
    let output = drom(&[&[url.as_str()][..], &flags, &more].concat());
    let told = document(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told:#}");
    assert!(said.contains("ended early: nothing answers at"), "{said}");
    assert!(told["verdict"] == "at_least" && told["wall"] == "gone", "{told:#}");
    assert!(told["upper_rps"].is_null() && number(&told["duration_s"]) < 25.0, "{told:#}");
}

/// A round takes 100 ms of thinking, on however many connections: two users make 20 a second.
#[test]
fn too_few_users_are_named_as_the_limit() {
    let (_server, url) = start(Script::always(Turn::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("think.toml");
    let step = "[[step]]\nurl = '/'\nthink = '100ms'\n[[step]]\nurl = '/'\n";
    std::fs::write(&path, format!("base = '{url}'\n{step}")).expect("written");
    let path = path.to_str().expect("text");
    let flags = ["-c", "2", "--find-capacity", "p99<1s", "--capacity-time", "20s", "--json"];
    let output = drom(&[&[path][..], &flags].concat());
    let told = document(&output);
    assert!(matches!(output.status.code(), Some(3 | 6)), "{told:#}");
    assert_eq!(told["verdict"], "at_least", "{told:#}");
    assert!(told["wall"] == "connections" || told["wall"] == "client", "{told:#}");
}

#[test]
fn who_stops_it_is_told_what_is_known() {
    let (_server, url) = start(Script::limited(500.0));
    let mut child = Command::new(env!("CARGO_BIN_EXE_drom"))
        .args(["load", &url, "--find-capacity", "p99<100ms", "--progress", "lines"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("drom can be started");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
    said.read_line(&mut line).expect("a line");
    assert!(line.starts_with("try 1 ") && line.contains("/s"), "{line}");
    // SAFETY: no pointers; the child is ours and not waited for yet.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let mut text = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
    assert!(text.contains("stopped early") && text.contains("Capacity"), "{text}");
}

#[test]
fn nonsense_is_refused_with_words() {
    let url = "http://127.0.0.1:9/";
    let search = ["--find-capacity", "p99<50ms"];
    for (flags, words) in [
        (&["--find-capacity", "p99"][..], "no comparison"),
        (&["--find-capacity", "rate>=2k"], "the rate is what is searched for"),
        (&["--find-capacity", "whole.p99<50ms"], "takes a connection for each request"),
        (&["--find-capacity", "tls.p99<50ms"], "takes TLS, an https:// URL"),
        (&["--threshold", "lag.p99<1ms"], "lag.p99<1ms cannot be measured"),
        (&["--capacity-time", "60s"], "--find-capacity"),
        (&["--capacity-time", "60s", "-n", "1"], "cannot be used with"),
        (&[search[0], search[1], "--capacity-time", "5s"], "at least 20 s"),
        (&[search[0], search[1], "--capacity-min", "9", "--capacity-max", "8"], "is more than"),
        (&[search[0], search[1], "--rate", "5"], "cannot be used with '--rate"),
        (&[search[0], search[1], "--html", "x.html"], "cannot be used with '--html"),
        (&[search[0], search[1], "--threshold", "p50<1s"], "cannot be used with '--threshold"),
        (&[search[0], search[1], "-n", "5"], "cannot be used with '--requests"),
        (&[search[0], search[1], "--urls", "/dev/null"], "there is no URL in it"),
        (&[search[0], search[1], "--replay", "access.log"], "cannot be used with '--replay"),
    ] {
        let output = drom(&[&[url][..], flags].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}

/// Of two steps: half as many rounds as the server takes requests.
#[test]
fn of_a_scenario_it_is_a_rate_of_rounds() {
    let (_server, url) = start(Script::limited(200.0));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.toml");
    let text = format!("base = \"{url}\"\n[[step]]\nurl = \"/\"\n[[step]]\nurl = \"/\"\n");
    std::fs::write(&file, text).expect("a file");
    let flags = ["-c", "16", "--find-capacity", "p99<1500ms,failed<1%", "--capacity-time", "25s"];
    let name = file.to_str().expect("text");
    let told = document(&drom(&[&[name, "--json"][..], &flags].concat()));
    assert_eq!(told["counts"], "rounds", "{told:#}");
    let rate = number(&told["capacity_rps"]);
    assert!((20.0..125.0).contains(&rate), "{told:#}");
}

#[test]
fn no_server_is_told_as_ever() {
    let output = drom(&["http://127.0.0.1:9/", "--find-capacity", "p99<50ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused the connection"));
}
