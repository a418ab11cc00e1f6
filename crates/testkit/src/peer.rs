//! One client's connection: its requests as they are read, the answers that are due, and what
//! became of each.
//!
//! A close is the end of writing only: what the client still sends is read and counted until it
//! closes, too. So nothing is lost in the kernel, and no reset overtakes an answer. How the client
//! closed tells whether it had read the last answer: when it has not, its kernel says reset.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::fd::AsRawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use drom_observe::clock::monotonic_ns;
use socket2::{Domain, Socket};

use crate::{
    answer,
    counts::Counts,
    request::{Event, Requests},
    script::{Fate, Form, Manner, Script, Then, Turn},
};

/// How long to wait before a full socket, or one whose bytes are under way, is tried again.
const RETRY_NS: u64 = 200_000;
/// Bytes that are not acknowledged after this time are given up.
const ENDING_NS_MAX: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;

/// What all connections of a server share.
pub struct Ledger {
    pub script: Script,
    pub counts: Arc<Mutex<Counts>>,
    pub now_ns: u64,
    pub first_ns: Option<u64>,
    numbers: u64,
    /// When a server of limited capacity has time for the next answer.
    free_ns: u64,
}

/// A connection.
pub struct Peer {
    pub socket: Socket,
    state: State,
    requests: Requests,
    asked: Option<Asked>,
    /// The request that is being read is a late one.
    is_late: bool,
    jobs: VecDeque<Job>,
    /// Whole answers of which it is not known yet whether the client has read them.
    given: VecDeque<Given>,
    /// Requests that have begun, and answers of which it is known.
    begun: usize,
    known: usize,
    idle_end_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    /// Nothing is written any more.
    Lingering,
    /// The client has closed; some bytes are still under way to it.
    Ending {
        since_ns: u64,
    },
    Gone,
}

/// The request that is being read.
struct Asked {
    turn: Turn,
    delay: Duration,
    bytes: usize,
    to_head: bool,
    is_queued: bool,
}

/// An answer that is due or on its way.
struct Job {
    turn: Turn,
    wire: Vec<u8>,
    /// So many bytes of it are to be given.
    end: usize,
    given: usize,
    asked_ns: u64,
    next_ns: u64,
}

enum Given {
    Page { status: u16, is_other: bool },
    Flawed { is_long: bool },
}

enum Step {
    Later,
    Given,
    Broken,
}

impl Ledger {
    pub fn new(script: Script, counts: Arc<Mutex<Counts>>) -> Self {
        assert!(!script.turns.is_empty(), "a script has a turn");
        let now_ns = monotonic_ns();
        Self { script, counts, now_ns, first_ns: None, numbers: 0, free_ns: 0 }
    }

    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("nobody panics while counting")
    }

    fn ask(&mut self) -> Asked {
        self.first_ns.get_or_insert(self.now_ns);
        let (turn, delay) = self.script.turn(self.numbers);
        self.numbers += 1;
        Asked { turn: turn.clone(), delay, bytes: 0, to_head: false, is_queued: false }
    }

    fn due_ns(&mut self, delay: Duration) -> u64 {
        let Some(rps) = self.script.capacity_rps else {
            return self.now_ns + delay.as_nanos() as u64;
        };
        self.free_ns = self.free_ns.max(self.now_ns) + (1e9 / rps) as u64;
        self.free_ns + delay.as_nanos() as u64
    }
}

impl Peer {
    pub fn new(socket: Socket, manner: Manner, ledger: &Ledger) -> Self {
        let mut peer = Self {
            socket,
            state: State::Serving,
            requests: Requests::default(),
            asked: None,
            is_late: false,
            jobs: VecDeque::new(),
            given: VecDeque::new(),
            begun: 0,
            known: 0,
            idle_end_ns: NEVER,
        };
        match manner {
            Manner::Serve => {}
            Manner::Close => peer.close(ledger),
            Manner::Reset => {
                ledger.counts().turned_away += 1;
                peer.reset(ledger);
            }
        }
        peer
    }

    /// Nothing is left to do with it.
    pub fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    /// No more reports of its socket are wanted.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. } | State::Gone)
    }

    /// When it wants to be woken.
    pub fn wake_ns(&self, ledger: &Ledger) -> Option<u64> {
        let at_ns = match self.state {
            State::Serving => {
                self.jobs.front().map_or(NEVER, |job| job.next_ns).min(self.idle_end_ns)
            }
            State::Ending { .. } => ledger.now_ns + RETRY_NS,
            State::Lingering | State::Gone => NEVER,
        };
        Some(at_ns).filter(|at_ns| *at_ns != NEVER)
    }

    /// Reads what is there.
    pub fn read(&mut self, ledger: &mut Ledger, buffer: &mut [u8]) {
        while !self.is_ending() {
            match (&self.socket).read(buffer) {
                Ok(0) => return self.ended(ledger),
                Ok(length) => {
                    ledger.now_ns = monotonic_ns();
                    ledger.counts().bytes_read += length as u64;
                    self.feed(ledger, &buffer[..length]);
                    if length < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.settle(ledger, true),
            }
        }
    }

    /// Does what is due.
    pub fn advance(&mut self, ledger: &mut Ledger) {
        if let State::Ending { since_ns } = self.state {
            return self.end(ledger, since_ns);
        }
        while self.state == State::Serving {
            let Some(job) = self.jobs.front_mut().filter(|job| job.next_ns <= ledger.now_ns) else {
                break;
            };
            match job.step(&self.socket, ledger) {
                Step::Later => {}
                Step::Given => self.given(ledger),
                Step::Broken => return self.settle(ledger, true),
            }
        }
        if self.state == State::Serving && self.idle_end_ns <= ledger.now_ns {
            self.close(ledger);
        }
    }

    fn feed(&mut self, ledger: &mut Ledger, mut bytes: &[u8]) {
        while self.state != State::Gone {
            let (used, event) = self.requests.next(&bytes[..self.wanted(bytes.len())]);
            bytes = &bytes[used..];
            if let Some(asked) = &mut self.asked {
                asked.bytes += used;
            }
            match event {
                Some(Event::Begin) => self.begin(ledger),
                Some(Event::Head { is_head }) => self.head(ledger, is_head),
                Some(Event::End) => self.whole(ledger),
                None if bytes.is_empty() => return,
                None => self.cut_request(ledger),
            }
        }
    }

    /// Bytes until the connection is cut in a request.
    fn wanted(&self, there: usize) -> usize {
        match &self.asked {
            Some(Asked { turn, bytes, .. }) => match turn.fate {
                Fate::RequestCutClose(at) | Fate::RequestCutReset(at) => {
                    there.min(at.saturating_sub(*bytes))
                }
                _ => there,
            },
            None => there,
        }
    }

    fn begin(&mut self, ledger: &mut Ledger) {
        ledger.counts().begun += 1;
        self.begun += 1;
        self.is_late = self.state == State::Lingering;
        if self.is_late {
            ledger.counts().late += 1;
            return;
        }
        let read = self.begun.saturating_sub(ledger.script.depth + self.known);
        self.count_given(ledger, read, false);
        self.idle_end_ns = NEVER;
        self.asked = Some(ledger.ask());
    }

    fn head(&mut self, ledger: &mut Ledger, is_head: bool) {
        let Some(mut asked) = self.asked.take() else { return };
        asked.to_head = is_head;
        if asked.turn.early && !asked.turn.fate.cuts_request() {
            self.jobs.push_back(Job::new(&asked, ledger));
            asked.is_queued = true;
        }
        self.asked = Some(asked);
    }

    fn whole(&mut self, ledger: &mut Ledger) {
        ledger.counts().whole += u64::from(self.is_late || self.asked.is_some());
        match &self.asked {
            Some(Asked { turn, .. }) if turn.fate.cuts_request() => {
                return self.cut_request(ledger);
            }
            Some(asked) if !asked.is_queued => self.jobs.push_back(Job::new(asked, ledger)),
            _ => {}
        }
        self.asked = None;
    }

    fn cut_request(&mut self, ledger: &mut Ledger) {
        let Some(asked) = self.asked.take() else { return };
        if matches!(asked.turn.fate, Fate::RequestCutReset(_)) {
            ledger.counts().cut_reset += 1;
            self.reset(ledger);
        } else {
            ledger.counts().cut_close += 1;
            self.close(ledger);
        }
    }

    /// The answer in front has come as far as it was to come.
    fn given(&mut self, ledger: &mut Ledger) {
        let Some(Job { turn, .. }) = self.jobs.pop_front() else { return };
        match turn.fate {
            Fate::CutClose(_) => {
                ledger.counts().cut_close += 1;
                return self.close(ledger);
            }
            Fate::CutReset(_) => {
                ledger.counts().cut_reset += 1;
                return self.reset(ledger);
            }
            Fate::Flawed(flaw) => {
                self.given.push_back(Given::Flawed { is_long: flaw.is_long() });
                return;
            }
            _ if turn.then == Then::Reset => {
                ledger.counts().reset_after += 1;
                return self.reset(ledger);
            }
            _ => {}
        }
        let is_other = turn.fate == Fate::OtherBody;
        self.given.push_back(Given::Page { status: turn.seen_status(), is_other });
        match turn.then {
            Then::Announced => self.close(ledger),
            _ if turn.form == Form::UntilClose => self.close(ledger),
            // With another answer due it is not idle.
            Then::Silent(idle) if self.jobs.is_empty() => {
                self.idle_end_ns = ledger.now_ns + idle.as_nanos() as u64
            }
            _ => {}
        }
    }

    fn close(&mut self, ledger: &Ledger) {
        // It may be closed on the other side already: then the next read says so.
        let _ = self.socket.shutdown(Shutdown::Write);
        ledger.counts().cut_close += self.forget();
        self.state = State::Lingering;
    }

    fn reset(&mut self, ledger: &Ledger) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
        // Pipelined answers of before are the client's, or not.
        ledger.counts().reset_after += self.given.drain(..).count() as u64;
        ledger.counts().cut_reset += self.forget();
        self.state = State::Gone;
    }

    /// Requests that were read and get no answer now.
    fn forget(&mut self) -> u64 {
        let asked = self.asked.take().filter(|asked| !asked.is_queued);
        self.jobs.drain(..).count() as u64 + u64::from(asked.is_some())
    }

    /// The client has closed. What it has not acknowledged yet may still be refused.
    fn ended(&mut self, ledger: &Ledger) {
        self.end(ledger, ledger.now_ns);
    }

    fn end(&mut self, ledger: &Ledger, since_ns: u64) {
        let error = self.socket.take_error().ok().flatten();
        let is_waiting = ledger.now_ns < since_ns + ENDING_NS_MAX && self.unacknowledged() > 0;
        if error.is_none() && is_waiting {
            self.state = State::Ending { since_ns };
        } else {
            self.settle(ledger, error.is_some());
        }
    }

    fn settle(&mut self, ledger: &Ledger, is_reset: bool) {
        self.count_given(ledger, self.given.len(), is_reset);
        let mut counts = ledger.counts();
        counts.mute += u64::from(self.begun == 0);
        counts.abandoned += self.forget();
        drop(counts);
        self.state = State::Gone;
    }

    /// The first `number` of the given answers were read, or never will be.
    fn count_given(&mut self, ledger: &Ledger, number: usize, is_reset: bool) {
        let mut counts = ledger.counts();
        for given in self.given.drain(..number.min(self.given.len())) {
            self.known += 1;
            match given {
                Given::Flawed { is_long } if is_long || !is_reset => counts.flawed += 1,
                _ if is_reset => counts.crossed += 1,
                Given::Page { status, is_other } => {
                    *counts.taken.entry(status).or_default() += 1;
                    counts.other_body += u64::from(is_other);
                }
                Given::Flawed { .. } => unreachable!("both cases are above"),
            }
        }
    }

    /// Bytes that the client's kernel has not acknowledged; a Unix socket hands them over at once.
    fn unacknowledged(&self) -> usize {
        let is_unix = self.socket.domain().is_ok_and(|domain| domain == Domain::UNIX);
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open (borrowed from its owner); the request writes one int.
        let status =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if is_unix || status < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
    }
}

impl Job {
    fn new(asked: &Asked, ledger: &mut Ledger) -> Self {
        let turn = asked.turn.clone();
        let wire = answer::wire(&turn, asked.to_head);
        let end = match turn.fate {
            Fate::CutClose(at) | Fate::CutReset(at) | Fate::Stall(at) => at.min(wire.len() - 1),
            _ => wire.len(),
        };
        let next_ns = ledger.due_ns(asked.delay);
        Self { turn, wire, end, given: 0, asked_ns: ledger.now_ns, next_ns }
    }

    /// Gives the next piece.
    fn step(&mut self, mut socket: &Socket, ledger: &mut Ledger) -> Step {
        let (size, pause) = self.turn.pieces.unwrap_or((usize::MAX, Duration::ZERO));
        let until = self.end.min(self.given.saturating_add(size.max(1)));
        ledger.now_ns = monotonic_ns();
        let delay_ns = ledger.now_ns.saturating_sub(self.asked_ns);
        let written = match until - self.given {
            0 => Ok(0),
            _ => socket.write(&self.wire[self.given..until]),
        };
        match written {
            Ok(written) => {
                self.given += written;
                ledger.counts().bytes_written += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Step::Broken,
        }
        if self.given < until {
            self.next_ns = ledger.now_ns + RETRY_NS;
        } else if until < self.end {
            self.next_ns = ledger.now_ns + pause.as_nanos() as u64;
        } else if matches!(self.turn.fate, Fate::Stall(_)) {
            self.next_ns = NEVER;
        } else {
            if self.end == self.wire.len() {
                ledger.counts().delays.record_ns(delay_ns);
            }
            return Step::Given;
        }
        Step::Later
    }
}

impl Turn {
    /// As a client reads it.
    fn seen_status(&self) -> u16 {
        if self.form == Form::Bodiless { 204 } else { self.status }
    }
}

impl Fate {
    fn cuts_request(&self) -> bool {
        matches!(self, Self::RequestCutClose(_) | Self::RequestCutReset(_))
    }
}
