//! The only door of the engine: spawns the threads of a plan, tells how they come on, adds them up.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{Builder, ScopedJoinHandle, scope},
    time::Duration,
};

use drom_observe::clock::monotonic_ns;

use crate::{
    connection::{check_descriptors, ensure_descriptors, to_ns},
    error::Error,
    outcome::Outcome,
    pace::{self, Mark},
    plan::{Plan, Stop},
    request,
    schedule::{Schedule, Stage},
    worker::{Live, Orders, Report, work},
};

/// The engine's names in results.
const CLOSED: &str = "closed-loop http/1.1 epoll";
const OPEN: &str = "open-loop http/1.1 epoll";
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Descriptors beside the connections: standard streams, epoll, files of the caller.
const DESCRIPTORS_BESIDE: u64 = 64;

/// How a run comes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Requests that have ended so far.
    pub requests: u64,
    pub failed: u64,
    /// Over the last second.
    pub rate_rps: f64,
    pub warming_up: bool,
}

/// Runs `plan` until it ends or `stop` is set; `progress` is called about once a second.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    plan.check()?;
    let request = request::build(plan)?;
    let connections = plan.connections_used();
    ensure_descriptors(descriptors(connections))?;
    let threads = plan.threads.min(connections);
    let (abort, start_ns) = (AtomicBool::new(false), monotonic_ns());
    let lives: Vec<Live> = (0..threads).map(|_| Live::default()).collect();
    let start_ns = start_ns + lead_ns(plan);
    let open_ns = start_ns + to_ns(plan.warmup);
    let orders: Vec<Orders<'_>> = (0..threads)
        .map(|at| Orders {
            plan,
            request: &request,
            connections: share(u64::from(connections), threads, at) as u32,
            quota: quota(plan, threads, at),
            schedule: schedule(plan, threads, at),
            start_ns,
            open_ns,
            stop,
            abort: &abort,
            live: &lives[at as usize],
        })
        .collect();
    let reports = scope(|scope| {
        let (done, all_done) = channel();
        let handles = orders.iter().map(|orders| {
            let done = done.clone();
            let thread = Builder::new().name("drom-load".to_owned());
            thread.spawn_scoped(scope, move || work_and_tell(orders, done))
        });
        let handles: Vec<_> = handles.collect();
        drop(done);
        let spawned = handles.into_iter().map(|handle| join_later(handle, &abort));
        let spawned: Vec<_> = spawned.collect();
        tell_progress(&all_done, &lives, (start_ns, open_ns), progress);
        spawned.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(add_up(plan, &reports))
}

type Handle<'scope> = ScopedJoinHandle<'scope, Result<Report, Error>>;

/// Whether the system allows so many connections at once; nothing is opened for it.
pub fn check_connections(connections: u32) -> Result<(), Error> {
    check_descriptors(descriptors(connections)).map(drop)
}

fn descriptors(connections: u32) -> u64 {
    u64::from(connections) + DESCRIPTORS_BESIDE
}

/// The sender goes away with the thread, however that ends: the coordinator needs no other sign.
fn work_and_tell(orders: &Orders<'_>, _done: Sender<()>) -> Result<Report, Error> {
    let report = work(orders);
    if report.is_err() {
        orders.abort.store(true, Relaxed);
    }
    report
}

fn join_later<'scope>(
    spawned: std::io::Result<Handle<'scope>>,
    abort: &AtomicBool,
) -> Result<Handle<'scope>, Error> {
    spawned.map_err(|source| {
        abort.store(true, Relaxed);
        Error::Thread { source }
    })
}

fn join(handle: Result<Handle<'_>, Error>) -> Result<Report, Error> {
    handle?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Part `at` of `whole` cut into `parts`; monotonic in `whole`, so that connections <= requests
/// holds in each part when it holds in all.
fn share(whole: u64, parts: u32, at: u32) -> u64 {
    whole / u64::from(parts) + u64::from(u64::from(at) < whole % u64::from(parts))
}

/// An open loop begins when its connections are made: each takes some 30 us.
fn lead_ns(plan: &Plan) -> u64 {
    let is_made_before = plan.pace.is_some() && plan.keepalive;
    if is_made_before { 5_000_000 + 50_000 * u64::from(plan.connections) } else { 0 }
}

/// The warm-up has the rate that the window begins with.
fn schedule(plan: &Plan, threads: u32, at: u32) -> Option<Schedule> {
    let pace = plan.pace.as_ref()?;
    let warmup = pace.stages.first().map(|first| Stage::steady(plan.warmup, first.from_rps));
    let warmup = warmup.filter(|stage| !stage.duration.is_zero());
    let stages: Vec<Stage> = warmup.into_iter().chain(pace.stages.iter().copied()).collect();
    Some(Schedule::new(pace.arrivals, &stages, at, threads))
}

fn quota(plan: &Plan, threads: u32, at: u32) -> Option<u64> {
    match plan.stop {
        Stop::Requests(requests) => Some(share(requests, threads, at)),
        Stop::After(_) => None,
    }
}

fn tell_progress(
    all_done: &Receiver<()>,
    lives: &[Live],
    (start_ns, open_ns): (u64, u64),
    progress: &mut dyn FnMut(&Progress),
) {
    let (mut last_ns, mut last_requests) = (start_ns, 0);
    while all_done.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
        let now_ns = monotonic_ns();
        let requests: u64 = lives.iter().map(|live| live.ended.load(Relaxed)).sum();
        let passed_s = now_ns.saturating_sub(last_ns) as f64 / 1e9;
        progress(&Progress {
            elapsed: Duration::from_nanos(now_ns.saturating_sub(start_ns)),
            requests,
            failed: lives.iter().map(|live| live.failed.load(Relaxed)).sum(),
            rate_rps: requests.saturating_sub(last_requests) as f64 / passed_s,
            warming_up: now_ns < open_ns,
        });
        (last_ns, last_requests) = (now_ns, requests);
    }
}

fn add_up(plan: &Plan, reports: &[Report]) -> Outcome {
    let engine = if plan.pace.is_some() { OPEN } else { CLOSED };
    let mut outcome = Outcome { engine, ..Outcome::default() };
    for report in reports {
        report.tally.settle(report.in_flight, &mut outcome);
        outcome.connected += report.connected;
        outcome.answers_per_connection.extend(&report.answers_per_connection);
        outcome.warmup_requests += report.warmup_requests;
        outcome.thread_cpu.push(report.cpu.cpu);
        outcome.thread_idle_spin.push(Duration::from_nanos(report.looked_ns));
        outcome.thread_run_delay.extend(report.cpu.run_delay);
        outcome.duration = outcome.duration.max(Duration::from_nanos(report.window_ns));
        let open = report.answers_per_connection.len() as u64;
        outcome.connection_time += Duration::from_nanos(report.span_ns * open);
        outcome.accounted_time += Duration::from_secs_f64(report.accounted_ns.max(0.0) / 1e9);
        outcome.interrupted |= report.stopped;
        if let Some(open) = &report.open {
            outcome.open.get_or_insert_default().merge(open);
        }
    }
    if matches!(plan.stop, Stop::After(_)) && !outcome.interrupted {
        let marks: Vec<&[Mark]> = reports.iter().map(|report| &report.marks[..]).collect();
        outcome.pace = pace::rates(&marks, outcome.duration);
    }
    outcome.steal_share = reports.first().and_then(|report| report.steal_share);
    assert_eq!(
        outcome.sent,
        outcome.ok + outcome.failed + outcome.in_flight,
        "the threads' counts do not add up"
    );
    debug_assert!(plan.connections_used() as usize == outcome.answers_per_connection.len());
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_keep_their_order() {
        for whole in 0..40 {
            for parts in 1..8 {
                let shares: Vec<u64> = (0..parts).map(|at| share(whole, parts, at)).collect();
                assert_eq!(shares.iter().sum::<u64>(), whole);
                for (at, one) in (0..parts).zip(shares) {
                    assert!(one <= share(whole + 1, parts, at));
                }
            }
        }
    }
}
