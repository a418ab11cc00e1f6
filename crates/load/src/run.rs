//! The only door of the engine: spawns the threads of a plan, tells how they come on, adds them up.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{Builder, ScopedJoinHandle, scope},
    time::Duration,
};

use drom_observe::clock::{monotonic_ns, wall_at};

use crate::{
    connection::to_ns,
    error::Error,
    lane::{self, Signs},
    limits::{Limits, check_ports, check_sources, descriptors},
    outcome::{ErrorKind, Latency, Outcome},
    pace::{self, Mark},
    plan::{Engine, Plan, Stop, Version, share},
    request,
    rings::Rings,
    scene::SceneTally,
    schedule::{Part, Schedule, Stage},
    socket::{check_descriptors, ensure_descriptors},
    stamp,
    tally::Tally,
    timeline::{Interval, Slice, Timeline},
    worker::{Live, Orders, Report, work},
};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);
const HAND_IN: Duration = Duration::from_millis(50);

/// How a run comes on.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Requests that have ended so far.
    pub requests: u64,
    pub failed: u64,
    /// Over the last second.
    pub rate_rps: f64,
    pub warming_up: bool,
    /// The last whole second of the window.
    pub last: Option<&'a Interval>,
    pub so_far: SoFar<'a>,
}

/// The sum of the window's seconds that are over.
#[derive(Clone, Debug, Default)]
pub struct SoFar<'a> {
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub errors: Vec<(ErrorKind, u64)>,
    pub latency: Option<&'a Latency>,
}

/// Runs `plan` until it ends or `stop` is set; `progress` is called about once a second.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome, Error> {
    plan.check()?;
    let request = request::bytes(plan)?;
    let routes = lane::routes(plan, &request)?;
    let connections = plan.connections_used();
    let places = sockets(plan, routes.len());
    let enough = ensure_descriptors(descriptors(places));
    if !plan.counts_refusals {
        enough?;
    }
    check_sources(plan)?;
    check_ports(plan)?;
    let limits = Limits::before(plan, places);
    let threads = plan.threads.min(connections);
    let fallback = fallback(plan);
    let uses_rings = plan.engine == Engine::IoUring && fallback.is_none();
    let _stamps = stamp::keep_on();
    let (abort, start_ns) = (AtomicBool::new(false), monotonic_ns());
    let signs = Signs::default();
    let lives: Vec<Live> = (0..threads).map(|_| Live::default()).collect();
    let start_ns = start_ns + lead_ns(plan);
    let open_ns = start_ns + to_ns(plan.warmup);
    let (slices, handed_in) = channel();
    let (spares, spare): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let orders: Vec<Orders<'_>> = (0..threads)
        .zip(spare)
        .map(|(at, spare)| Orders {
            plan,
            request: &request,
            routes: &routes,
            connections: share(u64::from(connections), threads, at) as u32,
            quota: quota(plan, threads, at),
            schedule: schedule(plan, threads, at),
            start_ns,
            open_ns,
            stop,
            abort: &abort,
            signs: &signs,
            live: &lives[at as usize],
            uses_rings,
            thread: at as usize,
            threads,
            slices: slices.clone(),
            spare,
        })
        .collect();
    drop(slices);
    let watch = Watch { lives: &lives, start_ns, open_ns, spares };
    let (mut reports, timeline) = scope(|scope| {
        let spawned = orders.into_iter().map(|orders| {
            let thread = Builder::new().name("drom-load".to_owned());
            join_later(thread.spawn_scoped(scope, move || work_and_tell(orders)), &abort)
        });
        let spawned: Vec<_> = spawned.collect();
        let timeline = watch.until_all_end(&handed_in, progress);
        let reports = spawned.into_iter().map(join).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>((reports, timeline))
    })?;
    let doubt = reports.iter_mut().find_map(|report| report.doubt.take());
    let outcome = add_up(plan, uses_rings, reports, timeline);
    if let Some(why) = doubt.and_then(|doubt| doubt.judged(&signs, &outcome)) {
        return Err(why);
    }
    let (opened, limits) = (Some(wall_at(open_ns)), Some(limits.after()));
    Ok(Outcome { opened, limits, fallback, ..outcome })
}

type Handle<'scope> = ScopedJoinHandle<'scope, Result<Report, Error>>;

/// The most that are open at once: a user keeps one to every server, or has one for each request.
fn sockets(plan: &Plan, routes: usize) -> u64 {
    let each = match (plan.keepalive, plan.engine) {
        (true, _) => routes as u64,
        // A ring lets a socket go when it is told that nothing is done for it any more.
        (false, Engine::IoUring) => 2,
        (false, Engine::Epoll) => 1,
    };
    u64::from(plan.connections_used()) * each
}

/// Whether the system allows so many connections at once; nothing is opened for it.
pub fn check_connections(connections: u32) -> Result<(), Error> {
    check_descriptors(descriptors(u64::from(connections))).map(drop)
}

/// The sender of slices goes away with the thread, however that ends: the coordinator needs no
/// other sign.
fn work_and_tell(orders: Orders<'_>) -> Result<Report, Error> {
    let report = work(&orders);
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

/// An open loop begins when its threads are there and its connections made: each takes some 30 us.
fn lead_ns(plan: &Plan) -> u64 {
    match plan.pace {
        Some(_) if plan.keepalive => 10_000_000 + 50_000 * u64::from(plan.connections),
        Some(_) => 10_000_000,
        None => 0,
    }
}

/// The warm-up has the rate that the window begins with.
pub(crate) fn schedule(plan: &Plan, threads: u32, at: u32) -> Option<Schedule> {
    let pace = plan.pace.as_ref()?;
    let warmup = pace.stages.first().map(|first| Stage::steady(plan.warmup, first.from_rps));
    let warmup = warmup.filter(|stage| !stage.duration.is_zero());
    let stages: Vec<Stage> = warmup.into_iter().chain(pace.stages.iter().copied()).collect();
    Some(Schedule::new(&pace.arrivals, &stages, part(plan, threads, at)))
}

fn part(plan: &Plan, threads: u32, thread: u32) -> Part {
    Part { thread, threads, connections: plan.connections_used() }
}

fn quota(plan: &Plan, threads: u32, at: u32) -> Option<u64> {
    match plan.stop {
        Stop::Requests(requests) => Some(part(plan, threads, at).of(requests)),
        Stop::After(_) => None,
    }
}

/// What the coordinator does while the threads work.
struct Watch<'a> {
    lives: &'a [Live],
    start_ns: u64,
    open_ns: u64,
    /// Where the empty tallies of each thread go.
    spares: Vec<Sender<Tally>>,
}

impl Watch<'_> {
    /// Puts slices together and tells how the run comes on, until the last thread has ended.
    fn until_all_end(
        self,
        handed_in: &Receiver<Slice>,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Timeline {
        let mut timeline = Timeline::new(self.lives.len());
        let (mut last_ns, mut last_ended) = (self.start_ns, 0);
        let every_ns = to_ns(PROGRESS_EVERY);
        // A moment after each second of the window, when the threads have handed it in.
        let since_ns = (self.open_ns + to_ns(HAND_IN)).saturating_sub(self.start_ns);
        let mut next_ns = self.start_ns + since_ns % every_ns;
        if next_ns < self.start_ns + every_ns / 2 {
            next_ns += every_ns;
        }
        loop {
            let left_ns = next_ns.saturating_sub(monotonic_ns());
            match handed_in.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(slice) => {
                    let thread = slice.thread;
                    // A thread that has ended wants none back.
                    let _ = self.spares[thread].send(timeline.take(slice));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let ended = self.sum(|live| &live.ended);
                    progress(&self.progress(ended, (last_ns, last_ended), &timeline));
                    (last_ns, last_ended) = (monotonic_ns(), ended);
                    next_ns += every_ns * (1 + last_ns.saturating_sub(next_ns) / every_ns);
                }
                Err(RecvTimeoutError::Disconnected) => return timeline,
            }
        }
    }

    fn sum(&self, of: impl Fn(&Live) -> &AtomicU64) -> u64 {
        self.lives.iter().map(|live| of(live).load(Relaxed)).sum()
    }

    /// Of the window, once it is open.
    fn progress<'t>(
        &self,
        ended: u64,
        (last_ns, last_ended): (u64, u64),
        timeline: &'t Timeline,
    ) -> Progress<'t> {
        let now_ns = monotonic_ns();
        let warming_up = now_ns < self.open_ns;
        let began_ns = if warming_up { self.start_ns } else { self.open_ns };
        let passed_s = now_ns.saturating_sub(last_ns) as f64 / 1e9;
        Progress {
            elapsed: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
            requests: ended.saturating_sub(self.sum(|live| &live.warmup)),
            failed: self.sum(|live| &live.failed),
            rate_rps: ended.saturating_sub(last_ended) as f64 / passed_s,
            warming_up,
            last: timeline.last(),
            so_far: timeline.so_far(),
        }
    }
}

/// Whether this machine lets a thread have rings.
pub fn check_rings() -> std::io::Result<()> {
    Rings::new(1).map(drop)
}

/// Why threads have no rings that were asked for. Nobody has them unasked: a read without a stamp
/// of the kernel's costs more than they save (docs/decisions/006-io-uring.md).
fn fallback(plan: &Plan) -> Option<String> {
    let refused = (plan.engine == Engine::IoUring).then(check_rings)?.err()?;
    Some(format!(
        "io_uring is not allowed here: {refused} (sysctl kernel.io_uring_disabled, the container's \
         seccomp profile)"
    ))
}

/// The engine's name in results.
fn engine(plan: &Plan, uses_rings: bool) -> &'static str {
    let names = match (plan.pace.is_some(), plan.version) {
        (false, Version::Http10) => ["closed-loop http/1.0 epoll", "closed-loop http/1.0 io_uring"],
        (false, Version::Http11) => ["closed-loop http/1.1 epoll", "closed-loop http/1.1 io_uring"],
        (false, Version::Http2) => ["closed-loop http/2 epoll", "closed-loop http/2 io_uring"],
        (true, Version::Http10) => ["open-loop http/1.0 epoll", "open-loop http/1.0 io_uring"],
        (true, Version::Http11) => ["open-loop http/1.1 epoll", "open-loop http/1.1 io_uring"],
        (true, Version::Http2) => ["open-loop http/2 epoll", "open-loop http/2 io_uring"],
    };
    names[usize::from(uses_rings)]
}

fn add_up(plan: &Plan, uses_rings: bool, mut reports: Vec<Report>, timeline: Timeline) -> Outcome {
    let mut outcome = Outcome { engine: engine(plan, uses_rings), ..Outcome::default() };
    let (sum, intervals) = timeline.finish();
    outcome.timeline = intervals;
    let mut span = Duration::ZERO;
    let in_flight = reports.iter().map(|report| report.in_flight).sum();
    sum.settle(in_flight, &mut outcome, plan.pace.is_some());
    for report in &reports {
        outcome.connected += report.connected;
        let fewer = [outcome.streams_max, report.streams_max].into_iter().flatten();
        outcome.streams_max = fewer.min();
        outcome.answers_per_connection.extend(&report.answers_per_connection);
        outcome.warmup_requests += report.warmup_requests;
        outcome.thread_cpu.push(report.cpu.cpu);
        outcome.thread_idle_spin.push(Duration::from_nanos(report.looked_ns));
        outcome.thread_run_delay.extend(report.cpu.run_delay);
        outcome.accounts.push(report.accounts);
        outcome.duration = outcome.duration.max(Duration::from_nanos(report.window_ns));
        span = span.max(Duration::from_nanos(report.span_ns));
        let places = report.answers_per_connection.len() as u64 * u64::from(plan.depth);
        outcome.connection_time += Duration::from_nanos(report.span_ns * places);
        outcome.accounted_time += Duration::from_secs_f64(report.accounted_ns.max(0.0) / 1e9);
        outcome.interrupted |= report.stopped;
    }
    outcome.drain = span.saturating_sub(outcome.duration);
    if matches!(plan.stop, Stop::After(_)) && !outcome.interrupted {
        let marks: Vec<&[Mark]> = reports.iter().map(|report| &report.marks[..]).collect();
        outcome.pace = pace::rates(&marks, outcome.duration);
    }
    outcome.steal_share = reports.first().and_then(|report| report.steal_share);
    outcome.first_head = reports
        .iter_mut()
        .map(|r| std::mem::take(&mut r.first_head))
        .find(|h| !h.is_empty())
        .unwrap_or_default();
    outcome.scene =
        reports.iter_mut().filter_map(|report| report.scene.take()).reduce(SceneTally::merged);
    outcome.secured = reports.iter_mut().find_map(|report| report.tls.take());
    outcome.records = reports.into_iter().flat_map(|report| report.records).collect();
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

    /// A thread with one connection of three that had half of the requests would end last, alone.
    #[test]
    fn threads_have_their_connections_part_of_counted_requests() {
        let target = crate::Target::at("127.0.0.1:80".parse().expect("an address"), "/");
        for (requests, connections, threads) in [(1_000, 3, 2), (7, 5, 3), (5, 5, 3), (2, 9, 2)] {
            let stop = Stop::Requests(requests);
            let plan = Plan { connections, stop, ..Plan::get(target.clone()) };
            let used = plan.connections_used();
            let each: Vec<(u64, u64)> = (0..threads.min(used))
                .map(|at| {
                    let quota = quota(&plan, threads.min(used), at).expect("it is counted");
                    (quota, share(u64::from(used), threads.min(used), at))
                })
                .collect();
            assert_eq!(each.iter().map(|(quota, _)| quota).sum::<u64>(), requests);
            let fits = |(quota, own): &(u64, u64)| {
                quota >= own
                    && (quota * u64::from(used)).abs_diff(requests * own) <= u64::from(used) * own
            };
            assert!(each.iter().all(fits), "{each:?}");
        }
    }
}
