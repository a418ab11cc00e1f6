//! A [`World`] over io_uring: one system call a round for all connections that are ready, in place
//! of two for each request.
//!
//! A receive is asked for once in a socket's life (multishot) and lands in one of the buffers that
//! all sockets of a thread share; a send goes out with the next wait. To the engine a
//! [`RingSocket`] looks like a non-blocking socket: what has arrived is read, what is written is
//! taken as a whole while nothing else is on its way. `poll.rs` is the other way, for where this
//! one is not allowed.
//!
//! Needs Linux 6.1 (single issuer, deferred task work). Each thread has a ring of its own.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    ptr::NonNull,
    rc::Rc,
    sync::atomic::{AtomicU16, Ordering::Release},
    time::Duration,
};

use drom_observe::clock;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::{Domain, Socket};

use crate::{
    poll::Ready,
    socket::{self, Plain, Route, Stream},
    world::World,
};

/// Requests to the kernel in one round, and its answers.
const SUBMISSIONS: u32 = 1_024;
const COMPLETIONS: u32 = 8_192;
/// Of each thread: most answers fit into one; a power of two.
const BUFFERS: u16 = 1_024;
const BUFFER_BYTES: usize = 4_096;
/// The only group of buffers of a ring.
const GROUP: u16 = 0;

/// What the kernel is asked to do; the low bits of an answer's tag. The others are the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Connect,
    Receive,
    Send,
    /// The peer's end. A receive should tell it, too, yet one in some ten thousand does not where a
    /// reset follows data at once: the kernel takes the two for one, and is silent from then on.
    /// As CVE-2026-23473 has it, and seen on Linux 6.18.44.
    HangUp,
    /// Nobody waits for its answer.
    Cancel,
}

pub struct Rings {
    inner: Rc<RefCell<Inner>>,
    reports: Vec<Ready>,
    reports_max: usize,
    connects: usize,
}

/// A socket of a ring.
#[derive(Debug)]
pub struct RingSocket {
    inner: Rc<RefCell<Inner>>,
    slot: usize,
}

struct Inner {
    /// Goes before what it points to.
    ring: IoUring,
    buffers: Buffers,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Sockets whose receive has ended for want of buffers, or has not begun.
    starved: Vec<usize>,
    /// Sockets whose peers have hung up, as was told in this round.
    hung_up: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    socket: Option<Socket>,
    token: u64,
    arrived: VecDeque<Piece>,
    is_at_end: bool,
    error: Option<i32>,
    /// What is being sent; it does not move until that is over.
    out: Vec<u8>,
    sent: usize,
    is_sending: bool,
    /// A write was refused meanwhile.
    is_awaited: bool,
    is_connecting: bool,
    is_receiving: bool,
    is_watched: bool,
    has_hung_up: bool,
    /// The stream was dropped: the socket goes when the kernel is done with it.
    is_gone: bool,
    /// Its place among the reports of this round, from 1.
    report: usize,
}

/// Bytes that have arrived and were not read.
#[derive(Clone, Copy, Debug)]
struct Piece {
    buffer: u16,
    from: usize,
    to: usize,
}

impl Rings {
    /// # Errors
    /// That the kernel has no such thing, or does not allow it.
    pub fn new(reports_max: usize) -> io::Result<Self> {
        let inner = Rc::new(RefCell::new(Inner::new()?));
        let reports = Vec::with_capacity(reports_max);
        Ok(Self { inner, reports, reports_max, connects: 0 })
    }
}

impl World for Rings {
    type Stream = Stream<RingSocket>;

    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn connect(&mut self, route: &Route, token: u64) -> io::Result<Self::Stream> {
        let socket = socket::connect(route, self.connects)?;
        self.connects += 1;
        let slot = self.inner.borrow_mut().take_in(socket, token)?;
        let socket = RingSocket { inner: Rc::clone(&self.inner), slot };
        Stream::new(socket, route)
    }

    fn connect_error(&self, stream: &Self::Stream) -> Option<io::Error> {
        let slot = stream.socket().slot;
        let inner = self.inner.borrow();
        let slot = &inner.slots[slot];
        let told = slot.socket.as_ref()?.take_error().unwrap_or_else(Some);
        told.or(slot.error.map(io::Error::from_raw_os_error))
    }

    #[inline]
    fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        self.reports.clear();
        let inner = &mut *self.inner.borrow_mut();
        inner.enter(longest)?;
        inner.collect(&mut self.reports, self.reports_max);
        Ok(self.reports.len())
    }

    #[inline]
    fn report(&self, at: usize) -> Ready {
        self.reports[at]
    }
}

impl Inner {
    /// The ring's descriptor is not registered: the library forgets its place with each submitter,
    /// so that calls do not use it, and a thread has sixteen of them, which it would not get back.
    fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        builder.setup_cqsize(COMPLETIONS);
        let ring: IoUring = builder.build(SUBMISSIONS)?;
        let buffers = Buffers::new(&ring)?;
        let (slots, free) = (Vec::new(), Vec::new());
        let (starved, hung_up) = (Vec::new(), Vec::new());
        Ok(Self { ring, buffers, slots, free, starved, hung_up })
    }

    /// Watches the socket for its connect.
    fn take_in(&mut self, socket: Socket, token: u64) -> io::Result<usize> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), libc::POLLOUT as u32);
        let slot = &mut self.slots[at];
        (slot.socket, slot.token, slot.is_connecting) = (Some(socket), token, true);
        self.ask(at, Work::Connect, entry.build())?;
        Ok(at)
    }

    /// Tells the kernel what there is to do and, where nothing is done yet, waits for something.
    fn enter(&mut self, longest: Duration) -> io::Result<()> {
        for slot in std::mem::take(&mut self.starved) {
            self.receive(slot)?;
            self.watch(slot)?;
        }
        let has_some = !self.ring.completion().is_empty();
        let (submissions, is_run) = {
            let queue = self.ring.submission();
            (queue.len(), queue.taskrun())
        };
        if (has_some || longest.is_zero()) && submissions == 0 && !is_run {
            return Ok(());
        }
        let want = usize::from(!has_some && !longest.is_zero());
        let time = types::Timespec::from(longest);
        let arguments = types::SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(want, &arguments) {
            Err(error) if !is_no_error(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// What is done, as reports; the rest of it waits for the next round.
    fn collect(&mut self, reports: &mut Vec<Ready>, reports_max: usize) {
        while reports.len() < reports_max {
            let Some(done) = self.ring.completion().next() else { break };
            if let Some((slot, ready)) = self.digest(&done) {
                self.report(reports, slot, ready);
            }
        }
        for at in std::mem::take(&mut self.hung_up) {
            self.ask_again(at);
        }
        for ready in reports {
            self.slots[ready.token as usize].report = 0;
            ready.token = self.slots[ready.token as usize].token;
        }
    }

    /// One report a socket and round, with the slot in the token's place.
    fn report(&mut self, reports: &mut Vec<Ready>, at: usize, ready: Ready) {
        let slot = &mut self.slots[at];
        if slot.report == 0 {
            reports.push(ready);
            slot.report = reports.len();
            return;
        }
        let known = &mut reports[slot.report - 1];
        known.readable |= ready.readable;
        known.writable |= ready.writable;
        known.closing |= ready.closing;
    }

    /// What an answer of the kernel means for its socket.
    fn digest(&mut self, done: &cqueue::Entry) -> Option<(usize, Ready)> {
        let (at, work) = untagged(done.user_data());
        let quiet = Ready { token: at as u64, readable: false, writable: false, closing: false };
        let ready = match work {
            Work::Cancel => return None,
            Work::Connect => Some(self.connected(at, done.result(), quiet)),
            Work::Receive => self.received(at, done, quiet),
            Work::Send => self.sent(at, done.result(), quiet),
            Work::HangUp => {
                (self.slots[at].is_watched, self.slots[at].has_hung_up) = (false, true);
                self.hung_up.push(at);
                None
            }
        };
        if self.slots[at].is_gone {
            self.let_go(at);
            return None;
        }
        ready.map(|ready| (at, ready))
    }

    /// Whether the connect has failed is for the socket to say (`connect_error`): a peer that was
    /// quick to close hangs up without an error.
    fn connected(&mut self, at: usize, result: i32, quiet: Ready) -> Ready {
        let slot = &mut self.slots[at];
        slot.is_connecting = false;
        if result < 0 {
            slot.error = Some(-result);
        } else if !slot.is_gone {
            self.starved.push(at);
        }
        let closing = result < 0 || result & i32::from(libc::POLLERR | libc::POLLHUP) != 0;
        Ready { writable: true, closing, ..quiet }
    }

    fn received(&mut self, at: usize, done: &cqueue::Entry, quiet: Ready) -> Option<Ready> {
        let (slot, result) = (&mut self.slots[at], done.result());
        slot.is_receiving = cqueue::more(done.flags());
        if let Some(buffer) = cqueue::buffer_select(done.flags()) {
            match usize::try_from(result) {
                Ok(to) if to > 0 && !slot.is_gone => {
                    slot.arrived.push_back(Piece { buffer, from: 0, to });
                }
                _ => self.buffers.give_back(buffer),
            }
            if slot.is_gone {
                slot.refuse_rest();
            }
        }
        match result {
            0 => slot.is_at_end = true,
            1.. if !slot.is_receiving && !slot.is_gone => self.starved.push(at),
            1.. => {}
            _ if is_passing(result) => {
                self.starved.push(at);
                return None;
            }
            _ => slot.error = Some(-result),
        }
        Some(Ready { readable: true, closing: result <= 0, ..quiet })
    }

    fn sent(&mut self, at: usize, result: i32, quiet: Ready) -> Option<Ready> {
        let slot = &mut self.slots[at];
        slot.is_sending = false;
        match usize::try_from(result) {
            Ok(bytes) => slot.sent += bytes,
            Err(_) if is_passing(result) => {}
            // The receive will tell, behind what the peer has said before it closed.
            Err(_) if slot.is_receiving && slot.is_tcp() => return None,
            Err(_) => {
                slot.error.get_or_insert(-result);
                return Some(Ready { readable: true, closing: true, ..quiet });
            }
        }
        if slot.sent < slot.out.len() && !slot.is_gone {
            return match self.send(at) {
                Ok(()) => None,
                Err(_) => Some(Ready { readable: true, closing: true, ..quiet }),
            };
        }
        let is_awaited = std::mem::take(&mut slot.is_awaited);
        is_awaited.then_some(Ready { writable: true, ..quiet })
    }

    fn receive(&mut self, at: usize) -> io::Result<()> {
        let slot = &mut self.slots[at];
        let Some(socket) = slot.socket.as_ref().filter(|_| !slot.is_gone) else { return Ok(()) };
        let entry = opcode::RecvMulti::new(types::Fd(socket.as_raw_fd()), GROUP).build();
        slot.is_receiving = true;
        self.ask(at, Work::Receive, entry)
    }

    /// Once in a socket's life.
    fn watch(&mut self, at: usize) -> io::Result<()> {
        let slot = &mut self.slots[at];
        let is_new = !slot.is_gone && !slot.is_watched && !slot.has_hung_up;
        let Some(socket) = slot.socket.as_ref().filter(|_| is_new) else { return Ok(()) };
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), libc::POLLRDHUP as u32);
        slot.is_watched = true;
        self.ask(at, Work::HangUp, entry.build())
    }

    /// The peer has hung up, and a receive that still waits may do so for ever: it is called off
    /// and asked for again, which tells what there is.
    fn ask_again(&mut self, at: usize) {
        let slot = &self.slots[at];
        if slot.is_receiving && !slot.is_gone {
            self.call_off(at, Work::Receive);
        }
    }

    fn call_off(&mut self, at: usize, work: Work) {
        let cancel = opcode::AsyncCancel::new(tag(at, work)).build();
        // When even that cannot be asked, the end of the ring calls it off.
        let _ = self.ask(at, Work::Cancel, cancel);
    }

    fn send(&mut self, at: usize) -> io::Result<()> {
        let slot = &mut self.slots[at];
        let Some(socket) = &slot.socket else { return Ok(()) };
        let rest = &slot.out[slot.sent..];
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), rest.as_ptr(), length);
        slot.is_sending = true;
        self.ask(at, Work::Send, entry.flags(libc::MSG_NOSIGNAL).build())
    }

    fn ask(&mut self, slot: usize, work: Work, entry: squeue::Entry) -> io::Result<()> {
        let entry = entry.user_data(tag(slot, work));
        loop {
            // SAFETY: what an entry points to is the socket and the bytes of its slot. A slot keeps
            // both until the kernel has answered (`let_go`), and the ring goes before the slots.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// What has arrived, into `into`.
    fn read(&mut self, at: usize, into: &mut [u8]) -> io::Result<usize> {
        let (slot, mut filled) = (&mut self.slots[at], 0);
        while let Some(piece) = slot.arrived.front_mut().filter(|_| filled < into.len()) {
            let length = (piece.to - piece.from).min(into.len() - filled);
            let bytes = &self.buffers.bytes(piece.buffer)[piece.from..piece.from + length];
            into[filled..filled + length].copy_from_slice(bytes);
            (filled, piece.from) = (filled + length, piece.from + length);
            if piece.from == piece.to {
                self.buffers.give_back(piece.buffer);
                slot.arrived.pop_front();
            }
        }
        match (filled, slot.error, slot.is_at_end) {
            (0, Some(code), _) => Err(io::Error::from_raw_os_error(code)),
            (0, None, false) if !into.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(filled),
        }
    }

    /// All of it, or nothing while something else is on its way.
    fn write(&mut self, at: usize, bytes: &[u8]) -> io::Result<usize> {
        let slot = &mut self.slots[at];
        if let Some(code) = slot.error {
            return Err(io::Error::from_raw_os_error(code));
        }
        if slot.is_sending {
            slot.is_awaited = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        slot.out.clear();
        slot.out.extend_from_slice(bytes);
        slot.sent = 0;
        self.send(at)?;
        Ok(bytes.len())
    }

    /// Nobody wants the socket any more; what the kernel does for it is called off.
    fn drop_stream(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.is_gone = true;
        if !slot.arrived.is_empty() {
            slot.refuse_rest();
        }
        for piece in std::mem::take(&mut slot.arrived) {
            self.buffers.give_back(piece.buffer);
        }
        let works = [
            (slot.is_connecting, Work::Connect),
            (slot.is_receiving, Work::Receive),
            (slot.is_sending, Work::Send),
            (slot.is_watched, Work::HangUp),
        ];
        for (_, work) in works.into_iter().filter(|(is_under_way, _)| *is_under_way) {
            self.call_off(at, work);
        }
        self.let_go(at);
    }

    /// Closes the socket once the kernel works for it no more, and frees its slot.
    fn let_go(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let is_busy = slot.is_connecting || slot.is_receiving || slot.is_sending || slot.is_watched;
        if is_busy || slot.socket.is_none() {
            return;
        }
        let mut out = std::mem::take(&mut slot.out);
        out.clear();
        *slot = Slot { out, report: slot.report, ..Slot::default() };
        self.starved.retain(|starved| *starved != at);
        self.hung_up.retain(|hung_up| *hung_up != at);
        self.free.push(at);
    }
}

impl Drop for Inner {
    /// What was written goes out: it is counted as sent.
    fn drop(&mut self) {
        let _ = self.ring.submit();
    }
}

impl Slot {
    /// Both sides of it have the same end.
    fn is_tcp(&self) -> bool {
        let domain = self.socket.as_ref().map(Socket::domain);
        domain.is_some_and(|domain| domain.is_ok_and(|domain| domain != Domain::UNIX))
    }

    /// Bytes that nobody has read make a reset of a close: so does the kernel with those that it
    /// still has, and a server would take an answer for taken otherwise.
    fn refuse_rest(&self) {
        if let Some(socket) = &self.socket {
            // A socket that has failed needs no reset.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// A wait that was cut short, or brought nothing in its time, or found no room for answers.
fn is_no_error(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Not the socket's end: it is asked for again. As an error it would read like "nothing yet", of
/// which nothing more is heard.
fn is_passing(result: i32) -> bool {
    matches!(-result, libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ECANCELED)
}

fn tag(slot: usize, work: Work) -> u64 {
    (slot as u64) << 3 | work as u64
}

fn untagged(tag: u64) -> (usize, Work) {
    let works = [Work::Connect, Work::Receive, Work::Send, Work::HangUp, Work::Cancel];
    ((tag >> 3) as usize, works[(tag & 7) as usize])
}

/// What has come is in a buffer already, without a stamp.
impl Plain for RingSocket {
    fn connect_time(&self) -> Option<Duration> {
        self.inner.borrow().slots[self.slot].socket.as_ref().and_then(socket::handshake_time)
    }
}

impl Read for RingSocket {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.inner.borrow_mut().read(self.slot, into)
    }
}

impl Write for RingSocket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.borrow_mut().write(self.slot, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RingSocket {
    fn drop(&mut self) {
        self.inner.borrow_mut().drop_stream(self.slot);
    }
}

/// Memory that the kernel puts what it receives into, and the ring that says which is free.
struct Buffers {
    entries: NonNull<types::BufRingEntry>,
    bytes: Vec<u8>,
    tail: u16,
}

impl Buffers {
    fn new(ring: &IoUring) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping of our own, page-aligned as the kernel wants it.
        let mapped = unsafe {
            libc::mmap(std::ptr::null_mut(), Self::ring_bytes(), protection, kind, -1, 0)
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let entries = NonNull::new(mapped.cast()).ok_or_else(io::Error::last_os_error)?;
        let bytes = vec![0; usize::from(BUFFERS) * BUFFER_BYTES];
        let mut buffers = Self { entries, bytes, tail: 0 };
        let at = entries.as_ptr() as u64;
        // SAFETY: the mapping has room for so many entries and lives until this value is dropped,
        // which is after the ring (fields are dropped in their order).
        unsafe { ring.submitter().register_buf_ring_with_flags(at, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|buffer| buffers.give_back(buffer));
        Ok(buffers)
    }

    fn ring_bytes() -> usize {
        usize::from(BUFFERS) * size_of::<types::BufRingEntry>()
    }

    fn bytes(&self, buffer: u16) -> &[u8] {
        let from = usize::from(buffer) * BUFFER_BYTES;
        &self.bytes[from..from + BUFFER_BYTES]
    }

    /// The kernel may use it again.
    #[inline]
    fn give_back(&mut self, buffer: u16) {
        let from = usize::from(buffer) * BUFFER_BYTES;
        let address = self.bytes[from..].as_mut_ptr() as u64;
        let place = usize::from(self.tail & (BUFFERS - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the place is within the mapping. The kernel reads an entry only when the tail,
        // stored behind it with release order, has gone past it, and there are never more entries
        // than buffers, so that none is overwritten before it was used. The tail is where the
        // library says it is, in the first entry, aligned to two bytes.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            let tail = types::BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody uses it any more: the ring is gone.
        unsafe { libc::munmap(self.entries.as_ptr().cast(), Self::ring_bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::plan::Address;

    #[test]
    fn a_thread_may_have_any_number_of_rings_one_after_the_other() {
        if let Err(error) = Rings::new(1) {
            println!("not tested: no ring can be made here: {error}");
            return;
        }
        assert!((0..40).all(|_| Rings::new(1).is_ok()));
    }

    /// A hang-up without an error: the connection was made, and has ended.
    #[test]
    fn a_peer_that_closes_before_one_looks_has_closed_and_not_failed_to_connect() {
        let mut rings = match Rings::new(4) {
            Ok(rings) => rings,
            Err(error) => return println!("not tested: no ring can be made here: {error}"),
        };
        let path = std::env::temp_dir().join(format!("drom-rings-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        let route = Route {
            address: Address::Unix(path.clone()),
            security: None,
            sources: Vec::new(),
            one_segment: false,
            buffer_bytes: None,
        };
        let mut stream = rings.connect(&route, 7).expect("connected");
        drop(listener.accept().expect("it is there"));
        std::fs::remove_file(path).expect("it was there");

        let longest = Duration::from_secs(5);
        assert_eq!(rings.wait(longest).expect("waited"), 1);
        assert!(rings.report(0).writable, "{:?}", rings.report(0));
        assert!(rings.connect_error(&stream).is_none());
        assert_eq!(rings.wait(longest).expect("waited"), 1);
        assert!(rings.report(0).closing, "{:?}", rings.report(0));
        assert_eq!(stream.read(&mut [0; 8]).expect("its end"), 0);
    }
}
