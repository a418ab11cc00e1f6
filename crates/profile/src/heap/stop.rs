//! A process that stands still for a moment: every thread of it is stopped by `ptrace` and goes on
//! when this is dropped, or when the one who stopped it dies. Signals that come meanwhile are
//! passed on.

use std::{fs, io, time::Duration};

use drom_observe::{Stat, clock};

/// Threads of a process that stand still.
#[derive(Debug)]
pub struct Stopped {
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    tid: libc::pid_t,
    /// It was stopped by a signal of its own, which it is still to get.
    signal: i32,
}

/// No thread takes longer to stop than one that sleeps in the kernel uninterruptibly.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_micros(20);

impl Stopped {
    /// # Errors
    /// That it is gone, that somebody else traces it, or that it does not stop.
    pub fn of(pid: libc::pid_t) -> io::Result<Self> {
        let mut stopped = Self { threads: Vec::new() };
        loop {
            let known = stopped.threads.len();
            for tid in threads(pid)? {
                if !stopped.threads.iter().any(|thread| thread.tid == tid) {
                    stopped.stop(pid, tid)?;
                }
            }
            // A thread may have started another one before it was stopped.
            if stopped.threads.len() == known {
                return Ok(stopped);
            }
        }
    }

    /// Of each thread how far its stack reaches: below is what was there before.
    #[must_use]
    pub fn stack_tops(&self) -> Vec<u64> {
        self.threads.iter().filter_map(|thread| stack_top(thread.tid)).collect()
    }

    fn stop(&mut self, pid: libc::pid_t, tid: libc::pid_t) -> io::Result<()> {
        match ptrace(libc::PTRACE_SEIZE, tid, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && tid != pid => return Ok(()),
            seized => seized?,
        }
        // From here on it is to be let go.
        self.threads.push(Thread { tid, signal: 0 });
        ptrace(libc::PTRACE_INTERRUPT, tid, 0)?;
        let signal = wait_for_stop(tid)?;
        self.threads.last_mut().expect("just pushed").signal = signal;
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.threads {
            // One that was killed meanwhile needs no help.
            let _ = ptrace(libc::PTRACE_DETACH, thread.tid, thread.signal);
        }
    }
}

fn threads(pid: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The signal with which it has stopped; 0 when it was interrupted only.
fn wait_for_stop(tid: libc::pid_t) -> io::Result<i32> {
    let began = clock::monotonic_ns();
    loop {
        if let Some(status) = stopped(tid)? {
            let (signal, event) = (status & 0xff, status >> 8);
            return Ok(if event == libc::PTRACE_EVENT_STOP { 0 } else { signal });
        }
        let waited = Duration::from_nanos(clock::monotonic_ns() - began);
        if waited > PATIENCE || Stat::of(tid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X')) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        clock::sleep(STEP);
    }
}

/// The ends of children are left to who waits for them.
fn stopped(tid: libc::pid_t) -> io::Result<Option<i32>> {
    // SAFETY: all-zero bytes are a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
    // SAFETY: `info` is a valid, exclusively owned siginfo_t.
    if unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, &raw mut info, how) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid has filled it in, or left it zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then_some(status))
}

fn stack_top(tid: libc::pid_t) -> Option<u64> {
    // SAFETY: all-zero bytes are a valid user_regs_struct.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let (none, into) = (std::ptr::null_mut::<libc::c_void>(), &raw mut registers);
    // SAFETY: the thread is stopped by us, and `registers` is a valid place for them.
    let failed = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, none, into) } != 0;
    (!failed).then_some(registers.rsp)
}

fn ptrace(request: libc::c_uint, tid: libc::pid_t, data: i32) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests touch no memory of ours; `data` is a signal or nothing.
    let failed = unsafe { libc::ptrace(request, tid, none, data as libc::c_long) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Play(Child);

    impl Drop for Play {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn state(pid: i32) -> char {
        Stat::of(pid).map_or('-', |stat| stat.state)
    }

    #[test]
    fn a_process_stands_still_and_goes_on() {
        let play =
            Play(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
        let pid = play.0.id() as i32;
        let stopped = Stopped::of(pid).expect("ours");
        assert_eq!(state(pid), 't');
        drop(stopped);
        let mut states = std::iter::repeat_with(|| state(pid)).take(1_000);
        assert!(states.any(|state| matches!(state, 'R' | 'S')));
    }

    #[test]
    fn one_that_somebody_has_stopped_stays_so() {
        let play = Play(Command::new("sleep").arg("20").spawn().expect("sleep"));
        let pid = play.0.id() as i32;
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        while state(pid) != 'T' {
            clock::sleep(STEP);
        }
        drop(Stopped::of(pid).expect("ours"));
        clock::sleep(Duration::from_millis(20));
        assert_eq!(state(pid), 'T');
    }

    #[test]
    fn one_that_is_gone_is_an_error() {
        let mut play = Command::new("true").spawn().expect("true");
        let pid = play.id() as i32;
        play.wait().expect("ends");
        assert!(Stopped::of(pid).is_err());
    }
}
