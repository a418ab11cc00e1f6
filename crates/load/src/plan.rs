//! What to do: the whole of a closed-loop run, resolved (addresses looked up, body read).

use std::{net::SocketAddr, time::Duration};

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// The `Host` header's value.
    pub host: String,
    /// Path and query as they stand in the request line.
    pub path: String,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    After(Duration),
    Requests(u64),
}

/// A closed loop: every connection sends its next request when the answer to the last one is complete.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub connections: u32,
    pub threads: u32,
    pub stop: Stop,
    /// Answers in this time are counted apart and not measured.
    pub warmup: Duration,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub keepalive: bool,
    /// Longest wait for a whole answer, connect included.
    pub timeout: Duration,
    /// When given, every body must have this length and 64-bit hash, else the answer is `BadBody`.
    pub expect_body: Option<(u64, u64)>,
}
