//! The search against servers that are only arithmetic: how near it comes, how often its interval
//! holds the truth, and that it ends whatever it is told.

use drom_stats::Rng;
use proptest::prelude::*;

use super::*;
use crate::{
    capacity::judge::{GROWTH_CHANCE, is_behind},
    rise::Rise,
};

const BUDGET: Duration = Duration::from_secs(58);

fn bounds(start_rps: f64) -> Bounds {
    Bounds {
        start_rps,
        min_rps: 1.0,
        max_rps: 1e6,
        budget: BUDGET,
        try_min: Duration::ZERO,
        try_requests: 0.0,
    }
}

/// Asks until the search is over.
fn run(bounds: Bounds, mut server: impl FnMut(Try, Duration) -> Ended) -> (Capacity, Vec<Tried>) {
    let mut search = Search::new(bounds);
    let mut tries = Vec::new();
    while let Some(next) = search.next() {
        let Try { rate_rps, duration } = next;
        let ended = server(next, search.spent);
        let took = duration + Duration::from_millis(60);
        tries.push(Tried { rate_rps, duration, took, ended });
        search.take(tries[tries.len() - 1]);
    }
    (search.found(), tries)
}

fn held(held: bool) -> Ended {
    if held { Ended::Held } else { Ended::Failed }
}

/// A queue that is empty when a try begins.
struct Queue {
    rng: Rng,
    workers: usize,
    /// Seconds for a request, or their mean.
    service_s: f64,
    has_random_service: bool,
    has_random_arrivals: bool,
    limit_s: f64,
}

impl Queue {
    fn exponential(rng: &mut Rng) -> f64 {
        -(1.0 - rng.unit()).ln()
    }

    /// Who comes is served by the worker that is free first.
    fn tries(&mut self, Try { rate_rps, duration }: Try) -> bool {
        let (mut at_s, length_s) = (0.0, duration.as_secs_f64());
        let mut free_s = vec![0.0_f64; self.workers];
        let (mut latencies, mut rise, mut drained) = (Vec::new(), Rise::default(), 0.0);
        while at_s < length_s {
            let service =
                if self.has_random_service { Self::exponential(&mut self.rng) } else { 1.0 };
            let first = (0..self.workers).min_by(|a, b| free_s[*a].total_cmp(&free_s[*b]));
            let first = &mut free_s[first.expect("a worker")];
            *first = first.max(at_s) + service * self.service_s;
            let latency_s = *first - at_s;
            latencies.push(latency_s);
            drained += f64::from(at_s + latency_s > length_s);
            let ns = [at_s, length_s, latency_s].map(|seconds| (seconds * 1e9) as u64);
            rise.record(ns[0], ns[1], ns[2]);
            let gap = if self.has_random_arrivals { Self::exponential(&mut self.rng) } else { 1.0 };
            at_s += gap / rate_rps;
        }
        latencies.sort_by(f64::total_cmp);
        let p99_s = latencies[(latencies.len() * 99 / 100).min(latencies.len() - 1)];
        let answers = latencies.len() as f64;
        let quickest_s = rise.quickest_third_s().unwrap_or(self.service_s);
        let keeps_up = !is_behind(drained, answers, rate_rps * quickest_s);
        p99_s < self.limit_s && keeps_up && rise.slope(length_s, true, GROWTH_CHANCE).is_none()
    }
}

/// A limit as soft as `width` on the logarithmic scale; `accidents` of the tries fail anyway.
struct Soft {
    rng: Rng,
    width: f64,
    accidents: f64,
}

impl Soft {
    fn tries(&mut self, rate_rps: f64, capacity_rps: f64) -> bool {
        let above = (rate_rps / capacity_rps).ln() / self.width;
        self.rng.unit() < (1.0 - self.accidents) / (1.0 + (1.702 * above).exp())
    }
}

const RUNS: u64 = 30;

/// How that many searches came out.
struct Scores {
    /// Relative, of the median search and of the worst but four.
    error_median: f64,
    error_most: f64,
    /// Intervals that hold the truth.
    covered: u64,
}

fn score(truth_rps: f64, mut search: impl FnMut(u64) -> (Capacity, Vec<Tried>)) -> Scores {
    let (mut errors, mut covered, mut bounds) = (Vec::new(), 0, 0);
    for seed in 0..RUNS {
        let (found, tries) = search(seed);
        if found.verdict == Verdict::AtLeast(Wall::Time) {
            // It began again late, and nothing has failed since: a bound from below.
            bounds += 1;
            covered += u64::from(found.rate_rps.is_some_and(|rate| rate < 1.05 * truth_rps));
            continue;
        }
        assert_eq!(found.verdict, Verdict::Found);
        let rate_rps = found.rate_rps.expect("it was found");
        let (lower, upper) = (found.lower_rps.expect("an end"), found.upper_rps.expect("an end"));
        assert!(lower <= rate_rps && rate_rps <= upper, "{found:?}");
        errors.push((rate_rps / truth_rps).ln().abs());
        covered += u64::from((lower..=upper).contains(&truth_rps));
        let took: Duration = tries.iter().map(|tried| tried.took).sum();
        assert!(took <= BUDGET + Duration::from_millis(60), "{took:?}");
    }
    errors.sort_by(f64::total_cmp);
    assert!(bounds <= RUNS / 6, "{bounds} of {RUNS} only bounds");
    let at = |place: usize| errors[place];
    let (error_median, error_most) = (at(errors.len() / 2), at(errors.len() - 4));
    let scores = Scores { error_median, error_most, covered };
    // With --nocapture: the figures of METHODOLOGY.md.
    println!(
        "error {:.1} %, of one in ten over {:.1} %; {covered} of {RUNS} intervals hold the truth, \
         {bounds} of them bounds",
        100.0 * scores.error_median,
        100.0 * scores.error_most,
    );
    scores
}

fn queue(seed: u64, has_random_arrivals: bool, has_random_service: bool) -> Queue {
    let (rng, service_s, limit_s) = (Rng::new(seed), 1e-3, 0.05);
    Queue { rng, workers: 1, service_s, has_random_service, has_random_arrivals, limit_s }
}

#[test]
fn a_hard_limit_is_found_within_2_percent() {
    for start_rps in [800.0, 5.0, 40_000.0] {
        let scores = score(1_000.0, |seed| {
            let mut queue = queue(seed, false, false);
            run(bounds(start_rps + seed as f64), |next, _| held(queue.tries(next)))
        });
        assert!(scores.error_most < 0.02, "{}", scores.error_most);
        assert!(scores.covered >= RUNS - 2, "{}", scores.covered);
    }
}

/// Where an answer takes so long that a queue is short beside it, and the limit is far away.
#[test]
fn a_hard_limit_of_slow_workers_is_found_within_2_percent() {
    for (workers, service_s, limit_s) in
        [(1, 0.02, 0.1), (4, 0.02, 0.1), (4, 0.1, 0.5), (8, 0.1, 1.0), (1, 0.05, 1.0)]
    {
        let truth_rps = workers as f64 / service_s;
        let try_min = Duration::from_secs_f64(10.0 * service_s);
        let scores = score(truth_rps, |seed| {
            let queue = queue(seed, false, false);
            let mut queue = Queue { workers, service_s, limit_s, ..queue };
            let bounds = Bounds { try_min, ..bounds(0.8 * truth_rps + seed as f64 / 10.0) };
            run(bounds, |next, _| held(queue.tries(next)))
        });
        assert!(scores.error_most < 0.02, "{workers} x {service_s}: {}", scores.error_most);
        assert!(scores.covered >= RUNS - 2, "{workers} x {service_s}: {}", scores.covered);
    }
}

/// Random service times and limits so wide that only the queue can tell, which in three
/// seconds is mostly chance.
#[test]
fn random_service_with_a_wide_limit_is_found_nearly() {
    for (workers, service_s) in [(16, 0.2), (64, 0.1), (1, 0.02), (4, 0.02)] {
        let truth_rps = workers as f64 / service_s;
        let try_min = Duration::from_secs_f64(10.0 * service_s);
        let scores = score(truth_rps, |seed| {
            let queue = queue(seed, false, true);
            let mut queue = Queue { workers, service_s, limit_s: 3.0, ..queue };
            let bounds = Bounds { try_min, ..bounds(0.8 * truth_rps + seed as f64 / 10.0) };
            run(bounds, |next, _| held(queue.tries(next)))
        });
        println!("of {workers} x {service_s}");
        assert!(scores.error_median < 0.1 && scores.error_most < 0.15, "{workers} {service_s}");
        assert!(scores.covered * 10 >= RUNS * 7, "{workers} {service_s}: {}", scores.covered);
    }
}

/// The rate at which half of the tries of full length hold, from many.
fn brute_force(mut queue: Queue) -> f64 {
    let (mut low, mut high) = (500.0_f64, 1_200.0_f64);
    for _ in 0..9 {
        let rate_rps = (low * high).sqrt();
        let next = Try { rate_rps, duration: BUDGET / FULL_PART };
        let held = (0..60).filter(|_| queue.tries(next)).count();
        *(if held >= 30 { &mut low } else { &mut high }) = rate_rps;
    }
    (low * high).sqrt()
}

#[test]
fn queues_of_random_arrivals_are_found_as_brute_force_finds_them() {
    for has_random_service in [false, true] {
        let truth_rps = brute_force(queue(77, true, has_random_service));
        let scores = score(truth_rps, |seed| {
            let mut queue = queue(seed, true, has_random_service);
            run(bounds(800.0), |next, _| held(queue.tries(next)))
        });
        println!("half of the tries hold at {truth_rps:.0}");
        assert!(scores.error_median < 0.03 && scores.error_most < 0.1);
        assert!(scores.covered * 10 >= RUNS * 9, "{}", scores.covered);
    }
}

#[test]
fn soft_limits_and_accidents_widen_the_interval() {
    for (width, accidents) in [(0.01, 0.0), (0.01, 0.1), (0.03, 0.1), (0.06, 0.0)] {
        let scores = score(1_000.0, |seed| {
            let mut soft = Soft { rng: Rng::new(seed), width, accidents };
            run(bounds(800.0), |next, _| held(soft.tries(next.rate_rps, 1_000.0)))
        });
        assert!(scores.error_median < 0.03, "{width} {accidents}: {}", scores.error_median);
        assert!(scores.covered * 10 >= RUNS * 9, "{width} {accidents}: {}", scores.covered);
    }
}

/// From 1,000 to 900 over the search; or 650 for ten seconds of it.
#[test]
fn a_capacity_that_moves_is_followed() {
    let drift = score(950.0, |seed| {
        let mut soft = Soft { rng: Rng::new(seed), width: 0.01, accidents: 0.0 };
        run(bounds(800.0), |next, at| {
            held(soft.tries(next.rate_rps, 1_000.0 - 100.0 * at.as_secs_f64() / 60.0))
        })
    });
    assert!(drift.error_most < 0.07 && drift.covered * 10 >= RUNS * 9);
    let disturbed = score(1_000.0, |seed| {
        let mut soft = Soft { rng: Rng::new(seed), width: 0.003, accidents: 0.0 };
        let from_s = 10.0 + seed as f64 * 0.7;
        run(bounds(800.0), |next, at| {
            let is_slow = (from_s..from_s + 10.0).contains(&at.as_secs_f64());
            held(soft.tries(next.rate_rps, if is_slow { 650.0 } else { 1_000.0 }))
        })
    });
    assert!(disturbed.error_median < 0.02 && disturbed.covered * 10 >= RUNS * 9);
}

/// After 25 s nothing holds any more, or only a tenth of it: what held before is no capacity.
#[test]
fn a_server_that_gets_slower_for_good_is_found_as_it_is_then() {
    for seed in 0..RUNS {
        let mut soft = Soft { rng: Rng::new(seed), width: 0.01, accidents: 0.02 };
        let from_s = 15.0 + seed as f64 * 0.5;
        let (found, tries) = run(bounds(800.0), |next, at| {
            let is_slow = at.as_secs_f64() > from_s;
            held(!is_slow && soft.tries(next.rate_rps, 1_000.0))
        });
        let last = tries.iter().rev().take_while(|tried| tried.ended == Ended::Failed).count();
        assert!(last >= 8 && found.failed_last + found.outdated > 0, "{seed}: {found:?}");
        assert_eq!(found.verdict, Verdict::NoneHeld, "{seed}: {found:?}");
        let mut soft = Soft { rng: Rng::new(seed), width: 0.01, accidents: 0.02 };
        let (found, _) = run(bounds(800.0), |next, at| {
            let is_slow = at.as_secs_f64() > from_s;
            held(soft.tries(next.rate_rps, if is_slow { 100.0 } else { 1_000.0 }))
        });
        let ends = found.lower_rps.zip(found.upper_rps);
        let holds_truth = match found.verdict {
            Verdict::Found => ends.is_some_and(|(lower, upper)| lower <= 100.0 && 100.0 <= upper),
            _ => found.rate_rps.is_some_and(|rate_rps| rate_rps < 110.0),
        };
        assert!(found.outdated > 0 && holds_truth, "{seed}: {found:?}");
    }
}

/// Eight seconds each: the search knows how few they were.
#[test]
fn slow_tries_are_few_and_counted() {
    let mut soft = Soft { rng: Rng::new(1), width: 0.01, accidents: 0.0 };
    let slow = Bounds { try_min: Duration::from_secs(8), ..bounds(800.0) };
    let (found, tries) = run(slow, |next, _| held(soft.tries(next.rate_rps, 1_000.0)));
    assert!(found.full_tries < FULL_MIN, "{found:?}");
    let (found, more) = run(bounds(800.0), |next, _| held(soft.tries(next.rate_rps, 1_000.0)));
    assert!(found.full_tries >= FULL_MIN && more.len() > tries.len(), "{found:?}");
}

/// To three quarters, or a half, for good: what is told is of the server as it is, or is doubtful.
#[test]
fn a_server_that_loses_a_part_is_not_blended_with_what_it_was() {
    for part in [0.5, 0.6, 0.75] {
        let mut right = 0;
        for seed in 0..RUNS {
            let mut soft = Soft { rng: Rng::new(seed), width: 0.005, accidents: 0.0 };
            // A search that sees no change has ended by the 32nd second.
            let from_s = 12.0 + seed as f64 * 0.6;
            let (found, _) = run(bounds(800.0), |next, at| {
                let is_slow = at.as_secs_f64() > from_s;
                held(soft.tries(next.rate_rps, if is_slow { 1_000.0 * part } else { 1_000.0 }))
            });
            let truth_rps = 1_000.0 * part;
            let ends = found.lower_rps.zip(found.upper_rps);
            let is_right = match found.verdict {
                Verdict::Found => ends.is_some_and(|(low, high)| (low..=high).contains(&truth_rps)),
                _ => found.rate_rps.is_none_or(|rate_rps| rate_rps < 1.05 * truth_rps),
            };
            right += u64::from(is_right || found.failed_last > 0);
        }
        println!("{part}: {right} of {RUNS}");
        assert!(right * 10 >= RUNS * 9, "{part}: {right}");
    }
}

#[test]
fn a_server_that_never_holds_has_no_capacity() {
    let (found, tries) = run(bounds(800.0), |_, _| Ended::Failed);
    assert_eq!((found.verdict, found.rate_rps), (Verdict::NoneHeld, None));
    let at_min = tries.iter().filter(|tried| tried.rate_rps == 1.0).count();
    assert_eq!(at_min, AT_BOUND, "it asks no more often than that");
}

#[test]
fn a_server_that_always_holds_has_at_least_what_was_tried() {
    let bounds = Bounds { max_rps: 5_000.0, ..bounds(800.0) };
    let (found, tries) = run(bounds, |_, _| Ended::Held);
    assert_eq!(found.verdict, Verdict::AtLeast(Wall::Bound));
    assert_eq!((found.rate_rps, found.upper_rps), (Some(5_000.0), None));
    assert!(tries.len() < 10, "{}", tries.len());
}

#[test]
fn a_limit_of_the_clients_is_no_capacity() {
    for (ended, wall) in [(Ended::Client, Wall::Client), (Ended::Connections, Wall::Connections)] {
        let (found, _) =
            run(bounds(500.0), |next, _| if next.rate_rps < 2_000.0 { Ended::Held } else { ended });
        assert_eq!(found.verdict, Verdict::AtLeast(wall));
        let rate_rps = found.rate_rps.expect("some rate held");
        assert!((1_900.0..2_000.0).contains(&rate_rps), "{found:?}");
    }
    let (found, _) = run(bounds(500.0), |_, _| Ended::Client);
    assert_eq!(found.verdict, Verdict::Unknown);
    // Now and then it is the client, but the server's limit is there.
    let mut rng = Rng::new(3);
    let (found, _) = run(bounds(500.0), |next, _| match rng.unit() {
        _ if next.rate_rps < 1_000.0 => Ended::Held,
        chance if chance < 0.2 => Ended::Client,
        _ => Ended::Failed,
    });
    assert_eq!(found.verdict, Verdict::Found);
    assert!((found.rate_rps.expect("found") / 1_000.0 - 1.0).abs() < 0.03, "{found:?}");
}

#[test]
fn no_limit_is_told_that_only_the_client_stands_before() {
    let mut search = Search::new(bounds(800.0));
    let mut take = |rate_rps, ended| {
        let duration = search.full_length();
        search.take(Tried { rate_rps, duration, took: duration, ended });
        search.found()
    };
    let mut found = take(800.0, Ended::Held);
    let of_client = [880.0, 900.0, 920.0].map(|rate_rps| (rate_rps, Ended::Client));
    for (rate_rps, ended) in of_client.into_iter().chain([(1_100.0, Ended::Failed); 3]) {
        found = take(rate_rps, ended);
    }
    assert_eq!(found.verdict, Verdict::AtLeast(Wall::Client), "{found:?}");
    assert!(found.rate_rps <= Some(800.0) && found.upper_rps.is_none(), "{found:?}");
}

#[test]
fn what_is_known_so_far_can_be_asked_at_any_time() {
    let mut search = Search::new(bounds(800.0));
    assert_eq!(search.found().verdict, Verdict::Unknown);
    let mut take = |rate_rps, ended| {
        let duration = Duration::from_secs(2);
        search.take(Tried { rate_rps, duration, took: duration, ended });
        search.found()
    };
    assert_eq!(take(800.0, Ended::Held).verdict, Verdict::AtLeast(Wall::Time));
    let found = take(1_000.0, Ended::Failed);
    assert_eq!(found.verdict, Verdict::Found);
    assert!((800.0..1_000.0).contains(&found.rate_rps.expect("between")), "{found:?}");
}

fn any_end() -> impl Strategy<Value = Ended> {
    prop_oneof![
        3 => Just(Ended::Held),
        3 => Just(Ended::Failed),
        1 => Just(Ended::Client),
        1 => Just(Ended::Connections),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever it is told and however long a try really takes: it stays within its bounds, asks
    /// for nothing that would not fit, and comes to an end. The same answers, the same questions.
    #[test]
    fn it_ends_within_its_time_and_its_tries(
        ends in prop::collection::vec((any_end(), 0_u64..20_000), 1..60),
        start_rps in 0.1_f64..1e6,
        min_rps in 0.1_f64..1e3,
        widen in 1.0_f64..1e6,
        seconds in 20_u64..3_600,
    ) {
        let budget = Duration::from_secs(seconds);
        let try_min = budget / 25;
        let max_rps = min_rps * widen;
        let bounds = Bounds { start_rps, min_rps, max_rps, budget, try_min, try_requests: 10.0 };
        let (mut search, mut twin) = (Search::new(bounds), Search::new(bounds));
        let (mut spent, mut tries) = (Duration::ZERO, 0);
        while let Some(next) = search.next() {
            prop_assert_eq!(Some(next), twin.next());
            prop_assert!(spent + next.duration <= budget);
            prop_assert!(next.duration.as_secs_f64() * next.rate_rps > 9.99);
            prop_assert!(next.rate_rps >= min_rps && next.rate_rps <= bounds.max_rps);
            let (ended, more_ms) = ends[tries % ends.len()];
            let took = next.duration + Duration::from_millis(more_ms);
            let Try { rate_rps, duration } = next;
            let tried = Tried { rate_rps, duration, took, ended };
            search.take(tried);
            twin.take(tried);
            spent += took;
            tries += 1;
            prop_assert!(tries <= TRIES_MAX);
        }
        let found = search.found();
        if let Some(rate_rps) = found.rate_rps {
            prop_assert!(found.lower_rps.is_none_or(|lower| lower <= rate_rps));
            prop_assert!(found.upper_rps.is_none_or(|upper| upper >= rate_rps));
        }
    }
}

/// Short tries failed before the server was warm; no full one did: that is no limit of its.
#[test]
fn what_failed_only_at_first_is_no_capacity() {
    let (found, tries) = run(bounds(100.0), |next, spent| {
        held(next.rate_rps < 50.0 || spent > Duration::from_secs(18))
    });
    assert!(tries.iter().any(|tried| tried.ended == Ended::Failed), "{tries:?}");
    assert_eq!(found.verdict, Verdict::AtLeast(Wall::Time), "{found:?}");
    let highest = tries.iter().filter(|tried| tried.ended == Ended::Held);
    let highest_rps = highest.map(|tried| tried.rate_rps).fold(0.0, f64::max);
    assert_eq!((found.rate_rps, found.upper_rps), (Some(highest_rps), None));
}
