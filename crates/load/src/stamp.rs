//! When bytes came: the kernel's own stamp of a segment, asked for with a read. It tells how long
//! an answer lay in its socket before this client took it, which no clock of the client's can.
//!
//! A stamp costs a longer system call, so only a sample of the reads asks. TCP on Linux.

use std::{io, os::fd::AsRawFd};

use drom_observe::clock::wall_ns;
use socket2::{Domain, Socket, Type};

/// Room for one control message with a `timespec`, and for another that nobody asked for.
const CONTROL_WORDS: usize = 16;

/// As long as one socket of the machine wants stamps the kernel makes them; to begin and to end
/// costs it more than all of them. Held for a run, whose connections may be short.
pub fn keep_on() -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None).ok()?;
    ask(&socket);
    Some(socket)
}

/// Lets the kernel stamp what comes on `socket`. Where it does not, reads find no stamp.
pub fn ask(socket: &Socket) {
    let (on, level) = (1 as libc::c_int, libc::SOL_SOCKET);
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option's value lives through the call and has the length that is told.
    unsafe {
        let option = libc::SO_TIMESTAMPNS;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length);
    }
}

/// Reads like `recv`; besides, for how long the last of these bytes have lain there.
pub(crate) fn read(socket: &Socket, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let (got, at_ns) = read_at(socket, into)?;
    Ok((got, at_ns.map(|at_ns| wall_ns().saturating_sub(at_ns))))
}

/// Reads like `recv`; besides, when the last of these bytes came: nanoseconds since 1970.
///
/// # Errors
/// The system's.
pub fn read_at(socket: &Socket, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: all zeroes is a valid `msghdr`: no name, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` points at `into` and `control`, which live through the call and are
    // exclusively borrowed, with the lengths that they have.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    Ok((got, stamp_ns(&message)))
}

fn stamp_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled `message`; the macros keep to the length that it has told, and
    // a message of this type holds a `timespec`, aligned or not.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = at.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time = libc::CMSG_DATA(at).cast::<libc::timespec>().read_unaligned();
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    use super::*;

    #[test]
    fn bytes_are_stamped_when_they_come_not_when_they_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let socket = Socket::from(TcpStream::connect(address).expect("a connection"));
        ask(&socket);
        let (mut peer, _) = listener.accept().expect("a peer");
        let mut buffer = [0; 16];
        // The kernel begins to stamp a moment after it was asked for the first time.
        let mut longest = None;
        for _ in 0..50 {
            peer.write_all(b"late").expect("it is open");
            drom_observe::clock::sleep(Duration::from_millis(20));
            let (got, lay_ns) = read(&socket, &mut buffer).expect("bytes");
            assert_eq!(&buffer[..got], b"late");
            longest = longest.max(lay_ns);
            if longest.is_some_and(|lay_ns| lay_ns >= 19_000_000) {
                return;
            }
        }
        panic!("no stamp tells of 20 ms: {longest:?}");
    }
}
