//! When to look: at regular times, and never so often that looking takes a tenth of them.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_observe::{FootprintError, clock};

use super::{is_stopped, look::Look};

/// The pause after a look is so many times as long as it took.
const REST: u64 = 9;
/// By then a perl has begun.
const START_NS: u64 = 5_000_000;
/// Nobody waits longer for the end of a script, or for a Ctrl-C.
const NAP_MAX: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub every: Duration,
    /// `None`: as long as the process lives.
    pub duration: Option<Duration>,
    /// A process that has just begun is nothing yet.
    pub is_new: bool,
}

pub struct Seen {
    /// Since the first look.
    pub at_s: f64,
    pub look: Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was over.
    Over,
    Stopped,
    /// The process ended.
    Gone,
}

impl Watch {
    /// Looks until the end.
    ///
    /// # Errors
    /// Why nothing can be seen (any more), but for the end of the process.
    pub fn run(
        &self,
        look: impl Fn() -> Result<Look, FootprintError>,
        mut take: impl FnMut(Seen),
        mut is_over: impl FnMut() -> bool,
        stop: &AtomicBool,
    ) -> Result<End, FootprintError> {
        let every_ns = ns(self.every);
        let began_ns = clock::monotonic_ns();
        let end_ns = self.duration.map_or(u64::MAX, |length| began_ns.saturating_add(ns(length)));
        let mut next_ns = began_ns;
        if self.is_new {
            next_ns = began_ns.saturating_add(every_ns.min(START_NS));
            if let Some(end) = wait(next_ns, &mut is_over, stop) {
                return Ok(end);
            }
        }
        loop {
            let at_ns = clock::monotonic_ns();
            match look() {
                Ok(look) => take(Seen { at_s: (at_ns - began_ns) as f64 / 1e9, look }),
                Err(error) if error.is_end() => return Ok(End::Gone),
                Err(error) => return Err(error),
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= end_ns {
                return Ok(End::Over);
            }
            let rested_ns = now_ns + REST * (now_ns - at_ns);
            next_ns = next_ns.saturating_add(every_ns).max(rested_ns).min(end_ns);
            if let Some(end) = wait(next_ns, &mut is_over, stop) {
                return Ok(end);
            }
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn wait(until_ns: u64, is_over: &mut impl FnMut() -> bool, stop: &AtomicBool) -> Option<End> {
    loop {
        if is_over() {
            return Some(End::Gone);
        }
        if is_stopped(stop) {
            return Some(End::Stopped);
        }
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
        if left.is_zero() {
            return None;
        }
        clock::sleep(left.min(NAP_MAX));
    }
}
