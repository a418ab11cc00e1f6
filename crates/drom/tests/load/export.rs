//! `drom load` told to others during the run: a scrape of Prometheus, a collector of OpenTelemetry.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use crate::loading::{document, drom, server};
use serde_json::Value;

/// Says yes to every push, and tells what was in it with the path it came to.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            stream.read_line(&mut first).expect("a request line");
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).expect("a head");
                let field = line.strip_prefix("Content-Length: ");
                length = field.map_or(length, |text| text.trim().parse().expect("a length"));
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let body = serde_json::from_slice(&body).expect("JSON");
            // The test may be over.
            let _ = tell.send((first, body));
            let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (url, told)
}

#[test]
fn a_collector_is_told_each_second_and_the_whole_at_the_end() {
    let (_server, url) = server();
    let (collector, pushed) = collector();
    let flags = ["--rate", "100", "-d", "2500ms", "--json", "--otlp", &collector];
    let told = document(&drom(&[&[&url[..]], &flags[..]].concat()));
    let pushes: Vec<(String, Value)> = pushed.try_iter().collect();
    assert!(pushes.len() >= 2, "{}", pushes.len());
    let (line, last) = pushes.last().expect("one");
    assert!(line.starts_with("POST /v1/metrics HTTP/1.1"), "{line}");
    let metrics = &last["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let metrics = metrics.as_array().expect("a list");
    let find = |name: &str| metrics.iter().find(|metric| metric["name"] == name).expect(name);
    let ok = &find("drom_load_requests_ok")["sum"]["dataPoints"][0]["asInt"];
    assert_eq!(ok.as_str(), Some(&*told["requests"]["ok"].to_string()));
    let histogram = &find("drom_load_latency")["histogram"]["dataPoints"][0];
    assert_eq!(&histogram["count"], ok, "no request failed: {told}");
}

#[test]
fn a_collector_that_is_away_is_told_of_once_and_disturbs_nothing() {
    let (_server, url) = server();
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let collector = format!("http://{gone}/");
    let flags = ["--rate", "100", "-d", "2500ms", "--json", "--otlp", &collector];
    let output = drom(&[&[&url[..]], &flags[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("metrics do not reach").count(), 1, "{said}");
    assert_eq!(document(&output)["requests"]["ok"], 250);
}

#[test]
fn a_collector_that_is_silent_is_told_of_in_words() {
    let (_server, url) = server();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let collector = format!("http://{}/", silent.local_addr().expect("an address"));
    let flags = ["--rate", "100", "-d", "500ms", "--json", "--otlp", &collector];
    let output = drom(&[&[&url[..]], &flags[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(": no answer within 2 s; it goes on"), "{said}");
    assert_eq!(document(&output)["requests"]["ok"], 50);
}

#[test]
fn prometheus_gets_what_was_counted_so_far() {
    let (_server, url) = server();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", &url, "--rate", "100", "-d", "4s", "--prometheus", "127.0.0.1:0"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("drom");
    let mut line = String::new();
    let mut stderr = BufReader::new(run.stderr.take().expect("a pipe"));
    stderr.read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    let ok = || {
        let mut stream = TcpStream::connect(&address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
        let line =
            answer.lines().find_map(|line| line.strip_prefix("drom_load_requests_ok_total "));
        line?.parse::<u64>().ok()
    };
    let mut most = 0;
    while run.try_wait().expect("drom").is_none() {
        most = most.max(ok().unwrap_or(0));
        thread::sleep(std::time::Duration::from_millis(50));
    }
    // Three seconds of the window are over well before the run is.
    assert!((200..=400).contains(&most), "{most}");
}

#[test]
fn an_address_that_cannot_be_had_is_said_before_the_run() {
    let output = drom(&["http://127.0.0.1:9/", "--prometheus", "192.0.2.1:1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot listen at 192.0.2.1:1 for Prometheus"), "{said}");
}
