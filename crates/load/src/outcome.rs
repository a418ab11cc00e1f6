//! What was measured: counts that reconcile, one histogram, the client's own cost.

use std::{collections::BTreeMap, time::Duration};

/// Latencies in nanoseconds, 3 significant digits, 1 ns to 1 h; merged by addition.
pub type Latency = drom_stats::Latency;

/// Why an answer was not good. One variant per distinct fault; the names are the JSON keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    Connect,
    Timeout,
    /// Closed or reset before the answer was complete.
    Closed,
    /// Not HTTP, or ambiguous framing.
    Protocol,
    /// Length or hash differs from what the plan expects.
    BadBody,
    Read,
    Write,
}

/// A finished (or interrupted) run. `sent == ok + failed + in_flight`.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub engine: &'static str,
    /// The measured window, warm-up excluded.
    pub duration: Duration,
    pub sent: u64,
    /// Complete answers with a status below 400.
    pub ok: u64,
    /// Complete answers with status >= 400, and requests that ended in an error.
    pub failed: u64,
    pub in_flight: u64,
    pub status: BTreeMap<u16, u64>,
    pub errors: BTreeMap<ErrorKind, u64>,
    pub bytes_read: u64,
    pub latency: Latency,
    /// Connections that were established at least once.
    pub connected: u32,
    /// CPU time of each client thread inside the window.
    pub thread_cpu: Vec<Duration>,
    pub interrupted: bool,
}
