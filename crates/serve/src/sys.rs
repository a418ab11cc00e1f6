//! The system calls that the standard library has no words for: descriptors across processes, epoll,
//! futex, fork, shared memory. Thin, safe on the outside where that is possible; no policy.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
    sync::atomic::AtomicU32,
    time::Duration,
};

pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// SAFETY: the caller owns the descriptor and gives it away.
unsafe fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a non-negative descriptor returned by the system call is new and owned by nobody else.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

// ---- epoll ---------------------------------------------------------------------------------------

pub struct Epoll(OwnedFd);

pub const IN: u32 = libc::EPOLLIN as u32;
pub const OUT: u32 = libc::EPOLLOUT as u32;
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.map(Self)
    }

    pub fn add(&self, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    pub fn modify(&self, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Appends ready (token, events) pairs to `ready`; an interrupted wait appends none.
    pub fn wait(&self, buffer: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        // SAFETY: the buffer is exclusively ours and its length is given.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() as i32,
                timeout_ms,
            )
        };
        match check(count) {
            Ok(count) => Ok(count as usize),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn control(&self, what: i32, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: `event` is a local; the kernel copies it.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
    }
}

// ---- descriptors across processes ----------------------------------------------------------------

/// A pair of connected message sockets, closed on exec; both ends non-blocking when asked.
pub fn message_pair(nonblocking: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let kind = if nonblocking { kind | libc::SOCK_NONBLOCK } else { kind };
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: both are new.
    let pair = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
    for fd in [&pair.0, &pair.1] {
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            set_option(fd.as_raw_fd(), libc::SOL_SOCKET, option, 4 << 20);
        }
    }
    Ok(pair)
}

pub fn set_option(fd: RawFd, level: i32, option: i32, value: i32) {
    // SAFETY: the value is a local int. A refused option leaves the default, which works as well.
    unsafe {
        libc::setsockopt(fd, level, option, (&raw const value).cast(), size_of::<i32>() as u32);
    }
}

const FDS_MAX: usize = 4;
/// Room for a control message with `FDS_MAX` descriptors, aligned as cmsghdr asks.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Sends one message with descriptors; the bytes stand in up to two pieces.
pub fn send_fds(socket: RawFd, head: &[u8], body: &[u8], fds: &[RawFd]) -> io::Result<()> {
    assert!(fds.len() <= FDS_MAX, "a message carries at most {FDS_MAX} descriptors");
    let mut parts = [io_slice(head), io_slice(body)];
    let mut control = Control([0; 64]);
    // SAFETY: msghdr is plain data for which zero is valid; every pointer set below is to a local or
    // argument that outlives the call, and the control buffer is large enough for FDS_MAX.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len();
        if !fds.is_empty() {
            let bytes = size_of_val(fds) as u32;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = libc::CMSG_SPACE(bytes) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
            std::ptr::copy_nonoverlapping(
                fds.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                bytes as usize,
            );
        }
        let sent =
            libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn io_slice(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// Receives one message; `Ok(None)` when the other side is gone. Blocks unless the socket does not.
pub fn receive_fds(
    socket: RawFd,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<Option<usize>> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 64]);
    // SAFETY: as in `send_fds`; descriptors found in the control message are new and become owned here.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>();
        let got = libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC);
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / size_of::<RawFd>() {
                    let data = libc::CMSG_DATA(header).cast::<RawFd>().add(index);
                    fds.push(OwnedFd::from_raw_fd(data.read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        Ok((got > 0).then_some(got as usize))
    }
}

pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }
}

/// Makes an eventfd readable; async-signal-safe.
pub fn kick(fd: RawFd) {
    let one = 1u64;
    // SAFETY: writes eight bytes from a local; a full counter is as readable as one more.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

pub fn unkick(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: reads eight bytes into a local; nothing to read is fine.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

pub fn pipe(flags: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), flags | libc::O_CLOEXEC) })?;
    // SAFETY: both are new.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// The end that is read does not block; the other does.
pub fn pipe_to_watch() -> io::Result<(OwnedFd, OwnedFd)> {
    let (output, input) = pipe(0)?;
    // SAFETY: no pointers; a new pipe has no other flags.
    unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    Ok((output, input))
}

/// TMPDIR, as it was at the first call: workers forget the server's environment.
pub fn scratch_folder() -> &'static std::ffi::CStr {
    static FOLDER: std::sync::OnceLock<std::ffi::CString> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().into_os_string();
        let bytes = std::os::unix::ffi::OsStringExt::into_vec(folder);
        std::ffi::CString::new(bytes).unwrap_or_else(|_| c"/tmp".to_owned())
    })
}

/// A file that has no name, for bodies too large for memory.
pub fn scratch_file() -> io::Result<std::fs::File> {
    let path = scratch_folder();
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path is a C string; the descriptor is new.
    match unsafe { owned(libc::open(path.as_ptr(), flags, 0o600)) } {
        Ok(fd) => Ok(fd.into()),
        // SAFETY: as above. Some file systems have no O_TMPFILE; memory serves then.
        Err(_) => unsafe {
            owned(libc::memfd_create(c"drom-body".as_ptr(), libc::MFD_CLOEXEC)).map(Into::into)
        },
    }
}

// ---- futex ---------------------------------------------------------------------------------------

/// Sleeps while `word` is `expected`, until woken or the time is over.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let time = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as i64,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |t| &raw const *t);
    // SAFETY: the word and the time are valid for the call; private to this process.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            time,
        );
    }
}

/// Wakes the sleeper on `word`; async-signal-safe.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid; no other pointer.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

// ---- processes -----------------------------------------------------------------------------------

/// Forks. `Ok(None)` in the child.
///
/// # Safety
/// The process must have one thread, or the child must only exec or exit.
pub unsafe fn fork() -> io::Result<Option<i32>> {
    // SAFETY: as the caller promises.
    match check(unsafe { libc::fork() })? {
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

/// A zeroed region shared with every process forked later; never unmapped.
pub fn shared_memory(bytes: usize) -> io::Result<*mut u8> {
    map_shared(bytes, libc::MAP_ANONYMOUS, -1)
}

/// The same as a file of this name without a folder, which whoever may look into this process finds
/// among its descriptors. Above those that others open; its length is final.
pub fn shared_file(name: &std::ffi::CStr, bytes: usize) -> io::Result<(*mut u8, OwnedFd)> {
    /// As far as a script's descriptors are counted by hand.
    const HIGH: RawFd = 200;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the descriptor is new.
    let low = unsafe { owned(libc::memfd_create(name.as_ptr(), flags)) }?;
    // SAFETY: no pointers; the descriptor is new.
    let high = unsafe { owned(libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH)) };
    let fd = high.unwrap_or(low);
    std::fs::File::from(fd.try_clone()?).set_len(bytes as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok((map_shared(bytes, 0, fd.as_raw_fd())?, fd))
}

fn map_shared(bytes: usize, flags: i32, fd: RawFd) -> io::Result<*mut u8> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | flags);
    // SAFETY: a fresh mapping, at an address of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// A child that ended, without waiting: (pid, wait status).
pub fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is a local.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// Waits for the end of a child; its wait status.
pub fn wait_for(pid: i32) -> Option<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a local.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            return Some(status);
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// A wait status in words, after the name of who ended.
pub fn how_it_ended(status: i32) -> String {
    match libc::WIFSIGNALED(status) {
        true => format!("was killed by signal {}", signal_name(libc::WTERMSIG(status))),
        false => format!("ended with status {}", libc::WEXITSTATUS(status)),
    }
}

/// With the name of what a fault in C code ends with.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGSYS => " (SIGSYS)",
        _ => "",
    };
    format!("{signal}{name}")
}

/// This process gets a signal when the one that forked it ends; 0: no more. A parent that ended
/// before this call shows as another parent.
pub fn die_with_parent(signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
}

pub fn parent() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::getppid() }
}

/// Files in memory of this name among the descriptors of a process, as paths to open.
pub fn memory_files(pid: i32, name: &str) -> io::Result<impl Iterator<Item = PathBuf> + use<>> {
    let wanted = PathBuf::from(format!("/memfd:{name} (deleted)"));
    let paths = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().map(|entry| entry.path());
    Ok(paths.filter(move |path| std::fs::read_link(path).is_ok_and(|to| to == wanted)))
}

/// Signals every process below this one that has not made itself a session of its own; tells how
/// many there were.
pub fn kill_family(signal: i32) -> usize {
    // SAFETY: no pointers.
    let session = |pid| unsafe { libc::getsid(pid) };
    let mut family = Vec::new();
    descendants(std::process::id() as i32, &mut family);
    family.retain(|&pid| session(pid) == session(0));
    family.iter().for_each(|&pid| kill(pid, signal));
    family.len()
}

/// Ends a process and those below it that have not made themselves a session of their own.
pub fn kill_tree(pid: i32, signal: i32) {
    // SAFETY: no pointers.
    let session = |pid| unsafe { libc::getsid(pid) };
    let mut family = Vec::new();
    descendants(pid, &mut family);
    family.retain(|&pid| session(pid) == session(0));
    kill(pid, signal);
    family.iter().for_each(|&pid| kill(pid, signal));
}

fn descendants(pid: i32, all: &mut Vec<i32>) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|word| word.parse().ok()) {
            all.push(child);
            descendants(child, all);
        }
    }
}

/// A process (0: this one) leads a group of its own. Parent and child both say it: neither then
/// meets a child without.
pub fn make_group(pid: i32) {
    // SAFETY: no pointers. A child that has its group already, or is gone, is as good.
    unsafe { libc::setpgid(pid, pid) };
}

/// Whether a process is there (or, with a minus, one of a group), ended or not.
pub fn is_there(pid: i32) -> bool {
    // SAFETY: no pointers; signal 0 only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: no pointers. A process that is gone already is what the caller wants.
    unsafe { libc::kill(pid, signal) };
}

/// A descriptor that becomes readable on the given signals, which are blocked for this thread.
pub fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is a local that sigemptyset initialises.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
    }
}

/// The next signal that a signalfd holds.
pub fn next_signal(fd: RawFd) -> Option<i32> {
    // SAFETY: the record is plain data, read whole or not at all.
    unsafe {
        let mut record: libc::signalfd_siginfo = std::mem::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let got = libc::read(fd, (&raw mut record).cast(), size);
        (got == size as isize).then_some(record.ssi_signo as i32)
    }
}

/// Signals as a program finds them at its start: nothing blocked, default actions.
pub fn reset_signals() {
    reset_signals_but(&[]);
}

/// These are ignored, without a moment in between in which they would end the process.
pub fn reset_signals_but(ignored: &[i32]) {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            set_signal(signal, ignored.contains(&signal));
        }
    }
    unblock_signals();
}

/// Ignored, or its usual action.
pub fn set_signal(signal: i32, is_ignored: bool) {
    // SAFETY: both are valid actions for every signal and need no handler.
    unsafe { libc::signal(signal, if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Sent to every process of the server, they are for the master alone to understand.
pub const FOR_THE_MASTER: [i32; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGUSR1];

/// The end of children is heard of from now on. Returns what was to happen instead.
pub fn reset_child_signal() -> libc::sigaction {
    // SAFETY: sigaction is plain data, for which zero is SIG_DFL.
    unsafe {
        let (default, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaction(libc::SIGCHLD, &raw const default, &raw mut before);
        before
    }
}

pub fn set_child_signal(action: &libc::sigaction) {
    // SAFETY: the action was in place in this process, or in the one it was forked from.
    unsafe { libc::sigaction(libc::SIGCHLD, action, std::ptr::null_mut()) };
}

pub fn unblock_signals() {
    // SAFETY: the set is a local.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Waits until a socket takes bytes again or is broken, at most this long.
pub fn wait_writable(fd: RawFd, timeout: Duration) {
    let mut polled = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one local record.
    unsafe { libc::poll(&raw mut polled, 1, timeout) };
}

/// In the child of a script's fork: closes the server's sockets (those bound to its port) and epolls, so
/// that clients see the end of their connections when the worker closes them.
pub fn close_connections(port: u16) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let fds: Vec<RawFd> =
        entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    for fd in fds.into_iter().filter(|&fd| fd > 2) {
        let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        let events = target.to_string_lossy().starts_with("anon_inode:[event");
        if events || local_address(fd).is_ok_and(|a| a.port() == port) {
            // SAFETY: this child never returns to the code that owns these descriptors.
            unsafe { libc::close(fd) };
        }
    }
}

/// In a forked child that keeps only these (and 0 to 2): closes every other descriptor. What a child holds
/// by accident keeps pipes from ending and ports from being free.
pub fn close_all_except(keep: &[RawFd]) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let fds: Vec<RawFd> =
        entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    for fd in fds.into_iter().filter(|fd| *fd > 2 && !keep.contains(fd)) {
        // SAFETY: this child never returns to the code that owns these descriptors.
        unsafe { libc::close(fd) };
    }
}

// ---- sockets -------------------------------------------------------------------------------------

pub fn socket_address(storage: &libc::sockaddr_storage) -> std::net::SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    let at = &raw const *storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a sockaddr_in6.
            let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            // A client that speaks IPv4 to a socket for both is written as it writes itself.
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            SocketAddr::new(ip, u16::from_be(v6.sin6_port))
        }
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in.
            let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            SocketAddr::new(ip.into(), u16::from_be(v4.sin_port))
        }
        _ => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
    }
}

type GetName = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut u32) -> i32;

fn name_of(fd: RawFd, get: GetName) -> io::Result<std::net::SocketAddr> {
    // SAFETY: sockaddr_storage is plain data; the kernel fills at most `len` bytes.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as u32;
        check(get(fd, (&raw mut storage).cast(), &raw mut len))?;
        Ok(socket_address(&storage))
    }
}

pub fn local_address(fd: RawFd) -> io::Result<std::net::SocketAddr> {
    name_of(fd, libc::getsockname)
}

pub fn peer_address(fd: RawFd) -> io::Result<std::net::SocketAddr> {
    name_of(fd, libc::getpeername)
}

pub fn receive(fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is ours and its length is given.
    let got = unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

pub fn read(fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is ours and its length is given.
    let got = unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Bytes that the kernel holds and nobody has read.
pub fn has_unread(fd: RawFd) -> bool {
    let mut count = 0i32;
    // SAFETY: FIONREAD writes an int.
    unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) == 0 && count > 0 }
}

/// Whether the machine speaks IPv6.
pub fn has_ipv6() -> bool {
    // SAFETY: no pointers; the descriptor is new.
    unsafe { owned(libc::socket(libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) }
        .is_ok()
}

/// A listening socket; the address is free again at once after a restart. One of IPv6 for every
/// address takes IPv4 as well, unless `only_v6`.
pub fn listen(
    address: std::net::SocketAddr,
    only_v6: bool,
    backlog: u32,
) -> io::Result<std::net::TcpListener> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers; the descriptor is new.
    let fd = unsafe { owned(libc::socket(family, kind, 0))? };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    if address.is_ipv6() {
        set_option(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(only_v6));
    }
    if address.ip().is_loopback() {
        pace_nothing(fd.as_raw_fd());
    }
    bind(fd.as_raw_fd(), address)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), i32::try_from(backlog).unwrap_or(511)) })?;
    Ok(fd.into())
}

/// New clients are refused from now on, whoever else has the socket; those who wait in its queue
/// are told so.
pub fn stop_listening(listener: &std::net::TcpListener) {
    // SAFETY: no pointers.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RD) };
}

/// Within the machine there is no network to be careful of. A congestion control that paces (BBR)
/// arms a timer for each answer, which cost a tenth of the rate
/// (docs/decisions/003-where-connections-rest.md). Every Linux has Reno; a refusal leaves the
/// machine's default. Accepted connections inherit it.
fn pace_nothing(fd: RawFd) {
    const NAME: &[u8] = b"reno";
    // SAFETY: the name is a constant of the length given.
    unsafe {
        let name = NAME.as_ptr().cast();
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name, NAME.len() as u32);
    }
}

fn bind(fd: RawFd, address: std::net::SocketAddr) -> io::Result<()> {
    // SAFETY: the address structures are locals, plain data, of the length given.
    unsafe {
        match address {
            std::net::SocketAddr::V4(v4) => {
                let mut at: libc::sockaddr_in = std::mem::zeroed();
                at.sin_family = libc::AF_INET as u16;
                at.sin_port = v4.port().to_be();
                at.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                let len = size_of::<libc::sockaddr_in>() as u32;
                check(libc::bind(fd, (&raw const at).cast(), len)).map(drop)
            }
            std::net::SocketAddr::V6(v6) => {
                let mut at: libc::sockaddr_in6 = std::mem::zeroed();
                at.sin6_family = libc::AF_INET6 as u16;
                at.sin6_port = v6.port().to_be();
                at.sin6_addr.s6_addr = v6.ip().octets();
                let len = size_of::<libc::sockaddr_in6>() as u32;
                check(libc::bind(fd, (&raw const at).cast(), len)).map(drop)
            }
        }
    }
}

// ---- who and how much ----------------------------------------------------------------------------

pub fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}

/// The user and group to serve as; nothing to do without them or without root. A group alone is
/// root's. The error is the name that nobody has.
///
/// A child asks: name services load libraries into the process that asks them (systemd's, and what
/// it needs), and from then on each fork would copy ten mappings more.
pub fn identity(
    user: Option<&str>,
    group: Option<&str>,
) -> Result<Option<crate::template::Identity>, String> {
    if !is_root() {
        return Ok(None);
    }
    let Some(name) = user.or(group.map(|_| "#0")) else { return Ok(None) };
    let answer = ask_in_child(|| match look_up(name, group) {
        Ok(found) => found.iter().map(|id| format!("{id} ")).collect(),
        Err(name) => format!("?{name}"),
    });
    let answer = answer.map_err(|e| format!("{name} ({e})"))?;
    if let Some(name) = answer.strip_prefix('?') {
        return Err(name.to_owned());
    }
    let ids: Vec<u32> = answer.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    let [uid, gid, groups @ ..] = &ids[..] else { return Err(name.to_owned()) };
    Ok(Some(crate::template::Identity { uid: *uid, gid: *gid, groups: groups.to_vec() }))
}

/// What a child of this process finds out, as text.
fn ask_in_child(question: impl FnOnce() -> String) -> io::Result<String> {
    use std::io::{Read, Write};
    let (read, write) = pipe(0)?;
    // SAFETY: only called where the process has one thread.
    match unsafe { fork() }? {
        None => {
            drop(read);
            // Who asked sees an empty answer when this fails.
            let _ = std::fs::File::from(write).write_all(question().as_bytes());
            exit_now(0)
        }
        Some(child) => {
            drop(write);
            let mut answer = String::new();
            let read = std::fs::File::from(read).read_to_string(&mut answer);
            wait_for(child);
            read.map(|_| answer)
        }
    }
}

/// Number of a user, its group, and all groups it is in; the error is the name that nobody has. A
/// user by number needs an entry too, for the groups.
fn look_up(user: &str, group: Option<&str>) -> Result<Vec<u32>, String> {
    let unknown = || user.to_owned();
    let record = user_record(user).ok_or_else(unknown)?;
    // SAFETY: the record's strings live until the next question of this kind.
    let name = unsafe { std::ffi::CStr::from_ptr(record.pw_name) }.to_owned();
    let gid = match group {
        Some(name) => self::group(name).ok_or_else(|| name.to_owned())?,
        None => record.pw_gid,
    };
    let mut ids = vec![record.pw_uid, gid];
    ids.extend(groups_of(&name, gid));
    Ok(ids)
}

/// By name or `#uid`.
fn user_record(name: &str) -> Option<libc::passwd> {
    let text = std::ffi::CString::new(name).ok()?;
    let number = name.strip_prefix('#').map(str::parse::<u32>);
    // SAFETY: the name is a C string; the record is copied.
    unsafe {
        let found = match number {
            Some(uid) => libc::getpwuid(uid.ok()?),
            None => libc::getpwnam(text.as_ptr()),
        };
        found.as_ref().copied()
    }
}

pub fn has_user(name: &str) -> bool {
    user_record(name).is_some()
}

pub fn has_group(name: &str) -> bool {
    group(name).is_some()
}

fn groups_of(name: &std::ffi::CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as i32;
        // SAFETY: the name is a C string, the array has `count` places.
        let got =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let fits = got >= 0;
        groups.resize(count.max(0) as usize, 0);
        if fits {
            return groups;
        }
    }
}

/// A group by name or `#gid`; a number needs no entry.
fn group(name: &str) -> Option<u32> {
    if let Some(gid) = name.strip_prefix('#') {
        return gid.parse().ok();
    }
    let text = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name is a C string; what is wanted of the record is copied.
    unsafe { libc::getgrnam(text.as_ptr()).as_ref().map(|r| r.gr_gid) }
}

pub fn become_user(user: &crate::template::Identity) -> io::Result<()> {
    // SAFETY: the array's length is given; groups go first because a user without root cannot change
    // them.
    unsafe {
        check(libc::setgroups(user.groups.len(), user.groups.as_ptr()))?;
        check(libc::setgid(user.gid))?;
        check(libc::setuid(user.uid)).map(drop)
    }
}

/// As many descriptors as this process may have: each connection needs one.
pub fn raise_descriptor_limit() {
    // SAFETY: the record is a local.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max.min(1 << 20);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Workers whose template died become children of this process.
pub fn adopt_orphans() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// The kernel's number of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::gettid() }
}

/// CPU time of a thread of this process that lives.
pub fn thread_cpu_ns(thread: libc::pthread_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut clock = 0;
    // SAFETY: the thread lives as long as the process; both records are locals.
    unsafe {
        if libc::pthread_getcpuclockid(thread, &raw mut clock) == 0 {
            libc::clock_gettime(clock, &raw mut time);
        }
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What the kernel says of a thread, to be asked often: the file stays open.
pub struct ThreadState(Option<std::fs::File>);

impl ThreadState {
    pub fn of(thread: i32) -> Self {
        Self(std::fs::File::open(format!("/proc/self/task/{thread}/stat")).ok())
    }

    /// Whether the thread waits in the kernel, rather than for a core. False where nobody can tell.
    pub fn is_sleeping(&self) -> bool {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 128];
        let read = self.0.as_ref().map(|file| file.read_at(&mut text, 0));
        let Some(Ok(len)) = read else { return false };
        // "pid (name) S ...", and a name may hold anything.
        let after_name = memchr::memrchr(b')', &text[..len]).map(|at| at + 2);
        after_name.is_some_and(|at| matches!(text.get(at), Some(b'S' | b'D')))
    }
}

pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Ends a forked process without the exit handlers of the program it was forked from.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Waits until one of the descriptors is readable or closed; tells which are.
pub fn poll(fds: &[BorrowedFd<'_>], timeout_ms: i32) -> Vec<bool> {
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the array is ours and its length is given.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as u64, timeout_ms) };
    polled.iter().map(|p| p.revents != 0).collect()
}
