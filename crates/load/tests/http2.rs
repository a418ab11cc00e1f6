//! HTTP/2 against a server of another hand (hyperium's h2), and against bytes that no server sends.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use drom_load::{
    Address, Arrivals, Engine, ErrorKind, Outcome, Pace, Plan, Scene, Stage, Stop, Target, Version,
    protocol::{Fault, Http2, Http2Event},
    run,
};
use drom_scenario::Scenario;
use h2::{Reason, server};
use http::{Request, Response};
use proptest::prelude::*;

/// What the server does with request `n`, from 0, of the whole run.
#[derive(Clone, Copy)]
enum Act {
    /// So many bytes, after so many milliseconds, in pieces that the windows allow.
    Page(usize, u64),
    /// The length of the request's body, as text.
    Measure,
    Reset(Reason),
    /// Refused after so many milliseconds.
    Refuse(u64),
    /// A visitor is told a token, and has to know it and the cookie after that.
    Talk,
    /// The connection is closed in good order after this one.
    Last,
    /// Nothing.
    Silence,
    /// Fewer bytes than it tells.
    Short,
}

#[derive(Clone)]
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// So many requests, now or soon: it may count one after the client has given it up.
    fn has_seen(&self, requests: u64) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.requests.load(SeqCst) < requests && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.requests.load(SeqCst), requests);
    }
}

fn serve(streams_max: u32, act: fn(u64) -> Act) -> Server {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server { address, requests: Arc::default() };
    let told = server.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                tokio::task::spawn_local(converse(socket, streams_max, told.clone(), act));
            }
        });
    });
    server
}

async fn converse(
    socket: tokio::net::TcpStream,
    streams_max: u32,
    server: Server,
    act: fn(u64) -> Act,
) {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(streams_max);
    let Ok(mut connection) = builder.handshake::<_, bytes::Bytes>(socket).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let act = act(server.requests.fetch_add(1, SeqCst));
        if matches!(act, Act::Last) {
            connection.graceful_shutdown();
        }
        tokio::task::spawn_local(answer(request, respond, act));
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: server::SendResponse<bytes::Bytes>,
    act: Act,
) {
    let page = match act {
        Act::Page(length, after_ms) => {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            vec![b'x'; length]
        }
        Act::Measure => {
            let (mut body, mut length) = (request.into_body(), 0);
            while let Some(Ok(piece)) = body.data().await {
                length += piece.len();
                let _ = body.flow_control().release_capacity(piece.len());
            }
            length.to_string().into_bytes()
        }
        Act::Talk => return talk(request, respond).await,
        Act::Last => b"bye".to_vec(),
        Act::Reset(reason) => return respond.send_reset(reason),
        Act::Refuse(after_ms) => {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        Act::Silence => return std::future::pending().await,
        Act::Short => b"short".to_vec(),
    };
    let length = if matches!(act, Act::Short) { 20 } else { page.len() };
    let response = Response::builder().header("content-length", length).body(()).unwrap();
    match respond.send_response(response, page.is_empty()) {
        Ok(mut stream) if !page.is_empty() => drop(stream.send_data(page.into(), true)),
        _ => {}
    }
}

async fn talk(request: Request<h2::RecvStream>, mut respond: server::SendResponse<bytes::Bytes>) {
    let (head, mut body) = request.into_parts();
    let (mut token, mut response) = (0, Response::builder());
    while let Some(Ok(piece)) = body.data().await {
        token += piece.len();
    }
    let cookie = head.headers.get("cookie").map(|value| value.as_bytes().to_vec());
    let path = head.uri.path();
    let page = match head.method.as_str() {
        "POST" => {
            response = response.header("set-cookie", format!("id={token}")).header("X-T", token);
            vec![b'y'; token]
        }
        _ if cookie == Some(path.replace("/look/", "id=").into_bytes()) => b"known".to_vec(),
        _ => {
            response = response.status(403);
            b"who?".to_vec()
        }
    };
    let response = response.header("content-length", page.len()).body(()).unwrap();
    let is_head = head.method == "HEAD";
    match respond.send_response(response, is_head) {
        Ok(mut stream) if !is_head => drop(stream.send_data(page.into(), true)),
        _ => {}
    }
}

/// Users of a scenario, as many on a connection as it has streams.
fn users(server: &Server, connections: u32, depth: u32, rounds: u64) -> Plan {
    let text = format!(
        "base = 'http://{}'\n[[step]]\nurl = '/in'\nbody = 'xy{{{{user}}}}'\n\
         capture = {{ t = {{ header = 'x-t' }} }}\ncheck = {{ min_bytes = 3, regex = '^y+$' }}\n\
         [[step]]\nurl = '/look/{{{{t}}}}'\nmethod = 'HEAD'\n\
         [[step]]\nurl = '/look/{{{{t}}}}'\nheaders = {{ X-Kind = 'A b' }}\n\
         check = {{ text = 'known' }}\n",
        server.address
    );
    let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse(&text, "a.toml".as_ref(), &[], &no_file).expect("good");
    let plan = plan(server, connections, depth, rounds);
    let targets = vec![plan.target.clone()];
    let scenario = Arc::new(scenario);
    let scene = Scene {
        scenario,
        targets,
        seed: 1,
        finishes_rounds: false,
        is_test: false,
        connects_for_rounds: false,
        on_close: drom_load::OnClose::default(),
        raw: None,
    };
    Plan { scene: Some(scene), ..plan }
}

#[test]
fn users_share_connections_and_nothing_else() {
    let server = serve(200, |_| Act::Talk);
    let outcome = go(&users(&server, 2, 10, 150));
    let tally = outcome.scene.as_ref().expect("users");
    assert_eq!((outcome.ok, outcome.failed, tally.rounds.done), (450, 0, 150), "{tally:?}");
    assert_eq!(server.requests.load(SeqCst), 450);
    assert_eq!((outcome.connected, outcome.reconnects), (2, 0));
    assert_eq!(tally.checks.failed_in_all(), 0);
}

/// The other users' streams end before it is closed, and those that wait go to the next one.
#[test]
fn users_connections_live_as_long_as_they_are_told() {
    let server = serve(200, |_| Act::Talk);
    let outcome = go(&Plan { answers_per_connection: Some(7), ..users(&server, 2, 10, 150) });
    assert_eq!((outcome.ok, outcome.failed, outcome.resent), (450, 0, 0));
    assert_eq!(server.requests.load(SeqCst), 450);
    assert!((62..=64).contains(&outcome.reconnects), "{}", outcome.reconnects);
}

#[test]
fn streams_that_fail_wear_a_connection_out_too() {
    let server = serve(100, |n| match n % 3 {
        0 => Act::Reset(Reason::INTERNAL_ERROR),
        1 => Act::Short,
        _ => Act::Silence,
    });
    let plan = plan(&server, 2, 4, 60);
    let outcome =
        go(&Plan { answers_per_connection: Some(5), timeout: Duration::from_millis(400), ..plan });
    let errors = |kind| outcome.errors.get(&kind).copied();
    assert_eq!((errors(ErrorKind::Closed), errors(ErrorKind::Protocol)), (Some(20), Some(20)));
    assert_eq!((errors(ErrorKind::Timeout), outcome.resent), (Some(20), 0));
    assert_eq!((server.requests.load(SeqCst), outcome.reconnects), (60, 10));
}

#[test]
fn users_whose_connection_goes_away_in_good_order_ask_elsewhere() {
    let server = serve(200, |n| if n % 50 == 49 { Act::Last } else { Act::Talk });
    let outcome = go(&users(&server, 1, 8, 100));
    assert_eq!(outcome.errors.len(), 0, "{:?}", outcome.errors);
    assert!(outcome.reconnects > 3, "{}", outcome.reconnects);
    // Only the answer that was the connection's last is none of the shop's.
    let tally = outcome.scene.as_ref().expect("users");
    assert_eq!(tally.rounds.done, 100);
}

fn plan(server: &Server, connections: u32, depth: u32, requests: u64) -> Plan {
    Plan {
        version: Version::Http2,
        connections,
        depth,
        stop: Stop::Requests(requests),
        timeout: Duration::from_secs(5),
        ..Plan::get(Target::at(server.address, "/some/path?x=y"))
    }
}

fn go(plan: &Plan) -> Outcome {
    let outcome = run(plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible");
    assert_eq!(outcome.sent, outcome.ok + outcome.failed + outcome.in_flight);
    outcome
}

#[test]
fn every_stream_has_its_answer() {
    let server = serve(200, |n| Act::Page(n as usize % 7 * 1_000, n % 3));
    let outcome = go(&plan(&server, 3, 20, 2_000));
    assert_eq!((outcome.ok, outcome.failed), (2_000, 0));
    assert_eq!(server.requests.load(SeqCst), 2_000);
    let bytes: usize = (0..2_000).map(|n| n % 7 * 1_000).sum();
    assert_eq!(outcome.body_bytes, bytes as u64);
    assert_eq!(outcome.engine, "closed-loop http/2 epoll");
}

#[test]
fn a_server_that_takes_few_streams_gets_few() {
    let server = serve(2, |_| Act::Page(10, 2));
    let outcome = go(&plan(&server, 1, 50, 300));
    assert_eq!((outcome.ok, outcome.failed), (300, 0), "{:?}", outcome.errors);
    assert_eq!(outcome.streams_max, Some(2), "and it is said");
    assert_eq!(go(&plan(&server, 1, 2, 10)).streams_max, None, "as many as were asked for");
}

#[test]
fn large_bodies_go_both_ways() {
    let server = serve(100, |_| Act::Page(3_000_000, 0));
    let outcome = go(&plan(&server, 2, 4, 40));
    assert_eq!((outcome.ok, outcome.body_bytes), (40, 120_000_000));
    // Far more than the windows of the protocol's start hold.
    let server = serve(100, |_| Act::Measure);
    let body = vec![b'x'; 500_000];
    let post = Plan { method: "POST".to_owned(), body, ..plan(&server, 2, 3, 20) };
    let outcome = go(&post);
    assert_eq!((outcome.ok, outcome.body_bytes), (20, 20 * "500000".len() as u64));
}

/// What lies in the socket because it may not be read yet is not held by a slow client.
#[test]
fn a_throttle_is_not_the_clients_lateness() {
    let server = serve(100, |_| Act::Page(60_000, 0));
    let throttled = Plan { throttle: Some(60_000), ..plan(&server, 1, 1, 2) };
    let outcome = go(&throttled);
    assert!(outcome.ok == 2 && outcome.duration >= Duration::from_secs(1), "{outcome:?}");
    let total = outcome.accounts[0].total;
    assert!(total.held_share() < 0.3 && total.late_share() < 0.3, "{total:?}");
}

#[test]
fn a_connection_that_the_server_gives_up_is_replaced_and_nothing_is_lost() {
    let server = serve(100, |n| if n % 50 == 49 { Act::Last } else { Act::Page(10, 1) });
    let outcome = go(&plan(&server, 2, 8, 600));
    assert_eq!((outcome.ok, outcome.failed), (600, 0), "{:?}", outcome.errors);
    assert!(outcome.reconnects >= 8, "{}", outcome.reconnects);
}

/// A stream without an answer keeps its own place, and not those of the others, nor the connection
/// that comes after. The server never closes itself.
#[test]
fn a_late_answer_on_a_connection_that_goes_away_holds_nobody_else() {
    let server = serve(100, |n| match n % 20 {
        5 => Act::Silence,
        10 => Act::Last,
        _ => Act::Page(10, 2),
    });
    let timeout = Duration::from_millis(500);
    let outcome = go(&Plan { timeout, ..plan(&server, 2, 8, 400) });
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Timeout]), (380, 20));
    assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
    assert_eq!(server.requests.load(SeqCst), 400, "each was asked once");
    // 16 places, of which each silence takes one for half a second: some 0.8 s in all. One behind
    // the other they would take 10.
    assert!(outcome.duration < Duration::from_secs(4), "{:?}", outcome.duration);
    assert_eq!(outcome.answers_per_connection.iter().sum::<u64>(), 380);
}

/// Most of them wait for their turn on one connection after the other, which is no refusal.
#[test]
fn connections_that_carry_far_fewer_requests_than_there_are_lose_none() {
    let server = serve(100, |n| if n % 5 == 4 { Act::Last } else { Act::Page(10, 3) });
    let outcome = go(&plan(&server, 2, 64, 1_500));
    assert_eq!((outcome.ok, outcome.failed), (1_500, 0), "{:?}", outcome.errors);
    assert_eq!(server.requests.load(SeqCst), 1_500);
}

#[test]
fn in_an_open_loop_nobody_waits_for_a_connection_that_goes_away() {
    let server = serve(100, |n| match n % 25 {
        0 => Act::Page(10, 600),
        1 => Act::Last,
        _ => Act::Page(10, 2),
    });
    let plan = plan(&server, 1, 20, 0);
    let window = Duration::from_secs(2);
    let pace = Some(Pace::steady(100.0, window));
    let outcome = go(&Plan { pace, stop: Stop::After(window), ..plan });
    let open = outcome.open.as_ref().expect("an open loop");
    assert_eq!((outcome.sent, open.unsent, outcome.failed), (200, 0, 0));
    // From its planned time: nine of ten had nothing to wait for but a connect.
    let p90 = outcome.latency.quantile_ns(0.9);
    assert!(p90 < 100_000_000, "{p90} ns");
}

/// The first GOAWAY of a server that shuts down in good order names no stream, the second does. By
/// then the client has no other request to begin.
#[test]
fn what_a_second_word_turns_away_is_asked_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut held = Vec::new();
        for (number, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut say = |bytes: &[u8]| {
                thread::sleep(Duration::from_millis(30));
                std::io::Write::write_all(&mut stream, bytes).unwrap();
            };
            say(b"\0\0\0\x04\0\0\0\0\0");
            if number == 0 {
                say(b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0");
                say(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0");
            }
            // Status 200, and the end of stream 1.
            say(b"\0\0\x01\x01\x05\0\0\0\x01\x88");
            held.push(stream);
        }
    });
    let server = Server { address, requests: Arc::default() };
    let outcome = go(&plan(&server, 1, 3, 2));
    assert_eq!((outcome.ok, outcome.failed, outcome.resent), (2, 0, 1), "{:?}", outcome.errors);
}

/// A server that speaks in bytes: `talk` has the conversation on connection `n`, from 0, and tells
/// how many requests it has seen there.
fn speak(talk: impl Fn(u64, &mut TcpStream) -> u64 + Send + Sync + 'static) -> Server {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server { address, requests: Arc::default() };
    let (requests, talk) = (Arc::clone(&server.requests), Arc::new(talk));
    thread::spawn(move || {
        for (number, mut stream) in (0..).zip(listener.incoming().map_while(Result::ok)) {
            // What waits to be sent is lost with a reset.
            stream.set_nodelay(true).unwrap();
            let (requests, talk) = (Arc::clone(&requests), Arc::clone(&talk));
            thread::spawn(move || requests.fetch_add(talk(number, &mut stream), SeqCst));
        }
    });
    server
}

const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const NO_STREAMS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\0";
const ONE_STREAM: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01";
/// No stream is answered.
const GONE: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Status 200, and the end of stream 1.
const ANSWER: &[u8] = b"\0\0\x01\x01\x05\0\0\0\x01\x88";
const PREFACE_BYTES: usize = 24;

/// Reads frames until so many are HEADERS, or the end; how many were.
fn requests(stream: &mut impl Read, most: u64) -> u64 {
    let (mut head, mut seen) = ([0; 9], 0);
    while seen < most && stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        let is_whole = stream.read_exact(&mut payload).is_ok();
        seen += u64::from(is_whole && head[3] == 1);
    }
    seen
}

fn say(stream: &mut TcpStream, bytes: &[u8]) {
    // The client may be gone.
    let _ = stream.write_all(bytes);
}

fn greet(stream: &mut TcpStream, settings: &[u8]) {
    let _ = stream.read_exact(&mut [0; PREFACE_BYTES]);
    say(stream, settings);
}

fn wait(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// The server had it all that time; a new connection for it is no part of its answer's.
#[test]
fn what_a_server_held_and_turned_away_was_waited_for() {
    let holding = speak(|number, stream| {
        if number == 0 {
            greet(stream, SETTINGS);
            let seen = requests(stream, 1);
            wait(120);
            say(stream, GONE);
            return seen;
        }
        wait(400);
        greet(stream, SETTINGS);
        let seen = requests(stream, 1);
        say(stream, ANSWER);
        wait(200);
        seen
    });
    let outcome = go(&plan(&holding, 1, 1, 1));
    assert_eq!((outcome.ok, outcome.resent), (1, 1), "{:?}", outcome.errors);
    let ms = outcome.latency.max_ns() / 1_000_000;
    assert!((120..400).contains(&ms), "{ms} ms");
    let refusing = serve(100, |n| if n == 0 { Act::Refuse(120) } else { Act::Page(10, 0) });
    let outcome = go(&plan(&refusing, 1, 1, 1));
    assert_eq!((outcome.ok, outcome.resent), (1, 1), "{:?}", outcome.errors);
    let ms = outcome.latency.max_ns() / 1_000_000;
    assert!((120..1_000).contains(&ms), "{ms} ms");
}

/// Each request waits for its time, and the next one then; nobody waits for ever.
#[test]
fn a_server_that_allows_no_streams_is_waited_for_until_the_timeout() {
    let timeout = Duration::from_millis(100);
    let never = speak(|_, stream| {
        greet(stream, NO_STREAMS);
        requests(stream, u64::MAX)
    });
    let outcome = go(&Plan { timeout, ..plan(&never, 2, 4, 12) });
    assert_eq!(outcome.errors, [(ErrorKind::Timeout, 12)].into());
    assert_eq!(never.requests.load(SeqCst), 0);
    let later = speak(|_, stream| {
        greet(stream, NO_STREAMS);
        wait(100);
        say(stream, ONE_STREAM);
        let seen = requests(stream, 1);
        say(stream, ANSWER);
        wait(200);
        seen
    });
    let outcome = go(&plan(&later, 1, 4, 1));
    assert_eq!((outcome.ok, outcome.failed), (1, 0), "{:?}", outcome.errors);
}

#[test]
fn what_is_sent_and_sent_again_is_what_the_server_has_seen() {
    let gone = speak(|_, stream| {
        greet(stream, SETTINGS);
        let first = requests(stream, 1);
        say(stream, GONE);
        first + requests(stream, u64::MAX)
    });
    let outcome = go(&plan(&gone, 1, 1, 5));
    assert_eq!((outcome.errors[&ErrorKind::Closed], outcome.resent), (5, 40));
    gone.has_seen(45);
}

/// Answers every request until the client leaves; how many there were.
fn answer_all(stream: &mut TcpStream) -> u64 {
    let (mut head, mut seen) = ([0; 9], 0);
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let _ = stream.read_exact(&mut vec![0; length as usize]);
        if head[3] == 1 {
            seen += 1;
            say(stream, &[b"\0\0\x01\x01\x05", &head[5..9], b"\x88"].concat());
        }
    }
    seen
}

/// In good order: a first word that names no stream, then the last one and the end at once. And the
/// same with a refusal for each of those that come too late.
#[test]
fn what_the_last_word_before_the_end_turns_away_is_asked_again() {
    const FIRST: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
    const ANSWERS: &[u8] = b"\0\0\x01\x01\x05\0\0\0\x01\x88\0\0\x01\x01\x05\0\0\0\x03\x88";
    const LAST: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x03\0\0\0\0";
    const REFUSED: &[u8] = b"\0\0\x04\x03\0\0\0\0\x05\0\0\0\x07\
                             \0\0\x04\x03\0\0\0\0\x07\0\0\0\x07";
    let ways = [(LAST, false), (LAST, true), (REFUSED, false), (REFUSED, true)];
    let engines = [Engine::Epoll, Engine::IoUring];
    for ((words, resets), engine) in ways.into_iter().flat_map(|way| engines.map(|e| (way, e))) {
        let leaving = speak(move |number, stream| {
            greet(stream, SETTINGS);
            if number > 0 {
                return answer_all(stream);
            }
            let seen = requests(stream, 4);
            say(stream, FIRST);
            wait(20);
            say(stream, &[ANSWERS, words].concat());
            if resets {
                let socket = socket2::SockRef::from(&*stream);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            seen
        });
        let outcome = go(&Plan { engine, ..plan(&leaving, 1, 4, 12) });
        let seen = (outcome.ok, outcome.failed, outcome.resent);
        assert_eq!(seen, (12, 0, 2), "{engine:?}, reset {resets}: {:?}", outcome.errors);
        leaving.has_seen(14);
    }
}

/// Requests that nobody answers, however the server says so, end.
#[test]
fn what_every_connection_turns_away_is_not_asked_for_ever() {
    const FIRST: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
    const REFUSED: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07\
                             \0\0\x04\x03\0\0\0\0\x03\0\0\0\x07";
    let in_two_words = speak(|_, stream| {
        greet(stream, SETTINGS);
        let seen = requests(stream, 1);
        say(stream, FIRST);
        wait(1);
        say(stream, GONE);
        seen
    });
    let by_streams = speak(|number, stream| {
        greet(stream, if number == 0 { SETTINGS } else { NO_STREAMS });
        let seen = if number == 0 { requests(stream, 2) } else { 0 };
        if number == 0 {
            say(stream, &[NO_STREAMS, REFUSED].concat());
        }
        seen
    });
    for server in [in_two_words, by_streams] {
        for engine in [Engine::Epoll, Engine::IoUring] {
            let outcome = go(&Plan { engine, ..plan(&server, 1, 2, 2) });
            assert_eq!(outcome.errors, [(ErrorKind::Closed, 2)].into(), "{engine:?}");
            assert!(outcome.resent <= 16, "{engine:?}: {} times more", outcome.resent);
        }
    }
}

/// What came of the first answer is none of the second.
#[test]
fn half_an_answer_before_a_refusal_is_forgotten() {
    let halting = speak(|_, stream| {
        greet(stream, SETTINGS);
        let first = requests(stream, 1);
        say(stream, b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\0\0\0\0\x01hello");
        wait(20);
        say(stream, b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07");
        let second = requests(stream, 1);
        say(stream, b"\0\0\x01\x01\x04\0\0\0\x03\x88\0\0\x0a\0\x01\0\0\0\x03helloworld");
        wait(200);
        first + second
    });
    let outcome = go(&plan(&halting, 1, 1, 1));
    assert_eq!((outcome.ok, outcome.resent, outcome.body_bytes), (1, 1, 10), "{outcome:?}");
}

/// The words may lie there unread while a request is written, which the end has made impossible.
#[test]
fn a_server_that_goes_and_closes_at_once_has_said_so() {
    let hasty = speak(|number, stream| {
        greet(stream, SETTINGS);
        if number % 8 == 0 {
            say(stream, GONE);
            return 0;
        }
        let seen = requests(stream, 1);
        say(stream, ANSWER);
        say(stream, b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0");
        // A close with something unread would be a reset.
        seen + requests(stream, u64::MAX)
    });
    let outcome = go(&plan(&hasty, 4, 3, 400));
    assert_eq!((outcome.ok, outcome.failed), (400, 0), "{:?}", outcome.errors);
}

/// A Unix socket can end for one side alone, of which nothing is to be read.
#[test]
fn who_takes_no_more_and_says_nothing_is_left_at_once() {
    for engine in [Engine::Epoll, Engine::IoUring] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let mut held = Vec::new();
            for (number, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let _ = stream.read_exact(&mut [0; PREFACE_BYTES]);
                let _ = stream.write_all(SETTINGS);
                requests(&mut stream, 1);
                if number == 0 {
                    let _ = stream.shutdown(std::net::Shutdown::Read);
                }
                let _ = stream.write_all(ANSWER);
                held.push(stream);
            }
        });
        let target = Target::at_address("http://a/", Address::Unix(path)).unwrap();
        let server = Server { address: ([127, 0, 0, 1], 1).into(), requests: Arc::default() };
        let plan = Plan { target, engine, ..plan(&server, 1, 1, 2) };
        let outcome = go(&plan);
        assert_eq!(outcome.errors, [(ErrorKind::Closed, 1)].into(), "{engine:?}");
    }
}

/// It is tried again for each request, not in between as fast as a connect takes.
#[test]
fn who_never_takes_a_request_is_not_stormed_and_each_failure_is_counted() {
    let protocol = (NO_HTTP2, ErrorKind::Protocol);
    for (greeting, kind) in [protocol, (GONE_AT_ONCE, ErrorKind::Closed), (b"", ErrorKind::Closed)]
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let made = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&made);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, SeqCst);
                let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
                let _ = std::io::Write::write_all(&mut stream, greeting);
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
        });
        let server = Server { address, requests: Arc::default() };
        let window = Duration::from_secs(1);
        let (pace, stop) = (Some(Pace::steady(50.0, window)), Stop::After(window));
        let outcome = go(&Plan { pace, stop, ..plan(&server, 2, 4, 0) });
        // Asking again takes a while, so that the last ones may have no connection to be sent on.
        assert!(outcome.sent >= 40 && outcome.ok == 0, "{}", outcome.sent);
        assert_eq!(outcome.errors.get(&kind), Some(&outcome.sent), "{:?}", outcome.errors);
        // A request that is turned away is asked eight times more.
        let made = made.load(SeqCst);
        assert!(made <= 50 * 12, "{made} connections for 50 requests");
    }
}

const NO_HTTP2: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
/// SETTINGS, and a GOAWAY before the first stream.
const GONE_AT_ONCE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[test]
fn what_waits_for_a_stream_is_asked_on_the_next_connection() {
    let server = serve(2, |n| if n % 20 == 1 { Act::Last } else { Act::Page(10, 1) });
    let outcome = go(&plan(&server, 1, 8, 200));
    assert_eq!((outcome.ok, outcome.failed), (200, 0), "{:?}", outcome.errors);
}

#[test]
fn resets_are_what_they_say() {
    let refusing = serve(100, |n| match n % 5 {
        4 => Act::Reset(Reason::REFUSED_STREAM),
        _ => Act::Page(10, 0),
    });
    let outcome = go(&plan(&refusing, 2, 4, 200));
    assert_eq!((outcome.ok, outcome.failed), (200, 0));
    assert_eq!(refusing.requests.load(SeqCst), 200 + outcome.resent);
    let failing = serve(100, |n| match n % 5 {
        4 => Act::Reset(Reason::INTERNAL_ERROR),
        _ => Act::Page(10, 0),
    });
    let outcome = go(&plan(&failing, 2, 4, 200));
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Closed]), (160, 40));
    assert_eq!(outcome.reconnects, 0, "the other streams go on");
}

#[test]
fn a_server_that_refuses_every_stream_is_not_asked_for_ever() {
    let refusing = serve(100, |_| Act::Reset(Reason::REFUSED_STREAM));
    let outcome = go(&plan(&refusing, 1, 4, 20));
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Closed]), (0, 20));
    assert_eq!((outcome.resent, refusing.requests.load(SeqCst)), (160, 180));
}

#[test]
fn an_answer_of_another_length_is_a_fault_of_its_stream_alone() {
    let server = serve(100, |n| if n % 5 == 4 { Act::Short } else { Act::Page(10, 0) });
    let outcome = go(&plan(&server, 2, 4, 200));
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Protocol]), (160, 40));
    assert_eq!((outcome.reconnects, outcome.first_fault), (0, Some(Fault::WrongLength)));
}

#[test]
fn a_stream_without_an_answer_is_late_alone() {
    let server = serve(100, |n| if n % 20 == 3 { Act::Silence } else { Act::Page(10, 0) });
    let timeout = Duration::from_millis(300);
    let outcome = go(&Plan { timeout, ..plan(&server, 1, 8, 100) });
    assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Timeout]), (95, 5));
    assert_eq!(outcome.reconnects, 0);
}

#[test]
fn an_open_loop_fills_streams() {
    let server = serve(100, |_| Act::Page(10, 5));
    let stages = vec![Stage::steady(Duration::from_millis(500), 1_000.0)];
    let pace = Some(Pace { arrivals: Arrivals::Constant, stages });
    let stop = Stop::After(Duration::from_millis(500));
    let outcome = go(&Plan { pace, stop, ..plan(&server, 2, 50, 1) });
    let open = outcome.open.expect("an open loop");
    assert_eq!((outcome.ok + open.unsent, outcome.failed), (500, 0));
    assert!(outcome.ok > 450, "{}", outcome.ok);
}

#[test]
fn connections_live_as_long_as_they_are_told() {
    let server = serve(100, |_| Act::Page(10, 0));
    let outcome = go(&Plan { answers_per_connection: Some(10), ..plan(&server, 1, 4, 100) });
    assert_eq!((outcome.ok, outcome.failed, outcome.resent), (100, 0, 0));
    assert_eq!(outcome.reconnects, 9);
}

#[test]
fn a_server_of_http_1_is_told() {
    let server = drom_load::null_server().expect("a server");
    let plan = Plan {
        version: Version::Http2,
        connections: 1,
        stop: Stop::Requests(2),
        ..Plan::get(server.target())
    };
    assert_eq!(go(&plan).first_fault, Some(Fault::NotHttp2));
}

// ---- the core ----------------------------------------------------------------------------------

/// What a server may say: settings, two answers that interleave, padding, trailers, a ping.
fn story() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        bytes.extend_from_slice(&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(payload);
    };
    frame(4, 0, 0, &[0, 3, 0, 0, 0, 9]);
    frame(1, 4, 1, &[0x88]);
    frame(0, 0, 1, b"hello ");
    frame(1, 4 | 8, 3, &[2, 0x8d, 0, 0]);
    frame(6, 0, 0, b"12345678");
    frame(0, 8, 1, &[&[3], &b"wor"[..], &[0, 0, 0]].concat());
    frame(0, 1, 3, b"");
    frame(77, 0, 0, b"unknown");
    frame(0, 0, 1, b"ld");
    frame(1, 0, 1, &[0]);
    frame(9, 4, 1, &[1, b'x', 1, b'y']);
    frame(1, 4 | 1, 5, &[0x88]);
    frame(3, 0, 7, &[0, 0, 0, 7]);
    bytes
}

fn tell(reads: &[&[u8]]) -> (Vec<String>, Vec<u8>) {
    let (mut http2, mut told) = (Http2::default(), Vec::new());
    http2.out.clear();
    let mut bodies = std::collections::BTreeMap::<u32, Vec<u8>>::new();
    for read in reads {
        let mut input = *read;
        loop {
            let (event, rest) = match http2.next(input) {
                Ok(next) => next,
                Err(fault) => {
                    told.push(fault.to_string());
                    return (told, http2.out);
                }
            };
            input = rest;
            match event {
                None => break,
                Some(Http2Event::Body { stream, bytes }) => {
                    bodies.entry(stream).or_default().extend(bytes);
                }
                Some(other) => told.push(format!("{other:?}")),
            }
        }
        assert!(input.is_empty(), "bytes are left and no event");
    }
    told.extend(bodies.iter().map(|(stream, body)| format!("{stream}: {}", body.escape_ascii())));
    (told, http2.out)
}

#[test]
fn every_split_tells_the_same_story() {
    let bytes = story();
    let whole = tell(&[&bytes]);
    let wanted = [
        "Head { stream: 1, status: 200, length: None }",
        "Head { stream: 3, status: 404, length: None }",
        "End { stream: 3 }",
        "Head { stream: 5, status: 200, length: None }",
        "End { stream: 5 }",
        "Reset { stream: 7, refused: true }",
        "1: hello world",
    ];
    assert_eq!(whole.0, wanted);
    let settled = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    let pong = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], b"12345678"].concat();
    assert_eq!(whole.1, [&settled[..], &pong].concat());
    for at in 0..=bytes.len() {
        let (front, back) = bytes.split_at(at);
        assert_eq!(tell(&[front, back]), whole, "split at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(tell(&single), whole);
}

proptest! {
    #[test]
    fn noise_never_panics(
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0usize..200,
        cuts in proptest::collection::vec(1usize..40, 0..20),
    ) {
        let mut bytes = story();
        let at = at.min(bytes.len());
        bytes.splice(at..at, noise);
        let (mut reads, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (front, back) = rest.split_at(cut.min(rest.len()));
            reads.push(front);
            rest = back;
        }
        reads.push(rest);
        prop_assert_eq!(tell(&reads), tell(&[&bytes]));
    }
}
