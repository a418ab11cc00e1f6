//! How much a server can take: the highest rate of an open loop at which conditions hold.
//!
//! [`find`] drives: it loads, waits until the server is as quick as at rest, and asks on. Which
//! rate is next is [`Search`]'s business, what a try showed is [`judge`]'s; both are pure. It is
//! here rather than with the comparisons because it needs what only a load knows (conditions over
//! an outcome, whose limit it was) and nothing of servers, blocks or stored runs.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::clock::{monotonic_ns, sleep};

use crate::{
    error::Error,
    outcome::Outcome,
    plan::{Pace, Plan, Stop},
    run::run,
    schedule::{Arrivals, Stage},
    threshold::Threshold,
};

mod judge;
mod search;

pub use judge::{Seen, growth, judge};
pub use search::{Bounds, Capacity, Ended, Search, TRIES_MAX, Tried, Try, Verdict, Wall};

/// What is searched for, and how. Where users ask, all rates are of their rounds.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Without a pace; its warm-up is a closed loop before the search.
    pub plan: &'a Plan,
    /// All of them are to hold.
    pub conditions: &'a [Threshold],
    /// Of Poisson arrivals; without it they are constant.
    pub seed: Option<u64>,
    /// `None`: from what a closed loop reaches.
    pub start_rps: Option<f64>,
    pub min_rps: f64,
    pub max_rps: f64,
    /// For all of it.
    pub time: Duration,
}

/// A try and what it showed.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub tried: Tried,
    pub seen: Seen,
    /// The server was as quick as at rest before the next try, where that was asked.
    pub came_to_rest: bool,
}

/// A search that is over, or was stopped.
#[derive(Debug)]
pub struct Found {
    pub capacity: Capacity,
    /// What the closed loop before the search reached.
    pub closed_rps: Option<f64>,
    pub took: Duration,
    pub interrupted: bool,
    /// For how long nothing had been answered when it was stopped, where it was over a second.
    pub silent: Option<Duration>,
    /// Why it ended early: the server went away, say.
    pub broken: Option<Error>,
}

/// A closed loop as long as this part of the time tells where to begin.
const CLOSED_PART: u32 = 30;
/// The search begins so far below what a closed loop reaches: there every queue is full.
const START_SHARE: f64 = 0.8;
/// At rest: answers take no longer than twice what they took before, and a millisecond.
const AT_REST: u32 = 2;
const AT_REST_MORE: Duration = Duration::from_millis(1);
/// Longest wait for that, as a part of the time, and the pause between two looks.
const REST_PART: u32 = 12;
const REST_STEP: Duration = Duration::from_millis(50);
/// Shorter silence is not worth a word: a stop ends the look that would have had an answer.
const SILENT: Duration = Duration::from_secs(1);

/// Searches until enough is known, the time is over, or `stop` is set; `tell` hears of each try. An
/// error is one from before the first try.
pub fn find(
    asked: &Asked<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Attempt, &Outcome),
) -> Result<Found, Error> {
    let began_ns = monotonic_ns();
    let mut server =
        Server { asked, stop, at_rest: None, quickest: None, silent_ns: None, told_ns: began_ns };
    server.at_rest = server.rest_p50()?;
    let closed_rps = server.closed_loop()?;
    server.come_to_rest()?;
    let start_rps = asked.start_rps.or(closed_rps.map(|rps| rps * START_SHARE));
    let mut search = Search::new(Bounds {
        start_rps: start_rps.filter(|rps| *rps > 0.0).unwrap_or(asked.min_rps),
        min_rps: asked.min_rps,
        max_rps: asked.max_rps,
        budget: asked.time,
    });
    search.spend(server.lap());
    let broken = server.try_all(&mut search, tell).err();
    if broken.is_some() {
        search.lose_server();
    }
    let (took, interrupted) = (since(began_ns), stop.load(Relaxed));
    let silent = server.silent_ns.map(since).filter(|silent| interrupted && *silent > SILENT);
    Ok(Found { capacity: search.found(), closed_rps, took, interrupted, silent, broken })
}

/// The server under search.
struct Server<'a> {
    asked: &'a Asked<'a>,
    stop: &'a AtomicBool,
    /// What an answer takes when there is no load.
    at_rest: Option<Duration>,
    /// The shortest median service time of the tries that held.
    quickest: Option<Duration>,
    /// Since when not even a single request is answered; what looks for rest sees it.
    silent_ns: Option<u64>,
    /// Until when the search has been told what was spent.
    told_ns: u64,
}

impl Server<'_> {
    /// Since the last time, thinking included.
    fn lap(&mut self) -> Duration {
        let lap = since(self.told_ns);
        self.told_ns = monotonic_ns();
        lap
    }

    fn try_all(
        &mut self,
        search: &mut Search,
        tell: &mut dyn FnMut(&Attempt, &Outcome),
    ) -> Result<(), Error> {
        let mut number = 0;
        while let Some(next) = search.next().filter(|_| !self.stop.load(Relaxed)) {
            let Some((attempt, outcome)) = self.attempt(next, number)? else { break };
            search.take(attempt.tried);
            tell(&attempt, &outcome);
            if self.silent_ns.is_some() && !self.stop.load(Relaxed) {
                return Err(Error::Silent {
                    address: self.asked.plan.target.address.clone(),
                    rate_rps: attempt.tried.rate_rps,
                    waited: self.patience(),
                });
            }
            number += 1;
        }
        Ok(())
    }

    /// `None`: stopped.
    fn attempt(&mut self, next: Try, number: u64) -> Result<Option<(Attempt, Outcome)>, Error> {
        let Try { rate_rps, duration } = next;
        let arrivals = match self.asked.seed {
            Some(seed) => Arrivals::Poisson { seed: seed.wrapping_add(number) },
            None => Arrivals::Constant,
        };
        let pace = Pace { arrivals, stages: vec![Stage::steady(duration, rate_rps)] };
        let outcome = self.run(Stop::After(duration), Some(pace))?;
        if outcome.interrupted {
            return Ok(None);
        }
        let seen = judge(&outcome, self.asked.conditions, self.quickest);
        let held = seen.ended == Ended::Held;
        if let Some(now) = seen.service_p50.filter(|_| held) {
            self.quickest = Some(self.quickest.map_or(now, |quickest| quickest.min(now)));
        }
        if held {
            self.silent_ns = None;
        }
        // What held leaves no queue behind.
        let came_to_rest = held || self.come_to_rest()?;
        let tried = Tried { rate_rps, duration, took: self.lap(), ended: seen.ended };
        Ok(Some((Attempt { tried, seen, came_to_rest }, outcome)))
    }

    /// What all connections together reach: where the search may begin, on a warm server.
    fn closed_loop(&self) -> Result<Option<f64>, Error> {
        let length = self.asked.plan.warmup;
        let length = match self.asked.start_rps {
            Some(_) => length,
            None => length.max(self.asked.time / CLOSED_PART),
        };
        if length.is_zero() || self.stop.load(Relaxed) {
            return Ok(None);
        }
        let outcome = self.run(Stop::After(length), None)?;
        Ok((outcome.answers() > 0).then(|| outcome.done_rps()))
    }

    /// Waits for the queue that a try has left to be gone; whether that came in time.
    fn come_to_rest(&mut self) -> Result<bool, Error> {
        let began_ns = monotonic_ns();
        while !self.stop.load(Relaxed) {
            let looked_ns = monotonic_ns();
            let now = self.rest_p50()?;
            self.silent_ns = match now {
                Some(_) => None,
                None => self.silent_ns.or(Some(looked_ns)),
            };
            let is_quick = |rest| now.is_some_and(|now| now <= AT_REST * rest + AT_REST_MORE);
            if self.at_rest.is_none_or(is_quick) {
                self.at_rest = self.at_rest.into_iter().chain(now).min();
                return Ok(true);
            }
            if since(began_ns) > self.rest_max() {
                break;
            }
            sleep(REST_STEP);
        }
        Ok(false)
    }

    fn rest_max(&self) -> Duration {
        self.asked.time / REST_PART
    }

    /// For an answer of a server that should be at rest.
    fn patience(&self) -> Duration {
        self.asked.plan.timeout.min(self.rest_max())
    }

    /// A request on each connection, at once: who waits in a queue tells that it is there.
    fn rest_p50(&self) -> Result<Option<Duration>, Error> {
        let requests = Stop::Requests(u64::from(self.asked.plan.connections));
        let plan = Plan { timeout: self.patience(), ..self.asked.plan.clone() };
        let latency = self.run_plan(plan, requests, None)?.latency;
        Ok((latency.count() > 0).then(|| Duration::from_nanos(latency.quantile_ns(0.5))))
    }

    fn run(&self, stop: Stop, pace: Option<Pace>) -> Result<Outcome, Error> {
        self.run_plan(self.asked.plan.clone(), stop, pace)
    }

    fn run_plan(&self, plan: Plan, stop: Stop, pace: Option<Pace>) -> Result<Outcome, Error> {
        let plan = Plan { stop, pace, warmup: Duration::ZERO, ..plan };
        run(&plan, self.stop, &mut |_| {})
    }
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns().saturating_sub(began_ns))
}
