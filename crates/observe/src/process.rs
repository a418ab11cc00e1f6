//! Process trees: who descends from whom, what CPU time they used, what memory is theirs.
//!
//! CPU time of a living process comes from its CPU clock in nanoseconds (ticks of 10 ms would be 2
//! % of a half-second slice); that of children that are dead and waited for from `cutime` and
//! `cstime`, which is where the kernel puts it. Memory is PSS: shared pages divided by their
//! sharers, so that a sum over forked workers counts every page once.

use std::{collections::BTreeSet, fs};

use crate::{smaps, sockets};

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: i32,
    pub command: String,
    pub state: char,
    pub parent: i32,
    pub session: i32,
    /// A thread of the kernel, which never has memory of its own.
    pub is_kernel: bool,
    /// User and system time of this process, in clock ticks.
    pub own_ticks: u64,
    /// The same of its dead, waited-for children and theirs.
    pub reaped_ticks: u64,
}

/// A bit of the flags in `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// One process of a tree and the CPU time it and its dead children used so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub command: String,
    pub cpu_s: f64,
    /// The part of `cpu_s` that its dead children used.
    pub reaped_s: f64,
    /// It holds a listening socket, TCP or Unix: clients can come to it.
    pub listens: bool,
}

/// From `smaps_rollup`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub rss_bytes: u64,
    pub pss_bytes: u64,
    /// Private pages: what would come back if this process ended.
    pub uss_bytes: u64,
}

impl Stat {
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may hold spaces and parentheses: the last one ends it.
        let (pid, rest) = text.split_once(" (")?;
        let (command, rest) = rest.rsplit_once(") ")?;
        let field: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks = |index: usize| field.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            command: command.to_owned(),
            state: field.first()?.chars().next()?,
            parent: field.get(1)?.parse().ok()?,
            session: field.get(3)?.parse().ok()?,
            is_kernel: field.get(6)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
            own_ticks: ticks(11)? + ticks(12)?,
            reaped_ticks: ticks(13)? + ticks(14)?,
        })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Every process of the machine that can be read.
#[must_use]
pub fn all_processes() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Stat::of)
        .collect()
}

/// Also while it is stopped; not when it only waits to be waited for.
#[must_use]
pub fn lives(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Threads of a process, also the first one where that has ended before the others.
#[must_use]
pub fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// `root`, all that descend from it, and all of its session (orphans that were re-parented stay in
/// it). Sorted by pid; the dead are left out.
#[must_use]
pub fn tree(root: i32) -> Vec<Process> {
    let all = all_processes();
    let listening = sockets::listening();
    members(root, &all).into_iter().map(|stat| process(stat, &listening)).collect()
}

/// The same members as of [`tree`], by what their `stat` says alone: quick enough to be asked many
/// times a second.
#[must_use]
pub fn family(root: i32) -> Vec<Stat> {
    let all = all_processes();
    members(root, &all).into_iter().cloned().collect()
}

fn process(stat: &Stat, listening: &BTreeSet<u64>) -> Process {
    let reaped_s = stat.reaped_ticks as f64 / ticks_per_s();
    let own_s = cpu_clock_s(stat.pid).unwrap_or(stat.own_ticks as f64 / ticks_per_s());
    Process {
        pid: stat.pid,
        parent: stat.parent,
        command: stat.command.clone(),
        cpu_s: own_s + reaped_s,
        reaped_s,
        listens: sockets::holds_one(stat.pid, listening),
    }
}

fn members(root: i32, all: &[Stat]) -> Vec<&Stat> {
    let mut inside = BTreeSet::from([root]);
    loop {
        let before = inside.len();
        for stat in all {
            if stat.session == root || inside.contains(&stat.parent) {
                inside.insert(stat.pid);
            }
        }
        if inside.len() == before {
            break;
        }
    }
    let mut found: Vec<&Stat> =
        all.iter().filter(|s| inside.contains(&s.pid) && !s.is_dead()).collect();
    found.sort_by_key(|stat| stat.pid);
    found
}

/// `None` when the process is gone or not ours to read.
#[must_use]
pub fn memory(pid: i32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let pages = smaps::rollup(&text)?;
    Some(Memory {
        rss_bytes: pages.rss_bytes,
        pss_bytes: pages.pss_bytes,
        uss_bytes: pages.uss_bytes(),
    })
}

/// CPU time of this process, all threads.
#[must_use]
pub fn self_cpu_s() -> f64 {
    clock_s(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0.0)
}

fn cpu_clock_s(pid: i32) -> Option<f64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the id; a pid that is gone gives an error, not a fault.
    let failed = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0;
    if failed { None } else { clock_s(clock) }
}

fn clock_s(clock: libc::clockid_t) -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively owned timespec.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    (!failed).then_some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

pub(crate) fn ticks_per_s() -> f64 {
    // SAFETY: sysconf takes a constant and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_with_parentheses_is_read() {
        let text = "42 (a) (b c) S 7 42 41 0 -1 4194560 1 0 0 0 11 5 3 2 20 0 1 0 5 6 7";
        let stat = Stat::parse(text).expect("well formed");
        assert_eq!((stat.pid, stat.parent, stat.session), (42, 7, 41));
        assert_eq!((stat.command.as_str(), stat.own_ticks, stat.reaped_ticks), ("a) (b c", 16, 5));
        assert!(!stat.is_kernel);
        let text = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 6 7";
        assert!(Stat::parse(text).expect("well formed").is_kernel);
    }

    #[test]
    fn a_shell_and_its_child_are_one_tree() {
        let mut shell = Command::new("sh").args(["-c", "sleep 20 & wait"]).spawn().expect("sh");
        let root = shell.id() as i32;
        let mut found = Vec::new();
        for _ in 0..200 {
            found = tree(root);
            if found.iter().any(|p| p.command == "sleep") {
                break;
            }
            crate::clock::sleep(std::time::Duration::from_millis(5));
        }
        let sleeper = found.iter().find(|p| p.command == "sleep").expect("the child");
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(sleeper.pid, libc::SIGKILL) };
        shell.wait().expect("the shell ends with its child");
        assert!(tree(root).is_empty());
    }

    #[test]
    fn who_holds_a_listening_socket_is_told_from_who_does_not() {
        let own = std::process::id() as i32;
        let listens = |pid: i32| tree(own).into_iter().find(|p| p.pid == pid).map(|p| p.listens);
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        // A program that was started does not inherit it.
        let mut other = Command::new("sleep").arg("20").spawn().expect("sleep");
        let found = (listens(own), listens(other.id() as i32));
        drop(listener);
        other.kill().and_then(|()| other.wait()).expect("ends");
        assert_eq!(found, (Some(true), Some(false)));
    }

    #[test]
    fn own_memory_adds_up() {
        let own = memory(std::process::id() as i32).expect("our own");
        assert!(own.uss_bytes <= own.pss_bytes && own.pss_bytes <= own.rss_bytes, "{own:?}");
        assert!(own.uss_bytes > 0);
    }

    #[test]
    fn own_cpu_time_passes() {
        let before = self_cpu_s();
        let mut sum = 0_u64;
        while self_cpu_s() - before < 0.002 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_clock_s(std::process::id() as i32).expect("alive") >= 0.002);
    }

    #[test]
    fn a_touched_megabyte_is_private() {
        let private = || memory(std::process::id() as i32).unwrap().uss_bytes;
        let before = private();
        let mut memory = vec![0u8; 4 << 20];
        memory.iter_mut().step_by(4096).for_each(|b| *b = 1);
        assert!(private() >= before + (3 << 20));
        assert_eq!(memory[4096], 1);
    }
}
