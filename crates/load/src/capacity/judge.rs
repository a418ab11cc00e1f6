//! What became of a try: whether the conditions hold, whether the server keeps up, and if not,
//! whose fault that is. Pure.

use std::time::Duration;

use crate::{
    open::OpenTally,
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
/// And it is answered in time: so many answers may come after the try, and as many as are under way
/// at the latency of its quickest third (Little's law), with so much of the scatter of two numbers
/// of that size.
const DRAINED_SHARE_MAX: f64 = 0.01;
const DRAINED_FEW: f64 = 2.0;
const DRAINED_SCATTER: f64 = 1.5;
/// Tries are many: one in fifty may fail for a queue that only comes and goes.
pub(super) const GROWTH_CHANCE: f64 = 0.02;
/// A generator that was late, and makes so much of the latency, was the reason for it.
const LAG_SHARE: f64 = 0.3;
/// So many requests found no connection free, and the server needed little more time for one than
/// at its quickest try: more connections may have carried more.
const QUEUED_SHARE: f64 = 0.5;
const AS_QUICK: f64 = 2.0;

/// What a try showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub ended: Ended,
    /// Of each condition, in their order.
    pub judged: Vec<Judged>,
    pub unsent_share: f64,
    /// Of the answers, those that came after the try, where they are more than a server that keeps
    /// up leaves.
    pub behind_share: Option<f64>,
    /// Connections without an answer, where others had several.
    pub mute: usize,
    /// More answers were errors than may be where no condition is about them.
    pub fails: bool,
    /// Seconds that latency rose by in each second, where it rose all the time.
    pub growth: Option<f64>,
    /// Of answers, from the write.
    pub service_p50: Option<Duration>,
}

/// Judges a try. `quickest` is the shortest median service time of those that held before it.
#[must_use]
pub fn judge(outcome: &Outcome, conditions: &[Threshold], quickest: Option<Duration>) -> Seen {
    let judged: Vec<Judged> = conditions.iter().map(|one| one.judge(outcome)).collect();
    let unsent_share = unsent_share(outcome);
    let growth = outcome.growth(true, GROWTH_CHANCE);
    let service_p50 = service_p50(outcome);
    let fails = fails(outcome, conditions);
    let behind_share = behind_share(outcome);
    let is_sent = unsent_share <= UNSENT_SHARE_MAX;
    let keeps_up = is_sent && growth.is_none() && behind_share.is_none() && !fails;
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
    let mute = outcome.mute_connections();
    Seen { ended, judged, unsent_share, behind_share, mute, fails, growth, service_p50 }
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

/// A queue that is as long as the try breaks no limit that is longer.
fn behind_share(outcome: &Outcome) -> Option<f64> {
    let open = outcome.open.as_ref()?;
    let rate_rps = outcome.sent as f64 / outcome.duration.as_secs_f64();
    let (drained, answers) = (open.drained as f64, outcome.answers() as f64);
    is_behind(drained, answers, rate_rps * open.rise.quickest_third_s()?).then(|| drained / answers)
}

/// So many of the answers came after a try in whose quickest third so many were under way.
pub(super) fn is_behind(drained: f64, answers: f64, under_way: f64) -> bool {
    let usual = under_way + DRAINED_SCATTER * (2.0 * under_way).sqrt();
    drained > usual + DRAINED_SHARE_MAX * answers + DRAINED_FEW
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
    let queued = outcome.open.as_ref().map_or(0, OpenTally::waited_for_place);
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
        let quickest = quickest_ms.map(Duration::from_millis);
        judge(outcome, &conditions, quickest).ended
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
    fn a_queue_as_long_as_the_try_is_no_capacity_however_wide_the_limit() {
        let any = [Threshold::parse("p99<10s").expect("a threshold")];
        let judged = |drained: u64, latency_ms: u64| {
            let outcome = with_open(outcome(10), |open| {
                open.drained = drained;
                let second_ns = 1_000_000_000;
                for at in 0..1_000 {
                    open.rise.record(at * 1_000_000, second_ns, latency_ms * 1_000_000);
                }
            });
            judge(&outcome, &any, None)
        };
        let outcome = outcome(10);
        assert_eq!((outcome.answers(), outcome.duration), (1_000, Duration::from_secs(1)));
        let behind = judged(400, 10);
        assert_eq!((behind.ended, behind.behind_share), (Ended::Failed, Some(0.4)));
        assert_eq!(judged(28, 10).ended, Ended::Held, "so many are under way");
        assert_eq!(judged(340, 300).ended, Ended::Held, "each takes its time");
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
}
