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
    connection::to_ns,
    error::Error,
    outcome::{ErrorKind, Outcome},
    plan::{Pace, Plan, Stop},
    run::run,
    schedule::{Arrivals, Stage},
    threshold::Threshold,
};

mod fewer;
mod judge;
mod search;

pub use fewer::Fewer;
pub use judge::{Seen, judge};
pub use search::{Bounds, Capacity, Ended, FULL_MIN, Search, TRIES_MAX, Tried, Try, Verdict, Wall};

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
    /// What the closed loop before the search reached, and over how many connections.
    pub closed_rps: Option<f64>,
    pub closed_connections: u32,
    /// What fewer connections carried, where all were in use.
    pub fewer: Option<Fewer>,
    pub took: Duration,
    pub interrupted: bool,
    /// For how long nothing had been answered when it was stopped, where it was over a second.
    pub silent: Option<Duration>,
    /// Why it ended early: the server went away, say.
    pub broken: Option<Error>,
}

/// A queue that is left is seen by so many requests at once. A server that takes one after the
/// other is not to be kept busy by those that look whether it is.
const REST_CONNECTIONS: u32 = 8;
/// A try has so many requests at least: what fewer show is chance.
const TRY_REQUESTS: f64 = 10.0;
/// So many are asked one after the other first, as long as they take less than this part of the
/// time.
const ALONE_LOOKS: usize = 9;
const ALONE_PART: u32 = 50;
/// A single one is waited for so many times as long as the quickest took, the first one for this
/// part of the time.
const PATIENCE_TIMES: u32 = 4;
const FIRST_PART: u32 = 4;
/// A try is so many times as long as an answer takes: in less nothing is seen of a queue.
const TRY_TIMES: u32 = 10;
/// What is under way when the closed loop ends is a queue that is left: no longer than this, nor
/// than is waited for.
const CLOSED_CONNECTIONS: u32 = 64;
/// So long a try loads before it is measured, at its rate: by the number of its connections.
const SETTLING_MIN: Duration = Duration::from_millis(100);
const SETTLING_EACH: Duration = Duration::from_micros(300);
/// What has not come so much later than the longest time that is asked for breaks the limit anyway.
const LATER: f64 = 1.5;
/// A closed loop as long as this part of the time tells where to begin.
const CLOSED_PART: u32 = 30;
/// The search begins so far below what a closed loop reaches: there every queue is full.
const START_SHARE: f64 = 0.8;
/// Whether fewer connections carry less is seen in closed loops, in turn, each for this part of the
/// time, in so many pairs at most.
const FEWER_PART: u32 = 60;
const FEWER_PAIRS: usize = 4;
/// At rest: answers take no longer than twice what they took before, and a millisecond.
const AT_REST: u32 = 2;
const AT_REST_MORE: Duration = Duration::from_millis(1);
/// Longest wait for that, as a part of the time, the pause between two looks, and how often it is
/// waited for a queue that gets shorter: by so much.
const REST_PART: u32 = 12;
const REST_WAITS: u32 = 3;
const SHORTER: f64 = 0.7;
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
    let mut server = Server {
        asked,
        stop,
        at_rest: None,
        quickest: None,
        silent_ns: None,
        alone: Duration::ZERO,
        each: Duration::ZERO,
        fewer: None,
        last_error: None,
        told_ns: began_ns,
        end_ns: began_ns.saturating_add(to_ns(asked.time)),
    };
    server.look_alone()?;
    server.at_rest = server.look()?;
    let closed_connections = server.closed_connections();
    let closed_rps = server.closed_loop(closed_connections)?;
    server.come_to_rest()?;
    let start_rps = asked.start_rps.or(closed_rps.map(|rps| rps * START_SHARE));
    let mut search = Search::new(Bounds {
        start_rps: start_rps.filter(|rps| *rps > 0.0).unwrap_or(asked.min_rps),
        min_rps: asked.min_rps,
        max_rps: asked.max_rps,
        budget: asked.time,
        try_min: server.alone * TRY_TIMES,
        try_requests: TRY_REQUESTS,
    });
    search.spend(server.lap());
    let broken = server.try_all(&mut search, tell).err();
    if broken.is_some() {
        search.lose_server();
    }
    let (took, interrupted) = (since(began_ns), stop.load(Relaxed));
    let silent = server.silent_ns.map(since).filter(|silent| interrupted && *silent > SILENT);
    let (capacity, fewer) = (search.found(), server.fewer);
    Ok(Found { capacity, closed_rps, closed_connections, fewer, took, interrupted, silent, broken })
}

/// The server under search.
struct Server<'a> {
    asked: &'a Asked<'a>,
    stop: &'a AtomicBool,
    /// What answers take when there is no load, in the median.
    at_rest: Option<Duration>,
    /// The shortest median service time of the tries that held.
    quickest: Option<Duration>,
    /// Since when not even a single request is answered; what looks for rest sees it.
    silent_ns: Option<u64>,
    /// What an answer takes where there is no load, in the median of some; nothing where that is
    /// not known.
    alone: Duration,
    /// What each of several requests at once adds to the time until all are answered, at most: of a
    /// server that takes one after the other, or lets only so many pass.
    each: Duration,
    /// What fewer connections carry, where that had to be known.
    fewer: Option<Fewer>,
    /// Why the last request of a look has failed.
    last_error: Option<ErrorKind>,
    /// Until when the search has been told what was spent.
    told_ns: u64,
    /// When the time is over.
    end_ns: u64,
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
            let silent = self.silent_ns.map(since).filter(|_| !self.stop.load(Relaxed));
            if let Some(waited) = silent.filter(|silent| *silent >= self.patience()) {
                let (address, rate_rps) =
                    (self.asked.plan.target.address.clone(), attempt.tried.rate_rps);
                let last = self.last_error.map_or("no answer in time", ErrorKind::in_words);
                return Err(Error::Silent { address, rate_rps, waited, last });
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
        let asked = self.asked.plan;
        let plan = Plan {
            warmup: self.settling().min(duration),
            timeout: asked.timeout.min(self.timeout(duration)),
            ..asked.clone()
        };
        let outcome = self.run_plan(plan, Stop::After(duration), Some(pace))?;
        if outcome.interrupted {
            return Ok(None);
        }
        let mut seen = judge(&outcome, self.asked.conditions, self.quickest);
        if seen.ended == Ended::Connections && !self.has_room(&seen)? {
            seen.ended = Ended::Failed;
        }
        let held = seen.ended == Ended::Held;
        if held {
            self.quickest = self.quickest.into_iter().chain(seen.service_p50).min();
            self.silent_ns = None;
        }
        // What held leaves no queue behind.
        let came_to_rest = held || self.come_to_rest()?;
        let tried = Tried { rate_rps, duration, took: self.lap(), ended: seen.ended };
        Ok(Some((Attempt { tried, seen, came_to_rest }, outcome)))
    }

    /// The first requests on new connections wait for the server to take all of them: that is what
    /// a start costs, not what a rate does.
    fn settling(&self) -> Duration {
        SETTLING_MIN.max(SETTLING_EACH * self.asked.plan.connections)
    }

    /// Of a try. An answer that comes later than the search would wait for the server's rest, and
    /// than every condition, is none.
    fn timeout(&self, duration: Duration) -> Duration {
        let limits = self.asked.conditions.iter().filter_map(Threshold::time);
        let longest = limits.max().unwrap_or_default().mul_f64(LATER);
        longest.max(duration + self.rest_max())
    }

    /// As many as keep a server busy that the search can wait for afterwards, if it takes one
    /// request after the other.
    fn closed_connections(&self) -> u32 {
        let each = self.alone.max(self.each);
        let waited_for = self.rest_max().as_secs_f64() / each.as_secs_f64().max(1e-6);
        let most = self.asked.plan.connections.min(CLOSED_CONNECTIONS);
        (waited_for as u32).clamp(1, most)
    }

    /// What they reach together: where the search may begin, on a warm server.
    fn closed_loop(&self, connections: u32) -> Result<Option<f64>, Error> {
        let length = self.asked.plan.warmup;
        let length = match self.asked.start_rps {
            Some(_) => length,
            None => length.max(self.asked.time / CLOSED_PART),
        };
        if length.is_zero() || self.stop.load(Relaxed) {
            return Ok(None);
        }
        let warmup = Duration::ZERO;
        let plan = Plan { connections, warmup, ..self.asked.plan.clone() };
        let outcome = self.run_plan(plan, Stop::After(length), None)?;
        Ok((outcome.answers() > 0).then(|| outcome.done_rps()))
    }

    /// Whether the connections, all in use, are the limit, or the server is.
    fn has_room(&mut self, seen: &Seen) -> Result<bool, Error> {
        if let Some(known) = self.fewer {
            return Ok(known.has_room());
        }
        self.come_to_rest()?;
        let length = seen.service_p50.unwrap_or_default() * TRY_TIMES;
        let length = length.max(self.asked.time / FEWER_PART);
        let mut trial = Fewer::of(self.asked.plan.connections);
        // Whatever gets slower or faster meanwhile does so for both.
        for is_fewer in [false, true, true, false].into_iter().cycle().take(2 * FEWER_PAIRS) {
            let plan = Plan {
                connections: trial.connections(is_fewer),
                warmup: self.settling(),
                ..self.asked.plan.clone()
            };
            if trial.is_decided() || self.stop.load(Relaxed) {
                break;
            }
            trial.take(is_fewer, &self.run_plan(plan, Stop::After(length), None)?);
        }
        self.fewer = Some(trial);
        Ok(trial.has_room())
    }

    /// Waits for the queue that a try has left to be gone; whether that came in time. A queue that
    /// gets shorter is waited for, and a server that says nothing; one that is slower than it was
    /// and stays so is at rest as it is.
    fn come_to_rest(&mut self) -> Result<bool, Error> {
        for _ in 0..REST_WAITS {
            let (first, last) = match self.wait_for_rest()? {
                Waited::AtRest => return Ok(true),
                Waited::Stopped => return Ok(false),
                Waited::Slow { first, last } => (first, last),
            };
            let Some((first, last)) = first.zip(last) else { continue };
            if last >= first.mul_f64(SHORTER) {
                self.at_rest = Some(last);
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn wait_for_rest(&mut self) -> Result<Waited, Error> {
        let (began_ns, mut first) = (monotonic_ns(), None);
        while !self.stop.load(Relaxed) {
            let looked_ns = monotonic_ns();
            let now = self.look()?;
            self.silent_ns = match now {
                Some(_) => None,
                None => self.silent_ns.or(Some(looked_ns)),
            };
            let is_quick = |rest| now.is_some_and(|now| now <= AT_REST * rest + AT_REST_MORE);
            if self.at_rest.is_none_or(is_quick) {
                self.at_rest = self.at_rest.into_iter().chain(now).min();
                return Ok(Waited::AtRest);
            }
            let first = *first.get_or_insert(now);
            if monotonic_ns() >= self.end_ns {
                return Ok(Waited::Stopped);
            }
            if since(began_ns) > self.rest_max() {
                return Ok(Waited::Slow { first, last: now });
            }
            sleep(REST_STEP);
        }
        Ok(Waited::Stopped)
    }

    fn rest_max(&self) -> Duration {
        self.asked.time / REST_PART
    }

    /// For an answer of a server that should be at rest.
    fn patience(&self) -> Duration {
        self.asked.plan.timeout.min(self.rest_max().max(self.alone * PATIENCE_TIMES))
    }

    /// The first ones, one after the other: how long an answer takes may be anything.
    fn look_alone(&mut self) -> Result<(), Error> {
        let (began_ns, mut taken) = (monotonic_ns(), Vec::new());
        while taken.len() < ALONE_LOOKS && since(began_ns) <= self.asked.time / ALONE_PART {
            let timeout = self.asked.plan.timeout.min(self.asked.time / FIRST_PART);
            match self.look_over(1, timeout)? {
                Some(took) if !self.stop.load(Relaxed) => taken.push(took),
                _ => break,
            }
        }
        taken.sort_unstable();
        self.alone = taken.get(taken.len() / 2).copied().unwrap_or_default();
        Ok(())
    }

    /// The median of a few requests at once, each on its connection: who waits in a queue tells
    /// that it is there.
    fn look(&mut self) -> Result<Option<Duration>, Error> {
        let patience = self.patience();
        // All of them are answered in time, if the server takes one after the other.
        let each = self.alone.max(self.each);
        let in_time = patience.as_secs_f64() / (2.0 * each.as_secs_f64()).max(1e-6);
        let connections = self.asked.plan.connections.min(REST_CONNECTIONS);
        self.look_over((in_time as u32).clamp(1, connections), patience)
    }

    fn look_over(
        &mut self,
        connections: u32,
        timeout: Duration,
    ) -> Result<Option<Duration>, Error> {
        let warmup = Duration::ZERO;
        let plan = Plan { timeout, connections, warmup, ..self.asked.plan.clone() };
        let requests = Stop::Requests(u64::from(connections));
        let outcome = self.run_plan(plan, requests, None)?;
        self.last_error = outcome.errors.keys().next().copied();
        let latency = outcome.latency;
        let at = |quantile| Duration::from_nanos(latency.quantile_ns(quantile));
        let (least, p50) = ((latency.count() > 0).then(|| at(0.0)), at(0.5));
        // Once: later looks may find a queue.
        if self.at_rest.is_none() && connections > 1 && latency.count() == u64::from(connections) {
            self.each = (at(1.0) - at(0.0)) / (connections - 1);
        }
        Ok(least.map(|_| p50))
    }

    /// With as many threads as have a connection: looks and closed loops have few.
    fn run_plan(&self, plan: Plan, stop: Stop, pace: Option<Pace>) -> Result<Outcome, Error> {
        let threads = plan.threads.min(plan.connections);
        run(&Plan { stop, pace, threads, ..plan }, self.stop, &mut |_| {})
    }
}

/// How a wait for a server that is at rest ended.
enum Waited {
    AtRest,
    /// By somebody, or by the end of the time.
    Stopped,
    /// What the first and the last look saw; none: no answer.
    Slow {
        first: Option<Duration>,
        last: Option<Duration>,
    },
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns().saturating_sub(began_ns))
}
