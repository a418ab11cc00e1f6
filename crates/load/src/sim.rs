//! A world for tests: its own clock, and servers that do what a script says. A run in it takes no
//! time and comes out the same to the nanosecond.
//!
//! The network takes no time either: what a request costs is what the script says.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    io::{self, Read, Write},
    rc::Rc,
    time::Duration,
};

use crate::{
    poll::Ready,
    socket::{Route, Transport},
    world::World,
};

/// What a server does with a request, so long after it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    Send(Vec<u8>),
    Close,
    Reset,
}

/// A request as a script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub now_ns: u64,
    /// Number of the request in the run, from 0.
    pub number: u64,
    pub text: &'a str,
}

/// After how many nanoseconds what is done.
pub type Script = Box<dyn FnMut(Asked<'_>) -> Vec<(u64, Act)>>;

pub struct Sim {
    state: Rc<RefCell<State>>,
    reports: Vec<Ready>,
}

/// A client's end of a connection.
pub struct SimStream {
    state: Rc<RefCell<State>>,
    number: usize,
}

struct State {
    now_ns: u64,
    /// What a read costs the client.
    read_ns: u64,
    script: Script,
    requests: u64,
    /// By time, then in the order they were planned.
    events: BinaryHeap<Reverse<(u64, u64, usize, Happening)>>,
    planned: u64,
    sockets: Vec<Socket>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Connected,
    Act(Act),
}

#[derive(Default)]
struct Socket {
    token: u64,
    /// Bytes that have come and were not read.
    arrived: VecDeque<u8>,
    /// Bytes of a request that is not whole.
    asked: Vec<u8>,
    closed: bool,
    reset: bool,
    gone: bool,
}

/// A look without waiting takes a moment, or a loop of looks would take for ever.
const LOOK_NS: u64 = 1_000;

impl Sim {
    pub fn new(script: impl FnMut(Asked<'_>) -> Vec<(u64, Act)> + 'static) -> Self {
        let state = State {
            now_ns: 1_000_000_000,
            read_ns: 0,
            script: Box::new(script),
            requests: 0,
            events: BinaryHeap::new(),
            planned: 0,
            sockets: Vec::new(),
        };
        Self { state: Rc::new(RefCell::new(state)), reports: Vec::new() }
    }

    /// The same with a client that takes so long for each read.
    pub fn with_costly_reads(self, read_ns: u64) -> Self {
        self.state.borrow_mut().read_ns = read_ns;
        self
    }

    /// Time in which nothing is done.
    pub fn sleep(&self, ns: u64) {
        self.state.borrow_mut().now_ns += ns;
    }

    /// To look at it after a run.
    pub fn requests(&self) -> impl Fn() -> u64 + use<> {
        let state = Rc::clone(&self.state);
        move || state.borrow().requests
    }
}

/// A whole answer with this body.
pub fn page(body: &str) -> Act {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    Act::Send([head.as_bytes(), body.as_bytes()].concat())
}

impl World for Sim {
    type Stream = SimStream;

    fn now_ns(&self) -> u64 {
        self.state.borrow().now_ns
    }

    fn connect(&mut self, _: &Route, token: u64) -> io::Result<SimStream> {
        let mut state = self.state.borrow_mut();
        let number = state.sockets.len();
        state.sockets.push(Socket { token, ..Socket::default() });
        state.plan(0, number, Happening::Connected);
        Ok(SimStream { state: Rc::clone(&self.state), number })
    }

    fn connect_error(&self, _: &SimStream) -> Option<io::Error> {
        None
    }

    fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        let longest_ns = (longest.as_nanos() as u64).max(LOOK_NS);
        self.reports = self.state.borrow_mut().pass(longest_ns);
        Ok(self.reports.len())
    }

    fn report(&self, at: usize) -> Ready {
        self.reports[at]
    }
}

impl State {
    fn plan(&mut self, after_ns: u64, socket: usize, what: Happening) {
        self.planned += 1;
        self.events.push(Reverse((self.now_ns + after_ns, self.planned, socket, what)));
    }

    /// Lets time pass until something happens; what that is, by socket.
    fn pass(&mut self, longest_ns: u64) -> Vec<Ready> {
        let until_ns = self.now_ns + longest_ns;
        let next_ns = self.events.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        self.now_ns = next_ns.clamp(self.now_ns, until_ns);
        let mut ready = BTreeMap::new();
        while self.events.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= self.now_ns) {
            let Some(Reverse((_, _, number, what))) = self.events.pop() else { break };
            let socket = &mut self.sockets[number];
            if socket.gone {
                continue;
            }
            let token = socket.token;
            let quiet = Ready { token, readable: false, writable: false, closing: false };
            socket.happen(what, ready.entry(number).or_insert(quiet));
        }
        ready.into_values().collect()
    }

    /// The script's turn as often as a request is whole.
    fn ask(&mut self, number: usize, bytes: &[u8]) {
        self.sockets[number].asked.extend_from_slice(bytes);
        while let Some(end) = request_end(&self.sockets[number].asked) {
            let text: Vec<u8> = self.sockets[number].asked.drain(..end).collect();
            let text = str::from_utf8(&text).expect("requests of these tests are text");
            let asked = Asked { now_ns: self.now_ns, number: self.requests, text };
            self.requests += 1;
            for (after_ns, act) in (self.script)(asked) {
                self.plan(after_ns, number, Happening::Act(act));
            }
        }
    }
}

fn request_end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)?;
    let text = str::from_utf8(&bytes[..head]).expect("requests of these tests are text");
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let whole = head + length.map_or(0, |digits| digits.parse().expect("a length"));
    (whole <= bytes.len()).then_some(whole)
}

impl Socket {
    fn happen(&mut self, what: Happening, ready: &mut Ready) {
        match what {
            Happening::Connected => ready.writable = true,
            Happening::Act(Act::Send(bytes)) => {
                self.arrived.extend(bytes);
                ready.readable = true;
            }
            Happening::Act(Act::Close) => {
                self.closed = true;
                (ready.readable, ready.closing) = (true, true);
            }
            Happening::Act(Act::Reset) => {
                self.reset = true;
                (ready.readable, ready.closing) = (true, true);
            }
        }
    }
}

impl Read for SimStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        state.now_ns += state.read_ns;
        let socket = &mut state.sockets[self.number];
        if socket.reset {
            return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
        }
        match (socket.arrived.read(into)?, socket.closed) {
            (0, false) => Err(io::ErrorKind::WouldBlock.into()),
            (got, _) => Ok(got),
        }
    }
}

impl Write for SimStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        let socket = &state.sockets[self.number];
        if socket.reset || socket.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.ask(self.number, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for SimStream {
    fn skip(&mut self, max: usize) -> Option<io::Result<usize>> {
        let mut some = [0; 100];
        let room = max.min(some.len());
        Some(self.read(&mut some[..room]))
    }

    fn is_drained_by_short_reads(&self) -> bool {
        true
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.state.borrow_mut().sockets[self.number].gone = true;
    }
}
