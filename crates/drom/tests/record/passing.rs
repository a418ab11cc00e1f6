//! `drom record` between clients and a server: what passes is what was sent, and what is written
//! is what passed.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use crate::recorder::{Behind, Recorder, head, pattern, sum};
use crate::support::{Client, eventually};

fn both(flags: &[&str]) -> (Behind, Recorder) {
    let behind = Behind::usual();
    let recorder = Recorder::start(&behind.url(), flags);
    (behind, recorder)
}

#[test]
fn a_connection_is_kept_on_both_sides_and_written_as_a_scenario() {
    let (behind, mut recorder) = both(&[]);
    let mut client = Client::new(recorder.address);
    for _ in 0..3 {
        assert_eq!(client.get("/hello?a=b").text(), "hello");
    }
    assert_eq!(client.post("/sum", b"name=Ann").text(), format!("8 {}", sum(0, b"name=Ann")));
    client.send("HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n");
    let answer = client.answer_to("HEAD").unwrap();
    assert_eq!((answer.status, answer.header("Content-Length")), (200, Some("5")));
    assert_eq!(client.get("/chunked").text(), "hello");
    assert_eq!(behind.connections.load(Relaxed), 1);
    assert_eq!(client.get("/close").text(), "until the end");
    assert_eq!(client.get("/hello").text(), "hello", "the client's connection outlives it");
    assert_eq!(behind.connections.load(Relaxed), 2);
    let text = recorder.scenario();
    assert!(text.contains(&format!("base = \"http://{}\"", behind.address)), "{text}");
    assert_eq!(text.matches("[[step]]").count(), 8, "{text}");
    assert_eq!(text.matches("url = \"/hello?a=b\"").count(), 3, "{text}");
    assert!(text.contains("method = \"HEAD\"") && text.contains("body = \"name=Ann\""), "{text}");
    assert_eq!(text.matches("check = { status = 200 }").count(), 8, "{text}");
    assert!(recorder.said().contains("GET /hello?a=b 200 "), "{}", recorder.said());
    assert!(recorder.said().contains("8 requests recorded in "), "{}", recorder.said());
}

#[test]
fn what_is_masked_is_not_said_either() {
    let (_behind, mut recorder) = both(&["--mask"]);
    let mut client = Client::new(recorder.address);
    assert_eq!(client.get("/hello?token=T0p&a=b").text(), "hello");
    let text = recorder.scenario();
    assert!(text.contains("token={{secret_1}}") && !text.contains("T0p"), "{text}");
    let said = recorder.said();
    assert!(said.contains("GET /hello?token=MASKED&a=b 200") && !said.contains("T0p"), "{said}");
}

#[test]
fn requests_in_one_piece_and_in_many_are_the_same() {
    let (_behind, recorder) = both(&[]);
    let text = "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n\
                POST /sum HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n\
                3;x\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\
                GET /chunked HTTP/1.1\r\nHost: t\r\n\r\n";
    let expected = ["hello".to_owned(), format!("5 {}", sum(0, b"abcde")), "hello".to_owned()];
    let mut client = Client::new(recorder.address);
    client.send(text);
    expected.iter().for_each(|text| assert_eq!(client.answer().unwrap().text(), *text));
    for byte in text.as_bytes() {
        client.stream.write_all(&[*byte]).unwrap();
    }
    expected.iter().for_each(|text| assert_eq!(client.answer().unwrap().text(), *text));
}

#[test]
fn answers_in_many_pieces_are_whole() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\
                  Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let behind = Behind::start(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut requests = BufReader::new(stream.try_clone().unwrap());
        while head(&mut requests).is_some() {
            for byte in answer.as_bytes() {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let recorder = Recorder::start(&behind.url(), &[]);
    let mut client = Client::new(recorder.address);
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 100);
        let answer = client.answer().unwrap();
        assert_eq!((answer.text(), answer.header("X-A")), ("abcde".to_owned(), Some("b c")));
    }
    assert_eq!(behind.connections.load(Relaxed), 1);
}

#[test]
fn interim_answers_pass_and_bodies_wait_for_them() {
    let (_behind, recorder) = both(&[]);
    let mut client = Client::new(recorder.address);
    client
        .send("POST /sum HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 100);
    client.send("abc");
    assert_eq!(client.answer().unwrap().text(), format!("3 {}", sum(0, b"abc")));
    client.send("GET /early HTTP/1.1\r\nHost: t\r\n\r\n");
    let hints = client.answer().unwrap();
    assert_eq!((hints.status, hints.header("Link")), (103, Some("</a>")));
    assert_eq!(client.answer().unwrap().text(), "late");
}

#[test]
fn an_answer_before_the_body_ends_the_connection_after_it() {
    let behind = Behind::start(|stream| {
        let mut stream = BufReader::new(stream);
        head(&mut stream);
        let refused = b"HTTP/1.1 413 No\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge";
        let _ = stream.get_mut().write_all(refused);
        // Until it is closed: an end with bytes unread would be a reset.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let mut recorder = Recorder::start(&behind.url(), &[]);
    for fields in ["Expect: 100-continue\r\n", ""] {
        let mut client = Client::new(recorder.address);
        client.send(&format!("POST / HTTP/1.1\r\nHost: t\r\n{fields}Content-Length: 9\r\n\r\n"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.text()), (413, "large".to_owned()));
        assert_eq!(answer.header("Connection"), Some("close"));
        assert!(client.is_closed());
    }
    let ended = recorder.interrupt();
    assert_eq!(ended.status, Some(1), "no whole request was there to record: {}", ended.stderr);
    assert!(ended.stderr.contains("nothing was recorded; 2 could not be"), "{}", ended.stderr);
}

#[test]
fn an_old_client_gets_a_body_that_ends_with_the_connection() {
    let (_behind, recorder) = both(&[]);
    let mut client = Client::new(recorder.address);
    client.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!((answer.text(), answer.header("Connection")), ("hello".into(), Some("keep-alive")));
    client.send("GET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!((answer.text(), answer.header("Connection")), ("hello".into(), Some("close")));
    assert_eq!(answer.header("Transfer-Encoding"), None);
}

#[test]
fn large_bodies_pass_both_ways_in_little_memory() {
    const LENGTH: usize = 64 << 20;
    let (_behind, mut recorder) = both(&[]);
    let mut client = Client::new(recorder.address);
    client.get("/hello");
    let before = recorder.peak_kib();
    client.send(&format!("POST /sum HTTP/1.1\r\nHost: t\r\nContent-Length: {LENGTH}\r\n\r\n"));
    let piece = pattern(1 << 20);
    let mut expected = 0;
    for _ in 0..LENGTH / piece.len() {
        client.stream.write_all(&piece).unwrap();
        expected = sum(expected, &piece);
    }
    assert_eq!(client.answer().unwrap().text(), format!("{LENGTH} {expected}"));
    let big = client.get(&format!("/big?{LENGTH}"));
    assert_eq!(big.body.len(), LENGTH);
    let first = &pattern(64 * 1024)[..];
    assert!(big.body.chunks(first.len()).all(|piece| piece == first));
    let grown = recorder.peak_kib() - before;
    assert!(grown < 16 * 1024, "{grown} KiB for bodies of {LENGTH} bytes");
    let text = recorder.scenario();
    assert!(!text.contains("/sum"), "a body that long is not in a scenario");
    assert!(recorder.said().contains("--max-body allows more"), "{}", recorder.said());
}

#[test]
fn both_directions_move_at_once() {
    // It sends back what it gets, and reads no further before that is taken.
    let behind = Behind::start(|stream| {
        let mut stream = BufReader::new(stream);
        head(&mut stream);
        let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n");
        let mut to = stream.get_mut().try_clone().unwrap();
        let _ = std::io::copy(&mut stream.take(5_000_000), &mut to);
    });
    let recorder = Recorder::start(&behind.url(), &[]);
    let mut client = Client::new(recorder.address);
    let body = pattern(5_000_000);
    let mut writer = client.stream.try_clone().unwrap();
    let sent = body.clone();
    let upload = std::thread::spawn(move || {
        writer.write_all(b"PUT / HTTP/1.1\r\nHost: t\r\nContent-Length: 5000000\r\n\r\n").unwrap();
        writer.write_all(&sent).unwrap();
    });
    let answer = client.answer().unwrap();
    upload.join().unwrap();
    assert!(answer.body == body, "{} bytes came back", answer.body.len());
}

#[test]
fn who_breaks_off_breaks_nothing_else() {
    let (_behind, recorder) = both(&[]);
    // A client that goes away within its request, and one within its answer.
    let mut gone = Client::new(recorder.address);
    gone.send("POST /sum HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc");
    drop(gone);
    let mut gone = Client::new(recorder.address);
    gone.send("GET /big?50000000 HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut some = [0; 1000];
    gone.stream.read_exact(&mut some).unwrap();
    drop(gone);
    // A server that goes away within its answer.
    let mut client = Client::new(recorder.address);
    client.send("GET /cut HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(client.answer(), None);
    assert!(client.is_closed());
    // To a client of HTTP/1.0 the end of the connection would be that of the body.
    let mut old = TcpStream::connect(recorder.address).unwrap();
    old.write_all(b"GET /cut-chunk HTTP/1.0\r\n\r\n").unwrap();
    let error = old.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(Client::new(recorder.address).get("/hello").text(), "hello");
    let told = |text: &str| eventually(Duration::from_secs(10), || recorder.said().contains(text));
    assert!(told("the client ended within its request"));
    assert!(told("GET /big?50000000 200"));
    assert!(told("the server failed within its answer"));
}

#[test]
fn a_kept_connection_that_the_server_closed_is_made_anew() {
    let behind = Behind::start(|stream| {
        let mut stream = BufReader::new(stream);
        head(&mut stream);
        let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let recorder = Recorder::start(&behind.url(), &[]);
    let mut client = Client::new(recorder.address);
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!(behind.connections.load(Relaxed), 20);
}

#[test]
fn a_server_that_is_not_there_is_said_to_be() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let recorder = Recorder::start(&format!("http://{address}"), &[]);
    let answer = Client::new(recorder.address).get("/");
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("refused the connection"), "{}", answer.text());
}

#[test]
fn what_cannot_be_passed_on_is_refused() {
    let (behind, recorder) = both(&[]);
    let ask = |text: &str| {
        let mut client = Client::new(recorder.address);
        client.send(text);
        let answer = client.answer().unwrap();
        assert!(client.is_closed());
        answer
    };
    let two =
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(ask(two).status, 400);
    let twice = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(ask(twice).status, 400);
    let socket = "GET / HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let answer = ask(socket);
    assert_eq!(answer.status, 501);
    assert!(answer.text().contains("websocket"), "{}", answer.text());
    assert_eq!(ask("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").status, 405);
    let other = "GET http://other.example/x HTTP/1.1\r\nHost: other.example\r\n\r\n";
    let answer = ask(other);
    assert_eq!(answer.status, 421);
    assert!(answer.text().contains("no proxy for other.example"), "{}", answer.text());
    assert_eq!(behind.connections.load(Relaxed), 0);
}

/// As the proxy of a browser it passes on what is for its own server.
#[test]
fn what_is_asked_of_a_proxy_for_this_server_passes() {
    let (behind, recorder) = both(&[]);
    let mut client = Client::new(recorder.address);
    for authority in [behind.address.to_string(), recorder.address.to_string()] {
        let url = format!("http://{authority}/hello");
        client.send(&format!("GET {url} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
        assert_eq!(client.answer().unwrap().text(), "hello", "{url}");
    }
}

#[test]
fn a_header_that_is_no_text_passes_and_is_not_written() {
    let behind = Behind::start(|mut stream| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got == 1) {
            head.push(byte[0]);
        }
        let is_whole = head.windows(9).any(|at| at == b"X-L: caf\xe9");
        let text = if is_whole { "hello" } else { "other" };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{text}");
        let _ = stream.write_all(answer.as_bytes());
    });
    let mut recorder = Recorder::start(&behind.url(), &[]);
    let mut client = Client::new(recorder.address);
    let text = b"GET /hello HTTP/1.1\r\nHost: t\r\nX-L: caf\xe9\r\nX-U: caf\xc3\xa9\r\n\r\n";
    client.stream.write_all(text).unwrap();
    assert_eq!(client.answer().unwrap().text(), "hello");
    let file = recorder.scenario();
    assert!(!file.contains("X-L") && file.contains("X-U = \"caf\u{e9}\""), "{file}");
    assert!(recorder.said().contains("without its header X-L"), "{}", recorder.said());
}

#[test]
fn a_browser_stays_at_the_proxy() {
    let (behind, mut recorder) = both(&["--mask"]);
    let here = recorder.address;
    let mut client = Client::new(here);
    let get = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {here}\r\nReferer: http://{here}/x\r\n{more}\r\n")
    };
    client.send(&get("/login", "Authorization: Bearer hunter2\r\n"));
    let answer = client.answer().unwrap();
    assert_eq!(answer.header("Location"), Some(&*format!("http://{here}/home")));
    assert_eq!(answer.header("Set-Cookie"), Some("session=s3cret; Path=/"));
    client.send(&get("/see", "Cookie: session=s3cret; id=tr4ck\r\nTE: gzip\r\n"));
    let seen = client.answer().unwrap().text();
    let there = behind.address;
    assert!(seen.contains(&format!("\r\nHost: {there}\r\n")), "{seen}");
    assert!(seen.contains(&format!("\r\nReferer: http://{there}/x\r\n")), "{seen}");
    assert!(!seen.contains("TE:"), "{seen}");
    let text = recorder.scenario();
    for secret in ["hunter2", "s3cret", "tr4ck"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(text.contains("[variables]"), "{text}");
}

#[test]
fn the_host_can_be_kept() {
    let (_behind, recorder) = both(&["--keep-host"]);
    let seen = Client::new(recorder.address).get("/see").text();
    assert!(seen.contains("\r\nHost: test\r\n"), "{seen}");
}

#[test]
fn half_a_connection_is_enough_for_an_answer() {
    let (_behind, recorder) = both(&[]);
    let mut stream = TcpStream::connect(recorder.address).unwrap();
    stream.write_all(b"GET /hello HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
}
