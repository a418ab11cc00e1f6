//! `drom load --rate` from outside: requests at their times, whatever becomes of those before.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::loading::{document, drom, server};
use drom_testkit::{Script, Server, Turn};
use serde_json::Value;

/// One connection at a time, each answer after a pause.
fn slow_server(pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|length| length > 0) {
                thread::sleep(pause);
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                    break;
                }
            }
        }
    });
    url
}

#[test]
fn a_rate_is_kept_and_its_figures_are_told() {
    let (_server, url) = server();
    let output = drom(&[&url, "-c", "20", "--rate", "500", "-d", "2s", "--json"]);
    let told = document(&output);
    assert_eq!(told["engine"], "open-loop http/1.1 epoll");
    assert_eq!(told["requests"]["ok"], 1000);
    let open = &told["open"];
    assert_eq!((&open["planned"], &open["unsent"]), (&1000.into(), &0.into()));
    assert_eq!((&open["arrivals"], &open["seed"]), (&"constant".into(), &Value::Null));
    assert!((told["duration_s"].as_f64().unwrap() - 2.0).abs() < 1e-6);
    assert!((open["planned_rps"].as_f64().unwrap() - 500.0).abs() < 1e-6);
    let p50 = |figures: &Value| figures["p50"].as_f64().expect("a latency");
    assert!(p50(&told["latency_us"]) >= p50(&open["service_us"]));
}

#[test]
fn a_seed_makes_the_same_arrivals_again() {
    let (_server, url) = server();
    let sent = |seed: &str| {
        let stages = "300ms:0-400,300ms:400";
        let flags = [&url, "--stages", stages, "--arrivals", "poisson", "--seed", seed, "--json"];
        let told = document(&drom(&flags));
        assert_eq!(told["open"]["seed"].to_string(), seed);
        told["open"]["planned"].as_u64().expect("a count")
    };
    let first = sent("7");
    assert!((100..260).contains(&first), "{first} of about 180");
    assert_eq!(sent("7"), first);
    assert!((8..20).any(|seed| sent(&seed.to_string()) != first));
}

/// The server answers 10 a second, and 40 a second are planned.
#[test]
fn what_could_not_be_sent_is_told() {
    let url = slow_server(Duration::from_millis(100));
    let output = drom(&[&url, "-c", "1", "--rate", "40", "-d", "1s", "--json"]);
    let told = document(&output);
    let count = |value: &Value| value.as_u64().expect("a count");
    let (sent, unsent) = (count(&told["requests"]["sent"]), count(&told["open"]["unsent"]));
    assert!(sent <= 11 && sent + unsent == 40, "{sent} {unsent}");
    assert_eq!(count(&told["requests"]["in_flight"]), 0, "it waits for the last answer");
    // The last one sent was planned when a fourth of the time had passed, and went out at its end.
    assert!(told["latency_us"]["max"].as_f64().expect("a latency") > 500_000.0, "{told}");
    let text =
        String::from_utf8(drom(&[&url, "-c", "1", "--rate", "40", "-d", "1s"]).stdout).unwrap();
    assert!(text.contains("unsent: no connection was free"), "{text}");
    assert!(text.contains("warn schedule") && text.contains("from the planned time"), "{text}");
}

/// One queue, a hundred a second: of three hundred in a second two thirds come after it.
#[test]
fn answers_after_the_window_are_in_no_rate() {
    let server = Server::start(Script::limited(100.0)).expect("a server");
    let url = format!("http://{}/", server.address());
    let flags = [&url, "--rate", "300", "-c", "400", "-d", "1s", "--threshold", "rate>=150"];
    let output = drom(&[&flags[..], &["--json"]].concat());
    let told = document(&output);
    assert_eq!(output.status.code(), Some(9), "{told:#}");
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!(told["requests"]["ok"], 300);
    let (rate, drained) = (number(&told["rate_rps"]), number(&told["open"]["drained"]));
    assert!(rate < 110.0 && (rate + drained - 300.0).abs() < 1e-6, "{rate} {drained}");
    assert!(number(&told["open"]["drain_s"]) > 1.5, "{told:#}");
    let text = String::from_utf8(drom(&flags).stdout).unwrap();
    assert!(text.contains("came after the window, in no rate"), "{text}");
}

/// What the check of that name says of such a load.
fn backlog(script: Script, flags: &[&str]) -> String {
    let server = Server::start(script).expect("a server");
    let url = format!("http://{}/", server.address());
    let all = if flags.contains(&"-c") { &[][..] } else { &["-c", "600"][..] };
    let told = document(&drom(&[all, &[&*url, "--json"], flags].concat()));
    let checks = told["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "backlog").expect("a check");
    check["state"].as_str().expect("a word").to_owned()
}

/// A queue that begins in the middle of the window, and one that stands when it opens, are as much
/// one as any.
#[test]
fn who_is_behind_is_told() {
    let late = &["--stages", "1s:50,1s:350"][..];
    assert_eq!(backlog(Script::limited(100.0), late), "warning");
    let before = &["--rate", "200", "--warmup", "1s", "-d", "2s"][..];
    assert_eq!(backlog(Script::limited(100.0), before), "warning");
}

#[test]
fn who_is_far_behind_is_told_and_who_is_behind_by_a_little() {
    // So much too much that the last third of the plan was never sent.
    let gross = &["-c", "20", "--rate", "300", "-d", "2s"][..];
    assert_eq!(backlog(Script::limited(100.0), gross), "warning");
    // A tenth too much is no steep rise beside the second of waiting that the warm-up leaves.
    let standing = &["--rate", "112", "--warmup", "4s", "-d", "3s"][..];
    assert_eq!(backlog(Script::limited(100.0), standing), "warning");
}

/// A second in which nothing goes on is seen in what waits, be it on connections or for one.
#[test]
fn who_stood_still_is_told_however_few_connections_there_are() {
    for connections in ["20", "600"] {
        let freeze = drom_testkit::Window::new(500, 1_200);
        let script = Script { freezes: vec![freeze], ..Script::always(Turn::default()) };
        let flags = ["-c", connections, "--rate", "400", "-d", "3s"];
        assert_eq!(backlog(script, &flags), "warning", "{connections} connections");
    }
}

/// However long the window is: it is the same few that wait at any moment.
#[test]
fn a_server_that_loses_one_in_a_hundred_keeps_up_with_the_others() {
    let quick = drom_testkit::Turn::after(drom_testkit::Delay::Constant(Duration::from_millis(2)));
    let mut turns = vec![quick; 99];
    turns.push(drom_testkit::Turn::with(drom_testkit::Fate::Stall(0)));
    let losing = ["--rate", "400", "-d", "6s", "-c", "30", "--timeout", "200ms"];
    assert_eq!(backlog(Script::cycle(turns), &losing), "ok");
}

#[test]
fn answers_that_take_their_time_are_no_backlog() {
    let slow = || {
        let delay = drom_testkit::Delay::Constant(Duration::from_millis(300));
        Script::always(drom_testkit::Turn::after(delay))
    };
    assert_eq!(backlog(slow(), &["--rate", "100", "-d", "2s"]), "ok");
    assert_eq!(backlog(slow(), &["--stages", "2s:10-200", "--warmup", "500ms"]), "ok");
}

/// Two of three connections are one thread's, and so are two of three requests: each connection is
/// in use for eight tenths of the time. One with half of the requests could not carry them.
#[test]
fn threads_share_the_requests_as_they_share_the_connections() {
    let delay = drom_testkit::Delay::Constant(Duration::from_millis(30));
    let script = Script::always(drom_testkit::Turn::after(delay));
    let server = Server::start(script).expect("a server");
    let url = format!("http://{}/", server.address());
    let told = document(&drom(&[&url, "-c", "3", "-t", "2", "--rate", "80", "-d", "3s", "--json"]));
    assert_eq!(told["open"]["planned"], 240);
    let unsent = told["open"]["unsent"].as_u64().expect("a count");
    assert!(unsent <= 2, "one in ten would be left: {:#}", told["open"]);
    // Four threads, of which two have something to do.
    let told = document(&drom(&[&url, "-t", "4", "--rate", "2", "-d", "1s", "--json"]));
    let checks = told["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "connections").expect("a check");
    assert_eq!(check["state"], "ok", "{check:#}");
}

/// Fifty connections are enough to keep such a server busy, and it had its queue before the window.
#[test]
fn a_server_that_was_saturated_by_the_warm_up_is_not_blamed_on_the_client() {
    let server = Server::start(Script::limited(100.0)).expect("a server");
    let url = format!("http://{}/", server.address());
    let flags = ["-c", "50", "--rate", "300", "--warmup", "2s", "-d", "2s", "--json"];
    let told = document(&drom(&[&[&*url][..], &flags].concat()));
    assert_ne!(told["client"]["cause"], "connections", "{:#}", told["client"]);
    let checks = told["checks"].as_array().expect("checks");
    let backlog = checks.iter().find(|check| check["name"] == "backlog").expect("a check");
    assert_eq!(backlog["state"], "warning", "{backlog:#}");
}

#[test]
fn requests_and_a_rate_end_with_the_last_planned_one() {
    let (_server, url) = server();
    let told = document(&drom(&[&url, "--rate", "1k", "-n", "200", "--json"]));
    assert_eq!((&told["requests"]["ok"], &told["open"]["planned"]), (&200.into(), &200.into()));
}

#[test]
fn nonsense_is_refused_with_words() {
    let url = "http://127.0.0.1:9/";
    for (flags, words) in [
        (&["--rate", "0"][..], "more than 0"),
        (&["--rate", "fast"], "no rate"),
        (&["--stages", "10s"], "TIME:RATE"),
        (&["--stages", "1s:5", "--rate", "5"], "cannot be used with"),
        (&["--stages", "1s:0"], "every rate is 0"),
        (&["--rate", "5", "--arrivals", "fractal"], "poisson"),
    ] {
        let output = drom(&[&[url][..], flags].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}

/// Closes a connection that says nothing for five milliseconds, and counts those it took.
fn impatient() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Relaxed);
            thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
                let mut request = [0; 1_024];
                while stream.read(&mut request).is_ok_and(|got| got > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    (url, taken)
}

/// It made hundreds of them a second for nobody; and that they are closed is no want of them.
#[test]
fn a_server_that_closes_idle_connections_is_asked_on_new_ones_when_there_is_something_to_ask() {
    let (url, taken) = impatient();
    let output = drom(&[&url, "-c", "20", "--rate", "40", "-d", "1500ms", "--json"]);
    let found = document(&output);
    assert_eq!(found["requests"]["ok"], 60, "{found}");
    let taken = taken.load(Relaxed);
    assert!(taken <= 20 + 3 * 60, "{taken} connections for 60 requests");
    assert_eq!(found["client"]["cause"], Value::Null, "{found}");
}
