//! Sockets of the kernel: how a connection is asked for, read and written. Non-blocking, TCP.
//!
//! Knows nothing of HTTP. Descriptors are counted here, too: the limit is met before a run.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};

/// A way for bytes, readiness reported elsewhere.
pub trait Transport: Read + Write {
    /// Throws away up to `max` bytes that have come, uncopied; `None` where that is not possible.
    fn skip(&mut self, max: usize) -> Option<io::Result<usize>>;

    /// A read that did not fill its buffer has left nothing.
    fn is_drained_by_short_reads(&self) -> bool;
}

/// How connections are made.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub address: SocketAddr,
    /// Requests are so small, and the connection lives so long, that it pays to ask for the
    /// cheapest congestion control.
    pub one_segment: bool,
    /// The address to bind to, any port of it.
    pub source: Option<IpAddr>,
    pub buffer_bytes: Option<usize>,
}

impl Transport for Socket {
    fn skip(&mut self, max: usize) -> Option<io::Result<usize>> {
        Some(skip(self, max))
    }

    #[inline]
    fn is_drained_by_short_reads(&self) -> bool {
        true
    }
}

/// TCP drops what it is asked to truncate (tcp(7)): the bytes of a large body need no copy.
fn skip(socket: &Socket, max: usize) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    let none = std::ptr::null_mut();
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing into the buffer (tcp(7)), which is null;
    // the descriptor is borrowed from its owner.
    let got = unsafe { libc::recv(socket.as_raw_fd(), none, max, libc::MSG_TRUNC) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// A socket whose connect is under way.
pub fn connect(route: &Route) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let domain = Domain::for_address(route.address);
    let socket = Socket::new(domain, kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if route.one_segment {
        // One segment in flight is never held back, yet BBR's model costs 3 % of the client's CPU
        // time on loopback. Where it is not allowed the system's own choice stays.
        let _ = socket.set_tcp_congestion(b"reno");
    }
    if let Some(source) = route.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    if let Some(bytes) = route.buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    match socket.connect(&route.address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Whether `wanted` descriptors are within the hard limit.
pub fn check_descriptors(wanted: u64) -> Result<libc::rlimit, crate::Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, exclusively owned rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_max < wanted {
        return Err(crate::Error::Descriptors { wanted, limit: limit.rlim_max });
    }
    Ok(limit)
}

/// Makes room for `wanted` descriptors: raises the soft limit as far as the hard one allows.
pub fn ensure_descriptors(wanted: u64) -> Result<(), crate::Error> {
    let mut limit = check_descriptors(wanted)?;
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    limit.rlim_cur = wanted;
    // SAFETY: `limit` is a valid rlimit; raising a soft limit within the hard one is always
    // allowed.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    Ok(())
}
