//! What the kernel counts of a process's time in its program and in the kernel: of this one, and of
//! a child when it has ended. Microseconds, where ticks are hundredths of a second.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

/// CPU time, and memory at its most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user_s: f64,
    pub system_s: f64,
    /// The largest RSS that one process of them had. Of a child it is that of whoever started it
    /// where that was larger: the kernel counts what it had before it became its own program.
    pub peak_rss_bytes: u64,
}

impl Usage {
    /// Of this process so far, all threads.
    #[must_use]
    pub fn own() -> Self {
        // SAFETY: an all-zero rusage is a valid one, and it lives through the call that fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        Self::of(&usage)
    }

    fn of(usage: &libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
        }
    }
}

/// Waits for the end of a child that nobody else waits for; what it and the children that it waited
/// for used.
///
/// # Errors
/// It is no child of this process, or has been waited for.
pub fn wait(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    loop {
        if let Some(ended) = wait4(pid, 0)? {
            return Ok(ended);
        }
    }
}

/// The same, `None` while it has not ended.
///
/// # Errors
/// As above.
pub fn try_wait(pid: u32) -> io::Result<Option<(ExitStatus, Usage)>> {
    wait4(pid, libc::WNOHANG)
}

fn wait4(pid: u32, options: libc::c_int) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut status = 0;
    loop {
        // SAFETY: both pointers are valid for the call, which alone writes to them; all zeros are a
        // valid rusage.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid.cast_signed(), &raw mut status, options, &raw mut usage), usage)
        };
        if ended >= 0 {
            let told = (ExitStatus::from_raw(status), Usage::of(&usage));
            return Ok((ended > 0).then_some(told));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_childs_time_is_told_at_its_end() {
        let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let mut child = Command::new("sh").args(["-c", work]).spawn().expect("a shell");
        let (status, usage) = wait(child.id()).expect("a child");
        assert_eq!(status.code(), Some(3));
        assert!(usage.user_s > 0.0 && usage.user_s < 30.0, "{usage:?}");
        assert!(usage.peak_rss_bytes > 500_000, "{usage:?}");
        assert!(child.wait().is_err() && wait(child.id()).is_err(), "it has been waited for");
    }

    #[test]
    fn a_child_that_runs_has_not_ended() {
        let mut child = Command::new("sleep").arg("20").spawn().expect("sleep");
        assert!(try_wait(child.id()).expect("a child").is_none());
        child.kill().expect("it runs");
        let (status, _) = wait(child.id()).expect("a child");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        assert!(child.wait().is_err(), "it has been waited for");
    }

    #[test]
    fn own_time_grows() {
        let before = Usage::own();
        let begun = crate::self_cpu_s();
        while crate::self_cpu_s() < begun + 0.02 {}
        let after = Usage::own();
        let of = |usage: Usage| usage.user_s + usage.system_s;
        assert!(of(after) > of(before), "{before:?} {after:?}");
    }
}
