//! One side of the proxy: a connection that does not block, with what was read and not yet used,
//! and what is to be written. Neither grows beyond its limit: who is slow slows the other side.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::AsRawFd,
    time::Duration,
};

use rustls::ClientConnection;
use socket2::SockRef;

use crate::poll::{self, Interest};

/// More is not read before something of it was used: a whole head and a bit.
const INPUT_BYTES_MAX: usize = 128 * 1024;
/// No more is put into a side that has so much to write.
const OUTPUT_BYTES_MAX: usize = 128 * 1024;
const READ_BYTES: usize = 32 * 1024;

/// How long, and how much, a client may go on sending that is not listened to.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub struct Side {
    socket: TcpStream,
    session: Option<Box<ClientConnection>>,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// The peer sends no more.
    pub ended: bool,
    /// The peer takes no more; it may still have something to say.
    pub deaf: bool,
    /// What was written is not all, and only a reset can say so.
    pub broken: bool,
}

impl Side {
    /// The local one.
    pub fn port(&self) -> Option<u16> {
        self.socket.local_addr().ok().map(|address| address.port())
    }

    pub fn new(socket: TcpStream, session: Option<ClientConnection>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        let session = session.map(Box::new);
        Ok(Self { socket, session, input, output, ended: false, deaf: false, broken: false })
    }

    pub fn has_room(&self) -> bool {
        self.output.len() < OUTPUT_BYTES_MAX
    }

    /// Reads what there is; whether that was something, or the end.
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.ended || self.input.len() >= INPUT_BYTES_MAX {
            return Ok(false);
        }
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = self.read(before);
        self.input.truncate(before + read.as_ref().ok().copied().unwrap_or(0));
        match read {
            Ok(length) => {
                self.ended = length == 0;
                Ok(true)
            }
            Err(error) if is_later(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, at: usize) -> io::Result<usize> {
        let into = &mut self.input[at..];
        let Some(session) = &mut self.session else { return self.socket.read(into) };
        loop {
            match session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A close without TLS's own word for it: the framing says whether something lacks.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            session.read_tls(&mut self.socket)?;
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Writes what the peer takes; whether that was something.
    pub fn drain(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while !self.is_drained() {
            match self.write() {
                Ok(0) => break,
                Ok(_) => moved = true,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    fn write(&mut self) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            let length = self.socket.write(&self.output)?;
            self.output.drain(..length);
            return Ok(length);
        };
        let taken = session.writer().write(&self.output)?;
        self.output.drain(..taken);
        let written = if session.wants_write() { session.write_tls(&mut self.socket)? } else { 0 };
        Ok(taken + written)
    }

    fn wants_write(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Everything was handed to the system.
    pub fn is_drained(&self) -> bool {
        self.deaf || (self.output.is_empty() && !self.wants_write())
    }

    /// What to wait for here; `read`: whether more input is of use.
    pub fn interest(&self, read: bool) -> Interest {
        let reads = read && !self.ended && self.input.len() < INPUT_BYTES_MAX;
        let events = if reads { libc::POLLIN } else { 0 };
        let events = events | if self.is_drained() { 0 } else { libc::POLLOUT };
        Interest { descriptor: self.socket.as_raw_fd(), events, found: 0 }
    }

    /// Nothing has come since the last answer, not even the end.
    pub fn is_idle(&mut self) -> bool {
        self.input.is_empty() && !self.ended && matches!(self.fill(), Ok(false))
    }

    /// Ends the connection so that the peer can read what was written: bytes that nobody reads
    /// would make the system reset it.
    pub fn linger(mut self) {
        if self.broken {
            // Where it cannot be set the peer takes a part for the whole.
            let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
            return;
        }
        let mut left = LINGER_BYTES_MAX;
        let mut ended_writing = false;
        for _ in 0..LINGER.as_millis() / 100 {
            if self.drain().is_err() {
                return;
            }
            if self.is_drained() && !ended_writing {
                ended_writing = true;
                let _ = self.socket.shutdown(Shutdown::Write);
            }
            while let Ok(true) = self.fill() {
                left = left.saturating_sub(self.input.len());
                self.input.clear();
                if self.ended || left == 0 {
                    return;
                }
            }
            let mut interest = [self.interest(true)];
            if poll::wait(&mut interest, Duration::from_millis(100)).is_err() {
                return;
            }
        }
    }
}

/// Not now, as opposed to never.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
