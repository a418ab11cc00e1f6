//! Framing is read one way or refused: a request whose end two servers could see at different
//! places gets 400 and the connection ends; nothing after it is taken for a request.

use crate::support::{Answer, Server};

const NEXT: &str = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";

/// The only answer to this, when the server closed the connection after it.
fn refused(server: &Server, text: &str) -> Option<Answer> {
    let mut client = server.connect();
    client.send(text);
    let answer = client.answer()?;
    client.is_closed().then_some(answer)
}

#[test]
fn an_ambiguous_head_is_refused_and_the_connection_ends() {
    let server = Server::start("", &[("htdocs/next", "next")]);
    for field in [
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length: 5 5",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: \u{b}chunked",
        "Content-Length : 5",
        "Content-Length:\r\n 5",
        "X: a\rContent-Length: 5",
        "X: a\nContent-Length: 5",
        "X: a\0b",
        "Host: y",
    ] {
        let text = format!("POST /next HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\nhello{NEXT}");
        let answer = refused(&server, &text).unwrap_or_else(|| panic!("{field:?} left it open"));
        assert_eq!(answer.status, 400, "{field:?}");
        assert_eq!(answer.header("Connection"), Some("close"), "{field:?}");
    }
    for head in [
        "GET /next HTTP/1.1\r\n\r\n",
        "POST /next HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /next HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n",
    ] {
        let answer = refused(&server, &format!("{head}{NEXT}"));
        assert_eq!(answer.map(|a| a.status), Some(400), "{head:?}");
    }
}

#[test]
fn an_ambiguous_chunk_is_refused_and_the_connection_ends() {
    let server = Server::start("", &[("htdocs/next", "next")]);
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(9000));
    for body in [
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a=\rb\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n",
        &long,
    ] {
        let head = "POST /next HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = refused(&server, &format!("{head}{body}{NEXT}"));
        let answer = answer.unwrap_or_else(|| panic!("{body:?} left it open"));
        assert_eq!(answer.status, 400, "{body:?}");
    }
}

#[test]
fn what_was_refused_is_in_the_access_log() {
    let server = Server::start("CustomLog {}/access.log \"\\\"%r\\\" %>s %m\"\n", &[]);
    refused(&server, "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n");
    refused(&server, "GET /b c HTTP/1.1\r\nHost: x\r\n\r\n");
    let read = || std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
    assert!(crate::support::eventually(std::time::Duration::from_secs(5), || read()
        .lines()
        .count()
        == 2));
    assert_eq!(read(), "\"GET /a HTTP/1.1\" 400 GET\n\"GET /b c HTTP/1.1\" 400 GET\n");
}

/// HTTP/0.9 has no head whose end could be waited for.
#[test]
fn a_request_line_without_a_version_is_refused_at_once() {
    let server = Server::start("", &[("htdocs/a.txt", "a")]);
    for line in ["GET /a.txt", "GET /", "GET", "BREW", "GET /a.txt FTP/1.1", "get /a.txt", ""] {
        let text =
            if line.is_empty() { "\r\nGET /a.txt\r\n".into() } else { format!("{line}\r\n") };
        let mut client = server.connect();
        client.stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        client.send(&text);
        let answer = client.answer();
        assert_eq!(answer.map(|a| a.status), Some(400), "{text:?}");
        assert!(client.is_closed(), "{text:?}");
    }
}

#[test]
fn a_url_without_a_path_asks_for_the_root() {
    let server = Server::start("DirectoryIndex index.html\n", &[("htdocs/index.html", "root")]);
    for target in ["http://x", "http://x?q", "http://x/"] {
        assert_eq!(server.get(target).text(), "root", "{target}");
    }
}
