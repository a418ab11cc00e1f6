//! When to look: at random moments, so that nothing periodic in the process hides from them (the
//! gaps are those of a Poisson process). A [`Watch`] has the clock; what a look sees is not its
//! business.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::clock;
use drom_stats::Rng;

use crate::{error::Error, family::Family};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    pub rate_hz: f64,
    /// `None`: as long as the process lives.
    pub duration: Option<Duration>,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was over.
    Over,
    Stopped,
    /// The process ended.
    Gone,
}

/// So often what was seen so far is shown.
const SHOW_NS: u64 = 1_000_000_000;
/// Nobody waits longer for a Ctrl-C.
const NAP_MAX: Duration = Duration::from_millis(100);

impl Watch {
    /// Looks until the end, and lets somebody see what was seen so far, each second.
    ///
    /// # Errors
    /// Why the process cannot be looked into any more, but for its end.
    pub fn run(
        &self,
        family: &mut Family,
        stop: &AtomicBool,
        mut show: impl FnMut(&Family),
    ) -> Result<Ended, Error> {
        let mut rng = Rng::new(self.seed);
        let began_ns = clock::monotonic_ns();
        let end_ns = self.duration.map_or(u64::MAX, |length| began_ns + length.as_nanos() as u64);
        let (mut next_ns, mut show_ns) = (began_ns, began_ns + SHOW_NS);
        loop {
            next_ns += self.gap_ns(&mut rng);
            while show_ns < next_ns.min(end_ns) {
                if let Some(ended) = wait(show_ns, stop) {
                    return Ok(ended);
                }
                show(family);
                show_ns = clock::monotonic_ns() + SHOW_NS;
            }
            if let Some(ended) = wait(next_ns.min(end_ns), stop) {
                return Ok(ended);
            }
            if next_ns >= end_ns {
                return Ok(Ended::Over);
            }
            match family.sample() {
                Ok(()) => {}
                Err(Error::Ended { .. }) => return Ok(Ended::Gone),
                Err(error) => return Err(error),
            }
            let now_ns = clock::monotonic_ns();
            while next_ns + self.mean_ns() < now_ns {
                next_ns += self.gap_ns(&mut rng);
                family.taken.missed += u64::from(next_ns < now_ns);
            }
        }
    }

    fn mean_ns(&self) -> u64 {
        (1e9 / self.rate_hz) as u64
    }

    fn gap_ns(&self, rng: &mut Rng) -> u64 {
        (-(1.0 - rng.unit()).ln() * 1e9 / self.rate_hz) as u64
    }
}

/// Until then; `None` when nobody has stopped it meanwhile.
fn wait(until_ns: u64, stop: &AtomicBool) -> Option<Ended> {
    loop {
        if stop.load(Relaxed) {
            return Some(Ended::Stopped);
        }
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
        if left.is_zero() {
            return None;
        }
        clock::sleep(left.min(NAP_MAX));
    }
}
