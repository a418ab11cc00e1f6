//! A process that stops this one again and again, as a quota of CPU time does.

use std::{io, time::Duration};

/// A running pauser; this process is not stopped any more when it is dropped.
#[derive(Debug)]
pub struct Pauser {
    pid: libc::pid_t,
    /// Its close tells the pauser to end.
    lifeline: libc::c_int,
}

impl Pauser {
    /// Stops this process for `pause` after each `work`.
    pub fn start(work: Duration, pause: Duration) -> io::Result<Self> {
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors, as the call wants.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let [read, write] = pipe;
        // SAFETY: the child makes system calls only, and leaves by `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: the descriptor is the child's own copy.
                unsafe { libc::close(write) };
                pause_parent(read, work, pause)
            }
            pid => {
                // SAFETY: the descriptor is ours and used by nobody else.
                unsafe { libc::close(read) };
                Ok(Self { pid, lifeline: write })
            }
        }
    }
}

impl Drop for Pauser {
    fn drop(&mut self) {
        // SAFETY: the descriptor and the child are ours; no status is asked for.
        unsafe {
            libc::close(self.lifeline);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Ends after a SIGCONT, never after a SIGSTOP.
fn pause_parent(lifeline: libc::c_int, work: Duration, pause: Duration) -> ! {
    // SAFETY: no pointers are passed.
    let parent = unsafe { libc::getppid() };
    let mut watched = libc::pollfd { fd: lifeline, events: libc::POLLIN, revents: 0 };
    let work_ms = i32::try_from(work.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one descriptor to watch, which lives through the calls.
    while unsafe { libc::poll(&raw mut watched, 1, work_ms) } == 0 {
        // SAFETY: no pointers are passed.
        unsafe { libc::kill(parent, libc::SIGSTOP) };
        drom_observe::clock::sleep(pause);
        // SAFETY: no pointers are passed.
        unsafe { libc::kill(parent, libc::SIGCONT) };
    }
    // SAFETY: ends this process, without the parent's handlers.
    unsafe { libc::_exit(0) }
}
