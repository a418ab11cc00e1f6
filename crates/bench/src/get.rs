//! One plain GET, to see that a server answers and with what. Knows as little of HTTP as that
//! needs: a response with Content-Length, or one that ends with the connection.

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

pub fn get(port: u16, path: &str) -> Result<Response> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let got = stream.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..got]);
        if let Some(response) = parse(&bytes, got == 0) {
            return Ok(response);
        }
        if got == 0 {
            return Err(Error::new(ErrorKind::InvalidData, "the answer is no HTTP response"));
        }
    }
}

/// `None`: not complete yet, or nonsense.
fn parse(bytes: &[u8], at_end: bool) -> Option<Response> {
    let head_len = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_len]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &bytes[head_len + 4..];
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) if body.len() >= length => {
            Some(Response { status, body: body[..length].to_vec() })
        }
        None if at_end => Some(Response { status, body: body.to_vec() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_length_or_its_end() {
        let hello = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(parse(hello, false), Some(Response { status: 200, body: b"hi".to_vec() }));
        assert_eq!(parse(&hello[..hello.len() - 1], true), None);
        let bare = b"HTTP/1.1 404 No\r\n\r\nhi";
        assert_eq!(parse(bare, false), None);
        assert_eq!(parse(bare, true).unwrap().status, 404);
    }
}
