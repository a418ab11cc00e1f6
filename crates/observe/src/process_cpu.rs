//! What another process uses of CPUs: its CPU clock, and whether a thread of it wants one now.
//! Needs no right to look into it.

use std::{fs::File, io, os::unix::fs::FileExt, time::Duration};

/// What all its threads have used. While one runs the kernel adds it up once a tick, so that the
/// clock stands still for some milliseconds.
///
/// `None` when there is no such process (one that has ended and was not waited for is one).
#[must_use]
pub fn process_cpu(pid: i32) -> Option<Duration> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, exclusively owned timespec.
    let status = unsafe { libc::clock_gettime(clock_of(pid), &raw mut ts) };
    (status == 0).then(|| Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32))
}

/// The kernel's number of the clock: `MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)` of Linux'
/// `posix-timers_types.h`; what `clock_getcpuclockid` gives without asking whether it is there.
fn clock_of(pid: i32) -> libc::clockid_t {
    const CPUCLOCK_SCHED: i32 = 2;
    (!pid << 3) | CPUCLOCK_SCHED
}

/// Looks again and again at what a thread does: the main one of a process, or any by its number.
#[derive(Debug)]
pub struct RunState {
    stat: File,
    /// Not every kernel counts turns.
    turns: Option<File>,
}

impl RunState {
    /// # Errors
    /// That there is no such process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let file = |name: &str| File::open(format!("/proc/{pid}/task/{pid}/{name}"));
        Ok(Self { stat: file("stat")?, turns: file("schedstat").ok() })
    }

    /// How often it was given a CPU: a thread that waits and has had no more turns has stood still.
    #[must_use]
    pub fn turns(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.turns.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().nth(2)?.parse().ok()
    }

    /// Whether it runs, or could if a CPU were free.
    ///
    /// # Errors
    /// That it has ended, waited for or not.
    pub fn is_running(&self) -> io::Result<bool> {
        let mut text = [0; 128];
        let length = self.stat.read_at(&mut text, 0)?;
        match state(&text[..length]) {
            None | Some(b'Z' | b'X') => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            state => Ok(state == Some(b'R')),
        }
    }
}

/// Behind the command, which is in brackets and may have some in it.
fn state(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_cpu::ThreadCpu;

    /// Linux has no more.
    const PIDS_MAX: i32 = 1 << 22;

    #[test]
    fn ones_own_is_as_much_as_a_thread_has_used_at_least() {
        let (own, pid) = (ThreadCpu::own().cpu, std::process::id() as i32);
        let first = process_cpu(pid).expect("this process");
        assert!(first >= own, "{first:?} {own:?}");
        let sum = (0..3_000_000u64).fold(0u64, |sum, i| std::hint::black_box(sum ^ i));
        std::hint::black_box(sum);
        assert!(process_cpu(pid).expect("this process") > first);
    }

    #[test]
    fn who_waits_has_no_more_turns_until_it_runs() {
        let pid = std::process::id() as i32;
        let own = RunState::of(pid).expect("this process");
        assert!(own.turns().is_some());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let its = RunState::of(child.id() as i32).expect("it lives");
        while its.is_running().expect("it lives") {}
        let before = its.turns().expect("turns");
        assert_eq!(its.turns(), Some(before));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert_eq!(its.turns(), None);
    }

    #[test]
    fn the_state_stands_behind_the_command() {
        assert_eq!(state(b"12 (a) R b) S 1 2"), Some(b'S'));
        assert_eq!((state(b"12 (cut"), state(b"12 (cut)")), (None, None));
    }

    #[test]
    fn who_sleeps_does_not_run() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().expect("sleep");
        let run_state = RunState::of(child.id() as i32).expect("a process");
        let mut looks = (0..2_000).map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            run_state.is_running().expect("it is there")
        });
        let sleeps = looks.any(|is_running| !is_running);
        child.kill().expect("a signal");
        let ends = || {
            (0..2_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                run_state.is_running().is_err()
            })
        };
        assert!(sleeps && ends(), "nobody has waited for it yet");
        child.wait().expect("it ended");
        assert!(run_state.is_running().is_err());
    }

    #[test]
    fn nobody_has_no_clock() {
        assert_eq!(process_cpu(PIDS_MAX + 1), None);
        assert!(RunState::of(PIDS_MAX + 1).is_err());
    }
}
