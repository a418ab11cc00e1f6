//! The engine against small scripted servers: every way an answer can go wrong, and counts that
//! add up. A test of each engine says which `ENGINE` it is.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use drom_load::{
    Error, ErrorKind, ExpectedBody, NullServer, Outcome, Plan, Stop, Target, client_limited,
    measure_ceiling, null_server, run,
};

use super::ENGINE;

pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What a scripted server does with the request number `n` of the whole run.
type Script = dyn Fn(u64, &mut TcpStream) -> Then + Send + Sync;

pub enum Then {
    Keep,
    Close,
}

pub struct Scripted {
    pub target: Target,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

pub fn scripted(script: impl Fn(u64, &mut TcpStream) -> Then + Send + Sync + 'static) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let target = Target::at(address, "/");
    let (requests, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let scripted =
        Scripted { target, requests: Arc::clone(&requests), connections: Arc::clone(&connections) };
    let script: Arc<Script> = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            connections.fetch_add(1, SeqCst);
            let (requests, script) = (Arc::clone(&requests), Arc::clone(&script));
            thread::spawn(move || converse(stream, &requests, &*script));
        }
    });
    scripted
}

fn converse(mut stream: TcpStream, requests: &AtomicU64, script: &Script) {
    while read_request(&mut stream) {
        if matches!(script(requests.fetch_add(1, SeqCst), &mut stream), Then::Close) {
            return;
        }
    }
}

/// Reads a head and the body its Content-Length says; false at the end of the stream.
fn read_request(stream: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return false;
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).is_ok()
}

pub fn say(stream: &mut TcpStream, bytes: &[u8]) -> Then {
    if stream.write_all(bytes).is_ok() { Then::Keep } else { Then::Close }
}

/// Makes the close a reset: unread bytes are left in the socket, and nothing lingers.
fn reset(stream: &TcpStream) -> Then {
    let socket = socket2::SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO)).expect("lingering can be set");
    Then::Close
}

pub fn plan(target: &Target, connections: u32, requests: u64) -> Plan {
    Plan {
        connections,
        stop: Stop::Requests(requests),
        timeout: Duration::from_secs(5),
        engine: *ENGINE,
        ..Plan::get(target.clone())
    }
}

pub fn go(plan: &Plan) -> Outcome {
    let outcome = run(plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible");
    assert_eq!(outcome.sent, outcome.ok + outcome.failed + outcome.in_flight);
    assert_eq!(
        outcome.answers() + outcome.errors.values().sum::<u64>(),
        outcome.ok + outcome.failed
    );
    assert_eq!(outcome.latency.count(), outcome.answers());
    assert_eq!(outcome.answers_per_connection.iter().sum::<u64>(), outcome.answers());
    assert!(outcome.little_deviation().abs() < 0.02, "{}", outcome.little_deviation());
    outcome
}

#[test]
fn exactly_so_many_requests_are_sent() {
    let server = scripted(|_, stream| say(stream, OK));
    for (requests, connections, threads) in [(1, 1, 1), (100, 7, 1), (101, 4, 2), (3, 10, 4)] {
        let before = server.requests.load(SeqCst);
        let outcome = go(&Plan { threads, ..plan(&server.target, connections, requests) });
        assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (requests, requests, 0));
        assert_eq!(server.requests.load(SeqCst) - before, requests);
        assert_eq!(u64::from(outcome.connected), requests.min(connections.into()));
        assert_eq!((outcome.status[&200], outcome.errors.len()), (requests, 0));
        assert_eq!(outcome.bytes_read, requests * OK.len() as u64);
    }
}

#[test]
fn the_servers_count_is_ours_after_a_duration_too() {
    let server = scripted(|_, stream| say(stream, OK));
    let stop = Stop::After(Duration::from_millis(300));
    let outcome = go(&Plan { stop, ..plan(&server.target, 4, 0) });
    thread::sleep(Duration::from_millis(100));
    assert_eq!(server.requests.load(SeqCst), outcome.sent);
    assert!(outcome.in_flight <= 4 && outcome.ok > 0);
    assert!(outcome.duration >= Duration::from_millis(300));
}

#[test]
fn the_warm_up_is_counted_apart() {
    let server = scripted(|_, stream| {
        thread::sleep(Duration::from_millis(2));
        say(stream, OK)
    });
    let warmup = Duration::from_millis(150);
    let outcome = go(&Plan { warmup, ..plan(&server.target, 2, 20) });
    assert_eq!((outcome.sent, outcome.ok), (20, 20));
    assert!(outcome.warmup_requests > 0);
    assert_eq!(server.requests.load(SeqCst), 20 + outcome.warmup_requests);
}

#[test]
fn statuses_are_counted_and_400_is_failed() {
    let server = scripted(|n, stream| match n % 4 {
        0 => say(stream, b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!"),
        1 => say(stream, b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
        2 => say(stream, b"HTTP/1.1 301 Go\r\nContent-Length: 0\r\n\r\n"),
        _ => say(stream, OK),
    });
    let outcome = go(&plan(&server.target, 1, 40));
    assert_eq!((outcome.ok, outcome.failed), (20, 20));
    let expected = [(200, 10), (301, 10), (404, 10), (500, 10)];
    assert_eq!(outcome.status.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(outcome.reconnects, 0);
}

#[test]
fn every_framing_is_read() {
    let server = scripted(|n, stream| match n % 5 {
        0 => say(
            stream,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        1 => {
            for byte in b"HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" {
                say(stream, &[*byte]);
            }
            Then::Keep
        }
        2 => say(stream, b"HTTP/1.1 204 None\r\n\r\n"),
        3 => {
            say(stream, b"HTTP/1.0 200 OK\r\n\r\nok");
            Then::Close
        }
        _ => {
            say(stream, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            Then::Close
        }
    });
    let outcome = go(&plan(&server.target, 2, 50));
    assert_eq!((outcome.ok, outcome.failed), (50, 0));
    assert_eq!((outcome.status[&200], outcome.status[&204]), (40, 10));
    assert!(outcome.reconnects >= 18, "{}", outcome.reconnects);
}

#[test]
fn a_close_after_each_answer_means_a_connect_for_each() {
    let server = scripted(|_, stream| {
        say(stream, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        Then::Close
    });
    let outcome = go(&plan(&server.target, 3, 60));
    assert_eq!((outcome.ok, outcome.reconnects), (60, 57));
    assert_eq!((outcome.connect.count(), server.connections.load(SeqCst)), (60, 60));
}

#[test]
fn no_keepalive_uses_a_connection_for_each_request() {
    let server = scripted(|_, stream| say(stream, OK));
    let outcome = go(&Plan { keepalive: false, ..plan(&server.target, 3, 60) });
    assert_eq!((outcome.ok, server.connections.load(SeqCst)), (60, 60));
    assert!(
        outcome.latency.mean_ns() >= outcome.connect.mean_ns(),
        "the connect is in the latency"
    );
}

fn all_fail_as(kind: ErrorKind, server: &Scripted, plan: &Plan) -> Outcome {
    let outcome = go(plan);
    assert_eq!((outcome.ok, outcome.failed), (0, 10));
    assert_eq!(outcome.errors.clone().into_iter().collect::<Vec<_>>(), [(kind, 10)]);
    assert_eq!(outcome.error_latency.count(), 10);
    assert_eq!(server.requests.load(SeqCst), 10);
    outcome
}

#[test]
fn closes_and_resets_before_the_end_are_closed() {
    let scripts: [fn(u64, &mut TcpStream) -> Then; 4] = [
        |_, _| Then::Close,
        |_, stream| reset(stream),
        |_, stream| {
            say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshor");
            Then::Close
        },
        |_, stream| {
            say(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            Then::Close
        },
    ];
    for script in scripts {
        let server = scripted(script);
        all_fail_as(ErrorKind::Closed, &server, &plan(&server.target, 2, 10));
    }
}

#[test]
fn bad_framing_is_a_protocol_error_and_is_named() {
    let wires: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"220 smtp.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ];
    for wire in wires {
        let server = scripted(move |_, stream| say(stream, wire));
        let outcome = all_fail_as(ErrorKind::Protocol, &server, &plan(&server.target, 2, 10));
        assert!(outcome.first_fault.is_some());
    }
}

#[test]
fn a_stall_is_a_timeout() {
    let server = scripted(|_, stream| {
        say(stream, b"HTTP/1.1 200 OK\r\nContent-Le");
        thread::sleep(Duration::from_millis(400));
        Then::Close
    });
    let timeout = Duration::from_millis(60);
    let plan = Plan { timeout, ..plan(&server.target, 5, 10) };
    let outcome = all_fail_as(ErrorKind::Timeout, &server, &plan);
    assert!(outcome.error_latency.quantile_ns(0.01) >= 59_900_000);
}

#[test]
fn an_answer_that_never_comes_is_in_flight_at_the_end() {
    let server = scripted(|n, stream| {
        if n >= 5 {
            thread::sleep(Duration::from_secs(2));
        }
        say(stream, OK)
    });
    let stop = Stop::After(Duration::from_millis(200));
    let outcome = go(&Plan { stop, ..plan(&server.target, 3, 0) });
    assert_eq!((outcome.sent, outcome.ok, outcome.in_flight), (8, 5, 3));
}

#[test]
fn a_body_is_checked_when_the_plan_says_what_to_expect() {
    let server = scripted(|n, stream| {
        let other: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno";
        say(stream, if n % 2 == 0 { OK } else { other })
    });
    let expect_body = Some(ExpectedBody::of(b"ok"));
    let outcome = go(&Plan { expect_body, ..plan(&server.target, 1, 10) });
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::BadBody]), (5, 5));
}

#[test]
fn a_request_larger_than_the_socket_buffers_arrives_whole() {
    let server = scripted(|_, stream| say(stream, OK));
    let body = vec![b'x'; 8 << 20];
    let outcome = go(&Plan { method: "POST".to_owned(), body, ..plan(&server.target, 2, 6) });
    assert_eq!((outcome.ok, outcome.failed, outcome.reconnects), (6, 0, 0));
}

#[test]
fn a_large_answer_is_read_whole() {
    let body = vec![b'y'; 3 << 20];
    let mut wire =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    wire.extend(&body);
    let expect_body = Some(ExpectedBody::of(&body));
    let server = scripted(move |_, stream| say(stream, &wire));
    let outcome = go(&Plan { expect_body, ..plan(&server.target, 2, 8) });
    assert_eq!((outcome.ok, outcome.failed), (8, 0));
}

#[test]
fn head_requests_expect_no_body() {
    let server =
        scripted(|_, stream| say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"));
    let outcome = go(&Plan { method: "HEAD".to_owned(), ..plan(&server.target, 2, 20) });
    assert_eq!((outcome.ok, outcome.reconnects), (20, 0));
}

#[test]
fn a_port_without_server_is_an_error_not_a_measurement() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let target = Target { host: "x".to_owned(), ..Target::at(address, "/") };
    for threads in [1, 2] {
        let plan = Plan { threads, ..plan(&target, 4, 10) };
        let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
}

#[test]
fn a_server_that_goes_away_is_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        drop(listener);
        read_request(&mut stream);
        say(&mut stream, OK);
        stream.shutdown(Shutdown::Both)
    });
    let target = Target { host: "x".to_owned(), ..Target::at(address, "/") };
    let outcome = go(&plan(&target, 1, 10));
    assert_eq!((outcome.sent, outcome.ok, outcome.failed), (10, 1, 9));
    assert!(outcome.errors[&ErrorKind::Connect] >= 8);
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let server = scripted(|_, stream| say(stream, OK));
    let stop = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&stop);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(150));
        later.store(true, SeqCst);
    });
    let plan = Plan { stop: Stop::After(Duration::from_secs(60)), ..plan(&server.target, 2, 0) };
    let outcome = run(&plan, &stop, &mut |_| {}).expect("possible");
    assert!(outcome.interrupted && outcome.ok > 0);
    assert_eq!(outcome.sent, outcome.ok + outcome.failed + outcome.in_flight);
    assert!(!go(&Plan { stop: Stop::Requests(5), ..plan }).interrupted);
}

#[test]
fn progress_comes_once_a_second() {
    let server = null_server().expect("a server");
    let plan =
        Plan { stop: Stop::After(Duration::from_millis(1_300)), ..Plan::get(server.target()) };
    let mut seen = Vec::new();
    let outcome = run(&plan, &AtomicBool::new(false), &mut |now| seen.push(now.requests));
    assert!(!seen.is_empty() && seen.len() <= 2);
    assert!(seen[0] > 0 && seen[0] <= outcome.expect("possible").sent);
}

#[test]
fn the_null_server_gives_the_clients_ceiling() {
    let server: NullServer = null_server().expect("a server");
    let outcome = go(&plan(&server.target(), 8, 5_000));
    assert_eq!((outcome.ok, outcome.failed), (5_000, 0));
    let plan = Plan { threads: 2, ..plan(&server.target(), 4, 1) };
    let ceiling = measure_ceiling(&plan, Duration::from_millis(200), &AtomicBool::new(false));
    let ceiling = ceiling.expect("measured");
    assert!(ceiling.ok > 0 && ceiling.failed == 0 && ceiling.thread_cpu.len() == 2);
    assert!(client_limited(&ceiling, Some(ceiling.rate_rps())).limited);
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let server = null_server().expect("a server");
    let good = plan(&server.target(), 2, 2);
    let bad = [
        Plan { connections: 0, ..good.clone() },
        Plan { threads: 0, ..good.clone() },
        Plan { threads: 3, ..good.clone() },
        Plan { stop: Stop::Requests(0), ..good.clone() },
        Plan { stop: Stop::After(Duration::ZERO), ..good.clone() },
        Plan { timeout: Duration::ZERO, ..good.clone() },
        Plan { method: "G E T".to_owned(), ..good },
    ];
    for plan in bad {
        let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("refused");
        assert!(error.is_usage(), "{error}");
    }
}

#[test]
fn the_pace_of_the_window_adds_up_to_its_answers() {
    // One connection: slow for the first answers, then fast.
    let server = scripted(|n, stream| {
        thread::sleep(Duration::from_millis(if n < 10 { 20 } else { 1 }));
        stream.write_all(OK).map_or(Then::Close, |()| Then::Keep)
    });
    let plan = Plan {
        connections: 1,
        stop: Stop::After(Duration::from_millis(500)),
        ..Plan::get(server.target)
    };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("measured");
    assert_eq!(outcome.pace.len(), 50);
    let step_s = outcome.duration.as_secs_f64() / 50.0;
    let answers = outcome.pace.iter().sum::<f64>() * step_s;
    assert!((answers - outcome.ok as f64).abs() < 1.5, "{answers} of {}", outcome.ok);
    let (first, rest): (f64, f64) =
        (outcome.pace[..15].iter().sum(), outcome.pace[35..].iter().sum());
    assert!(first < 0.7 * rest, "{first} {rest}");
    let counted = Plan { stop: Stop::Requests(5), ..plan };
    let outcome = run(&counted, &AtomicBool::new(false), &mut |_| {}).expect("measured");
    assert!(outcome.pace.is_empty());
}
