//! The scoreboard: one slot per worker and per running CGI child, in memory that every process
//! shares. Who may look into the server's processes can read it from outside ([`view`]).
//!
//! Only atomics live here, so that a worker that dies in the middle of a write leaves nothing
//! broken. Text (the request line, the Perl position) is copied byte by byte; a reader may see a
//! torn line, and shows it as what it is: a hint for people.

pub mod view;

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::atomic::{
        AtomicI32, AtomicU8, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use drom_observe::clock;

use crate::sys;

/// By it the memory is found among a master's descriptors.
const NAME: &std::ffi::CStr = c"drom-scoreboard";
const MAGIC: [u8; 8] = *b"dromseen";
/// Of all that is laid out here: whoever changes it counts on (a test knows the places).
const VERSION: u32 = 1;

/// What a reader must know before it reads further. Written once.
#[repr(C, align(64))]
struct Header {
    magic: [u8; 8],
    version: u32,
    slot_bytes: u32,
    slots: u32,
    cgi_bytes: u32,
    /// Where the slots begin, and behind them the lines of CGI children.
    slots_at: u32,
    cgi_at: u32,
    /// Monotonic.
    started_ns: u64,
}

const LINE_MAX: usize = 192;
/// As much of a request's head as fits an ordinary browser's.
const HEAD_MAX: usize = 1024;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No process.
    Free = 0,
    Starting = 1,
    Ready = 2,
    /// Finishing what it has; takes nothing new.
    Draining = 3,
    /// Its main thread met a fatal signal; its helper saves what can be saved.
    Dying = 4,
}

impl State {
    fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::Starting,
            2 => Self::Ready,
            3 => Self::Draining,
            4 => Self::Dying,
            _ => Self::Free,
        }
    }
}

/// A worker's line. Written by the worker (and by the master while there is none).
#[repr(C, align(64))]
pub struct Slot {
    pub pid: AtomicI32,
    state: AtomicU8,
    pub generation: AtomicU32,
    /// 1: it accepts connections.
    pub primary: AtomicU32,
    pub connections: AtomicU32,
    /// Thousandths of a core that a primary used in its last window.
    busy: AtomicU32,
    /// Those that Perl ran.
    pub requests: AtomicU64,
    /// Of every kind, and their bytes with heads. Only the owner of the worker's engine writes.
    answers: AtomicU64,
    answered_bytes: AtomicU64,
    /// Its private memory when it was new; 0: not known.
    new_uss_bytes: AtomicU64,
    /// Monotonic time at which Perl was entered; 0 while Perl is not running.
    pub perl_since_ns: AtomicU64,
    /// Head of the request that Perl runs.
    pub request: Text<{ HEAD_MAX / 8 }>,
    pub running: Running,
    /// Perl file and line, written when a request is stopped or the worker dies.
    pub position: Text<{ LINE_MAX / 8 }>,
}

/// What the access log needs of the request that Perl runs, should the worker not live to write its
/// line. Besides its head, in `Slot::request`.
#[repr(C)]
pub struct Running {
    /// Monotonic; 0: no request, or its line is written.
    pub started_ns: AtomicU64,
    pub wall_us: AtomicU64,
    pub client: Address,
    pub local: Address,
    /// What went out of its answer; status 0: nothing.
    status: AtomicU32,
    body_bytes: AtomicU64,
    /// The answer that went out was whole.
    whole: AtomicU32,
}

/// An answer as far as it went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub status: u16,
    pub body_bytes: u64,
    pub whole: bool,
}

/// An address, in the form of the sixth version.
#[repr(C)]
pub struct Address {
    ip: [AtomicU64; 2],
    port: AtomicU32,
}

/// A CGI child whose output a worker reads. The child's number is for stopping it.
#[repr(C, align(64))]
pub struct CgiSlot {
    /// Slot of the worker that waits for it, plus one; 0: free.
    owner: AtomicU32,
    /// Number of the job in this slot, above, and of its process, below: what an earlier job's
    /// child still writes does not count.
    job: AtomicU64,
}

/// The worker is gone; its child is being stopped.
const ABANDONED: u32 = u32::MAX;
/// Beside a child's number: somebody is about to send it a signal.
const CONDEMNED: u32 = 1 << 31;

impl CgiSlot {
    pub fn serial(&self) -> u32 {
        (self.job.load(Relaxed) >> 32) as u32
    }

    /// 0: not started yet, or over.
    pub fn pid(&self) -> i32 {
        (self.job.load(SeqCst) as u32 & !CONDEMNED) as i32
    }

    /// The child to send a signal to, 0 when there is none. From then on its process runs nothing
    /// after this job: the signal may come late.
    pub fn condemn(&self) -> i32 {
        let mark = |job: u64| (job as u32 != 0).then_some(job | u64::from(CONDEMNED));
        let job = self.job.fetch_update(SeqCst, SeqCst, mark).unwrap_or(0);
        (job as u32 & !CONDEMNED) as i32
    }

    /// A child that could run another script is done with this one. False: it is to end.
    pub fn finish(&self, serial: u32, pid: u32) -> bool {
        let (done, job) = (u64::from(serial) << 32, u64::from(serial) << 32 | u64::from(pid));
        self.job.compare_exchange(job, done, SeqCst, SeqCst).is_ok()
    }

    pub fn is_taken(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }

    /// Called in the child, and with 0 by who reaps it. False when nobody waits for this job any
    /// more.
    pub fn set_pid(&self, serial: u32, pid: i32) -> bool {
        let put = |job: u64| {
            let same = job >> 32 == u64::from(serial);
            same.then_some(u64::from(serial) << 32 | u64::from(pid as u32))
        };
        let ours = self.job.fetch_update(SeqCst, SeqCst, put).is_ok();
        ours && !matches!(self.owner.load(SeqCst), 0 | ABANDONED)
    }

    /// The worker with this slot ended: the child to stop, 0 when it does not run. A child that
    /// starts later sees that nobody waits for it.
    pub fn abandon(&self, worker: usize) -> Option<i32> {
        let owner = worker as u32 + 1;
        self.owner.compare_exchange(owner, ABANDONED, SeqCst, SeqCst).ok()?;
        Some(self.condemn())
    }

    pub fn free(&self) {
        self.owner.store(0, SeqCst);
    }
}

/// Bytes that one process writes and another may read, eight at a time.
#[repr(C)]
pub struct Text<const WORDS: usize> {
    len: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Text<WORDS> {
    pub fn set(&self, text: &[u8]) {
        let text = &text[..text.len().min(WORDS * 8)];
        let (whole, rest) = text.as_chunks::<8>();
        for (to, from) in self.words.iter().zip(whole) {
            to.store(u64::from_le_bytes(*from), Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.words[whole.len()].store(u64::from_le_bytes(word), Relaxed);
        }
        self.len.store(text.len() as u32, Relaxed);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let len = (self.len.load(Relaxed) as usize).min(WORDS * 8);
        self.words.iter().flat_map(|w| w.load(Relaxed).to_le_bytes()).take(len).collect()
    }

    /// Up to the end of the first line.
    pub fn line(&self) -> String {
        let bytes = self.bytes();
        let end = bytes.iter().position(|&b| b == b'\r').unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

impl Address {
    pub fn set(&self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        self.ip[0].store((ip.to_bits() >> 64) as u64, Relaxed);
        self.ip[1].store(ip.to_bits() as u64, Relaxed);
        self.port.store(address.port().into(), Relaxed);
    }

    pub fn get(&self) -> SocketAddr {
        let [high, low] = [&self.ip[0], &self.ip[1]].map(|half| u128::from(half.load(Relaxed)));
        let ip = IpAddr::from(Ipv6Addr::from_bits(high << 64 | low)).to_canonical();
        SocketAddr::new(ip, self.port.load(Relaxed) as u16)
    }
}

impl Running {
    pub fn sent(&self) -> Option<Sent> {
        let status = self.status.load(Relaxed) as u16;
        let (body_bytes, whole) = (self.body_bytes.load(Relaxed), self.whole.load(Relaxed) != 0);
        (status != 0).then_some(Sent { status, body_bytes, whole })
    }

    pub fn set_sent(&self, sent: Option<Sent>) {
        self.status.store(sent.map_or(0, |s| s.status.into()), Relaxed);
        self.body_bytes.store(sent.map_or(0, |s| s.body_bytes), Relaxed);
        self.whole.store(sent.map_or(0, |s| s.whole.into()), Relaxed);
    }
}

impl Slot {
    pub fn state(&self) -> State {
        State::from_u8(self.state.load(Relaxed))
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// Ready and not in Perl: it would take a request at once.
    pub fn is_idle(&self) -> bool {
        self.state() == State::Ready && self.perl_since_ns.load(Relaxed) == 0
    }

    /// Ready, and accepts connections for this generation.
    pub fn is_primary_of(&self, generation: u32) -> bool {
        self.state() == State::Ready
            && self.primary.load(Relaxed) != 0
            && self.generation.load(Relaxed) == generation
    }

    /// Share of a core that it used in its last window.
    pub fn busy(&self) -> f64 {
        f64::from(self.busy.load(Relaxed)) / 1000.0
    }

    pub fn set_busy(&self, share: f64) {
        self.busy.store((share * 1000.0) as u32, Relaxed);
    }

    /// An answer left. One writer needs no locked addition.
    pub fn count_answer(&self, bytes: u64) {
        self.answers.store(self.answers.load(Relaxed) + 1, Relaxed);
        self.answered_bytes.store(self.answered_bytes.load(Relaxed) + bytes, Relaxed);
    }

    pub fn set_new_memory(&self, uss_bytes: u64) {
        self.new_uss_bytes.store(uss_bytes, Relaxed);
    }

    pub fn clear(&self) {
        self.pid.store(0, Relaxed);
        self.connections.store(0, Relaxed);
        self.set_busy(0.0);
        for count in [&self.requests, &self.answers, &self.answered_bytes, &self.new_uss_bytes] {
            count.store(0, Relaxed);
        }
        self.perl_since_ns.store(0, Relaxed);
        self.request.set(b"");
        self.running.started_ns.store(0, Relaxed);
        self.position.set(b"");
        self.set_state(State::Free);
    }
}

impl Header {
    fn of(workers: usize, started_ns: u64) -> Self {
        let slots_at = size_of::<Self>();
        let cgi_at = slots_at + size_of::<Slot>() * workers;
        Self {
            magic: MAGIC,
            version: VERSION,
            slot_bytes: size_of::<Slot>() as u32,
            slots: workers as u32,
            cgi_bytes: size_of::<CgiSlot>() as u32,
            slots_at: slots_at as u32,
            cgi_at: cgi_at as u32,
            started_ns,
        }
    }
}

/// The whole board; lives as long as the server.
#[derive(Clone, Copy)]
pub struct Scoreboard {
    pub slots: &'static [Slot],
    pub cgi: &'static [CgiSlot],
}

impl Scoreboard {
    /// With the descriptor by which others find it; where there can be none (a limit of files'
    /// sizes holds for memory too) the board is the server's alone.
    pub fn new(workers: usize) -> io::Result<(Self, Option<OwnedFd>)> {
        let header = Header::of(workers, clock::monotonic_ns());
        let bytes = header.cgi_at as usize + size_of::<CgiSlot>() * workers;
        let (at, shown) = match sys::shared_file(NAME, bytes) {
            Ok((at, fd)) => (at, Some(fd)),
            Err(_) => (sys::shared_memory(bytes)?, None),
        };
        let (slots_at, cgi_at) = (header.slots_at as usize, header.cgi_at as usize);
        // SAFETY: the mapping is zeroed, page-aligned, large enough, never unmapped; all-zero
        // atomics are valid; header and arrays begin at multiples of their alignment (64 divides
        // all sizes).
        unsafe {
            at.cast::<Header>().write(header);
            let slots = std::slice::from_raw_parts(at.add(slots_at).cast(), workers);
            let cgi = std::slice::from_raw_parts(at.add(cgi_at).cast(), workers);
            Ok((Self { slots, cgi }, shown))
        }
    }

    /// Workers other than `me` that would take a request at once.
    pub fn idle_besides(&self, me: usize) -> usize {
        self.slots.iter().enumerate().filter(|(i, s)| *i != me && s.is_idle()).count()
    }

    /// The primaries of `me`'s generation other than `me`.
    pub fn other_primaries(&self, me: usize) -> impl Iterator<Item = &'static Slot> {
        let (slots, generation) = (self.slots, self.slots[me].generation.load(Relaxed));
        let others = slots.iter().enumerate().filter(move |(i, _)| *i != me);
        others.map(|(_, slot)| slot).filter(move |slot| slot.is_primary_of(generation))
    }

    /// Takes a free CGI slot for a worker; there are as many as `MaxRequestWorkers`.
    pub fn take_cgi(&self, worker: usize, most: usize) -> Option<usize> {
        let owner = worker as u32 + 1;
        let taken = |s: &CgiSlot| s.owner.compare_exchange(0, owner, Relaxed, Relaxed).is_ok();
        let index =
            self.cgi.iter().take(most).position(|s| s.owner.load(Relaxed) == 0 && taken(s))?;
        let serial = self.cgi[index].serial().wrapping_add(1);
        self.cgi[index].job.store(u64::from(serial) << 32, SeqCst);
        Some(index)
    }

    /// A child ended whose parent had ended before it: its number may soon be another process's.
    pub fn forget_child(&self, pid: i32) {
        for line in self.cgi.iter().filter(|line| line.pid() == pid) {
            line.set_pid(line.serial(), 0);
        }
    }

    pub fn free_cgi(&self, index: usize) {
        self.cgi[index].free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(workers: usize) -> Scoreboard {
        Scoreboard::new(workers).expect("memory").0
    }

    /// Another build of Drom may look: what moved is another version.
    #[test]
    fn version_1_is_laid_out_so() {
        use std::mem::offset_of;
        assert_eq!((VERSION, size_of::<Header>(), size_of::<CgiSlot>()), (1, 64, 64));
        assert_eq!(offset_of!(Header, started_ns), 32);
        let slot = [
            offset_of!(Slot, pid),
            offset_of!(Slot, state),
            offset_of!(Slot, generation),
            offset_of!(Slot, primary),
            offset_of!(Slot, connections),
            offset_of!(Slot, busy),
            offset_of!(Slot, requests),
            offset_of!(Slot, answers),
            offset_of!(Slot, answered_bytes),
            offset_of!(Slot, new_uss_bytes),
            offset_of!(Slot, perl_since_ns),
            offset_of!(Slot, request),
            offset_of!(Slot, running),
            offset_of!(Slot, position),
            size_of::<Slot>(),
        ];
        assert_eq!(slot, [0, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 1096, 1184, 1408]);
        assert_eq!((offset_of!(Running, client), offset_of!(Address, port)), (16, 16));
    }

    #[test]
    fn a_cgi_slot_is_taken_once() {
        let board = board(2);
        assert_eq!(board.take_cgi(0, 9), Some(0));
        assert_eq!(board.take_cgi(1, 9), Some(1));
        assert_eq!(board.take_cgi(0, 9), None);
        board.free_cgi(0);
        assert_eq!(board.take_cgi(1, 9), Some(0));
    }

    #[test]
    fn a_child_that_is_to_be_stopped_runs_nothing_else() {
        let board = board(1);
        let line = &board.cgi[0];
        board.take_cgi(0, 1);
        assert_eq!(line.condemn(), 0, "it is not there yet");
        assert!(line.set_pid(line.serial(), 77) && line.finish(line.serial(), 77));
        assert_eq!(line.condemn(), 0, "it is done");
        assert!(line.set_pid(line.serial(), 77));
        assert_eq!((line.condemn(), line.condemn(), line.pid()), (77, 77, 77));
        assert!(!line.finish(line.serial(), 77));
    }

    #[test]
    fn a_child_that_comes_too_late_is_told() {
        let board = board(1);
        let line = &board.cgi[0];
        board.take_cgi(0, 1);
        let first = line.serial();
        assert!(line.set_pid(first, 77));
        assert_eq!((line.abandon(1), line.abandon(0)), (None, Some(77)));
        assert_eq!(board.take_cgi(0, 1), None, "it is not free before the child was told");
        assert!(!line.set_pid(first, 78));
        line.free();
        board.take_cgi(0, 1);
        assert!(!line.set_pid(first, 79), "another job has the slot");
        assert_eq!(line.pid(), 0);
    }

    #[test]
    fn only_ready_workers_outside_perl_are_idle() {
        let board = board(3);
        assert_eq!(board.idle_besides(0), 0);
        board.slots[1].set_state(State::Ready);
        board.slots[2].set_state(State::Ready);
        assert_eq!(board.idle_besides(1), 1);
        board.slots[2].perl_since_ns.store(5, Relaxed);
        assert_eq!(board.idle_besides(1), 0);
    }

    #[test]
    fn a_text_keeps_what_fits() {
        let board = board(1);
        let request = &board.slots[0].request;
        for text in ["", "GET / HT", "GET / HTTP/1.1"] {
            request.set(text.as_bytes());
            assert_eq!(request.line(), text);
        }
        request.set(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(request.line(), "GET / HTTP/1.1");
        assert!(request.bytes().ends_with(b"\r\nHost: x\r\n\r\n"));
        request.set(&[b'x'; 3000]);
        assert_eq!(request.bytes(), [b'x'; HEAD_MAX]);
    }

    #[test]
    fn addresses_survive() {
        let board = board(1);
        for text in ["127.0.0.1:80", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            board.slots[0].running.client.set(address);
            assert_eq!(board.slots[0].running.client.get(), address);
        }
    }
}
