//! The event loop of a worker: connections, requests being read and answers being written.
//!
//! Central noun: [`Engine`]. One thread at a time owns it (`worker` passes it between the main thread, which
//! can run Perl, and the helper, which cannot); nothing in here is shared or locked. [`Engine::turn`] does
//! one step and returns when a request needs Perl.
//!
//! Invariant: a connection whose request runs is in state `Running`; its request is with the thread that
//! runs it, and the engine does not touch its socket until [`Engine::finish_job`].

mod cgi_run;
mod connection;
mod handoff;
mod reading;
mod respond;
mod spread;

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::atomic::Ordering::Relaxed,
};

use connection::{Connection, State};
use drom_observe::clock;
pub use reading::place;

use crate::{
    config::LogLevel,
    crisis,
    request::Request,
    scoreboard::{self, Scoreboard, Slot},
    site::{Site, wall_time},
    sys::{self, Epoll},
};

/// What the engine needs from the world; descriptors belong to the worker's process for its life.
pub struct Setup {
    pub site: &'static Site,
    pub board: Scoreboard,
    /// This worker's slot.
    pub me: usize,
    /// Whether this worker accepts connections; the others get theirs from the inbox.
    pub primary: bool,
    pub listeners: Vec<RawFd>,
    /// Connections for any idle worker: receiving and sending end.
    pub inbox: (RawFd, RawFd),
    /// Connections for the other primaries: receiving and sending end.
    pub overflow: (RawFd, RawFd),
    /// CGI jobs for the spawner.
    pub cgi_jobs: RawFd,
    /// Closed when the master is gone.
    pub lifeline: RawFd,
    /// Ends when workers of this generation are to finish.
    pub enough: RawFd,
    /// Readable when a thread wants the loop's attention.
    pub kick: RawFd,
}

/// What a turn of the loop ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A request needs Perl; take it with [`Engine::begin_job`].
    Job(usize),
    /// Events were handled, or the time is over.
    Idle,
}

/// Which of the requests that wait for Perl go to other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// So many, and only to workers that have a core to themselves.
    ToPrimaries(usize),
    /// As many as there are idle workers.
    All,
}

pub struct Engine {
    setup: Setup,
    epoll: Epoll,
    events: Vec<libc::epoll_event>,
    ready: usize,
    next: usize,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    count: usize,
    serial: u64,
    buffers: Vec<Vec<u8>>,
    #[expect(
        clippy::vec_box,
        reason = "a request moves between connections and here: a pointer, not 1 KB"
    )]
    spare: Vec<Box<Request>>,
    /// Connections with input that was read already.
    again: VecDeque<usize>,
    /// Connections whose request waits for Perl.
    waiting: VecDeque<usize>,
    /// Connections whose request waits for a place among the CGI children.
    cgi_waiting: VecDeque<usize>,
    cgi_running: usize,
    /// When it was last said that no connection can be accepted.
    refused_ns: u64,
    /// What is read of a script at once.
    cgi_buffer: Vec<u8>,
    listening: bool,
    inbox_on: bool,
    overflow_on: bool,
    meter: spread::Meter,
    pub now_ns: u64,
    wall_s: u64,
    swept_ns: u64,
    /// Taking nothing new.
    pub draining: bool,
    pub master_gone: bool,
    pub retire: bool,
    can_run_perl: bool,
    may_move: Move,
    /// Somebody wants this thread to look around.
    attention: bool,
    files: respond::FileCache,
}

mod token {
    pub const LISTENER: u64 = 1 << 56;
    pub const INBOX: u64 = 2 << 56;
    pub const KICK: u64 = 3 << 56;
    pub const CGI: u64 = 4 << 56;
    pub const LIFELINE: u64 = 5 << 56;
    pub const OVERFLOW: u64 = 6 << 56;
    pub const CGI_ERRORS: u64 = 7 << 56;
    pub const ENOUGH: u64 = 8 << 56;
    pub const KIND: u64 = 0xff << 56;
}

const EVENTS_MAX: usize = 64;
const ACCEPTS_MAX: usize = 16;
const REFUSED_NS: u64 = 1_000_000_000;
const SWEEP_NS: u64 = 100_000_000;
/// While CGI output is held back in the hope of its end: flush after this long.
const CGI_FLUSH_MS: i32 = 20;

impl Engine {
    pub fn new(setup: Setup) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(setup.kick, sys::IN, token::KICK)?;
        epoll.add(setup.lifeline, sys::IN, token::LIFELINE)?;
        epoll.add(setup.enough, sys::IN, token::ENOUGH)?;
        let mut engine = Self {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            ready: 0,
            next: 0,
            connections: Vec::new(),
            free: Vec::new(),
            count: 0,
            serial: 0,
            buffers: Vec::new(),
            spare: Vec::new(),
            again: VecDeque::new(),
            waiting: VecDeque::new(),
            cgi_waiting: VecDeque::new(),
            cgi_running: 0,
            refused_ns: 0,
            cgi_buffer: vec![0; 65536],
            listening: false,
            inbox_on: false,
            overflow_on: false,
            meter: spread::Meter::default(),
            now_ns: clock::monotonic_ns(),
            wall_s: wall_time().as_secs(),
            swept_ns: 0,
            draining: false,
            master_gone: false,
            retire: false,
            can_run_perl: true,
            may_move: Move::ToPrimaries(0),
            attention: false,
            files: respond::FileCache::default(),
            setup,
        };
        engine.set_inbox(true);
        engine.set_overflow(true);
        engine.set_listening(true);
        Ok(engine)
    }

    /// Nothing left that would be lost.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Nothing left but requests that are with another thread.
    pub fn has_only_running(&self) -> bool {
        self.connections.iter().flatten().all(|c| c.state == State::Running)
    }

    /// Whether this thread can run Perl. Without it ready requests go to idle workers, and what
    /// comes by the inboxes is left to them.
    pub fn set_can_run_perl(&mut self, can: bool) {
        self.can_run_perl = can;
        self.set_inbox(can && !self.draining);
        self.set_overflow(can && !self.draining);
    }

    /// Takes nothing new from now on; idle connections go to other workers.
    pub fn drain(&mut self) {
        self.draining = true;
        self.set_listening(false);
        self.set_inbox(false);
        self.set_overflow(false);
        // From here on nobody who connects gets this worker.
        self.setup.board.slots[self.setup.me].set_state(scoreboard::State::Draining);
        crisis::tell_master();
        self.hand_off_idle();
    }

    /// One step: an event, a waiting request, or a wait of at most `timeout_ms` (-1: as long as
    /// nothing is due). The thread that has no Perl comes back from every wait: it has a request to
    /// watch, and busy connections must not keep it from that.
    pub fn turn(&mut self, timeout_ms: i32) -> io::Result<Turn> {
        let mut waited = false;
        loop {
            if let Some(job) = self.next_waiting() {
                return Ok(Turn::Job(job));
            }
            if std::mem::take(&mut self.attention) {
                return Ok(Turn::Idle);
            }
            if let Some(index) = self.again.pop_front() {
                if let Some(job) = self.look_again(index) {
                    return Ok(Turn::Job(job));
                }
                continue;
            }
            if self.next == self.ready {
                self.sweep_if_due();
                let seen_enough = waited && !self.can_run_perl;
                if seen_enough || !self.wait(timeout_ms)? {
                    return Ok(Turn::Idle);
                }
                waited = true;
            }
            let event = self.events[self.next];
            self.next += 1;
            if let Some(job) = self.handle(event.u64, event.events) {
                return Ok(Turn::Job(job));
            }
        }
    }

    /// Which waiting requests may go to others until this is said again. For the thread that has no
    /// Perl.
    pub fn let_move(&mut self, which: Move) {
        self.may_move = which;
        self.place_waiting();
    }

    /// Passes on what waits for Perl, as far as it may and somebody is idle.
    fn place_waiting(&mut self) {
        while let Some(to) = self.idle_inbox() {
            let Some(index) = self.waiting.pop_front() else { return };
            if self.is_state(index, State::Waiting) && !self.hand_to(to, index) {
                return self.waiting.push_front(index);
            }
            if let Move::ToPrimaries(left) = &mut self.may_move {
                *left -= 1;
            }
        }
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Where somebody idle looks; primaries first, so that connections do not spread over more
    /// workers than there are cores.
    fn idle_inbox(&self) -> Option<RawFd> {
        let (board, me) = (self.setup.board, self.setup.me);
        if self.may_move == Move::ToPrimaries(0) {
            return None;
        }
        if board.other_primaries(me).any(Slot::is_idle) {
            return Some(self.setup.overflow.1);
        }
        (self.may_move == Move::All && board.idle_besides(me) > 0).then_some(self.setup.inbox.1)
    }

    // ---- events --------------------------------------------------------------------------------

    fn wait(&mut self, timeout_ms: i32) -> io::Result<bool> {
        let due = self.due_ms();
        let timeout = if timeout_ms < 0 {
            due
        } else if due < 0 {
            timeout_ms
        } else {
            timeout_ms.min(due)
        };
        self.next = 0;
        self.ready = 0;
        self.ready = self.epoll.wait(&mut self.events, timeout)?;
        self.now_ns = clock::monotonic_ns();
        Ok(self.ready > 0)
    }

    /// How long the loop may sleep.
    fn due_ms(&self) -> i32 {
        if !self.waiting.is_empty() && self.can_run_perl {
            return 0;
        }
        if !self.cgi_waiting.is_empty() && self.cgi_running == 0 {
            return 2; // another worker's child must end first, and nobody tells us
        }
        if self.cgi_running > 0 {
            return CGI_FLUSH_MS;
        }
        if !self.waiting.is_empty() && !self.can_run_perl {
            return 1;
        }
        if self.count > 0 { (SWEEP_NS / 1_000_000) as i32 } else { -1 }
    }

    fn handle(&mut self, token: u64, events: u32) -> Option<usize> {
        match token & token::KIND {
            token::LISTENER => self.accept((token & 0xffff) as usize),
            token::INBOX => return self.receive(self.setup.inbox.0),
            token::OVERFLOW => return self.receive(self.setup.overflow.0),
            token::KICK => {
                sys::unkick(self.setup.kick);
                self.attention = true;
            }
            token::LIFELINE => {
                self.master_gone = true;
                // The master is gone: nobody will accept what waits in the queue, and nobody replaces us.
                self.told_to_finish(self.setup.lifeline);
            }
            token::ENOUGH => self.told_to_finish(self.setup.enough),
            token::CGI => self.cgi_event(token, events),
            token::CGI_ERRORS => self.cgi_errors(token),
            _ => return self.connection_event(token, events),
        }
        None
    }

    /// By the end of this pipe, which stays readable.
    fn told_to_finish(&mut self, pipe: RawFd) {
        let _ = self.epoll.remove(pipe);
        self.drain();
        self.attention = true; // a worker with nothing to do ends now
    }

    fn connection_event(&mut self, token: u64, events: u32) -> Option<usize> {
        let index = self.index_of(token)?;
        let connection = self.connections[index].as_mut()?;
        let broken = events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        match connection.state {
            State::Reading | State::Body => return self.readable(index),
            State::Writing => {
                if events & sys::OUT != 0 || broken {
                    self.writable(index);
                } else {
                    self.listen_for(index, sys::OUT);
                }
            }
            State::Lingering => self.linger(index),
            State::Cgi if events & sys::OUT != 0 && !broken => self.cgi_writable(index),
            State::Waiting | State::Running | State::Cgi => {
                if broken {
                    self.detach(index);
                } else {
                    self.listen_for(index, 0);
                }
            }
        }
        None
    }

    fn next_waiting(&mut self) -> Option<usize> {
        if !self.can_run_perl {
            return None;
        }
        while let Some(index) = self.waiting.pop_front() {
            if self.is_state(index, State::Waiting) {
                return Some(index);
            }
        }
        None
    }

    // ---- accepting -----------------------------------------------------------------------------

    fn is_primary(&self) -> bool {
        self.setup.primary
    }

    /// An exclusive wake-up goes to the first primary that sleeps, so connections gather where they
    /// are served best: with few busy workers. Who is woken accepts; nobody turns away.
    fn set_listening(&mut self, on: bool) {
        let on = on && !self.draining && self.is_primary();
        if on == self.listening {
            return;
        }
        self.listening = on;
        for (number, &fd) in self.setup.listeners.iter().enumerate() {
            // A listener that cannot be watched shows as a server that does not answer; the log says why.
            let result = match on {
                true => {
                    self.epoll.add(fd, sys::IN | sys::EXCLUSIVE, token::LISTENER | number as u64)
                }
                false => self.epoll.remove(fd),
            };
            if let Err(e) = result {
                self.log(LogLevel::Error, &format!("cannot watch a listening socket: {e}"));
            }
        }
    }

    fn set_inbox(&mut self, on: bool) {
        if std::mem::replace(&mut self.inbox_on, on) != on {
            self.watch_inbox(self.setup.inbox.0, token::INBOX, on);
        }
    }

    fn set_overflow(&mut self, on: bool) {
        let on = on && self.is_primary();
        if std::mem::replace(&mut self.overflow_on, on) != on {
            self.watch_inbox(self.setup.overflow.0, token::OVERFLOW, on);
        }
    }

    fn watch_inbox(&mut self, fd: RawFd, token: u64, on: bool) {
        let result = match on {
            true => self.epoll.add(fd, sys::IN | sys::EXCLUSIVE, token),
            false => self.epoll.remove(fd),
        };
        if let Err(e) = result {
            self.log(LogLevel::Error, &format!("cannot watch an inbox: {e}"));
        }
        if !on {
            self.empty_inbox(fd);
        }
    }

    /// An inbox wakes one worker only: a message whose wake-up came here is not left behind.
    /// Without Perl it goes to `waiting` and from there to somebody idle.
    fn empty_inbox(&mut self, fd: RawFd) {
        loop {
            let before = self.serial;
            if let Some(index) = self.receive(fd) {
                self.waiting.push_back(index);
            }
            if self.serial == before {
                return;
            }
        }
    }

    fn accept(&mut self, number: usize) {
        if self.draining {
            return; // the event was there before
        }
        for _ in 0..ACCEPTS_MAX {
            if self.accept_one(number).is_none() {
                return;
            }
        }
    }

    fn accept_one(&mut self, number: usize) -> Option<usize> {
        loop {
            match accept(self.setup.listeners[number]) {
                Ok((fd, client)) => return Some(self.add(fd, client)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if e.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                    // The server ends and does not listen any more.
                    self.set_listening(false);
                    return None;
                }
                Err(e) => {
                    self.note_refused(&e);
                    clock::sleep(std::time::Duration::from_millis(1)); // no spinning on a full table
                    return None;
                }
            }
        }
    }

    /// A full table of files would fill the log too: a line a second.
    fn note_refused(&mut self, why: &io::Error) {
        if self.now_ns < self.refused_ns + REFUSED_NS {
            return;
        }
        self.refused_ns = self.now_ns;
        self.log(LogLevel::Error, &format!("cannot accept a connection: {why}"));
    }

    fn add(&mut self, fd: OwnedFd, client: std::net::SocketAddr) -> usize {
        sys::set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        let index = self.insert(Connection::new(fd, client));
        let deadline = self.now_ns + self.setup.site.timeout().as_nanos() as u64;
        if let Some(connection) = self.connections[index].as_mut() {
            connection.deadline_ns = deadline;
        }
        index
    }

    /// Puts a connection into the table and under epoll.
    fn insert(&mut self, mut connection: Connection) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.serial += 1;
        connection.id = self.serial;
        connection.token = index as u64 | (self.serial & 0xff_ffff) << 32;
        let fd = connection.fd.as_raw_fd();
        let added = self.epoll.add(fd, sys::IN | sys::RDHUP, connection.token);
        connection.interest = sys::IN | sys::RDHUP;
        self.connections[index] = Some(Box::new(connection));
        self.set_count(self.count + 1);
        if let Err(e) = added {
            self.log(LogLevel::Error, &format!("cannot watch a connection: {e}"));
            self.close(index);
        }
        index
    }

    fn set_count(&mut self, count: usize) {
        self.count = count;
        let slot = &self.setup.board.slots[self.setup.me];
        slot.connections.store(count as u32, Relaxed);
        if count == 0 {
            slot.set_busy(0.0); // no window ends while nothing is connected
        }
    }

    pub fn close(&mut self, index: usize) {
        if let Some(mut connection) = self.connections[index].take() {
            if let (Some(run), Some(request)) = (&mut connection.cgi, &mut connection.request) {
                run.let_go_of_errors(request, self.setup.cgi_jobs);
            }
            if let Some(request) = connection.request.take() {
                self.recycle(request);
            }
            self.keep_buffer(std::mem::take(&mut connection.input));
            if let Some(run) = connection.cgi.take() {
                self.cgi_closed(&run);
            }
            self.free.push(index);
            self.set_count(self.count - 1);
        }
    }

    // ---- deadlines -----------------------------------------------------------------------------

    fn sweep_if_due(&mut self) {
        let due = match (self.cgi_running, self.cgi_waiting.is_empty()) {
            (0, true) => SWEEP_NS,
            (0, false) => SWEEP_NS / 100,
            _ => SWEEP_NS / 5,
        };
        if self.now_ns.saturating_sub(self.swept_ns) < due {
            return;
        }
        self.swept_ns = self.now_ns;
        self.spread(due);
        self.sweep_cgi();
        if self.draining {
            self.hand_off_idle();
        }
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_ref() else { continue };
            if connection.deadline_ns <= self.now_ns {
                self.expire(index);
            }
        }
    }

    fn expire(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        match connection.state {
            State::Reading if connection.input.is_empty() => self.close(index),
            State::Reading | State::Body => {
                self.refuse(index, 408, "the client took too long to send its request")
            }
            State::Writing | State::Lingering => self.close(index),
            State::Cgi => self.cgi_expired(index),
            State::Waiting | State::Running => connection.deadline_ns = u64::MAX,
        }
    }

    // ---- small things --------------------------------------------------------------------------

    fn index_of(&self, token: u64) -> Option<usize> {
        let index = (token & 0xffff_ffff) as usize;
        let connection = self.connections.get(index)?.as_ref()?;
        (connection.token == token & !token::KIND).then_some(index)
    }

    fn is_state(&self, index: usize, state: State) -> bool {
        self.connections.get(index).and_then(Option::as_ref).is_some_and(|c| c.state == state)
    }

    /// Changes what epoll reports for a connection; hangups are always reported.
    fn listen_for(&mut self, index: usize, events: u32) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if connection.interest == events || connection.detached {
            return;
        }
        connection.interest = events;
        let (fd, token) = (connection.fd.as_raw_fd(), connection.token);
        if let Err(e) = self.epoll.modify(fd, events, token) {
            self.log(LogLevel::Error, &format!("cannot watch a connection: {e}"));
        }
    }

    /// The client is gone while its request runs: hangups would be reported without end.
    fn detach(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if !connection.detached {
            connection.detached = true;
            // Not watched any more either way.
            let _ = self.epoll.remove(connection.fd.as_raw_fd());
        }
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(16 * 1024))
    }

    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= 256 * 1024 && self.buffers.len() < 64 {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    pub fn recycle(&mut self, mut request: Box<Request>) {
        if self.spare.len() < 64 {
            request.reset();
            self.spare.push(request);
        }
    }

    fn log(&self, level: LogLevel, text: &str) {
        self.setup.site.log_error(level, None, "core", text);
    }
}

fn accept(listener: RawFd) -> io::Result<(OwnedFd, std::net::SocketAddr)> {
    // SAFETY: sockaddr_storage is plain data for which zero is valid; the kernel fills at most `len`
    // bytes; the descriptor is new.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as u32;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = libc::accept4(listener, (&raw mut storage).cast(), &raw mut len, flags);
        let fd = OwnedFd::from_raw_fd(sys::check(fd)?);
        Ok((fd, sys::socket_address(&storage)))
    }
}

/// A view of a descriptor that the process keeps open.
fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: only called with the descriptors of `Setup`, which live as long as the process.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
