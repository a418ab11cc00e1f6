//! When requests are to begin in an open loop: [`Schedule`], the planned times of one thread.
//!
//! Arrivals are made in units of themselves (the number that a rate would have brought by then) and
//! put on the clock by the inverse of the cumulated rate. So stages, ramps and threads need nothing
//! of their own: constant arrivals are the whole numbers, dealt to the threads in turn; a Poisson
//! process is the sum of exponential steps, and T independent ones of a T-th of the rate are one of
//! the whole (superposition). Pure: the clock is the caller's.

use std::{sync::Arc, time::Duration};

use drom_stats::Rng;

use crate::{connection::to_ns, plan::share};

/// How arrivals lie in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// As regular as a clock.
    Constant,
    /// Each at random, whatever the others do.
    Poisson { seed: u64 },
    /// The same process where it brings exactly so many, behind the warm-up.
    PoissonOf { seed: u64, requests: u64 },
    /// As they were once: nanoseconds from the start, in order. The stages say how long they take.
    Recorded(Arc<[u64]>),
}

/// A rate that holds, or changes evenly, for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    pub duration: Duration,
    pub from_rps: f64,
    pub to_rps: f64,
}

impl Stage {
    #[must_use]
    pub fn steady(duration: Duration, rps: f64) -> Self {
        Self { duration, from_rps: rps, to_rps: rps }
    }

    /// Arrivals in the whole of it.
    fn arrivals(&self) -> f64 {
        (self.from_rps + self.to_rps) / 2.0 * self.duration.as_secs_f64()
    }

    /// Arrivals in its first `seconds`.
    fn arrivals_in(&self, seconds: f64) -> f64 {
        let whole = self.duration.as_secs_f64();
        let seconds = seconds.clamp(0.0, whole);
        let slope = (self.to_rps - self.from_rps) / whole;
        (self.from_rps + slope * seconds / 2.0) * seconds
    }

    /// After how many seconds the cumulated rate reaches `arrivals`: the root of
    /// `from t + (to - from) t^2 / 2d`, in the form that stands a slope of 0.
    fn seconds_to(&self, arrivals: f64) -> f64 {
        let slope = (self.to_rps - self.from_rps) / self.duration.as_secs_f64();
        let root = (self.from_rps * self.from_rps + 2.0 * slope * arrivals).max(0.0).sqrt();
        if arrivals == 0.0 { 0.0 } else { 2.0 * arrivals / (self.from_rps + root) }
    }
}

/// The planned times of one thread of several, in nanoseconds from the start, in order.
#[derive(Clone, Debug)]
pub struct Schedule {
    stages: Vec<Stage>,
    steps: Steps,
    /// Where the next arrival lies, in arrivals of the whole run.
    next: f64,
    /// The stage it lies in, and how many arrivals and seconds were before that.
    stage: usize,
    before: (f64, f64),
}

#[derive(Clone, Debug)]
enum Steps {
    Even(Part),
    /// So far apart on average.
    Exponential(f64, Rng),
    Counted(Counted),
    /// These in turn.
    Recorded(Arc<[u64]>, Part),
}

/// One thread's part of all arrivals: as many of each hundred as it has of a hundred connections,
/// or one would wait for its own while another has some that are free. Arrivals are dealt out to
/// the connections in turn, and these to the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub thread: u32,
    pub threads: u32,
    /// Of all threads; no fewer than those.
    pub connections: u32,
}

impl Part {
    /// For one thread that has all of them.
    #[cfg(test)]
    pub const ALL: Self = Self { thread: 0, threads: 1, connections: 1 };

    /// How far apart its arrivals lie on average, in arrivals of the whole.
    fn mean(self) -> f64 {
        f64::from(self.connections) / self.of(u64::from(self.connections)) as f64
    }

    /// So many of the first `arrivals`.
    pub fn of(self, arrivals: u64) -> u64 {
        let connections = u64::from(self.connections);
        let own = |slots| share(slots, self.threads, self.thread);
        arrivals / connections * own(connections) + own(arrivals % connections)
    }

    /// The number of its next arrival.
    fn behind(self, number: f64) -> f64 {
        let (threads, connections) = (f64::from(self.threads), f64::from(self.connections));
        let slot = number % connections;
        match slot + threads < connections {
            true => number + threads,
            false => number - slot + connections + f64::from(self.thread),
        }
    }
}

impl Schedule {
    #[must_use]
    pub fn new(arrivals: &Arrivals, stages: &[Stage], part: Part) -> Self {
        let (mean, first) = (part.mean(), f64::from(part.thread));
        let (steps, next) = match arrivals {
            Arrivals::Constant => (Steps::Even(part), first),
            Arrivals::Recorded(times) => (Steps::Recorded(Arc::clone(times), part), first),
            Arrivals::PoissonOf { seed, requests } => {
                let whole: f64 = stages.iter().map(Stage::arrivals).sum();
                let mut counted = Counted {
                    mean,
                    rng: rng_of(*seed, part.thread),
                    from: (whole - *requests as f64).max(0.0),
                    whole,
                    left: part.of(*requests),
                };
                let first = counted.behind(0.0);
                (Steps::Counted(counted), first)
            }
            Arrivals::Poisson { seed } => {
                let mut rng = rng_of(*seed, part.thread);
                let first = exponential(&mut rng) * mean;
                (Steps::Exponential(mean, rng), first)
            }
        };
        Self { stages: stages.to_vec(), steps, next, stage: 0, before: (0.0, 0.0) }
    }

    /// How long all stages last.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        to_ns(self.stages.iter().map(|stage| stage.duration).sum())
    }

    /// Arrivals of this thread between two times, about: what the rate brings on average. However
    /// many they are, it takes no time.
    #[must_use]
    pub fn about(&self, from_ns: u64, until_ns: u64) -> f64 {
        let mean = match &self.steps {
            Steps::Even(part) | Steps::Recorded(_, part) => part.mean(),
            Steps::Exponential(mean, _) => *mean,
            Steps::Counted(counted) => counted.mean,
        };
        (self.cumulated(until_ns) - self.cumulated(from_ns)).max(0.0) / mean
    }

    /// Arrivals of the whole before that time.
    fn cumulated(&self, at_ns: u64) -> f64 {
        if let Steps::Recorded(times, _) = &self.steps {
            return times.partition_point(|time_ns| *time_ns < at_ns) as f64;
        }
        let mut left = at_ns as f64 / 1e9;
        let mut arrivals = 0.0;
        for stage in &self.stages {
            arrivals += stage.arrivals_in(left);
            left -= stage.duration.as_secs_f64();
        }
        arrivals
    }

    fn time_ns(&mut self) -> Option<u64> {
        if let Steps::Recorded(times, _) = &self.steps {
            return times.get(self.next as usize).copied();
        }
        loop {
            let stage = self.stages.get(self.stage)?;
            let arrivals = stage.arrivals();
            // What falls on the end of a stage is the next one's.
            if self.next - self.before.0 < arrivals {
                let seconds = self.before.1 + stage.seconds_to(self.next - self.before.0);
                return Some((seconds * 1e9).round() as u64);
            }
            self.before.0 += arrivals;
            self.before.1 += stage.duration.as_secs_f64();
            self.stage += 1;
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let time_ns = self.time_ns()?;
        self.next = match &mut self.steps {
            Steps::Even(part) | Steps::Recorded(_, part) => part.behind(self.next),
            Steps::Exponential(mean, rng) => self.next + exponential(rng) * *mean,
            Steps::Counted(counted) => counted.behind(self.next),
        };
        Some(time_ns)
    }
}

/// Arrivals of a Poisson process of which the number is known lie like so many uniform ones, sorted
/// (S. Ross, Stochastic Processes, theorem 2.3.1). The least of n uniform numbers in (x, end) is
/// `end - (end - x) u^(1/n)`: one after the other they need no memory. Threads share the number.
#[derive(Clone, Debug)]
struct Counted {
    mean: f64,
    rng: Rng,
    /// Where the warm-up ends, whose arrivals nobody counts.
    from: f64,
    whole: f64,
    left: u64,
}

impl Counted {
    /// The arrival behind this one; without end when there is none.
    fn behind(&mut self, at: f64) -> f64 {
        if at < self.from {
            let next = at + exponential(&mut self.rng) * self.mean;
            if next < self.from {
                return next;
            }
        }
        if self.left == 0 {
            return f64::INFINITY;
        }
        let rest = self.whole - at.max(self.from);
        let least = rest * (1.0 - self.rng.unit()).powf(1.0 / self.left as f64);
        self.left -= 1;
        self.whole - least
    }
}

/// Of thread `at`.
fn rng_of(seed: u64, at: u32) -> Rng {
    Rng::new(seed.wrapping_add(u64::from(at) << 32))
}

/// With mean 1: minus the logarithm of a number in (0, 1].
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn parts(threads: u32, connections: u32) -> impl Iterator<Item = Part> {
        (0..threads).map(move |thread| Part { thread, threads, connections })
    }

    /// Of threads with one connection each, but for the last.
    fn whole(arrivals: Arrivals, stages: &[Stage], threads: u32) -> Vec<u64> {
        let parts = parts(threads, 2 * threads - 1);
        let threads = parts.flat_map(|part| Schedule::new(&arrivals, stages, part));
        let mut times: Vec<u64> = threads.collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced_from_the_start() {
        let stages = [Stage::steady(seconds(2), 4.0)];
        let times: Vec<u64> = Schedule::new(&Arrivals::Constant, &stages, Part::ALL).collect();
        assert_eq!(times, (0..8).map(|at| at * SECOND / 4).collect::<Vec<_>>());
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
        let stages = [Stage::steady(seconds(600), 3000.0)];
        let times: Vec<u64> = Schedule::new(&Arrivals::Constant, &stages, Part::ALL).collect();
        assert_eq!(times.len(), 1_800_000);
        assert_eq!(times[1_500_000], 500 * SECOND);
        assert_eq!(times[1], 333_333);
    }

    /// 3 connections of 2 threads: the first has two of them, and two of three arrivals.
    #[test]
    fn a_thread_has_its_connections_part_of_the_arrivals() {
        let stages = [Stage::steady(seconds(1), 3_000.0)];
        let poisson = Arrivals::Poisson { seed: 3 };
        let counted = Arrivals::PoissonOf { seed: 3, requests: 3_000 };
        let recorded = Arrivals::Recorded((0..3_000).collect());
        for (arrivals, scatter) in
            [(Arrivals::Constant, 0), (recorded, 0), (counted, 0), (poisson, 150)]
        {
            for (threads, connections) in [(2, 3), (3, 4), (4, 5), (2, 2), (3, 30), (7, 16)] {
                for part in parts(threads, connections) {
                    let has = crate::plan::share(connections.into(), threads, part.thread);
                    let wanted = 3_000 * has / u64::from(connections);
                    let times = Schedule::new(&arrivals, &stages, part).count() as u64;
                    assert!(times.abs_diff(wanted) <= scatter + has, "{part:?}: {times} {wanted}");
                    assert_eq!(part.of(connections.into()), has, "{part:?}");
                }
            }
        }
    }

    #[test]
    fn how_many_there_are_about_is_known_without_counting_them() {
        let stages = [
            Stage { duration: seconds(2), from_rps: 0.0, to_rps: 6_000.0 },
            Stage::steady(seconds(1), 3_000.0),
        ];
        let poisson = Arrivals::Poisson { seed: 3 };
        let counted = Arrivals::PoissonOf { seed: 3, requests: 9_000 };
        let recorded = Arrivals::Recorded((0..9_000).map(|n| n * n * 30).collect());
        for arrivals in [Arrivals::Constant, poisson, counted, recorded] {
            for part in [Part::ALL, Part { thread: 1, threads: 2, connections: 3 }] {
                let schedule = Schedule::new(&arrivals, &stages, part);
                for (from_ms, until_ms) in [(0, 3_000), (500, 2_500), (1_000, 1_600)] {
                    let (from_ns, until_ns) = (from_ms * 1_000_000, until_ms * 1_000_000);
                    let within = |at_ns: &u64| (from_ns..until_ns).contains(at_ns);
                    let counted = schedule.clone().filter(within).count() as f64;
                    let about = schedule.about(from_ns, until_ns);
                    let most = if arrivals == Arrivals::Constant { 2.0 } else { 200.0 };
                    assert!((about - counted).abs() < most, "{arrivals:?}: {about}, {counted}");
                }
            }
        }
    }

    #[test]
    fn stages_follow_one_another() {
        let stages = [Stage::steady(seconds(1), 2.0), Stage::steady(seconds(2), 1.0)];
        let times = whole(Arrivals::Constant, &stages, 1);
        assert_eq!(times, [0, SECOND / 2, SECOND, 2 * SECOND]);
        let pause = [Stage::steady(seconds(3), 0.0), Stage::steady(seconds(1), 2.0)];
        let times = whole(Arrivals::Constant, &pause, 1);
        assert_eq!(times, [3 * SECOND, 3 * SECOND + SECOND / 2]);
    }

    /// Cumulated, a ramp from 0 to 2 in 2 s is t^2 / 2: arrival k is at the root of 2k.
    #[test]
    fn a_ramp_is_the_root_of_the_number() {
        let ramp = [Stage { duration: seconds(10), from_rps: 0.0, to_rps: 10.0 }];
        let times = whole(Arrivals::Constant, &ramp, 1);
        assert_eq!(times.len(), 50);
        for (number, time_ns) in (0..).zip(&times) {
            let expected_ns = f64::sqrt(2.0 * f64::from(number)) * 1e9;
            assert!((*time_ns as f64 - expected_ns).abs() < 2.0, "{number}");
        }
        let down = [Stage { duration: seconds(10), from_rps: 10.0, to_rps: 0.0 }];
        assert_eq!(whole(Arrivals::Constant, &down, 1).len(), 50);
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_however_many_threads_make_them() {
        for rps in [1_000.0, 10_000.0, 50_000.0] {
            for (threads, seed) in [(1, 1), (2, 2), (7, 3)] {
                let stages = [Stage::steady(seconds(10), rps)];
                let times = whole(Arrivals::Poisson { seed }, &stages, threads);
                let (distance, limit) = drom_testkit::known::poisson_distance(&times, rps);
                assert!(distance < limit, "{distance} of {limit} at {rps}/s");
                let spread = (times.len() as f64 - 10.0 * rps) / f64::sqrt(10.0 * rps);
                assert!(spread.abs() < 4.0, "{} at {rps}/s", times.len());
            }
        }
    }

    #[test]
    fn a_seed_makes_the_same_times_again() {
        let stages = [Stage::steady(seconds(1), 100.0)];
        let times = |seed| whole(Arrivals::Poisson { seed }, &stages, 2);
        assert_eq!(times(5), times(5));
        assert_ne!(times(5), times(6));
    }

    fn stage() -> impl Strategy<Value = Stage> {
        (1_u64..3000, 0.0..500.0, 0.0..500.0).prop_map(|(ms, from_rps, to_rps)| Stage {
            duration: Duration::from_millis(ms),
            from_rps,
            to_rps,
        })
    }

    proptest! {
        /// Threads deal out the arrivals of the whole, in order, inside the stages.
        #[test]
        fn threads_share_what_there_is(
            stages in prop::collection::vec(stage(), 1..5),
            threads in 1_u32..5,
        ) {
            let one = whole(Arrivals::Constant, &stages, 1);
            prop_assert_eq!(&one, &whole(Arrivals::Constant, &stages, threads));
            let expected: f64 = stages.iter().map(Stage::arrivals).sum();
            prop_assert!((one.len() as f64 - expected).abs() <= 1.0);
            let end: Duration = stages.iter().map(|stage| stage.duration).sum();
            let end_ns = end.as_nanos() as u64;
            for arrivals in [Arrivals::Constant, Arrivals::Poisson { seed: 9 }] {
                for part in parts(threads, threads) {
                    let times: Vec<u64> = Schedule::new(&arrivals, &stages, part).collect();
                    prop_assert!(times.is_sorted());
                    prop_assert!(times.last().is_none_or(|&last| last <= end_ns));
                }
            }
        }
    }

    /// Exactly so many behind the warm-up, whatever the threads, and as evenly spread as uniform
    /// ones: a part that is short of its share by five standard deviations would be a fault.
    #[test]
    fn a_counted_poisson_process_brings_exactly_so_many() {
        let warmup = Stage::steady(Duration::from_millis(500), 100.0);
        for (requests, threads) in [(1, 1), (7, 3), (2_000, 1), (2_000, 4)] {
            let window = Stage::steady(Duration::from_secs_f64(requests as f64 / 100.0), 100.0);
            for seed in 0..20 {
                let arrivals = Arrivals::PoissonOf { seed, requests };
                let plain = whole(arrivals.clone(), &[window], threads);
                assert_eq!(plain.len() as u64, requests, "{seed}");
                assert!(plain.iter().all(|at_ns| *at_ns < to_ns(window.duration)));
                let half = to_ns(window.duration) / 2;
                let first = plain.iter().filter(|at_ns| **at_ns < half).count() as f64;
                let sd = (requests as f64).sqrt() / 2.0;
                assert!((first - requests as f64 / 2.0).abs() <= 5.0 * sd, "{seed} {first}");
                let warm = whole(arrivals, &[warmup, window], threads);
                let behind = warm.iter().filter(|at_ns| **at_ns >= to_ns(warmup.duration));
                assert_eq!(behind.count() as u64, requests, "{seed}");
                assert!((20..90).contains(&(warm.len() as u64 - requests)), "{seed}");
            }
        }
    }
}
