//! Compiled code of another process: which of its functions have the CPU. A [`Native`] has a clock
//! for each of its threads (`perf_event`, the kernel's), and counts where they were in a profile.
//!
//! The innermost function is right always. Callers are those that frame pointers lead to, and
//! optimised code keeps none: they are there only where they are asked for.

mod event;
mod places;
mod record;
mod symbols;

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use drom_observe::{Stat, clock, process_cpu};

use crate::{
    profile::{Frame, Kind, Profile},
    watch::Ended,
};
use event::{Event, Setting, paranoid};
use places::{Place, Places};
use record::{Record, Sample, records};

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

pub struct Native {
    pid: i32,
    setting: Setting,
    threads: HashMap<i32, Event>,
    /// Threads that no clock could be had for, and why.
    unseen: HashSet<i32>,
    why_unseen: Option<io::Error>,
    places: Places,
    /// In the profile: stacks of an address each, of the kernel or not.
    named: HashMap<(bool, u64), [u32; 2]>,
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
    pub fn attach(pid: i32, rate_hz: f64, with_callers: bool) -> Result<Self, NativeError> {
        let period_ns = (OFF_STEP * 1e9 / rate_hz) as u64;
        let mut setting = Setting { period_ns, with_kernel: true, with_callers };
        let first = *threads(pid).first().ok_or(NativeError::NoProcess { pid })?;
        let is_refused =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        let event = Event::open(first, setting).or_else(|error| {
            setting.with_kernel = false;
            if is_refused(&error) { Event::open(first, setting) } else { Err(error) }
        });
        let event = event.map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH) => NativeError::NoProcess { pid },
            _ if is_refused(&source) => {
                NativeError::NotAllowed { pid, paranoid: paranoid(), source }
            }
            _ => NativeError::Perf { pid, source },
        })?;
        let mut native = Self {
            pid,
            setting,
            threads: HashMap::from([(first, event)]),
            unseen: HashSet::new(),
            why_unseen: None,
            places: Places::of(pid),
            named: HashMap::new(),
            profile: Profile::default(),
        };
        native.find_threads();
        Ok(native)
    }

    /// Counts until the end.
    pub fn run(&mut self, duration: Option<Duration>, stop: &AtomicBool) -> Ended {
        let began_ns = clock::monotonic_ns();
        let length_ns = duration.map_or(u64::MAX, |length| length.as_nanos() as u64);
        let end_ns = began_ns.saturating_add(length_ns);
        let nap = if self.setting.period_ns < FAST_NS { NAP_FAST } else { NAP };
        let before = process_cpu(self.pid).unwrap_or_default();
        let (mut cpu, mut naps) = (before, 0);
        let ended = loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(clock::monotonic_ns()));
            clock::sleep(left.min(nap));
            self.read_all();
            cpu = process_cpu(self.pid).unwrap_or(cpu).max(cpu);
            naps += 1;
            if naps % NAPS == 0 && !self.find_threads() {
                break Ended::Gone;
            }
            if stop.load(Relaxed) {
                break Ended::Stopped;
            }
            if left.is_zero() {
                break Ended::Over;
            }
        };
        let taken = &mut self.profile.taken;
        taken.wall += Duration::from_nanos(clock::monotonic_ns() - began_ns);
        // Where the kernel's part is not seen, a sample is none of it.
        let seen = Duration::from_nanos(self.setting.period_ns.saturating_mul(taken.samples));
        let cpu = if self.setting.with_kernel { cpu - before } else { seen };
        taken.cpu = Some(taken.cpu.unwrap_or_default() + cpu);
        ended
    }

    /// What is to be known of the samples besides.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if !self.setting.with_kernel {
            notices.push(
                "what the kernel does for the process is not seen: that takes root, CAP_PERFMON, \
                 or 1 or less in /proc/sys/kernel/perf_event_paranoid"
                    .to_owned(),
            );
        }
        if let Some(error) = &self.why_unseen {
            let count = self.unseen.len();
            notices.push(format!(
                "threads that could not be sampled: {count} ({error}; limits of that are \
                 `ulimit -n` and `ulimit -l`)"
            ));
        }
        notices
    }

    #[must_use]
    pub fn into_profile(self) -> Profile {
        self.profile
    }

    /// Whether there still is one.
    fn find_threads(&mut self) -> bool {
        let now = threads(self.pid);
        for tid in &now {
            if self.threads.contains_key(tid) || self.unseen.contains(tid) {
                continue;
            }
            match Event::open(*tid, self.setting) {
                Ok(event) => drop(self.threads.insert(*tid, event)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    self.unseen.insert(*tid);
                    self.why_unseen = Some(error);
                }
            }
        }
        let ended: Vec<i32> =
            self.threads.keys().filter(|tid| !now.contains(tid)).copied().collect();
        for tid in ended {
            // What it did last is still in its ring.
            let mut bytes = Vec::new();
            if let Some(mut event) = self.threads.remove(&tid) {
                event.read(&mut bytes);
            }
            self.count(&bytes);
        }
        !now.is_empty()
    }

    fn read_all(&mut self) {
        let mut bytes = Vec::new();
        self.threads.values_mut().for_each(|event| event.read(&mut bytes));
        self.count(&bytes);
    }

    fn count(&mut self, bytes: &[u8]) {
        for record in records(bytes) {
            match record {
                Record::Lost(count) => self.profile.taken.missed += count,
                Record::Sample(sample) => {
                    let stack = self.stack(&sample);
                    self.profile.count(&stack, 1);
                }
            }
        }
    }

    /// Outermost first.
    fn stack(&mut self, sample: &Sample) -> Vec<u32> {
        let mut stack = Vec::new();
        for (is_kernel, chain) in [(false, &sample.user), (true, &sample.kernel)] {
            // Others may be whatever lies where frame pointers were expected.
            let sure = match (self.setting.with_callers, is_kernel) {
                (false, _) => 1,
                (true, true) => chain.len(),
                (true, false) => self.places.code(chain).max(1),
            };
            for (at, address) in chain.iter().take(sure).enumerate().rev() {
                // A return address is behind the call, which may be the last of its function.
                let [library, function] =
                    self.named(is_kernel, address.saturating_sub(u64::from(at > 0)));
                let is_edge = is_kernel && at + 1 == chain.len().min(sure);
                if !self.setting.with_callers || is_edge {
                    stack.push(library);
                }
                stack.push(function);
            }
        }
        stack
    }

    fn named(&mut self, is_kernel: bool, address: u64) -> [u32; 2] {
        if let Some(known) = self.named.get(&(is_kernel, address)) {
            return *known;
        }
        let place =
            if is_kernel { self.places.in_kernel(address) } else { self.places.at(address) };
        let Place { library, file, function } = place;
        let file: Arc<str> = file.into();
        let numbers = [library, function].map(|name| {
            let frame =
                Frame { name: name.into(), kind: Kind::Native, file: Arc::clone(&file), line: 0 };
            self.profile.number(frame)
        });
        self.named.insert((is_kernel, address), numbers);
        numbers
    }
}

/// Those that have not ended.
fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let all: Vec<i32> = entries.flatten().filter_map(number).collect();
    let is_over = Stat::of(pid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'));
    // The first thread may end before the others.
    if is_over { all.into_iter().filter(|tid| *tid != pid).collect() } else { all }
}
