//! Readiness of many sockets: epoll, edge-triggered, one registration in a socket's life.
//!
//! Edge-triggered with both directions asked for at once means that a request costs no `epoll_ctl`
//! (wrk pays two) and that the kernel does not look again at every socket it has just reported. The
//! price is a duty: read until a short read, and on `closing` until the end. Linux only.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// An epoll instance and the room for its reports.
pub struct Poll {
    epoll: OwnedFd,
    reports: Vec<libc::epoll_event>,
    /// Waits are told in nanoseconds (Linux 5.11), not in milliseconds.
    is_fine: bool,
}

/// What one socket is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The token given at registration.
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The peer has closed its side, or the socket has failed.
    pub closing: bool,
}

impl Poll {
    pub fn new(reports_max: usize) -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is owned.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nothing else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(raw) };
        sleep_exactly();
        Ok(Self {
            epoll,
            reports: vec![libc::epoll_event { events: 0, u64: 0 }; reports_max.max(1)],
            is_fine: has_fine_waits(raw),
        })
    }

    /// Watches `socket` until it is closed.
    pub fn add(&self, socket: &impl AsRawFd, token: u64) -> io::Result<()> {
        let wanted = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: wanted as u32, u64: token };
        let (epoll, socket) = (self.epoll.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: both descriptors are open (borrowed from owners); `event` lives through the call.
        let status = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until something is ready or `longest` has passed; the number of reports.
    #[inline]
    pub fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        let room = i32::try_from(self.reports.len()).unwrap_or(i32::MAX);
        let (epoll, reports) = (self.epoll.as_raw_fd(), self.reports.as_mut_ptr());
        let ready = if self.is_fine {
            let seconds = libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX);
            let nanoseconds = libc::c_long::from(longest.subsec_nanos() as i32);
            let time = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
            let none = std::ptr::null::<libc::sigset_t>();
            // SAFETY: as below; `time` lives through the call, no signal mask is given.
            unsafe {
                let number = libc::SYS_epoll_pwait2;
                libc::syscall(number, epoll, reports, room, &raw const time, none, 0) as i32
            }
        } else {
            let ms = i32::try_from(longest.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
            // SAFETY: `reports` has room for `room` events and is exclusively borrowed.
            unsafe { libc::epoll_wait(epoll, reports, room, ms) }
        };
        if let Ok(ready) = usize::try_from(ready) {
            return Ok(ready);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        }
    }

    /// The report number `at` of the last wait.
    #[inline]
    #[must_use]
    pub fn report(&self, at: usize) -> Ready {
        let report = self.reports[at];
        let has = |flags: i32| report.events & flags as u32 != 0;
        let closing = has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR);
        Ready {
            token: report.u64,
            readable: has(libc::EPOLLIN) || closing,
            writable: has(libc::EPOLLOUT),
            closing,
        }
    }
}

/// The kernel adds 50 us to a thread's sleeps unless it is told otherwise.
fn sleep_exactly() {
    // SAFETY: takes numbers; refused, sleeps are as long as ever.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Whether the kernel has `epoll_pwait2` and lets us use it.
fn has_fine_waits(epoll: libc::c_int) -> bool {
    let mut report = libc::epoll_event { events: 0, u64: 0 };
    let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let none = std::ptr::null::<libc::sigset_t>();
    // SAFETY: room for one report and a time that live through the call.
    unsafe {
        let (number, report) = (libc::SYS_epoll_pwait2, &raw mut report);
        libc::syscall(number, epoll, report, 1, &raw const time, none, 0) >= 0
    }
}
