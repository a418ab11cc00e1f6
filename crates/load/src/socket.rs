//! Sockets of the kernel: how a connection is asked for, read and written. Non-blocking; TCP or
//! Unix, plain or secured.
//!
//! Knows nothing of HTTP. Descriptors are counted here, too: the limit is met before a run.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    time::Duration,
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::{
    plan::Address,
    stamp,
    tls::{Security, TlsFacts, TlsStream},
};

/// A way for bytes, readiness reported elsewhere.
pub trait Transport: Read + Write {
    /// Goes on with what comes before the first request; whether that is over.
    fn settle(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Writes what an earlier write has left behind.
    fn push(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// How long the connect took by the kernel's clock, where it tells.
    fn connect_time(&self) -> Option<Duration> {
        None
    }

    /// What was agreed on, when it is settled and secured.
    fn tls(&self) -> Option<TlsFacts> {
        None
    }

    /// Reads; besides, for how long the last of these bytes have lain there, where that is known.
    fn read_stamped(&mut self, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        self.read(into).map(|length| (length, None))
    }

    /// Throws away up to `max` bytes that have come, uncopied; `None` where that is not possible.
    fn skip(&mut self, max: usize) -> Option<io::Result<usize>>;

    /// A read that did not fill its buffer has left nothing.
    fn is_drained_by_short_reads(&self) -> bool;

    /// What comes behind what was read can still be understood.
    fn is_sound(&self) -> bool {
        true
    }
}

/// How connections are made.
#[derive(Clone, Debug)]
pub struct Route {
    pub address: Address,
    pub security: Option<Security>,
    /// Connections come from these addresses in turn; from where the system likes when there is
    /// none.
    pub sources: Vec<IpAddr>,
    /// Requests are so small, and the connection lives so long, that it pays to ask for the
    /// cheapest congestion control.
    pub one_segment: bool,
    /// For what is sent and for what is received.
    pub buffer_bytes: Option<(usize, usize)>,
}

/// A socket before any TLS, readiness reported elsewhere.
pub trait Plain: Read + Write {
    /// As [`Transport::read_stamped`].
    fn read_stamped(&mut self, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        self.read(into).map(|length| (length, None))
    }

    /// As [`Transport::skip`].
    fn skip(&mut self, _max: usize) -> Option<io::Result<usize>> {
        None
    }

    /// As [`Transport::connect_time`].
    fn connect_time(&self) -> Option<Duration> {
        None
    }
}

/// A connection's way for bytes: plain or secured.
#[derive(Debug)]
pub enum Stream<S> {
    Plain(S),
    Tls(TlsStream<S>),
}

impl<S: Plain> Stream<S> {
    /// # Errors
    /// What TLS has to say against it.
    pub fn new(socket: S, route: &Route) -> io::Result<Self> {
        match &route.security {
            None => Ok(Self::Plain(socket)),
            Some(security) => TlsStream::new(socket, security).map(Self::Tls),
        }
    }

    pub fn socket(&self) -> &S {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.socket,
        }
    }
}

impl<S: Plain> Transport for Stream<S> {
    fn settle(&mut self) -> io::Result<bool> {
        if let Self::Tls(stream) = self { stream.settle() } else { Ok(true) }
    }

    fn push(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self { stream.push() } else { Ok(()) }
    }

    fn connect_time(&self) -> Option<Duration> {
        self.socket().connect_time()
    }

    fn tls(&self) -> Option<TlsFacts> {
        if let Self::Tls(stream) = self { stream.tls() } else { None }
    }

    fn read_stamped(&mut self, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        match self {
            Self::Plain(socket) => socket.read_stamped(into),
            Self::Tls(stream) => stream.read_stamped(into),
        }
    }

    fn skip(&mut self, max: usize) -> Option<io::Result<usize>> {
        if let Self::Plain(socket) = self { socket.skip(max) } else { None }
    }

    #[inline]
    fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    #[inline]
    fn is_sound(&self) -> bool {
        if let Self::Tls(stream) = self { stream.is_sound() } else { true }
    }
}

impl<S: Plain> Read for Stream<S> {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl<S: Plain> Write for Stream<S> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket of the kernel, each read and each write a call.
#[derive(Debug)]
pub struct KernelSocket {
    pub socket: Socket,
    is_tcp: bool,
}

impl KernelSocket {
    pub fn new(socket: Socket, address: &Address) -> Self {
        Self { socket, is_tcp: matches!(address, Address::Tcp(_)) }
    }
}

impl Plain for KernelSocket {
    fn read_stamped(&mut self, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        match self.is_tcp {
            true => stamp::read(&self.socket, into),
            false => self.read(into).map(|length| (length, None)),
        }
    }

    fn skip(&mut self, max: usize) -> Option<io::Result<usize>> {
        self.is_tcp.then(|| skip(&self.socket, max))
    }

    fn connect_time(&self) -> Option<Duration> {
        if self.is_tcp { handshake_time(&self.socket) } else { None }
    }
}

impl Read for KernelSocket {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }
}

impl Write for KernelSocket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From the SYN to its acknowledgement: the first round trip that TCP measures. `None` where the
/// SYN had to be sent again, for then it measures none.
pub fn handshake_time(socket: &Socket) -> Option<Duration> {
    // SAFETY: all zeroes is a valid `tcp_info`.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the structure has the length that is told and lives through the call.
    let failed = unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut info).cast(), &raw mut length)
    };
    let is_known = failed == 0 && info.tcpi_rtt > 0 && info.tcpi_total_retrans == 0;
    is_known.then(|| Duration::from_micros(u64::from(info.tcpi_rtt)))
}

/// TCP drops what it is asked to truncate (tcp(7)): the bytes of a large body need no copy.
fn skip(socket: &Socket, max: usize) -> io::Result<usize> {
    let none = std::ptr::null_mut();
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing into the buffer (tcp(7)), which is null;
    // the descriptor is borrowed from its owner.
    let got = unsafe { libc::recv(socket.as_raw_fd(), none, max, libc::MSG_TRUNC) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// A connection that is under way; `number` is one more each time.
pub fn connect(route: &Route, number: usize) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let address = match &route.address {
        Address::Tcp(address) => *address,
        Address::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, kind, None)?;
            begin(&socket, &SockAddr::unix(path)?)?;
            return Ok(socket);
        }
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if !route.sources.is_empty() {
        bind(&socket, route.sources[number % route.sources.len()])?;
    }
    if route.one_segment {
        // One segment in flight is never held back, yet BBR's model costs 3 % of the client's CPU
        // time on loopback. Where it is not allowed the system's own choice stays.
        let _ = socket.set_tcp_congestion(b"reno");
    }
    stamp::ask(&socket);
    if let Some((send, receive)) = route.buffer_bytes {
        socket.set_send_buffer_size(send)?;
        socket.set_recv_buffer_size(receive)?;
    }
    begin(&socket, &address.into())?;
    Ok(socket)
}

fn begin(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// The port is chosen at the connect, so that each source has all ports for each server.
fn bind(socket: &Socket, source: IpAddr) -> io::Result<()> {
    let (on, level) = (1 as libc::c_int, libc::IPPROTO_IP);
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option's value lives through the call and has the length that is told.
    unsafe {
        let option = libc::IP_BIND_ADDRESS_NO_PORT;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length);
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}

/// Whether `wanted` descriptors are within the hard limit.
pub fn check_descriptors(wanted: u64) -> Result<libc::rlimit, crate::Error> {
    let limit = descriptors_limit();
    if limit.rlim_max < wanted {
        return Err(crate::Error::Descriptors { wanted, limit: limit.rlim_max });
    }
    Ok(limit)
}

/// Makes room for `wanted` descriptors: raises the soft limit as far as the hard one allows.
pub fn ensure_descriptors(wanted: u64) -> Result<(), crate::Error> {
    let mut limit = descriptors_limit();
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: `limit` is a valid rlimit; raising a soft limit within the hard one is always
        // allowed.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    check_descriptors(wanted).map(drop)
}

fn descriptors_limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, exclusively owned rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread::sleep, time::Duration};

    use super::*;

    /// However late one looks.
    #[test]
    fn a_handshake_takes_what_the_kernel_says() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        assert_eq!(handshake_time(&socket), None, "there was none");
        socket.connect(&listener.local_addr().expect("an address").into()).expect("connected");
        sleep(Duration::from_millis(200));
        let took = handshake_time(&socket).expect("the kernel has measured it");
        assert!(took < Duration::from_millis(150), "{took:?}");
    }
}
