//! The load engine: schedules, protocol cores, event loops, recording. Knows nothing of servers.
//!
//! `Plan` in, `Outcome` out; [`run`] is the only door.

mod outcome;
mod plan;

pub use outcome::{ErrorKind, Latency, Outcome};
pub use plan::{Plan, Stop, Target};
