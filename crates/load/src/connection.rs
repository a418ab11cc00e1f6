//! One connection of the closed loop: its socket, where its request stands, its stamps.
//!
//! State only; what happens next is decided in `lane.rs`.

use std::{
    hash::Hasher,
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use twox_hash::XxHash64;

use crate::protocol::Answer;

/// Where the connection's request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Connecting,
    /// So many bytes of the request are written.
    Sending(usize),
    Awaiting,
    /// No request; a connect is under way so that there is a connection when one comes.
    Warming,
    /// No request, in an open loop: free for the next one.
    Idle,
    /// No request; the next one begins at this time.
    Resting {
        until_ns: u64,
    },
    /// No request is left for it.
    Done,
}

/// A connection and what it has seen.
#[derive(Debug)]
pub struct Connection<Stream> {
    pub token: u32,
    pub stream: Option<Stream>,
    pub phase: Phase,
    pub answer: Answer,
    pub status: u16,
    pub body: BodySum,
    /// When the request was to begin; in a closed loop when it began.
    pub planned_ns: u64,
    /// When the request began, a connect for it included.
    pub begun_ns: u64,
    /// Just before its first byte was written.
    pub written_ns: u64,
    /// Until when this connection's time is accounted for.
    pub accounted_to_ns: u64,
    pub answers: u64,
    pub established: bool,
}

impl<Stream> Connection<Stream> {
    pub fn new(token: u32, now_ns: u64) -> Self {
        Self {
            token,
            stream: None,
            phase: Phase::Resting { until_ns: now_ns },
            answer: Answer::default(),
            status: 0,
            body: BodySum::default(),
            planned_ns: now_ns,
            begun_ns: now_ns,
            written_ns: now_ns,
            accounted_to_ns: now_ns,
            answers: 0,
            established: false,
        }
    }

    pub fn has_request(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Sending(_) | Phase::Awaiting)
    }

    /// Closes the socket; what the reader kept of it goes too.
    pub fn close(&mut self) {
        self.stream = None;
        self.answer.reset();
        self.body = BodySum::default();
    }
}

/// Length and hash of the body so far.
#[derive(Clone, Debug, Default)]
pub struct BodySum {
    length: u64,
    hash: XxHash64,
}

impl BodySum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.hash.write(bytes);
    }

    /// Length and hash; the next body starts afresh.
    pub fn take(&mut self) -> (u64, u64) {
        let sum = std::mem::take(self);
        (sum.length, sum.hash.finish())
    }
}

/// The hash by which `Plan::expect_body` knows a body: XXH64 with seed 0.
#[must_use]
pub fn body_hash(body: &[u8]) -> u64 {
    XxHash64::oneshot(0, body)
}

/// A socket whose connect is under way. `one_segment`: requests are so small, and the connection
/// lives so long, that it pays to ask for the cheapest congestion control.
pub fn connect(address: SocketAddr, one_segment: bool) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if one_segment {
        // One segment in flight is never held back, yet BBR's model costs 3 % of the client's CPU
        // time on loopback. Where it is not allowed the system's own choice stays.
        let _ = socket.set_tcp_congestion(b"reno");
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Whether `wanted` descriptors are within the hard limit.
pub fn check_descriptors(wanted: u64) -> Result<libc::rlimit, crate::Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, exclusively owned rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_max < wanted {
        return Err(crate::Error::Descriptors { wanted, limit: limit.rlim_max });
    }
    Ok(limit)
}

/// Makes room for `wanted` descriptors: raises the soft limit as far as the hard one allows.
pub fn ensure_descriptors(wanted: u64) -> Result<(), crate::Error> {
    let mut limit = check_descriptors(wanted)?;
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    limit.rlim_cur = wanted;
    // SAFETY: `limit` is a valid rlimit; raising a soft limit within the hard one is always
    // allowed.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    Ok(())
}

/// Nanoseconds of `duration`, for sums with the clock's.
pub fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_pieces_has_the_hash_of_the_whole() {
        let mut sum = BodySum::default();
        sum.add(b"hello ");
        sum.add(b"world");
        assert_eq!(sum.take(), (11, body_hash(b"hello world")));
        assert_eq!(sum.take(), (0, body_hash(b"")));
        // The published XXH64 of the empty input with seed 0.
        assert_eq!(body_hash(b""), 0xef46_db37_51d8_e999);
    }
}
