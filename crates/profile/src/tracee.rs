//! A thread of another process that is stopped for a look. A [`Tracee`] is held by ptrace only
//! while it stands: between two looks nobody traces it, so that its signals, its parent's `wait`
//! and other tools have it to themselves, and a profiler that is killed leaves nothing behind.

use std::{
    io,
    thread::{self, ThreadId},
    time::Duration,
};

use drom_observe::{RunState, clock};

#[derive(Debug)]
pub struct Tracee {
    tid: libc::pid_t,
    /// Who waits for its end is its parent, which may be this process.
    is_child: bool,
    /// Asked to stop, and has not been seen to do so: by this thread of ours, and the kernel takes
    /// requests from no other one.
    asked_by: Option<ThreadId>,
}

/// It stands until this is dropped.
#[derive(Debug)]
pub struct Stopped<'t> {
    tracee: &'t mut Tracee,
    /// On its way to the thread; 0 is none.
    signal: libc::c_int,
}

/// How a look at a thread that does not run can be: no need to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Still {
    turns: u64,
}

impl Still {
    /// `None` where it runs, or where that is not to be known.
    pub fn now(state: &RunState) -> Option<Self> {
        let turns = state.turns()?;
        matches!(state.is_running(), Ok(false)).then_some(Self { turns })
    }
}

/// Waits that end with `EINTR` at every stop, also where no handler of a signal has run
/// (signal(7)): nothing has happened in them yet, so they can be begun anew.
const WAITS: [libc::c_long; 11] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    // These only with a timeout of their socket.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_read,
];
/// Of the instruction that enters the kernel (`syscall`).
const ENTRY_BYTES: u64 = 2;

/// A thread that works in the kernel for so long is looked at as it is.
const PATIENCE: Duration = Duration::from_millis(100);
/// So often it is asked without a pause: a stop takes some microseconds.
const YIELDS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

impl Tracee {
    pub fn new(tid: libc::pid_t, is_child: bool) -> Self {
        Self { tid, is_child, asked_by: None }
    }

    /// Stops the thread; `None` where it does not stop soon.
    ///
    /// # Errors
    /// That it has ended (`ESRCH`), or may not be traced, or somebody else does (`EPERM`).
    pub fn stop(&mut self) -> io::Result<Option<Stopped<'_>>> {
        let own = thread::current().id();
        match self.asked_by {
            None => {
                self.request(libc::PTRACE_SEIZE, 0)?;
                self.asked_by = Some(own);
                self.request(libc::PTRACE_INTERRUPT, 0)?;
            }
            Some(asked_by) if asked_by != own => return Ok(None),
            Some(_) => {}
        }
        let deadline_ns = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
        for turn in 0u32.. {
            if let Some(signal) = self.stopped()? {
                let stopped = Stopped { tracee: self, signal };
                stopped.keep_waiting()?;
                return Ok(Some(stopped));
            }
            if turn < YIELDS {
                thread::yield_now();
            } else if clock::monotonic_ns() < deadline_ns {
                clock::sleep(PAUSE);
            } else {
                break;
            }
        }
        Ok(None)
    }

    /// The signal that waits for it, or 0; `None` as long as it goes on.
    fn stopped(&mut self) -> io::Result<Option<libc::c_int>> {
        let (code, status) = self.news(libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)?;
        match code {
            0 => Ok(None),
            libc::CLD_TRAPPED | libc::CLD_STOPPED => {
                self.news(libc::WSTOPPED)?;
                // Above the signal is what ptrace made of it: a stop of its own delivers nothing.
                Ok(Some(if status >> 8 == 0 { status } else { 0 }))
            }
            _ => {
                self.bury();
                Err(io::Error::from_raw_os_error(libc::ESRCH))
            }
        }
    }

    /// As long as its tracer does not ask, its parent is not told that it has ended.
    fn bury(&mut self) {
        let end_ns = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
        while !self.is_child && self.news(libc::WEXITED).is_ok_and(|(code, _)| code == 0) {
            if clock::monotonic_ns() > end_ns {
                return;
            }
            clock::sleep(PAUSE);
        }
        self.asked_by = None;
    }

    /// `si_code` and `si_status` of `waitid`; zeroes are no news.
    fn news(&self, what: libc::c_int) -> io::Result<(libc::c_int, libc::c_int)> {
        let flags = what | libc::WNOHANG | libc::__WALL;
        // SAFETY: the zeroed siginfo is a valid place for the answer, and its status is read only
        // where the kernel has written one.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            match libc::waitid(libc::P_PID, self.tid as libc::id_t, &raw mut info, flags) {
                0 => Ok((info.si_code, info.si_status())),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    fn request(&self, what: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: the requests that are made here take numbers and write nothing here.
        match unsafe { libc::ptrace(what, self.tid, 0usize, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Stopped<'_> {
    /// Where the thread's own memory is (`fs`).
    pub fn thread_base(&self) -> io::Result<u64> {
        self.registers().map(|registers| registers.fs_base)
    }

    /// How far its stack reaches: below is what was there before.
    pub fn stack_top(&self) -> io::Result<u64> {
        self.registers().map(|registers| registers.rsp)
    }

    /// A wait that our stop has ended begins anew when the thread goes on, as the kernel does it
    /// for most others; one that a signal ends stays ended.
    fn keep_waiting(&self) -> io::Result<()> {
        let mut registers = self.registers()?;
        // Within a call only: else this is -1.
        let call = registers.orig_rax as libc::c_long;
        let is_ended = registers.rax as i64 == i64::from(-libc::EINTR) && WAITS.contains(&call);
        if !is_ended || self.signal != 0 || has_signal(self.tracee.tid) {
            return Ok(());
        }
        registers.rax = registers.orig_rax;
        registers.rip -= ENTRY_BYTES;
        // SAFETY: the request reads one such structure, whose numbers are the thread's own.
        match unsafe {
            libc::ptrace(libc::PTRACE_SETREGS, self.tracee.tid, 0usize, &raw const registers)
        } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: the request writes one such structure, for which all zeroes are numbers.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let into = &raw mut registers;
            match libc::ptrace(libc::PTRACE_GETREGS, self.tracee.tid, 0usize, into) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(registers),
            }
        }
    }
}

/// Whether one that it does not block is on its way; so too where that is not to be known.
fn has_signal(tid: libc::pid_t) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let set = |name: &str| {
        let hex = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(hex.trim(), 16).ok()
    };
    match (set("SigPnd:"), set("ShdPnd:"), set("SigBlk:")) {
        (Some(own), Some(shared), Some(blocked)) => (own | shared) & !blocked != 0,
        _ => true,
    }
}

impl Drop for Stopped<'_> {
    /// It goes on with its signal as if nothing had been, and stays stopped where it was.
    fn drop(&mut self) {
        match self.tracee.request(libc::PTRACE_DETACH, self.signal as usize) {
            Ok(()) => self.tracee.asked_by = None,
            Err(_) => self.tracee.bury(),
        }
    }
}

impl Drop for Tracee {
    /// Who was asked and has not stopped yet does not stop for nobody.
    fn drop(&mut self) {
        if self.asked_by.is_some() {
            drop(self.stop());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Target(Child);

    impl Drop for Target {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn target(code: &str) -> (Target, Tracee, RunState) {
        let child = Command::new("perl").args(["-e", code]).spawn().expect("perl is there");
        let pid = child.id() as i32;
        let state = RunState::of(pid).expect("it lives");
        (Target(child), Tracee::new(pid, true), state)
    }

    fn tracer(pid: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        !status.contains("TracerPid:\t0\n")
    }

    #[test]
    fn it_stands_while_it_is_held_and_then_goes_on() {
        let (target, mut tracee, state) = target("1 while 1");
        for _ in 0..100 {
            let stopped = tracee.stop().expect("allowed").expect("it stops");
            assert!(!state.is_running().expect("it lives") && tracer(target.0.id()));
            drop(stopped);
            assert!(!tracer(target.0.id()));
            while !state.is_running().expect("it lives") {}
        }
    }

    #[test]
    fn who_was_stopped_stays_so_and_who_waits_stands_still() {
        let (target, mut tracee, state) = target("1 while 1");
        let pid = target.0.id() as i32;
        // SAFETY: no pointers; the child is ours and not waited for yet.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        while state.is_running().expect("it lives") {}
        let still = Still::now(&state);
        assert!(still.is_some() && still == Still::now(&state));
        drop(tracee.stop().expect("allowed").expect("it stands"));
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        // The kernel lets it go and then has it stop again by itself.
        while !stat().contains(") T ") {}
        // SAFETY: as above.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        while !state.is_running().expect("it lives") {}
        assert_eq!(Still::now(&state), None);
    }

    /// Of 200 waits none is ended by a stop, and one is by a signal.
    #[test]
    fn waits_go_on_and_signals_end_them() {
        let code = "my ($epoll, $room, $ended) = (syscall(291, 0), ' ' x 64, 0); \
                    $SIG{USR1} = sub { $signalled++ }; $| = 1; print 'x'; \
                    for (1 .. 200) { $ended++ if syscall(232, $epoll, $room, 1, 2) < 0 } \
                    $SIG{ALRM} = sub {}; alarm 1; \
                    $ended += 1000 if syscall(232, $epoll, $room, 1, 20000) < 0; print $ended";
        let mut child = Command::new("perl")
            .args(["-e", code])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("perl is there");
        let mut out = child.stdout.take().expect("a pipe");
        io::Read::read_exact(&mut out, &mut [0]).expect("it begins");
        let mut tracee = Tracee::new(child.id() as i32, true);
        let target = Target(child);
        let mut stops = 0;
        while let Ok(stopped) = tracee.stop() {
            stops += u32::from(stopped.is_some());
            drop(stopped);
            clock::sleep(Duration::from_millis(5));
        }
        let said = io::read_to_string(out).expect("text");
        drop(target);
        assert_eq!(said, "1000", "of {stops} stops");
        assert!(stops > 100, "{stops}");
    }

    #[test]
    fn its_parent_has_its_end() {
        let (mut target, mut tracee, _) = target("kill 9, $$");
        let ended = loop {
            match tracee.stop() {
                Ok(stopped) => drop(stopped),
                Err(error) => break error.raw_os_error(),
            }
        };
        assert!([Some(libc::ESRCH), Some(libc::EPERM)].contains(&ended), "{ended:?}");
        let status = target.0.wait().expect("it is not lost");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
