//! Waits until one of a few descriptors is ready.

use std::{io, os::fd::RawFd, time::Duration};

/// A descriptor, what it is waited for, and what came of it: bits of poll(2).
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    pub descriptor: RawFd,
    pub events: i16,
    pub found: i16,
}

/// Whether something is ready before the time is over. A signal is as good as the time's end.
pub fn wait(interests: &mut [Interest], timeout: Duration) -> io::Result<bool> {
    let ask = |one: &Interest| libc::pollfd { fd: one.descriptor, events: one.events, revents: 0 };
    let mut asked: Vec<libc::pollfd> = interests.iter().map(ask).collect();
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length are those of one exclusively owned vector, in whose
    // elements the kernel writes `revents`.
    let ready = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    for (one, asked) in interests.iter_mut().zip(asked) {
        one.found = asked.revents;
    }
    Ok(ready > 0)
}
