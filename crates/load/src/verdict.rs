//! Was the client the limit? Pure: an outcome in, a verdict with its evidence out.
//!
//! A closed loop whose client thread never sleeps would have sent more with a faster client: its
//! rate is a lower bound of the server's. Time in which the thread was runnable but had no CPU
//! counts as busy: the client, not the server, was being waited for. So does time in which it was
//! stopped, which only the answers tell of that lay there meanwhile (`held.rs`).

use std::{ops::RangeInclusive, time::Duration};

use serde::Serialize;

use crate::{
    held::{Account, Accounts},
    open::{OpenTally, Sparse},
    outcome::Outcome,
};

/// Above this share of the window a client thread is the limit. 100 % is never reached: the
/// kernel's own work and steal are not charged to the thread.
pub const PEGGED_SHARE: f64 = 0.90;
/// Above this share a faster client would have measured a little more, and latencies hold some of
/// the client's own queue. With 8 connections an exponential server loses 2 % of its rate to a
/// client that is busy for 70 %, and 7 % at 90 % (a closed network of two stations).
pub const BUSY_SHARE: f64 = 0.70;
/// A rate this near to what the client reaches against a server that does nothing is the client's.
pub const CEILING_SHARE: f64 = 0.90;
/// Above this share of it the client is worth a word.
pub const CEILING_NEAR_SHARE: f64 = 0.50;
/// A rate well over the ceiling says that the ceiling was measured while something disturbed it.
pub const CEILING_BELIEVED_SHARE: f64 = 1.10;
/// Shorter windows have too few sleeps and wake-ups to tell what requests waited for.
const WINDOW_MIN: Duration = Duration::from_millis(100);
/// From this share on, requests that found no free connection are what an open loop measures.
const QUEUED_SHARE: f64 = 0.50;
/// What the server takes with all places in use, as a multiple of what it takes with few: within
/// the first it has no queue, from the second on it has one. Twice as slow and more is one that is
/// given twice as many requests as it has workers. One that was slower with little to do was cold.
const NO_QUEUE_RATIO: RangeInclusive<f64> = 0.8..=1.05;
const SERVER_QUEUE_RATIO: f64 = 1.5;
/// From this share of the machine's time on, what the hypervisor took is the reason.
const STOLEN_SHARE: f64 = 0.10;
/// A thread that works for so much of its time is not short of CPU.
const WORK_SHARE: f64 = 0.80;

/// What is known about the client's part in the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub limited: bool,
    /// Limited, or so near to it that the rate is a lower bound.
    pub near: bool,
    /// The window was too short for anything to be said of it.
    pub is_short: bool,
    /// What the limit was, where there was one; near to one only `Connections`.
    pub cause: Option<Cause>,
    /// Of the busiest thread: share of the window on a CPU, less what it spent looking for answers.
    pub busy_share: f64,
    /// Of the same thread: share of the window runnable without a CPU.
    pub starved_share: f64,
    /// Of the same thread: share of the window in which it came late to what was there to do.
    pub late_share: f64,
    /// Of the thread that held most: share of its requests' time that it held itself.
    pub held_share: f64,
    /// The longest that a thread was late.
    pub late_max: Duration,
    /// The seconds in which the client was the limit, of how many, and when the worst began.
    pub spoiled: u32,
    pub seconds: u32,
    pub worst_at: Option<Duration>,
    /// The rate as a share of the client's ceiling, where that was measured.
    pub ceiling_share: Option<f64>,
    /// Where most requests waited for a place.
    pub queued: Option<Queued>,
    /// In words, for a report.
    pub evidence: String,
}

/// What is known of the server where the requests of an open loop waited for a place in the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queued {
    /// Of the planned requests.
    pub share: f64,
    /// From the write, in the mean: all of them, and those begun while few were under way, or those
    /// that were so throughout where there are such.
    pub service_ns: f64,
    pub sparse: Sparse,
    pub by: Queue,
}

/// Whether the server has a queue, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    Server,
    Client,
    Unknown,
}

/// What a client lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its own work took all of its CPU time.
    Work,
    /// Something else used its CPU.
    Starved,
    /// It stood still: stopped, or over a quota.
    Stopped,
    /// The hypervisor gave its CPU to another machine.
    Stolen,
    /// An open loop had too few connections.
    Connections,
}

impl Cause {
    /// What was the limit, and what can be done.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Work => "its own work takes all of its time: more threads (-t), or more machines",
            Self::Starved => {
                "it waits for a CPU that something else uses, or for the next period of a quota \
                 (cpu.max of its cgroup): give it CPUs of its own (taskset), no more threads than \
                 those, or load from another machine"
            }
            Self::Stopped => {
                "it stands still without waiting for a CPU: stopped (SIGSTOP, a paused machine), \
                 or over a quota of CPU time (cpu.max of its cgroup)"
            }
            Self::Stolen => {
                "the hypervisor gives its CPU to other machines (steal): load from another machine"
            }
            Self::Connections => {
                "requests wait for a free connection while the server shows no queue: more \
                 connections (-c)"
            }
        }
    }

    /// The same where it may have been the limit.
    #[must_use]
    pub fn advice_near(self) -> &'static str {
        match self {
            Self::Connections => {
                "requests wait for a free connection, and whether the server could answer more at \
                 once cannot be told: see what it does with more connections (-c)"
            }
            _ => self.advice(),
        }
    }
}

/// Judges `outcome`; `ceiling_rps` is the rate of the same plan against [`crate::null_server`].
#[must_use]
pub fn client_limited(outcome: &Outcome, ceiling_rps: Option<f64>) -> Verdict {
    let mut verdict = of_threads(outcome);
    verdict.ceiling_share =
        ceiling_rps.filter(|rps| *rps > 0.0).map(|rps| outcome.rate_rps() / rps);
    let believed = verdict.ceiling_share.filter(|share| *share <= CEILING_BELIEVED_SHARE);
    if believed.is_some_and(|share| share >= CEILING_SHARE) {
        verdict.limited = true;
        verdict.cause = verdict.cause.or(Some(Cause::Work));
    }
    verdict.near |= believed.is_some_and(|share| share >= CEILING_NEAR_SHARE);
    if !verdict.limited {
        verdict.queued = outcome.open.as_ref().and_then(|open| queued(outcome, open));
        let by = verdict.queued.map(|queued| queued.by);
        verdict.limited = by == Some(Queue::Client);
        let may_be = verdict.limited || by == Some(Queue::Unknown);
        verdict.cause = may_be.then_some(Cause::Connections);
        verdict.near |= may_be;
    }
    verdict.near |= verdict.limited;
    verdict.evidence = evidence(&verdict);
    verdict
}

fn of_threads(outcome: &Outcome) -> Verdict {
    let busiest = busiest(outcome);
    let default = Accounts::default();
    let rank = |all: &&Accounts| (all.total.is_spoiled(), all.spoiled, all.total.held_share());
    let by_rank = |a: &&Accounts, b: &&Accounts| {
        rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let most = outcome.accounts.iter().max_by(by_rank).unwrap_or(&default);
    // The last answer of an open loop can come long before the end of its window.
    let seen = if most.total.length.is_zero() { outcome.duration } else { most.total.length };
    let is_short = outcome.duration.min(seen) < WINDOW_MIN;
    let is_pegged = !is_short && busiest.occupied_share() >= PEGGED_SHARE;
    let is_spoiled = !is_short && (most.total.is_spoiled() || most.spoiled > 0);
    let judged = match (most.total.is_spoiled(), most.spoiled > 0) {
        _ if is_pegged && !is_spoiled => &busiest,
        (false, true) => &most.worst,
        _ => &most.total,
    };
    let limited = is_pegged || is_spoiled;
    Verdict {
        limited,
        is_short,
        near: limited || !is_short && busiest.occupied_share() >= BUSY_SHARE,
        cause: limited.then(|| cause(judged, outcome.steal_share)),
        busy_share: busiest.worked_share(),
        starved_share: busiest.starved_share(),
        late_share: busiest.late_share(),
        // What is left of requests that did not end is the client's own lag alone.
        held_share: if outcome.begun() == 0 || outcome.ok + outcome.failed > 0 {
            most.total.held_share()
        } else {
            0.0
        },
        late_max: most.total.longest,
        spoiled: most.spoiled,
        seconds: most.slices,
        worst_at: (most.spoiled > 0).then_some(most.worst.start),
        ceiling_share: None,
        queued: None,
        evidence: String::new(),
    }
}

fn cause(account: &Account, steal_share: Option<f64>) -> Cause {
    let late_alone = account.late_share() - account.starved_share();
    if account.worked_share() >= WORK_SHARE {
        Cause::Work
    } else if steal_share.is_some_and(|share| share >= STOLEN_SHARE) {
        Cause::Stolen
    } else if late_alone > account.starved_share() {
        Cause::Stopped
    } else if account.occupied_share() - account.worked_share() >= 1.0 - PEGGED_SHARE {
        Cause::Starved
    } else {
        Cause::Work
    }
}

/// Most requests waited for a place, and as long as for the server.
fn queued(outcome: &Outcome, open: &OpenTally) -> Option<Queued> {
    let planned = outcome.begun() + open.unsent;
    let share = (open.waited_for_place() + open.unsent) as f64 / planned.max(1) as f64;
    let service_ns = open.service.mean_ns();
    let is_thinking = is_mostly_thinking(outcome, open);
    let waits_long = outcome.latency.quantile_ns(0.5) >= 2 * open.service.quantile_ns(0.5);
    if outcome.answers() == 0 {
        // Nobody knows how long one takes.
        return None;
    }
    let by = match whose_queue(open) {
        _ if is_thinking => Queue::Unknown,
        // Of users who think now and then fewer requests are under way than places are in use.
        Queue::Client if outcome.scene.is_some() => Queue::Unknown,
        by => by,
    };
    let seen = open.sparse_throughout;
    let sparse = if seen.answers > 0 { seen } else { open.sparse };
    let queued = Queued { share, service_ns, sparse, by };
    (share >= QUEUED_SHARE && (is_thinking || waits_long)).then_some(queued)
}

/// By the mean: of a server with N workers that is given C requests at once, whatever its service
/// times, that is C / N times as long (Little's law). Half of the places is the most that `sparse`
/// begins with, so that it is twice as long at least where those were too many, too. A server that
/// shares itself among all that is under way is as slow to those that were few only at their
/// beginning: that it has no queue is known by those that were few throughout.
fn whose_queue(open: &OpenTally) -> Queue {
    let has_queue = of_sparse(open, open.sparse)
        .is_some_and(|(ns, scatter_ns)| slower(open, ns + 2.0 * scatter_ns) >= SERVER_QUEUE_RATIO);
    let has_none = of_sparse(open, open.sparse_throughout).is_some_and(|(ns, scatter_ns)| {
        NO_QUEUE_RATIO.contains(&slower(open, ns))
            && slower(open, ns - scatter_ns) < SERVER_QUEUE_RATIO
    });
    match (has_queue, has_none) {
        (true, _) => Queue::Server,
        (false, true) => Queue::Client,
        (false, false) => Queue::Unknown,
    }
}

/// Their mean, and its error if they scatter like all of them.
fn of_sparse(open: &OpenTally, sparse: Sparse) -> Option<(f64, f64)> {
    let error_ns = open.service.histogram().stdev() / (sparse.answers as f64).sqrt();
    Some((sparse.mean_ns()?, error_ns))
}

fn slower(open: &OpenTally, than_ns: f64) -> f64 {
    open.service.mean_ns() / than_ns.max(1.0)
}

/// Of what a round takes from its user the server's part is the smaller one.
fn is_mostly_thinking(outcome: &Outcome, open: &OpenTally) -> bool {
    let served_s = open.service.mean_ns() / 1e9 * outcome.requests_a_round();
    outcome.scene.is_some() && served_s < outcome.place_s_a_round() / 2.0
}

fn evidence(verdict: &Verdict) -> String {
    if verdict.is_short && verdict.cause.is_none() {
        return "too short a window to tell (100 ms)".to_owned();
    }
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut words = format!("busiest thread {} at work", percent(verdict.busy_share));
    if verdict.starved_share >= 0.005 {
        words += &format!(", {} waiting for a CPU", percent(verdict.starved_share));
    }
    if verdict.late_share - verdict.starved_share >= 0.05 {
        let longest_ms = verdict.late_max.as_secs_f64() * 1e3;
        words += &format!(", {} late ({longest_ms:.0} ms at once)", percent(verdict.late_share));
    }
    if verdict.held_share >= 0.005 {
        words += &format!("; {} of its requests' time was its own", percent(verdict.held_share));
    }
    if let Some(share) = verdict.ceiling_share {
        words += &format!(", rate {} of the client's ceiling", percent(share));
    }
    if let Some(at) = verdict.worst_at.filter(|_| verdict.spoiled < verdict.seconds) {
        let (spoiled, seconds) = (verdict.spoiled, verdict.seconds);
        let at = at.as_secs_f64();
        words += &format!(
            "; the limit in {spoiled} of {seconds} seconds, most of all from {at:.0} s on"
        );
    }
    if let Some(queued) = verdict.queued.filter(|_| verdict.cause == Some(Cause::Connections)) {
        words += &format!("; {}", queued.words());
    }
    match verdict.cause {
        Some(_) if verdict.limited => words + "; rate is a lower bound",
        Some(_) => words + "; rate may be a lower bound",
        None if verdict.near => words + "; near its limit",
        None => words,
    }
}

impl Queued {
    fn words(&self) -> String {
        let time = |ns: f64| match ns / 1e6 {
            ms if ms < 1.0 => format!("{:.0} us", ms * 1e3),
            ms if ms < 100.0 => format!("{ms:.1} ms"),
            ms => format!("{ms:.0} ms"),
        };
        let few = match (self.sparse.mean_ns(), self.sparse.answers) {
            (None, _) => "none came while few were under way".to_owned(),
            (Some(ns), 1) => format!("{} while few were under way (one answer)", time(ns)),
            (Some(ns), of) => format!("{} while few were under way ({of} answers)", time(ns)),
        };
        let (percent, service) = (self.share * 100.0, time(self.service_ns));
        format!("{percent:.0} % waited for a connection; an answer takes {service}, {few}")
    }
}

/// Of the thread that was least free, by the whole window.
fn busiest(outcome: &Outcome) -> Account {
    let threads = outcome.thread_cpu.iter().enumerate().map(|(at, cpu)| {
        let of = |times: &[Duration]| times.get(at).copied();
        let looked = of(&outcome.thread_idle_spin).unwrap_or_default();
        Account {
            length: outcome.duration,
            worked: cpu.saturating_sub(looked),
            starved: of(&outcome.thread_run_delay),
            late: outcome.accounts.get(at).map_or(Duration::ZERO, |own| own.total.late),
            ..Account::default()
        }
    });
    threads.max_by(|a, b| a.occupied_share().total_cmp(&b.occupied_share())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(cpu_ms: &[u64], delay_ms: &[u64]) -> Outcome {
        let ms = |values: &[u64]| values.iter().copied().map(Duration::from_millis).collect();
        Outcome {
            duration: Duration::from_secs(1),
            thread_cpu: ms(cpu_ms),
            thread_run_delay: ms(delay_ms),
            status: [(200, 1000)].into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_pegged_or_starved_thread_is_the_limit() {
        assert!(client_limited(&outcome(&[980], &[0]), None).limited);
        assert!(client_limited(&outcome(&[500], &[450]), None).limited);
        assert!(client_limited(&outcome(&[100, 980], &[]), None).limited);
        assert!(!client_limited(&outcome(&[600], &[100]), None).limited);
        assert!(!client_limited(&outcome(&[], &[]), None).limited);
    }

    #[test]
    fn looking_for_answers_is_waiting_not_work() {
        let looking = |ms| Outcome {
            thread_idle_spin: vec![Duration::from_millis(ms)],
            ..outcome(&[980], &[])
        };
        assert!(!client_limited(&looking(300), None).limited);
        assert!(client_limited(&looking(30), None).limited);
    }

    /// One thread, ten seconds; in the worst of them it held so much and was late for so long.
    fn accounted(total_ms: [u64; 3], worst_ms: [u64; 3]) -> Outcome {
        let account = |seconds: u64, [worked, held, late]: [u64; 3]| Account {
            start: Duration::from_secs(4),
            length: Duration::from_secs(seconds),
            asked: Duration::from_secs(seconds),
            worked: Duration::from_millis(worked),
            held: Duration::from_millis(held),
            late: Duration::from_millis(late),
            longest: Duration::from_millis(late),
            starved: Some(Duration::ZERO),
            ..Account::default()
        };
        let (total, worst) = (account(10, total_ms), account(1, worst_ms));
        let spoiled = u32::from(worst.is_spoiled());
        Outcome {
            duration: Duration::from_secs(10),
            thread_cpu: vec![total.worked],
            accounts: vec![Accounts { total, worst, slices: 10, spoiled }],
            ..outcome(&[], &[])
        }
    }

    #[test]
    fn of_a_moment_nothing_is_said() {
        let moment = Duration::from_millis(9);
        let short = Outcome { duration: moment, thread_cpu: vec![moment], ..Outcome::default() };
        let verdict = client_limited(&short, None);
        assert!(verdict.is_short && !verdict.limited && !verdict.near, "{verdict:?}");
        assert!(verdict.evidence.contains("too short"), "{}", verdict.evidence);
        // One request of an open loop whose window goes on without it.
        let mut early = accounted([5, 5, 0], [5, 5, 0]);
        early.accounts[0].total.length = moment;
        assert!(client_limited(&early, None).is_short);
    }

    #[test]
    fn half_a_second_of_ten_is_named_with_its_time_and_what_to_do() {
        let verdict = client_limited(&accounted([1_000, 600, 500], [50, 520, 500]), None);
        assert_eq!((verdict.limited, verdict.cause), (true, Some(Cause::Stopped)));
        assert!(verdict.evidence.contains("in 1 of 10 seconds"), "{}", verdict.evidence);
        assert!(verdict.evidence.contains("500 ms at once"), "{}", verdict.evidence);
        assert!(Cause::Stopped.advice().contains("quota"));
        let verdict = client_limited(&accounted([1_000, 600, 100], [50, 120, 100]), None);
        assert!(!verdict.limited, "{}", verdict.evidence);
    }

    #[test]
    fn what_took_the_cpu_is_told_apart() {
        let cause = |outcome: &Outcome| client_limited(outcome, None).cause;
        assert_eq!(cause(&outcome(&[980], &[0])), Some(Cause::Work));
        assert_eq!(cause(&outcome(&[500], &[450])), Some(Cause::Starved));
        let stolen = Outcome { steal_share: Some(0.3), ..outcome(&[500], &[450]) };
        assert_eq!(cause(&stolen), Some(Cause::Stolen));
        assert_eq!(cause(&outcome(&[300], &[0])), None);
    }

    #[test]
    fn an_open_loop_without_enough_connections_says_so() {
        let limited = |outcome: &Outcome| client_limited(outcome, None).limited;
        assert!(limited(&queueing(&[1_000], 2, 1_000, 90)));
        assert!(!limited(&queueing(&[1_000], 2, 1_000, 40)), "few waited");
        assert!(!limited(&queueing(&[9_000], 2, 1_000, 90)), "the server has a queue");
        // Users who think for most of their rounds of 100 ms, however their answers differ.
        let rounds = crate::scene::Rounds { begun: 100, ..Default::default() };
        let scene = Some(crate::SceneTally { rounds, ..Default::default() });
        let of_users = |accounted_s| Outcome {
            scene: scene.clone(),
            accounted_time: Duration::from_secs(accounted_s),
            ..queueing(&[9_000], 2, 1_000, 90)
        };
        let near = |outcome: &Outcome| client_limited(outcome, None).near;
        assert!(!limited(&of_users(10)) && near(&of_users(10)), "it may be full besides");
        assert!(!near(&of_users(1)), "the server has the most of them");
    }

    /// A hundred answers of an open loop which take so long in turn, each a tenth of its latency;
    /// few others were under way beside so many, throughout, which took so long.
    fn queueing(service_us: &[u64], sparse: u64, sparse_us: u64, queued: u64) -> Outcome {
        let sparse = Sparse { answers: sparse, service_ns: sparse * sparse_us * 1_000 };
        let empty = OpenTally::default();
        let mut open = OpenTally { queued, sparse, sparse_throughout: sparse, ..empty };
        let mut latency = crate::outcome::Latency::default();
        for us in service_us.iter().cycle().take(100) {
            open.service.record_ns(us * 1_000);
            latency.record_ns(us * 1_000 * 10);
        }
        Outcome { sent: 100, open: Some(open), latency, ..outcome(&[100], &[]) }
    }

    #[test]
    fn whose_queue_it_is_is_said_only_where_it_was_seen() {
        let seen = |service_us: &[u64], sparse, sparse_us| {
            let verdict = client_limited(&queueing(service_us, sparse, sparse_us, 90), None);
            (verdict.near, verdict.queued.map(|queued| queued.by), verdict.evidence)
        };
        let by = |service_us: &[u64], sparse, sparse_us| seen(service_us, sparse, sparse_us).1;
        assert_eq!(by(&[20_000], 4, 20_000), Some(Queue::Client));
        assert_eq!(by(&[40_000], 4, 20_000), Some(Queue::Server));
        assert_eq!(by(&[25_000], 4, 20_000), Some(Queue::Unknown), "ten on eight workers");
        assert_eq!(by(&[20_000], 4, 90_000), Some(Queue::Unknown), "a cold start");
        assert_eq!(by(&[20_000], 0, 0), Some(Queue::Unknown));
        // Of answers that scatter as much as these three tell nothing, a hundred do.
        let scattering = [2_000, 5_000, 20_000, 60_000, 150_000];
        assert_eq!(by(&scattering, 3, 47_000), Some(Queue::Unknown));
        assert_eq!(by(&scattering, 100, 47_000), Some(Queue::Client));
        assert_eq!(by(&scattering, 3, 15_000), Some(Queue::Unknown));
        assert_eq!(by(&scattering, 100, 15_000), Some(Queue::Server));
        let (near, _, evidence) = seen(&[25_000], 4, 20_000);
        assert!(near && evidence.contains("takes 25.0 ms, 20.0 ms while"), "{evidence}");
        assert!(evidence.ends_with("may be a lower bound"), "{evidence}");
        assert!(!seen(&[40_000], 4, 20_000).0, "nothing is said against the client");
        let mut shared = queueing(&[20_000], 4, 20_000, 90);
        shared.open.iter_mut().for_each(|open| open.sparse_throughout = Sparse::default());
        let queued = client_limited(&shared, None).queued.expect("queued");
        assert_eq!((queued.by, queued.sparse.answers), (Queue::Unknown, 4), "few at first only");
    }

    #[test]
    fn near_the_limit_begins_before_it() {
        let near = |cpu_ms, ceiling| client_limited(&outcome(&[cpu_ms], &[]), ceiling).near;
        assert!(!near(690, None) && near(700, None) && near(980, None));
        assert!(!near(300, Some(2_100.0)) && near(300, Some(1_900.0)));
    }

    #[test]
    fn the_ceiling_is_a_limit() {
        let idle = outcome(&[300], &[]);
        assert!(client_limited(&idle, Some(1_050.0)).limited);
        assert!(!client_limited(&idle, Some(3_000.0)).limited);
        assert!(!client_limited(&idle, Some(0.0)).limited);
        let mismeasured = client_limited(&idle, Some(500.0));
        assert!(!mismeasured.limited && !mismeasured.near, "{}", mismeasured.evidence);
        assert!(client_limited(&idle, Some(3_000.0)).evidence.contains("33 %"));
    }
}
