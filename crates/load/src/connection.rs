//! One connection of a client thread: its socket, the requests under way on it, its stamps.
//!
//! State only; what happens next is decided in `lane.rs`.

use std::{collections::VecDeque, hash::Hasher, time::Duration};

use twox_hash::XxHash64;

use crate::{exchange::Exchange, http2::Http2, protocol::Answer};

/// Where the connection stands; its requests are in `flights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A connect is under way, perhaps for requests that come later.
    Connecting,
    /// Connected; the TLS handshake is under way.
    Securing,
    /// HTTP/2: what the server allows is still to come.
    Greeting,
    /// Requests can be written.
    Open,
    /// No socket; the next request begins when there is one.
    Closed,
    /// No socket and no request; the next one begins at this time.
    Resting { until_ns: u64 },
    /// No request is left for it.
    Done,
}

impl Phase {
    /// A connection that is not there yet.
    pub fn is_on_the_way(self) -> bool {
        matches!(self, Self::Connecting | Self::Securing | Self::Greeting)
    }
}

/// A connection and what it has seen.
pub struct Connection<Stream> {
    pub token: u32,
    pub stream: Option<Stream>,
    pub phase: Phase,
    pub answer: Answer,
    /// While it speaks HTTP/2.
    pub http2: Option<Box<Http2>>,
    pub body: BodySum,
    /// Requests under way, in the order of their answers.
    pub flights: VecDeque<Exchange>,
    /// So many of them, the last ones, are not written.
    pub pending: usize,
    /// The request of a user, where users ask; for HTTP/2 it is written from its fields.
    pub request: Vec<u8>,
    /// Bytes of the pending ones that are written all the same.
    pub written: usize,
    /// Places for requests that wait in an open loop's queue.
    pub waiting: usize,
    /// When the last connect began, 0 before the first, and when it was over.
    pub connect_ns: u64,
    /// When TLS began, where there is any.
    pub secure_ns: u64,
    pub ready_ns: u64,
    /// Answers in this window.
    pub answers: u64,
    /// Requests that ended on this socket.
    pub on_socket: u64,
    pub established: bool,
    /// What was read is paid for then, and whether somebody waits for that.
    pub paid_ns: u64,
    pub is_throttled: bool,
    /// The peer has closed its side, and what it sent before is not all read.
    pub is_ending: bool,
    /// Sockets that it had. Reports name the socket, too: an old one may still speak.
    pub sockets: u32,
    /// Those that still owe answers, in HTTP/2, each as the connection that it was.
    pub retired: Vec<Self>,
    pub is_retired: bool,
    /// And may have more to read, of which no report will come.
    pub is_fresh: bool,
}

impl<Stream> Connection<Stream> {
    pub fn new(token: u32, now_ns: u64) -> Self {
        Self {
            token,
            stream: None,
            phase: Phase::Resting { until_ns: now_ns },
            answer: Answer::default(),
            http2: None,
            body: BodySum::default(),
            flights: VecDeque::new(),
            pending: 0,
            request: Vec::new(),
            written: 0,
            waiting: 0,
            connect_ns: 0,
            secure_ns: now_ns,
            ready_ns: now_ns,
            answers: 0,
            on_socket: 0,
            established: false,
            paid_ns: 0,
            is_throttled: false,
            is_ending: false,
            sockets: 0,
            retired: Vec::new(),
            is_retired: false,
            is_fresh: false,
        }
    }

    /// What reports of the current socket name: the connection and the socket's number.
    pub fn socket_token(&self) -> u64 {
        u64::from(self.sockets) << 32 | u64::from(self.token)
    }

    pub fn is_current(&self, token: u64) -> bool {
        self.socket_token() == token
    }

    /// Requests under way on sockets that are not the current one.
    pub fn owed(&self) -> usize {
        self.retired.iter().map(|old| old.flights.len()).sum()
    }

    /// Answers in this window, on all sockets.
    pub fn all_answers(&self) -> u64 {
        self.answers + self.retired.iter().map(|old| old.answers).sum::<u64>()
    }

    /// Closes the socket; what the reader kept of it goes too. Requests stay.
    pub fn close(&mut self) {
        self.stream = None;
        self.phase = Phase::Closed;
        self.answer.reset();
        self.http2 = None;
        self.body = BodySum::default();
        self.on_socket = 0;
        (self.paid_ns, self.is_throttled, self.is_ending) = (0, false, false);
        // On the next socket all of them are to be written, from the first byte on.
        (self.pending, self.written) = (self.flights.len(), 0);
        self.flights.iter_mut().for_each(|exchange| exchange.stream = 0);
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
