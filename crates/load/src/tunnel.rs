//! The way through a proxy to a server that speaks TLS: a request, and an answer that says yes.
//! What follows on the socket is between client and server.

use std::{
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
};

/// No proxy has more to say.
const HEAD_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub struct Tunnel {
    asked: Arc<[u8]>,
    written: usize,
    answer: Vec<u8>,
}

impl Tunnel {
    pub fn new(asked: Arc<[u8]>) -> Self {
        Self { asked, written: 0, answer: Vec::new() }
    }

    /// Goes on as far as the socket lets it; whether the way is there.
    pub fn dig(&mut self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        match self.go_on(socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    fn go_on(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        while self.written < self.asked.len() {
            self.written += socket.write(&self.asked[self.written..])?;
        }
        let mut buffer = [0; 1_024];
        while !self.answer.ends_with(b"\r\n\r\n") {
            let length = socket.read(&mut buffer)?;
            if length == 0 || self.answer.len() > HEAD_BYTES_MAX {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.answer.extend_from_slice(&buffer[..length]);
            self.refusal()?;
        }
        Ok(())
    }

    /// The first line, where it is whole and no yes.
    fn refusal(&self) -> io::Result<()> {
        let Some(end) = memchr::memchr(b'\r', &self.answer) else { return Ok(()) };
        let line = String::from_utf8_lossy(&self.answer[..end]);
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
        match status.is_some_and(|status| status.starts_with('2')) {
            true => Ok(()),
            false => Err(io::Error::other(format!("the proxy says {line:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Takes 7 bytes at a time; answers piece by piece.
    #[derive(Default)]
    struct Socket {
        taken: Vec<u8>,
        pieces: VecDeque<&'static str>,
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(7);
            self.taken.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Socket {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.pop_front().ok_or(ErrorKind::WouldBlock)?;
            into[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }

    const ASKED: &[u8] = b"CONNECT a:443 HTTP/1.0\r\n\r\n";

    fn dig(pieces: &[&'static str]) -> (io::Result<bool>, Vec<u8>) {
        let mut socket = Socket { pieces: pieces.iter().copied().collect(), ..Socket::default() };
        let dug = Tunnel::new(ASKED.into()).dig(&mut socket);
        (dug, socket.taken)
    }

    #[test]
    fn the_way_is_there_when_the_proxy_has_said_so() {
        let (dug, taken) = dig(&["HTTP/1.1 200 Conn", "ection established\r\n", "\r\n"]);
        assert_eq!((dug.expect("a way"), &taken[..]), (true, ASKED));
        assert!(!dig(&["HTTP/1.1 200 OK\r\n"]).0.expect("not yet"));
        assert!(!dig(&[]).0.expect("not yet"));
    }

    #[test]
    fn a_refusal_is_told() {
        let told = |pieces: &[&'static str]| dig(pieces).0.expect_err("no way").to_string();
        assert_eq!(told(&["HTTP/1.0 403 No\r\n"]), "the proxy says \"HTTP/1.0 403 No\"");
        assert!(told(&["SSH-2.0-x\r\n"]).starts_with("the proxy says "));
        assert!(dig(&["HTTP/1.1 200 OK\r\n", ""]).0.is_err(), "it has closed");
    }
}
