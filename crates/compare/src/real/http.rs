//! One request over a connection of its own, for readiness and for learning answers. Not for load.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use drom_load::protocol::{Answer, Event, Heads};

use crate::{plan::Request, world::Reply};

/// Longest body that is kept; a longer answer is an error, not a truncated one.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Sends the request and reads the whole answer.
pub fn ask(address: SocketAddr, request: &Request, timeout: Duration) -> Result<Reply, String> {
    let words = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(words)?;
    stream.set_read_timeout(Some(timeout)).map_err(words)?;
    stream.set_write_timeout(Some(timeout)).map_err(words)?;
    stream.write_all(&bytes_of(request, address)).map_err(words)?;
    read_answer(&mut stream, &request.method)
}

fn bytes_of(request: &Request, address: SocketAddr) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\nHost: {address}\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        text += &format!("Content-Length: {}\r\n", request.body.len());
    }
    text += "Connection: close\r\n\r\n";
    [text.as_bytes(), &request.body].concat()
}

fn read_answer(stream: &mut impl Read, method: &str) -> Result<Reply, String> {
    let (mut heads, mut answer) = (Heads::new(method), Answer::default());
    let mut reply =
        Reply { status: 0, content_type: String::new(), body: Vec::new(), same: Vec::new() };
    let (mut raw, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let length = read_some(stream, &mut buffer)?;
        if length == 0 {
            answer.end().map_err(|fault| format!("{fault:?} answer"))?;
            return Ok(reply);
        }
        if reply.status == 0 {
            raw.extend_from_slice(&buffer[..length]);
        }
        let mut input = &buffer[..length];
        loop {
            let (event, rest) =
                answer.next(&mut heads, input).map_err(|fault| format!("not HTTP: {fault:?}"))?;
            input = rest;
            match event {
                None => break,
                Some(Event::Head(head)) => {
                    reply.status = head.status;
                    reply.content_type = content_type(&raw);
                }
                Some(Event::Body(bytes)) => reply.body.extend_from_slice(bytes),
                Some(Event::Complete { .. }) => return Ok(reply),
            }
        }
        if reply.body.len() > BODY_BYTES_MAX {
            return Err("the answer is over 64 MB".to_owned());
        }
    }
}

/// A process that was stopped, traced or frozen gets EINTR from a socket with a timeout, whatever
/// its signal handlers ask for: that is no fault of the server.
fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> Result<usize, String> {
    loop {
        match stream.read(buffer) {
            Ok(length) => return Ok(length),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // What a socket's read timeout is called depends on the system.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err("it took the connection but did not answer in time".to_owned());
            }
            Err(e) => return Err(e.to_string()),
        }
    }
}

fn content_type(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    };
    text.lines().take_while(|line| !line.is_empty()).find_map(named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
                      5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
        let reply = read_answer(&mut &bytes[..], "GET").expect("well formed");
        assert_eq!((reply.status, reply.content_type.as_str()), (200, "text/plain"));
        assert_eq!(reply.body, b"hello world");
    }

    #[test]
    fn an_interrupted_read_is_read_again() {
        struct Interrupted<'a>(bool, &'a [u8]);
        impl Read for Interrupted<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return self.1.read(buffer);
                }
                Err(ErrorKind::Interrupted.into())
            }
        }
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let reply = read_answer(&mut Interrupted(false, bytes), "GET");
        assert_eq!(reply.map(|reply| reply.body), Ok(b"ok".to_vec()));
    }

    #[test]
    fn a_cut_answer_is_none() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort";
        assert!(read_answer(&mut &bytes[..], "GET").is_err());
    }
}
