//! The load engine: schedules, protocol cores, event loops, recording. Knows nothing of servers.
//!
//! `Plan` in, `Outcome` out; [`run`] is the only door. The protocol core is pure and public for
//! tests and fuzzing: [`protocol`].

mod answer;
pub mod capacity;
mod chunked;
mod connection;
mod error;
mod exchange;
mod fault;
mod head;
mod held;
mod http2;
mod lane;
mod limits;
pub mod metric;
mod null_server;
mod open;
mod outcome;
mod pace;
mod patience;
mod plan;
mod poll;
mod request;
mod rings;
mod rise;
mod run;
mod scene;
mod schedule;
mod self_test;
#[cfg(test)]
mod sim;
mod socket;
pub mod stamp;
mod tally;
pub mod threshold;
mod timeline;
mod tls;
mod tunnel;
mod url;
mod users;
mod verdict;
mod worker;
mod world;

pub use connection::body_hash;
pub use drom_observe::network::Network;
pub use error::Error;
pub use exchange::{Exchange, Record};
pub use held::{Account, Accounts};
pub use limits::Limits;
pub use null_server::{NullServer, measure_ceiling, null_server};
pub use open::OpenTally;
pub use outcome::{BadBody, ErrorKind, Latency, Outcome};
pub use plan::{
    Address, Engine, ExpectedBody, OnClose, Pace, Plan, Raw, Scene, Stop, Target, Version,
};
pub use run::{Progress, SoFar, check_connections, check_rings, run};
pub use scene::{Rounds, SceneTally, StepTally};
pub use schedule::{Arrivals, Stage};
pub use self_test::{SelfTest, self_test};
pub use threshold::{Judged, Threshold, ThresholdError};
pub use timeline::Interval;
pub use tls::{Security, TlsFacts, TlsVersion, Trust};
pub use verdict::{Cause, Verdict as ClientVerdict, client_limited};

/// The sans-I/O protocol core: bytes in, events out.
pub mod protocol {
    pub use crate::answer::{Answer, Event};
    pub use crate::chunked::{Chunked, Piece};
    pub use crate::fault::Fault;
    pub use crate::head::{Framing, HEAD_BYTES_MAX, Head, Heads};
    pub use crate::http2::{Event as Http2Event, Http2, Template};
}
