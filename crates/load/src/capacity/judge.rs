//! What became of a try: whether the conditions hold, whether the server keeps up, and if not,
//! whose fault that is. Pure.

use std::time::Duration;

use crate::{
    outcome::{Latency, Outcome},
    threshold::{Judged, Threshold},
    verdict::{Cause, client_limited},
};

use super::search::Ended;

/// What a try must keep besides the conditions: what is planned is sent. A hundredth may be under
/// way when the try ends.
const UNSENT_SHARE_MAX: f64 = 0.01;
/// Where no condition is about anything but times, so many may fail.
const FAILED_SHARE_MAX: f64 = 0.01;
/// A generator that was late, and makes so much of the latency, was the reason for it.
const LAG_SHARE: f64 = 0.3;
/// So many requests found no connection free, and the server needed no more time for one than at
/// its quickest try: more connections would have carried more.
const QUEUED_SHARE: f64 = 0.5;
const AS_QUICK: f64 = 1.3;

/// What a try showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub ended: Ended,
    /// Of each condition, in their order.
    pub judged: Vec<Judged>,
    pub unsent_share: f64,
    /// More answers were errors than may be where no condition is about them.
    pub fails: bool,
    /// Seconds that latency rose by in each second, where it rose all the time.
    pub growth: Option<f64>,
    /// Of answers, from the write.
    pub service_p50: Option<Duration>,
}

/// Judges a try; `quickest` is the shortest median service time of the tries that held.
#[must_use]
pub fn judge(outcome: &Outcome, conditions: &[Threshold], quickest: Option<Duration>) -> Seen {
    let judged: Vec<Judged> = conditions.iter().map(|one| one.judge(outcome)).collect();
    let unsent_share = unsent_share(outcome);
    let growth = growth(&means_s(outcome), 1.0);
    let service_p50 = service_p50(outcome);
    let fails = fails(outcome, conditions);
    let keeps_up = unsent_share <= UNSENT_SHARE_MAX && growth.is_none() && !fails;
    // Nobody answers with an error because he was asked late.
    let is_slow = conditions.iter().zip(&judged).all(|(one, judged)| judged.met || is_time(one));
    let ended = if keeps_up && judged.iter().all(|one| one.met) {
        Ended::Held
    } else if fails {
        Ended::Failed
    } else if is_limited(outcome) || is_slow && is_late(outcome) {
        Ended::Client
    } else if is_slow && is_short_of_connections(outcome, service_p50, quickest) {
        Ended::Connections
    } else {
        Ended::Failed
    };
    Seen { ended, judged, unsent_share, fails, growth, service_p50 }
}

/// What nobody has named a limit for: answers that are errors are no capacity.
fn fails(outcome: &Outcome, conditions: &[Threshold]) -> bool {
    let is_named = conditions.iter().any(|one| !is_time(one));
    let ended = (outcome.ok + outcome.failed).max(1) as f64;
    !is_named && outcome.failed as f64 / ended > FAILED_SHARE_MAX
}

/// By the client itself. Whether connections are short is seen better here: other tries tell how
/// quick the server can be.
fn is_limited(outcome: &Outcome) -> bool {
    let verdict = client_limited(outcome, None);
    verdict.limited && verdict.cause != Some(Cause::Connections)
}

fn unsent_share(outcome: &Outcome) -> f64 {
    let unsent = outcome.open.as_ref().map_or(0, |open| open.unsent);
    let planned = outcome.begun() + unsent;
    if planned > 0 { unsent as f64 / planned as f64 } else { 0.0 }
}

/// Of the seconds of the window, as far as they are whole.
fn means_s(outcome: &Outcome) -> Vec<f64> {
    let is_whole = |second: &&crate::Interval| {
        second.start < outcome.duration && second.length > Duration::from_millis(500)
    };
    let latencies = outcome.timeline.iter().filter(is_whole).map(crate::Interval::latency);
    latencies.filter(|latency| latency.count() > 0).map(|l| l.mean_ns() / 1e9).collect()
}

/// Seconds by which latency rises a second when a queue grows; `means_s` are the mean latencies of
/// times of equal length one after the other.
///
/// A server that gets a hundredth more than it can serve is later by 10 ms after each second, long
/// before that breaks a limit of 250 ms: a short try has to look for it. With three means and more
/// they must rise in every third, and evenly; a single stall does not. From two it takes a steeper
/// rise.
#[must_use]
pub fn growth(means_s: &[f64], step_s: f64) -> Option<f64> {
    let parts: Vec<f64> = thirds(means_s);
    let rise = |from: f64, to: f64, parts: f64| {
        (to - from) / (step_s * means_s.len() as f64) * parts / (parts - 1.0)
    };
    match parts[..] {
        [first, second] => {
            let slope = rise(first, second, 2.0);
            (slope > 0.01 && second > 2.2 * first).then_some(slope)
        }
        [first, second, third] => {
            let (early, late) = (second - first, third - second);
            let is_even = early > 0.0 && late > early / 3.0 && late < early * 3.0;
            let slope = rise(first, third, 3.0);
            (slope > 0.005 && third > 2.5 * first && is_even).then_some(slope)
        }
        _ => None,
    }
}

/// The means of the first, the second and the last third; of two the two.
fn thirds(means: &[f64]) -> Vec<f64> {
    let part = (means.len() / 3).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    match means.len() {
        0 | 1 => Vec::new(),
        2 => means.to_vec(),
        all => {
            let middle = (all - part) / 2;
            let from = [0, middle, all - part];
            from.iter().map(|from| mean(&means[*from..from + part])).collect()
        }
    }
}

fn service_p50(outcome: &Outcome) -> Option<Duration> {
    let service: &Latency = &outcome.open.as_ref()?.service;
    (service.count() > 0).then(|| Duration::from_nanos(service.quantile_ns(0.5)))
}

fn is_time(condition: &Threshold) -> bool {
    condition.unit().ends_with('s')
}

/// Later than its plan by a good part of what it measured.
fn is_late(outcome: &Outcome) -> bool {
    outcome.open.as_ref().is_some_and(|open| {
        let lag_ns = open.lag.quantile_ns(0.99) as f64;
        let is_much = lag_ns > LAG_SHARE * outcome.latency.quantile_ns(0.99) as f64;
        open.is_late() && is_much
    })
}

fn is_short_of_connections(
    outcome: &Outcome,
    service_p50: Option<Duration>,
    quickest: Option<Duration>,
) -> bool {
    let queued = outcome.open.as_ref().map_or(0, |open| open.queued);
    let is_quick = service_p50
        .zip(quickest)
        .is_some_and(|(now, quickest)| is_as_quick(outcome, now, quickest));
    is_quick && queued as f64 > QUEUED_SHARE * outcome.begun() as f64
}

/// What the server takes longer for a round than at its quickest is little of what a round takes
/// from a place: where users think for most of it, a slower answer costs them nothing.
fn is_as_quick(outcome: &Outcome, now: Duration, quickest: Duration) -> bool {
    let taken_s = outcome.place_s_a_round().max(now.as_secs_f64());
    let more_s = now.saturating_sub(quickest).as_secs_f64() * outcome.requests_a_round();
    more_s <= (AS_QUICK - 1.0) * (taken_s - more_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, OpenTally};

    /// A thousand answers of `ms` each in a second of an open loop.
    fn outcome(ms: u64) -> Outcome {
        let mut open = OpenTally::default();
        let mut outcome = Outcome {
            sent: 1_000,
            ok: 1_000,
            duration: Duration::from_secs(1),
            status: [(200, 1_000)].into(),
            ..Outcome::default()
        };
        for _ in 0..1_000 {
            outcome.latency.record_ns(ms * 1_000_000);
            open.service.record_ns(1_000_000);
            open.lag.record_ns(20_000);
        }
        Outcome { open: Some(open), ..outcome }
    }

    fn ended(outcome: &Outcome, quickest_ms: Option<u64>) -> Ended {
        let conditions =
            ["p99<50ms", "failed<0.1%"].map(|text| Threshold::parse(text).expect(text));
        judge(outcome, &conditions, quickest_ms.map(Duration::from_millis)).ended
    }

    fn with_open(outcome: Outcome, change: impl Fn(&mut OpenTally)) -> Outcome {
        let mut open = outcome.open.clone().expect("an open loop");
        change(&mut open);
        Outcome { open: Some(open), ..outcome }
    }

    #[test]
    fn all_conditions_hold_or_the_try_does_not() {
        assert_eq!(ended(&outcome(10), None), Ended::Held);
        assert_eq!(ended(&outcome(60), None), Ended::Failed);
        let errors = [(ErrorKind::Closed, 10)].into();
        let erring = Outcome { failed: 10, ok: 990, errors, ..outcome(10) };
        assert_eq!(ended(&erring, None), Ended::Failed);
        let unsent = with_open(outcome(10), |open| open.unsent = 20);
        assert_eq!(ended(&unsent, None), Ended::Failed, "2 % of what was planned");
    }

    #[test]
    fn errors_are_no_capacity_where_only_times_are_limited() {
        let refusing = Outcome { failed: 900, ok: 100, ..outcome(10) };
        let quick = Threshold::parse("p99<50ms").expect("a threshold");
        let any = Threshold::parse("failed<95%").expect("a threshold");
        let ended = |conditions: &[Threshold]| judge(&refusing, conditions, None).ended;
        assert_eq!(ended(std::slice::from_ref(&quick)), Ended::Failed);
        assert_eq!(ended(&[quick, any]), Ended::Held);
    }

    #[test]
    fn a_client_that_is_busy_or_late_takes_the_blame() {
        let thread_cpu = vec![Duration::from_millis(950)];
        assert_eq!(
            ended(&Outcome { thread_cpu: thread_cpu.clone(), ..outcome(60) }, None),
            Ended::Client
        );
        assert_eq!(ended(&Outcome { thread_cpu, ..outcome(10) }, None), Ended::Held, "it did it");
        let late = |ms: u64| {
            with_open(outcome(60), |open| {
                (0..1_000).for_each(|_| open.lag.record_ns(ms * 1_000_000))
            })
        };
        assert_eq!(ended(&late(40), None), Ended::Client);
        assert_eq!(ended(&late(2), None), Ended::Failed, "2 ms are not what it failed by");
        let refused = Outcome { failed: 500, status: [(503, 500)].into(), ..late(40) };
        assert_eq!(ended(&refused, None), Ended::Failed, "an answer is not bad for being late");
    }

    #[test]
    fn connections_are_short_when_the_server_is_as_quick_as_ever() {
        let queued = with_open(outcome(60), |open| open.queued = 900);
        assert_eq!(ended(&queued, Some(1)), Ended::Connections);
        assert_eq!(
            ended(&queued, None),
            Ended::Failed,
            "nothing held that it could be as quick as"
        );
        let slower = with_open(queued, |open| {
            (0..9_000).for_each(|_| open.service.record_ns(8_000_000));
        });
        assert_eq!(ended(&slower, Some(1)), Ended::Failed);
        // Of a place's round of 100 ms, 8 more are little.
        let thinking = Outcome { accounted_time: Duration::from_secs(100), ..slower };
        assert_eq!(ended(&thinking, Some(1)), Ended::Connections);
    }

    #[test]
    fn a_queue_that_grows_is_seen_before_it_breaks_the_limit() {
        // One hundredth too much: 10 ms a second.
        let slope = growth(&[0.006, 0.016, 0.026], 1.0).expect("it grows");
        assert!((slope - 0.01).abs() < 1e-9, "{slope}");
        let long: Vec<f64> = (0..15).map(|second| 0.001 + 0.008 * f64::from(second)).collect();
        let slope = growth(&long, 1.0).expect("it grows");
        assert!((slope - 0.008).abs() < 2e-3, "{slope}");
        assert!(growth(&[0.010, 0.030], 1.0).is_some());
    }

    #[test]
    fn what_only_moves_is_no_growth() {
        for means in [
            &[0.001, 0.001, 0.030][..],
            &[0.030, 0.001, 0.001],
            &[0.020, 0.024, 0.030],
            &[0.0001, 0.0003, 0.0005],
            &[0.010, 0.018],
            &[0.5],
            &[],
        ] {
            assert_eq!(growth(means, 1.0), None, "{means:?}");
        }
    }
}
