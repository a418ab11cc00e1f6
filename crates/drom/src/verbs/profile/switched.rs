//! `drom profile --exact` of a server that runs: its workers count for a while, and are again as
//! they were.

use std::{
    collections::BTreeSet,
    io,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_load::Target;
use drom_observe::{clock, lives};
use drom_profile::{Profile, read};
use drom_report::format::number_of;
use drom_serve::{
    inspection::{
        Wish,
        ask::{ask, counts},
    },
    scoreboard::view::Window,
};

use super::{Args, Failure, served, tell, watch_interrupts};
use crate::{exit::Exit, say};

/// Often enough for the lease of who counts, and for workers that are new.
const STEP: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);
/// Who waits does nothing until then.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who counts: all workers of a server, or one process.
enum Counters {
    Pool { master: i32, window: Window },
    One(i32),
}

/// What came of those who were asked.
#[derive(Default)]
struct Taken {
    profile: Profile,
    processes: usize,
    /// Ended, with what they had counted.
    ended: usize,
    /// In the middle of something that does not end.
    silent: usize,
}

pub fn of_process(args: &Args, pid: i32) -> Result<ExitCode, Failure> {
    let stop = watch_interrupts();
    let counters = match Window::open(pid).map_err(Failure::of)? {
        Some(window) => Counters::Pool { master: pid, window },
        None => Counters::One(pid),
    };
    let asked = counters.count(args.duration, stop)?;
    told(args, asked, stop)
}

pub fn of_page(args: &Args, url: &str) -> Result<ExitCode, Failure> {
    let target = Target::resolve(url).map_err(Failure::of)?;
    let (master, window) = served::server(&target).map_err(Failure::of)?;
    let counters = Counters::Pool { master, window };
    let stop = watch_interrupts();
    let length = args.duration.unwrap_or(served::DURATION);
    // Who is idle counts at once.
    counters.ask(&mut BTreeSet::new())?;
    clock::sleep(LOOK * 10);
    let (asked, answered) = served::while_asked(target, args.connections, length, || {
        counters.count(Some(length), stop)
    });
    let asked = asked?;
    say::line(format!("drom profile: {}", served::told(answered?)));
    told(args, asked, stop)
}

impl Counters {
    /// Until the time is over, nobody is left, or it is stopped. Who was asked.
    fn count(&self, length: Option<Duration>, stop: &AtomicBool) -> Result<BTreeSet<i32>, Failure> {
        let end_ns = length.map(|length| clock::monotonic_ns() + length.as_nanos() as u64);
        let mut asked = BTreeSet::new();
        loop {
            let is_anybody = self.ask(&mut asked)?;
            let left_ns = end_ns.map(|end_ns| end_ns.saturating_sub(clock::monotonic_ns()));
            if !is_anybody || left_ns == Some(0) || stop.load(Relaxed) {
                return Ok(asked);
            }
            let step = left_ns.map_or(STEP, |left_ns| STEP.min(Duration::from_nanos(left_ns)));
            clock::sleep(step);
        }
    }

    /// All that are there, also those that are new. Whether there is anybody.
    fn ask(&self, asked: &mut BTreeSet<i32>) -> Result<bool, Failure> {
        let mut is_anybody = false;
        for pid in self.processes() {
            match ask(pid, Wish::CountOn) {
                Ok(()) => {
                    is_anybody = true;
                    asked.insert(pid);
                }
                Err(error) if is_gone(&error) && !asked.is_empty() => {}
                // One that is about to be ready hears later.
                Err(error)
                    if error.kind() == io::ErrorKind::Unsupported
                        && matches!(self, Self::Pool { .. }) =>
                {
                    is_anybody = true;
                }
                Err(error) => return Err(Failure::of(words(pid, &error))),
            }
        }
        Ok(is_anybody)
    }

    fn processes(&self) -> Vec<i32> {
        match self {
            Self::One(pid) => vec![*pid],
            Self::Pool { master, window } => {
                let view = window.look(*master).ok().filter(|_| lives(*master));
                let workers = view.into_iter().flat_map(|view| view.workers);
                workers.map(|worker| worker.pid).filter(|pid| *pid > 0).collect()
            }
        }
    }
}

/// Turns all off first, so that none counts while another one is waited for.
fn take(asked: &BTreeSet<i32>, stop: &AtomicBool) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    stop.store(false, Relaxed);
    let deadline_ns = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
    let live: Vec<i32> =
        asked.iter().copied().filter(|pid| ask(*pid, Wish::CountOff).is_ok()).collect();
    taken.ended = asked.len() - live.len();
    for pid in live {
        match wait_for_counts(pid, deadline_ns, stop) {
            Ok(Some(bytes)) => {
                let (profile, _) = read(&bytes)
                    .map_err(|error| Failure::of(format!("the counts are wrong: {error}")))?;
                taken.profile.merge(&profile);
                taken.processes += 1;
            }
            Ok(None) => taken.silent += 1,
            Err(error) if is_gone(&error) => taken.ended += 1,
            Err(error) => return Err(Failure::of(words(pid, &error))),
        }
        // Its lease would tell it so later.
        let _ = ask(pid, Wish::CountOver);
    }
    Ok(taken)
}

fn wait_for_counts(pid: i32, until_ns: u64, stop: &AtomicBool) -> io::Result<Option<Vec<u8>>> {
    loop {
        let found = counts(pid)?;
        if found.is_some() || clock::monotonic_ns() > until_ns || stop.load(Relaxed) {
            return Ok(found);
        }
        clock::sleep(LOOK);
    }
}

fn told(args: &Args, asked: BTreeSet<i32>, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    let was_stopped = stop.load(Relaxed);
    let taken = take(&asked, stop)?;
    let mut notes = Vec::new();
    if taken.ended > 0 {
        let who = number_of(taken.ended, "worker");
        notes.push(format!("{who} ended meanwhile, and what was counted there is lost"));
    }
    if taken.silent > 0 {
        let who = number_of(taken.silent, "worker");
        notes.push(format!(
            "{who} had nothing to tell within {} s: in a call that does not end, or without memory",
            PATIENCE.as_secs()
        ));
    }
    notes.iter().for_each(|note| say::line(format!("drom profile: {note}")));
    if taken.processes == 0 {
        return Err(Failure::of("nothing was counted"));
    }
    tell(args, &taken.profile, "/".as_ref())?;
    Ok(if was_stopped { Exit::Interrupted } else { Exit::Done }.into())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn words(pid: i32, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Unsupported => format!(
            "process {pid} is no worker of a Drom server that runs Perl: --exact counts those, or \
             a script from its beginning; without --exact any perl can be looked at"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("process {pid} belongs to another user: be that user, or root")
        }
        _ if is_gone(error) => format!("there is no process {pid}"),
        _ => format!("process {pid} cannot be asked to count: {error}"),
    }
}
