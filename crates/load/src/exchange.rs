//! One request under way and its stamps: when it was planned, begun, written, first answered.
//!
//! All stamps are of one clock, in nanoseconds. State only; `lane.rs` decides.

use crate::outcome::ErrorKind;

/// A request from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When it was to begin; in a closed loop when it began.
    pub planned_ns: u64,
    /// When it began, a connect for it included.
    pub begun_ns: u64,
    /// When its connection was made, before any TLS on it.
    pub connected_ns: u64,
    /// When its connection was ready; before `begun_ns` for a connection that was there already.
    pub ready_ns: u64,
    /// Just before its first byte was written; for pipelined requests, those written together. One
    /// that is written once more takes along what it was held for, and not how long it took to have
    /// another connection.
    pub written_ns: u64,
    /// When its last byte was written.
    pub sent_ns: u64,
    /// When the first bytes of its answer were read; 0 before.
    pub first_byte_ns: u64,
    /// Of an answer in several reads: how long parts of it lay before the client took them.
    pub lay_ns: u64,
    /// Of the answer so far: all bytes, and those of its body without the transfer coding.
    pub wire_bytes: u64,
    pub body_bytes: u64,
    /// [`crate::body_hash`], where `Plan::sums_bodies` asks for it.
    pub body_hash: u64,
    /// Of its answer; 0 before that has come.
    pub status: u16,
    /// In HTTP/2: its stream, and the length that was told.
    pub stream: u32,
    /// Whose it is, where users of a scenario ask.
    pub user: u32,
    /// Which row of the list it was, where a scenario takes its requests from one.
    pub row: u32,
    pub length: Option<u64>,
    /// How often the server has refused its stream.
    pub refusals: u8,
    /// How long the server had it before it turned it away, where it is written once more.
    pub held_ns: u64,
    /// And is not written again yet.
    pub is_taken_back: bool,
    /// It began while fewer than half of the thread's places were in use.
    pub is_sparse: bool,
}

impl Exchange {
    pub fn new(planned_ns: u64, now_ns: u64) -> Self {
        Self {
            planned_ns,
            begun_ns: now_ns,
            connected_ns: 0,
            ready_ns: 0,
            written_ns: now_ns,
            sent_ns: now_ns,
            first_byte_ns: 0,
            lay_ns: 0,
            wire_bytes: 0,
            body_bytes: 0,
            body_hash: 0,
            stream: 0,
            user: 0,
            row: 0,
            status: 0,
            length: None,
            refusals: 0,
            held_ns: 0,
            is_taken_back: false,
            is_sparse: false,
        }
    }

    /// It is written now; whether once more.
    #[inline]
    pub fn write(&mut self, now_ns: u64) -> bool {
        self.written_ns = now_ns.saturating_sub(self.held_ns);
        std::mem::take(&mut self.is_taken_back)
    }

    /// The server will not answer it here.
    pub fn take_back(&mut self, now_ns: u64) {
        self.held_ns = now_ns.saturating_sub(self.written_ns);
        self.is_taken_back = true;
        (self.stream, self.first_byte_ns, self.status) = (0, 0, 0);
        (self.wire_bytes, self.body_bytes, self.length, self.lay_ns) = (0, 0, None, 0);
    }

    /// Notes that the server has refused it; how often that makes.
    pub fn refuse(&mut self) -> u8 {
        self.refusals = self.refusals.saturating_add(1);
        self.refusals
    }
}

/// A request that ended, kept one by one for reports that need each: `Plan::records_max` says of
/// how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub exchange: Exchange,
    pub ended_ns: u64,
    /// Number of the connection in its thread, and of the request on its socket, from 0.
    pub connection: u32,
    pub on_socket: u64,
    /// 0 without a complete answer.
    pub status: u16,
    pub error: Option<ErrorKind>,
    /// It has failed and is asked once more.
    pub is_repeated: bool,
    /// What the system said, where the error is one of its calls; a close by the peer is none.
    pub os_error: Option<i32>,
    /// The server let the connection live after it.
    pub kept: bool,
}
