//! The search for a capacity as a state machine: [`Search::next`] is the next rate to try,
//! [`Search::take`] hears what became of it, [`Search::found`] is what is known so far. Pure; the
//! same answers make the same questions.
//!
//! Short tries first, in steps that grow and then in geometric halves, until the limit lies between
//! two rates that are near each other. Then tries of full length beside the place where half of
//! them should hold, by all that is known: above it after one that held, below it after one that
//! did not. Only these decide. The method is in METHODOLOGY.md.

use std::time::Duration;

use drom_stats::{Limit, Trial, limit};

/// From where to where, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The first rate.
    pub start_rps: f64,
    pub min_rps: f64,
    pub max_rps: f64,
    /// For all tries and what is between them.
    pub budget: Duration,
    /// No try is shorter, nor has fewer requests.
    pub try_min: Duration,
    pub try_requests: f64,
}

/// A rate to be tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    pub rate_rps: f64,
    pub duration: Duration,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Held,
    /// The server did not keep a condition.
    Failed,
    /// A condition was not kept, and the client was busy or late: nothing is known of the server.
    Client,
    /// The same, with all connections in use, of which fewer would have carried less.
    Connections,
}

/// A try that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    pub rate_rps: f64,
    pub duration: Duration,
    /// With all that came before the next one could begin.
    pub took: Duration,
    pub ended: Ended,
}

/// What is known of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    pub verdict: Verdict,
    /// The highest rate that holds; of `AtLeast` one that held.
    pub rate_rps: Option<f64>,
    /// The ends of its 95 % interval.
    pub lower_rps: Option<f64>,
    pub upper_rps: Option<f64>,
    /// So many tries came before the server got slower, and count for nothing.
    pub outdated: usize,
    /// So many failed one after the other at the end: it may have got slower.
    pub failed_last: usize,
    /// Tries of full length of the server as it is.
    pub full_tries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Found,
    /// No server's failure was seen above it.
    AtLeast(Wall),
    /// No rate that was tried held.
    NoneHeld,
    /// Nothing was tried, or it was never the server that was seen.
    Unknown,
}

/// What kept the search from higher rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    Client,
    Connections,
    /// The highest rate that was asked for.
    Bound,
    /// The end of the budget, or somebody's stop.
    Time,
    /// The server went away, or did not answer any more.
    Gone,
}

/// A search that goes on.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    phase: Phase,
    rate_rps: f64,
    spent: Duration,
    tries: Vec<Tried>,
    /// Those before it count for nothing: they may be of another server. And what the limit was, on
    /// the logarithmic scale.
    since: usize,
    before: Option<f64>,
    /// Where half of the deciding tries hold, whoever was the limit.
    limit: Option<Limit>,
    is_gone: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The highest rate that held below the lowest that did not.
    Narrow { low: Option<f64>, high: Option<f64>, factors: usize },
    /// Beside the limit, or at a bound.
    Near,
}

/// However long the budget.
pub const TRIES_MAX: usize = 200;
/// Parts of the budget: a try of the first phase, and a full one. Eight of these are enough where
/// the limit is sharp; the rest is for finding it, and for noise.
const SHORT_PART: u32 = 30;
const FULL_PART: u32 = 20;
/// From where half of them should hold to the next full try.
const ASIDE_LN: f64 = 0.0125;
/// Two rates as near as this end the first phase.
const NEAR: f64 = 1.1;
/// An interval of this width, on the logarithmic scale, ends the search, not before so many tries:
/// with fewer the place of the limit is a guess.
const WIDTH_LN: f64 = 0.05;
pub const FULL_MIN: usize = 8;
/// So many full tries, and none that failed: no limit was seen.
const FULL_HELD: usize = 3;
/// Of the interval.
const MASS: f64 = 0.95;
/// By so much a queue may grow unseen: see `rise.rs`.
const UNSEEN_LN: f64 = 0.005;
/// The first steps; the start is rarely far off.
const FACTORS: [f64; 4] = [1.25, 1.5, 2.0, 4.0];
/// So many failures one after the other beside the limit, where each second try should hold, raise
/// a doubt: one in ten searches of a server that does not change has them. Where there is so much
/// time left the search begins again, so far below.
const DOUBT: usize = 4;
const ANEW_SHARE: f64 = 0.2;
const ANEW_AT: f64 = 0.7;
/// A limit below so much of the former one is that of a server that has got slower.
const SLOWER: f64 = 0.9;
/// So many failures at the lowest rate, and nothing that held: there is no capacity. So many that
/// held at the highest: it is at least that.
const AT_BOUND: usize = 3;

impl Search {
    /// # Panics
    /// When a bound is no positive number or they are out of order.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let Bounds { min_rps, max_rps, start_rps, .. } = bounds;
        assert!(min_rps > 0.0 && min_rps <= max_rps && max_rps.is_finite(), "{bounds:?}");
        assert!(start_rps.is_finite(), "{bounds:?}");
        Self {
            bounds,
            phase: Phase::Narrow { low: None, high: None, factors: 0 },
            rate_rps: start_rps.clamp(min_rps, max_rps),
            spent: Duration::ZERO,
            tries: Vec::new(),
            since: 0,
            before: None,
            limit: None,
            is_gone: false,
        }
    }

    /// `None`: the search is over.
    #[must_use]
    pub fn next(&self) -> Option<Try> {
        let duration = self.next_length();
        let is_in_time = self.spent.saturating_add(duration) <= self.bounds.budget;
        let goes_on = is_in_time && self.tries.len() < TRIES_MAX && !self.is_settled();
        goes_on.then_some(Try { rate_rps: self.rate_rps, duration })
    }

    /// There is no server to be asked any more: what was seen of it last was its end, no limit.
    pub fn lose_server(&mut self) {
        self.is_gone = true;
    }

    /// Time went by besides.
    pub fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    pub fn take(&mut self, tried: Tried) {
        self.spend(tried.took.max(tried.duration));
        self.tries.push(tried);
        let held = tried.ended == Ended::Held;
        if let Phase::Narrow { low, high, factors } = self.phase {
            self.narrow(held, low, high, factors);
        }
        self.limit = self.limit_of(|_| true);
        if self.is_narrowing() {
            return;
        }
        self.go_near(held);
        let has_time = self.spent < self.bounds.budget.mul_f64(1.0 - ANEW_SHARE);
        if self.failed_last() >= DOUBT && has_time && self.rate_rps > self.bounds.min_rps {
            self.begin_anew();
        }
    }

    /// What failed may be bad luck, a disturbance that is over, or a server that has got slower. In
    /// any case the tries so far do not tell of one server: the search begins again, well below.
    fn begin_anew(&mut self) {
        self.before = self.before.or(self.limit.map(|limit| limit.at));
        (self.since, self.limit) = (self.tries.len(), None);
        self.phase = Phase::Narrow { low: None, high: None, factors: 1 };
        self.rate_rps = (self.rate_rps * ANEW_AT).max(self.bounds.min_rps);
    }

    /// Of full length, one after the other, up to now.
    fn failed_last(&self) -> usize {
        let full = self.full_length();
        let fails = |tried: &&Tried| tried.ended == Ended::Failed && tried.duration >= full;
        self.known().iter().rev().take_while(fails).count()
    }

    /// The tries of the server as it is.
    fn known(&self) -> &[Tried] {
        &self.tries[self.since..]
    }

    fn full_length(&self) -> Duration {
        self.length(FULL_PART)
    }

    fn length(&self, part: u32) -> Duration {
        (self.bounds.budget / part).max(self.bounds.try_min)
    }

    /// At the rate that is next.
    fn next_length(&self) -> Duration {
        let part = if self.is_narrowing() { SHORT_PART } else { FULL_PART };
        let requests_s = self.bounds.try_requests / self.rate_rps;
        self.length(part).max(Duration::try_from_secs_f64(requests_s).unwrap_or(Duration::MAX))
    }

    fn is_narrowing(&self) -> bool {
        matches!(self.phase, Phase::Narrow { .. })
    }

    fn narrow(
        &mut self,
        held: bool,
        mut low: Option<f64>,
        mut high: Option<f64>,
        mut factors: usize,
    ) {
        let Bounds { min_rps, max_rps, .. } = self.bounds;
        let tried_rps = self.rate_rps;
        *(if held { &mut low } else { &mut high }) = Some(tried_rps);
        let is_at_bound = tried_rps == if held { max_rps } else { min_rps };
        let factor = FACTORS[factors.min(FACTORS.len() - 1)];
        self.rate_rps = match (low, high) {
            (Some(low), Some(high)) => (low * high).sqrt(),
            _ if held => (tried_rps * factor).min(max_rps),
            _ => (tried_rps / factor).max(min_rps),
        };
        factors += 1;
        self.phase = Phase::Narrow { low, high, factors };
        let is_near = low.zip(high).is_some_and(|(low, high)| high <= low * NEAR);
        if is_near || is_at_bound {
            self.phase = Phase::Near;
        }
    }

    /// At a bound nothing but the same is known, and the next try is there too.
    fn go_near(&mut self, held: bool) {
        if let Some(limit) = self.limit {
            let aside = if held { ASIDE_LN } else { -ASIDE_LN };
            let Bounds { min_rps, max_rps, .. } = self.bounds;
            self.rate_rps = (limit.at + aside).exp().clamp(min_rps, max_rps);
        }
    }

    /// Nothing more is to be learnt.
    fn is_settled(&self) -> bool {
        let (_, failed_at_min) = self.came_out(self.bounds.min_rps);
        let fails_at_min = failed_at_min >= AT_BOUND && self.highest_held().is_none();
        fails_at_min || self.holds_at_max() || self.is_narrow()
    }

    /// One that failed there takes two more that hold.
    fn holds_at_max(&self) -> bool {
        let (held, failed) = self.came_out(self.bounds.max_rps);
        held >= AT_BOUND + 2 * failed
    }

    /// Tries at exactly this rate that held, and the others.
    fn came_out(&self, rate_rps: f64) -> (usize, usize) {
        let there = self.known().iter().filter(|tried| tried.rate_rps == rate_rps);
        let held = there.clone().filter(|tried| tried.ended == Ended::Held).count();
        (held, there.count() - held)
    }

    /// A wall of the client's is as good as one of the server's for knowing where it is.
    fn is_narrow(&self) -> bool {
        let is_long = self.full() >= FULL_MIN;
        is_long && self.limit.is_some_and(|limit| limit.upper - limit.lower <= WIDTH_LN)
    }

    /// Tries of full length.
    fn full(&self) -> usize {
        self.full_tries().count()
    }

    fn full_tries(&self) -> impl Iterator<Item = &Tried> {
        let full = self.full_length();
        self.known().iter().filter(move |tried| tried.duration >= full)
    }

    fn highest_held(&self) -> Option<f64> {
        let held = self.known().iter().filter(|tried| tried.ended == Ended::Held);
        held.map(|tried| tried.rate_rps).max_by(f64::total_cmp)
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> Capacity {
        let none = |verdict| self.capacity(verdict);
        if self.is_gone {
            return self.highest_held().map_or(none(Verdict::Unknown), |highest_rps| Capacity {
                rate_rps: Some(highest_rps),
                ..none(Verdict::AtLeast(Wall::Gone))
            });
        }
        let has_failed = self.known().iter().any(|tried| tried.ended == Ended::Failed);
        match (self.highest_held(), self.wall()) {
            (None, _) if has_failed => none(Verdict::NoneHeld),
            (None, _) => none(Verdict::Unknown),
            (Some(highest), Some(wall)) => self.at_least(highest, wall),
            (Some(_), None) => self.between(),
        }
    }

    /// What stands above the highest rates that held, unless it is the server's own limit.
    fn wall(&self) -> Option<Wall> {
        let is_bound = self.limit.is_none() && self.highest_held() == Some(self.bounds.max_rps);
        if is_bound || self.holds_at_max() {
            return Some(Wall::Bound);
        }
        let Some(limit) = self.limit else { return Some(Wall::Time) };
        // A short try that failed long ago, and no full one: the server may have warmed up since. A
        // limit above every rate that was tried is one of the arithmetic.
        let full: Vec<&Tried> = self.full_tries().collect();
        let all_held = full.iter().all(|tried| tried.ended == Ended::Held);
        let is_above_all = full.iter().all(|tried| tried.rate_rps < limit.at.exp());
        if full.len() >= FULL_HELD && (all_held || is_above_all) {
            return Some(Wall::Time);
        }
        let above = |ended| {
            let near = self.deciding().filter(|tried| tried.rate_rps.ln() >= limit.at);
            near.filter(|tried| tried.ended == ended).count()
        };
        let (client, connections) = (above(Ended::Client), above(Ended::Connections));
        let wall = if client >= connections { Wall::Client } else { Wall::Connections };
        (client + connections > above(Ended::Failed)).then_some(wall).or(self.own_wall())
    }

    /// The client's, where the server's limit would lie well above all that held, and it was never
    /// asked for the rates between.
    fn own_wall(&self) -> Option<Wall> {
        let of_server = self.limit_of_server()?.at.exp();
        let well_below = of_server * (-2.0 * ASIDE_LN).exp();
        let highest_rps = self.highest_held().filter(|highest| *highest < well_below)?;
        let between = |tried: &&Tried| (highest_rps..of_server).contains(&tried.rate_rps);
        let mut ended = self.deciding().filter(between).map(|tried| tried.ended);
        ended.find_map(|ended| match ended {
            Ended::Client => Some(Wall::Client),
            Ended::Connections => Some(Wall::Connections),
            Ended::Held | Ended::Failed => None,
        })
    }

    fn at_least(&self, highest_rps: f64, wall: Wall) -> Capacity {
        let limit = self.limit.filter(|_| !matches!(wall, Wall::Bound | Wall::Time));
        let rate_rps = limit.map_or(f64::INFINITY, |limit| limit.at.exp()).min(highest_rps);
        let lower_rps = limit.map(|limit| (limit.lower - UNSEEN_LN).exp().min(rate_rps));
        let rate_rps = Some(rate_rps);
        Capacity { rate_rps, lower_rps, ..self.capacity(Verdict::AtLeast(wall)) }
    }

    fn between(&self) -> Capacity {
        let limit = self.limit_of_server().or(self.limit);
        Capacity {
            rate_rps: limit.map(|limit| limit.at.exp()),
            lower_rps: limit.map(|limit| (limit.lower - UNSEEN_LN).exp()),
            upper_rps: limit.map(|limit| limit.upper.exp()),
            ..self.capacity(Verdict::Found)
        }
    }

    fn capacity(&self, verdict: Verdict) -> Capacity {
        let failed = self.failed_last();
        Capacity {
            verdict,
            rate_rps: None,
            lower_rps: None,
            upper_rps: None,
            outdated: if self.is_slower() { self.since } else { 0 },
            failed_last: if failed >= DOUBT { failed } else { 0 },
            full_tries: self.full(),
        }
    }

    /// What is known since the search began again is less than it was.
    fn is_slower(&self) -> bool {
        let Some(before) = self.before else { return false };
        let highest = self.highest_held().map(f64::ln);
        let now = self.limit.map(|limit| limit.at).or(highest);
        let has_failed = self.known().iter().any(|tried| tried.ended == Ended::Failed);
        has_failed && now.is_none_or(|now| now < before + SLOWER.ln())
    }

    /// By the tries in which the server was seen.
    fn limit_of_server(&self) -> Option<Limit> {
        self.limit_of(|ended| matches!(ended, Ended::Held | Ended::Failed))
    }

    /// On the logarithmic scale, from the tries that count.
    fn limit_of(&self, counts: impl Fn(Ended) -> bool) -> Option<Limit> {
        let counting = self.deciding().filter(|tried| counts(tried.ended));
        let trial =
            |tried: &Tried| Trial { at: tried.rate_rps.ln(), held: tried.ended == Ended::Held };
        limit(&counting.map(trial).collect::<Vec<_>>(), MASS)
    }

    /// Those of full length where they saw both sides, else all there are.
    fn deciding(&self) -> impl Iterator<Item = &Tried> {
        let full = self.full_length();
        let is_full = move |tried: &&Tried| tried.duration >= full;
        let some =
            |held| self.known().iter().filter(is_full).any(|t| (t.ended == Ended::Held) == held);
        let all = !(some(true) && some(false));
        self.known().iter().filter(move |tried| all || is_full(tried))
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
