//! Compiled code of another process: which of its functions have the CPU. A [`Native`] has a clock
//! for each of its threads (`perf_event`, the kernel's), and counts where they were in a profile.
//!
//! The innermost function is right always. Callers are those that frame pointers lead to, and
//! optimised code keeps none: they are there only where they are asked for.

mod event;
mod places;
mod record;
mod symbols;
mod watched;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use drom_observe::{clock, family};

use crate::{
    profile::{Frame, Kind, Profile},
    watch::Ended,
};
use event::{Event, Setting, paranoid};
use places::{Files, Place};
use record::{Record, Sample, records};
use watched::{Unseen, Watched, threads};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    #[error("there is no process {pid}")]
    NoProcess { pid: i32 },
    #[error(
        "process {pid} may not be sampled: {source}; root may, or who has CAP_PERFMON, or its user \
         where /proc/sys/kernel/perf_event_paranoid is 2 or less{}",
        paranoid.map_or_else(String::new, |level| format!(" (it is {level})"))
    )]
    NotAllowed { pid: i32, paranoid: Option<i32>, source: io::Error },
    #[error("process {pid} cannot be sampled: perf_event_open: {source}")]
    Perf { pid: i32, source: io::Error },
}

/// What is sampled, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativePlan {
    pub pid: i32,
    /// All processes that descend from it, too.
    pub with_children: bool,
    pub with_callers: bool,
    /// Samples of each second of CPU time.
    pub rate_hz: f64,
}

pub struct Native {
    plan: NativePlan,
    setting: Setting,
    processes: BTreeMap<i32, Watched>,
    unseen: Unseen,
    files: Files,
    /// Of the kernel's addresses, numbers in the profile.
    kernel: HashMap<u64, [u32; 2]>,
    profile: Profile,
}

/// Rings are emptied so often, and threads looked for every so many times.
const NAP: Duration = Duration::from_millis(20);
const NAP_FAST: Duration = Duration::from_millis(5);
const FAST_NS: u64 = 400_000;
const NAPS: u32 = 5;
/// A little more often than was asked for, so that nothing that keeps time by a round number is
/// always or never met.
const OFF_STEP: f64 = 0.987;

impl Native {
    /// Its clocks run from now on.
    ///
    /// # Errors
    /// There is no such process, it may not be sampled, or the kernel cannot do so.
    pub fn attach(plan: NativePlan) -> Result<Self, NativeError> {
        let mut native = Self {
            plan,
            setting: setting(plan)?,
            processes: BTreeMap::new(),
            unseen: Unseen::default(),
            files: Files::default(),
            kernel: HashMap::new(),
            profile: Profile::default(),
        };
        native.find();
        Ok(native)
    }

    /// Counts until the end.
    pub fn run(&mut self, duration: Option<Duration>, stop: &AtomicBool) -> Ended {
        let began_ns = clock::monotonic_ns();
        let length_ns = duration.map_or(u64::MAX, |length| length.as_nanos() as u64);
        let end_ns = began_ns.saturating_add(length_ns);
        let nap = if self.setting.period_ns < FAST_NS { NAP_FAST } else { NAP };
        let mut naps = 0;
        let ended = loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(clock::monotonic_ns()));
            clock::sleep(left.min(nap));
            self.read();
            naps += 1;
            if naps % NAPS == 0 && !self.find() {
                break Ended::Gone;
            }
            if stop.load(Relaxed) {
                break Ended::Stopped;
            }
            if left.is_zero() {
                break Ended::Over;
            }
        };
        self.processes.values().for_each(|process| {
            *self.profile.taken.cpu.get_or_insert_default() += process.used();
        });
        let taken = &mut self.profile.taken;
        taken.wall += Duration::from_nanos(clock::monotonic_ns() - began_ns);
        if !self.setting.with_kernel {
            // The kernel's part is in none of the samples.
            let seen = self.setting.period_ns.saturating_mul(taken.samples);
            taken.cpu = Some(Duration::from_nanos(seen));
        }
        ended
    }

    /// What is to be known of the samples besides.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let no_kernel = "what the kernel does for the process is not seen: that takes root, \
                         CAP_PERFMON, or 1 or less in /proc/sys/kernel/perf_event_paranoid";
        let no_kernel = (!self.setting.with_kernel).then(|| no_kernel.to_owned());
        no_kernel.into_iter().chain(self.unseen.notice()).collect()
    }

    #[must_use]
    pub fn into_profile(self) -> Profile {
        self.profile
    }

    /// New processes and threads; whether anything is left that could be sampled.
    fn find(&mut self) -> bool {
        let NativePlan { pid, with_children, .. } = self.plan;
        let members = if with_children { family(pid) } else { Vec::new() };
        for pid in members.iter().map(|stat| stat.pid).chain([pid]) {
            self.processes.entry(pid).or_insert_with(|| Watched::of(pid));
        }
        // What ended meanwhile is read once more: its clocks stand still now.
        self.read();
        let (setting, unseen) = (self.setting, &mut self.unseen);
        let mut is_any = false;
        let used = &mut self.profile.taken.cpu;
        self.processes.retain(|_, process| {
            process.forget_ended();
            let lives = process.find_threads(setting, unseen);
            if !lives {
                *used.get_or_insert_default() += process.used();
            }
            is_any |= lives;
            lives
        });
        is_any
    }

    fn read(&mut self) {
        let pids: Vec<i32> = self.processes.keys().copied().collect();
        for pid in pids {
            let Some(mut process) = self.processes.remove(&pid) else { continue };
            for record in records(&process.read()) {
                match record {
                    Record::Lost(count) => self.profile.taken.missed += count,
                    Record::Mapped => process.changed(),
                    Record::Sample(sample) => {
                        let stack = self.stack(&mut process, &sample);
                        self.profile.count(&stack, 1);
                    }
                }
            }
            self.processes.insert(pid, process);
        }
    }

    /// Outermost first.
    fn stack(&mut self, process: &mut Watched, sample: &Sample) -> Vec<u32> {
        process.refresh();
        let with_callers = self.setting.with_callers;
        // Others may be whatever lies where frame pointers were expected.
        let user = if with_callers { process.code(&sample.user).max(1) } else { 1 };
        let kernel = if with_callers { usize::MAX } else { 1 };
        let mut stack = Vec::new();
        for (_, address) in places(&sample.user, user) {
            let number = |place| number(&mut self.profile, place);
            let [file, function] = process.named(address, &mut self.files, number);
            stack.extend((!with_callers).then_some(file));
            stack.push(function);
        }
        for (at, address) in places(&sample.kernel, kernel) {
            let known = self
                .kernel
                .entry(address)
                .or_insert_with(|| number(&mut self.profile, self.files.in_kernel(address)));
            let is_outermost = at + 1 == sample.kernel.len().min(kernel);
            stack.extend(is_outermost.then_some(known[0]));
            stack.push(known[1]);
        }
        stack
    }
}

/// The first of them, outermost first, with their places in the chain.
fn places(chain: &[u64], most: usize) -> impl Iterator<Item = (usize, u64)> {
    // A return address is behind the call, which may be the last of its function.
    let called = |(at, address): (usize, &u64)| (at, address.saturating_sub(u64::from(at > 0)));
    chain.iter().enumerate().take(most).rev().map(called)
}

fn number(profile: &mut Profile, place: Place) -> [u32; 2] {
    let Place { library, file, function } = place;
    let file: Arc<str> = file.into();
    [library, function].map(|name| {
        let (name, file) = (name.into(), Arc::clone(&file));
        profile.number(Frame { name, kind: Kind::Native, file, line: 0 })
    })
}

/// As much as is allowed, found out by a clock of the first thread.
fn setting(plan: NativePlan) -> Result<Setting, NativeError> {
    let NativePlan { pid, with_callers, rate_hz, .. } = plan;
    let period_ns = (OFF_STEP * 1e9 / rate_hz) as u64;
    let all = Setting { period_ns, with_kernel: true, with_callers };
    let less = Setting { with_kernel: false, ..all };
    let first = *threads(pid).first().ok_or(NativeError::NoProcess { pid })?;
    let is_refused =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    let found = match Event::open(first, all) {
        Ok(_) => Ok(all),
        Err(error) if is_refused(&error) => Event::open(first, less).map(|_| less),
        Err(error) => Err(error),
    };
    found.map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => NativeError::NoProcess { pid },
        _ if is_refused(&source) => NativeError::NotAllowed { pid, paranoid: paranoid(), source },
        _ => NativeError::Perf { pid, source },
    })
}
