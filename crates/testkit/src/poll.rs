//! Waiting for many sockets: epoll, level-triggered, with waits told in nanoseconds.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

const REPORTS_MAX: usize = 256;

pub struct Poll {
    epoll: OwnedFd,
    reports: Vec<libc::epoll_event>,
}

impl AsRawFd for Poll {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is owned.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nothing else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self { epoll, reports: vec![libc::epoll_event { events: 0, u64: 0 }; REPORTS_MAX] })
    }

    pub fn add(&self, socket: &impl AsRawFd, token: u64) -> io::Result<()> {
        let wanted = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
        self.control(libc::EPOLL_CTL_ADD, socket, libc::epoll_event { events: wanted, u64: token })
    }

    pub fn remove(&self, socket: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, socket, libc::epoll_event { events: 0, u64: 0 })
    }

    /// Waits until something is ready or `longest` has passed; the tokens of what is.
    pub fn wait(&mut self, longest: Duration) -> io::Result<Vec<u64>> {
        let time = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(longest.subsec_nanos() as i32),
        };
        let (epoll, room) = (self.epoll.as_raw_fd(), self.reports.len() as libc::c_int);
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the reports have the room that is passed, `time` lives through the call, and no
        // signal mask is given. By number, because older C libraries lack the function.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll,
                self.reports.as_mut_ptr(),
                room,
                &raw const time,
                none,
                8_usize,
            )
        };
        let count = usize::try_from(count).or_else(|_| match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        })?;
        Ok(self.reports[..count].iter().map(|report| report.u64).collect())
    }

    fn control(
        &self,
        what: libc::c_int,
        socket: &impl AsRawFd,
        mut event: libc::epoll_event,
    ) -> io::Result<()> {
        let (epoll, socket) = (self.epoll.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: both descriptors are open (borrowed from owners); `event` lives through the call.
        let status = unsafe { libc::epoll_ctl(epoll, what, socket, &raw mut event) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
