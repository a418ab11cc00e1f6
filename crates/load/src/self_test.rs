//! What this machine's client can do at most, against a server that does nothing: its rate, what a
//! request costs it, how late its timers are, what a look at the clock costs.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::clock::monotonic_ns;

use crate::{
    error::Error,
    null_server::{measure_ceiling, null_server},
    outcome::Outcome,
    plan::{Pace, Plan, Stop},
    run::run,
    schedule::{Arrivals, Stage},
    verdict::{Cause, Verdict, client_limited},
};

/// Timers are judged at this rate, or at a tenth of the ceiling where that is less.
const TIMER_RPS_MAX: f64 = 20_000.0;
const CLOCK_LOOKS: u32 = 200_000;

/// What was measured.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// A closed loop; its rate is the ceiling.
    pub ceiling: Outcome,
    /// An open loop at `timer_rps`; its lag is that of the timers. None when it was interrupted.
    pub timers: Option<Outcome>,
    pub timer_rps: f64,
    /// One look at the clock.
    pub clock_ns: f64,
}

impl SelfTest {
    /// Why the ceiling is lower than this machine's, where something took the client's CPU.
    #[must_use]
    pub fn disturbed(&self) -> Option<Verdict> {
        let verdict = client_limited(&self.ceiling, None);
        let is_outside =
            matches!(verdict.cause, Some(Cause::Starved | Cause::Stopped | Cause::Stolen));
        is_outside.then_some(verdict)
    }
}

/// Measures with the connections, threads and keep-alive of `plan`, half of `duration` each.
pub fn self_test(plan: &Plan, duration: Duration, stop: &AtomicBool) -> Result<SelfTest, Error> {
    let clock_ns = clock_cost_ns();
    let ceiling = measure_ceiling(plan, duration / 2, stop)?;
    let timer_rps = (ceiling.rate_rps() / 10.0).clamp(1.0, TIMER_RPS_MAX).round();
    let is_over = stop.load(Relaxed) || ceiling.answers() == 0;
    let timers = match is_over {
        true => None,
        false => Some(measure_timers(plan, timer_rps, duration / 2, stop)?),
    };
    Ok(SelfTest { ceiling, timers, timer_rps, clock_ns })
}

fn measure_timers(
    plan: &Plan,
    rps: f64,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let server = null_server()?;
    let stages = vec![Stage::steady(duration, rps)];
    let plan = Plan {
        connections: plan.connections,
        threads: plan.threads,
        keepalive: plan.keepalive,
        stop: Stop::After(duration),
        pace: Some(Pace { arrivals: Arrivals::Constant, stages }),
        ..Plan::get(server.target())
    };
    run(&plan, stop, &mut |_| {})
}

fn clock_cost_ns() -> f64 {
    let began_ns = monotonic_ns();
    for _ in 0..CLOCK_LOOKS {
        std::hint::black_box(monotonic_ns());
    }
    (monotonic_ns() - began_ns) as f64 / f64::from(CLOCK_LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_measured() {
        let stop = AtomicBool::new(false);
        let target = crate::plan::Target::at(([127, 0, 0, 1], 1).into(), "/");
        let plan = Plan { connections: 4, ..Plan::get(target) };
        let found = self_test(&plan, Duration::from_millis(400), &stop).expect("it is possible");
        assert!(found.ceiling.rate_rps() > 0.0 && found.clock_ns > 0.0);
        let timers = found.timers.expect("it was not interrupted");
        let lag = timers.open.expect("an open loop").lag;
        assert!(lag.count() > 0 && timers.failed == 0);
        assert!(found.timer_rps <= TIMER_RPS_MAX);
    }

    #[test]
    fn stopped_at_once_it_has_no_timers() {
        let target = crate::plan::Target::at(([127, 0, 0, 1], 1).into(), "/");
        let stopped = AtomicBool::new(true);
        let found = self_test(&Plan::get(target), Duration::from_secs(60), &stopped);
        assert!(found.expect("it is possible").timers.is_none());
    }
}
