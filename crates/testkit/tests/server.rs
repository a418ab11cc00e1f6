//! The scripted server itself, with clients made by hand.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use drom_observe::clock;
use drom_testkit::{
    Counts, Delay, Fate, Form, Manner, Process, Script, Server, Then, Turn, Window, wire,
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn start(script: Script) -> (Server, TcpStream) {
    let server = Server::start(script).expect("a server");
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    (server, stream)
}

fn ask(stream: &mut (impl Read + Write), request: &[u8], answer_bytes: usize) -> Vec<u8> {
    stream.write_all(request).expect("written");
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer).expect("an answer");
    answer
}

fn settle(server: &Server, stream: TcpStream) -> Counts {
    drop(stream);
    let counts = server.settle(Duration::from_secs(10)).expect("every connection is closed");
    assert_eq!(counts.accounted(), counts.begun);
    counts
}

#[test]
fn pipelined_requests_and_bodies_are_answered_in_order() {
    let turn = |body_bytes| Turn { body_bytes, ..Turn::default() };
    let (server, mut stream) = start(Script::cycle(vec![turn(1), turn(20), turn(3)]));
    let post = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    let expected = [1, 20, 3].map(|bytes| wire(&turn(bytes), false)).concat();
    let requests = [GET, post, GET].concat();
    assert_eq!(ask(&mut stream, &requests, expected.len()), expected);
    let counts = settle(&server, stream);
    assert_eq!((counts.connections, counts.begun, counts.whole), (1, 3, 3));
    assert_eq!((counts.answers(), counts.delays.count()), (3, 3));
    assert_eq!(counts.bytes_read, requests.len() as u64);
    assert_eq!(counts.bytes_written, expected.len() as u64);
}

#[test]
fn it_listens_on_a_unix_socket_too() {
    let server = Server::start(Script::always(Turn::default())).expect("a server");
    let mut stream = UnixStream::connect(server.path()).expect("a connection");
    let expected = wire(&Turn::default(), false);
    assert_eq!(ask(&mut stream, GET, expected.len()), expected);
    drop(stream);
    let counts = server.settle(Duration::from_secs(10)).expect("settled");
    assert_eq!((counts.connections, counts.answers()), (1, 1));
    let path = server.path().to_owned();
    drop(server);
    assert!(!path.exists());
}

#[test]
fn what_became_of_an_answer_is_known() {
    let late = Turn::after(Delay::Constant(Duration::from_secs(5)));
    for (turn, read, expected) in [
        (Turn::default(), true, "taken"),
        (Turn::default(), false, "crossed"),
        (late, false, "abandoned"),
        (Turn::with(Fate::Stall(10)), false, "abandoned"),
        (Turn::with(Fate::CutClose(10)), false, "cut"),
    ] {
        let (server, mut stream) = start(Script::always(turn.clone()));
        stream.write_all(GET).expect("written");
        if read {
            ask(&mut stream, b"", wire(&turn, false).len());
        } else {
            while server.counts().whole == 0 {
                clock::sleep(Duration::from_millis(1));
            }
            clock::sleep(Duration::from_millis(20));
        }
        let counts = settle(&server, stream);
        let seen = match () {
            () if counts.answers() == 1 => "taken",
            () if counts.crossed == 1 => "crossed",
            () if counts.abandoned == 1 => "abandoned",
            () if counts.cut_close == 1 => "cut",
            () => "nothing",
        };
        assert_eq!(seen, expected, "{turn:?}");
    }
}

#[test]
fn requests_after_a_close_are_late_and_cut_ones_are_not() {
    let turn = Turn { then: Then::Announced, ..Turn::default() };
    let (server, mut stream) = start(Script::always(turn.clone()));
    ask(&mut stream, GET, wire(&turn, false).len());
    stream.write_all(GET).expect("the other side still reads");
    let counts = settle(&server, stream);
    assert_eq!((counts.begun, counts.answers(), counts.late), (2, 1, 1));

    let (server, mut stream) = start(Script::always(Turn::with(Fate::RequestCutClose(5))));
    stream.write_all(GET).expect("the other side still reads");
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    let counts = settle(&server, stream);
    assert_eq!((counts.begun, counts.whole, counts.cut_close, counts.late), (1, 0, 1, 0));
}

#[test]
fn connections_are_closed_and_turned_away() {
    let manners = vec![Manner::Close, Manner::Reset];
    let (server, mut first) = start(Script { manners, ..Script::always(Turn::default()) });
    assert_eq!(first.read(&mut [0]).expect("an end"), 0);
    let mut second = TcpStream::connect(server.address()).expect("the kernel accepts");
    assert!(second.read(&mut [0]).is_err());
    drop(second);
    let counts = settle(&server, first);
    assert_eq!((counts.connections, counts.mute, counts.turned_away), (2, 1, 1));
}

#[test]
fn a_known_capacity_is_not_exceeded() {
    let script = Script { capacity_rps: Some(200.0), ..Script::always(Turn::default()) };
    let (server, mut stream) = start(script);
    let length = wire(&Turn::default(), false).len();
    let began = clock::now();
    ask(&mut stream, &GET.repeat(20), length * 20);
    assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
    assert!(settle(&server, stream).delays.quantile_ns(0.5) >= 45_000_000);
}

#[test]
fn a_deaf_server_accepts_later_and_a_frozen_one_answers_later() {
    let script = Script::always(Turn::default());
    let deaf = Script { deaf: vec![Window::new(0, 60)], ..script.clone() };
    let frozen = Script { freezes: vec![Window::new(0, 60)], ..script };
    for script in [deaf, frozen] {
        let began = clock::now();
        let (server, mut stream) = start(script);
        // A freeze begins after the first request.
        let length = wire(&Turn::default(), false).len();
        ask(&mut stream, GET, length);
        ask(&mut stream, GET, length);
        assert!(began.elapsed() >= Duration::from_millis(60), "{:?}", began.elapsed());
        drop((stream, server));
    }
}

#[test]
fn a_full_accept_queue_lets_nobody_in() {
    let deaf = vec![Window::new(0, 300)];
    let server = Server::start(Script { backlog: 1, deaf, ..Script::always(Turn::default()) });
    let server = server.expect("a server");
    let connect = || TcpStream::connect_timeout(&server.address(), Duration::from_millis(50));
    // The kernel has room for one more than it was told.
    let connected: Vec<_> = (0..4).map(|_| connect()).collect();
    assert_eq!(connected.iter().filter(|stream| stream.is_ok()).count(), 2);
}

#[test]
fn answers_come_in_pieces_and_early() {
    let pieces = Some((10, Duration::from_millis(3)));
    let turn = Turn { pieces, early: true, form: Form::Chunked(7), ..Turn::default() };
    let (server, mut stream) = start(Script::always(turn.clone()));
    let (head, body) = (b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", b"abc");
    let expected = wire(&turn, false);
    let began = clock::now();
    assert_eq!(ask(&mut stream, head, expected.len()), expected);
    assert!(began.elapsed() >= Duration::from_millis(3) * (expected.len() as u32 / 10 - 1));
    assert_eq!(server.counts().whole, 0);
    stream.write_all(body).expect("written");
    let counts = settle(&server, stream);
    assert_eq!((counts.whole, counts.answers()), (1, 1));
}

#[test]
fn a_stopped_process_answers_when_it_goes_on() {
    let server = Process::start(Script::always(Turn::default())).expect("a process");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let length = wire(&Turn::default(), false).len();
    ask(&mut stream, GET, length);
    server.stop();
    let began = clock::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            clock::sleep(Duration::from_millis(60));
            server.resume();
        });
        ask(&mut stream, GET, length);
    });
    assert!(began.elapsed() >= Duration::from_millis(60));
}
