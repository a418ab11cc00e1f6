//! What one client thread does with the requests of its connections: takes its turn, begins them,
//! judges their ends, begins the next.
//!
//! A connection carries up to `Plan::depth` requests at once; with one it costs one `send` and one
//! `recv` each: the next request is written in the same turn that completes an answer, and epoll is
//! never re-armed. Failures only mark the connection as resting, so that no chain of failures can
//! recurse. Connecting, writing and reading are `lane/wire.rs`; the loop is `worker.rs`.

mod doubt;
mod retired;
mod streams;
mod users;
mod wire;

pub use doubt::{Doubt, Signs};
pub use wire::routes;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    io,
    time::Duration,
};

use crate::{
    connection::{Connection, Phase, to_ns},
    error::Error,
    exchange::{Exchange, Record},
    held::Lay,
    http2::Template,
    open::{Due, Open},
    outcome::{BadBody, ErrorKind},
    plan::{Plan, Version, share},
    protocol::{Fault, Heads},
    request,
    socket::{Route, Transport},
    tally::Tally,
    tls::TlsFacts,
    users::Users,
    world::World,
};

/// A server that refuses is not asked again at once: its answer would be the client's CPU time.
const REST_AFTER_CONNECT_ERROR: Duration = Duration::from_millis(10);

/// How much of a wrong body is kept to be shown.
const PART_BYTES: usize = 60;

/// All of a thread but its connections.
pub struct Lane<'a, W> {
    pub plan: &'a Plan,
    pub world: W,
    pub tally: Tally,
    /// Requests begun and not ended.
    pub in_flight: u64,
    /// What makes an open loop of it.
    pub open: Option<Open>,
    /// Who asks, where it is not the same request again and again.
    pub users: Option<Users<'a>>,
    /// Requests that may still begin; `None` without a limit.
    pub left: Option<u64>,
    /// False in the warm-up, whose requests do not use up `left`.
    pub measuring: bool,
    /// When the warm-up ends.
    pub window_ns: u64,
    /// When the window of an open loop is over, whatever is under way; never where rounds go on
    /// past it, and it with them.
    pub end_ns: u64,
    /// Connections that wait to begin again.
    pub resting: Vec<u32>,
    /// Connections that have read all that they may for now, and until when.
    pub throttled: BinaryHeap<Reverse<(u64, u32)>>,
    pub records: Vec<Record>,
    /// The last stamp taken.
    pub now_ns: u64,
    /// Why the run as a whole cannot go on.
    pub fatal: Option<Error>,
    /// The same, if it stays so that nobody is answered.
    pub doubt: Option<Doubt>,
    /// Of all threads.
    pub signs: Option<&'a Signs>,
    /// How long what is read has lain there, where somebody wants to know.
    pub lay: Lay,
    /// Streams that the server allowed at once when it was asked last, where they are fewer than
    /// were asked for.
    pub streams_max: Option<u32>,
    /// In HTTP/2; for the others `batch` is filled.
    template: Template,
    is_head: bool,
    /// A request has failed in the way that ends the run.
    pub has_ended: bool,
    /// Of the first secured connection.
    pub tls: Option<TlsFacts>,
    /// The request's bytes, as often as a connection may have to write them at once.
    batch: Vec<u8>,
    request_bytes: usize,
    depth: usize,
    /// Connections, or groups of them where users ask several servers.
    groups: u32,
    /// Requests that there are for all of them.
    quota: Option<u64>,
    /// To the servers of the scenario in turn, a connection each; mostly there is one.
    routes: &'a [Route],
    heads: Heads,
    /// Length of the last answer's body as its head told it; 0 where it did not.
    last_body: u64,
    /// What the system said to the call that ends a request.
    os_error: Option<i32>,
    anyone_established: bool,
    anyone_answered: bool,
}

impl<'a, W: World> Lane<'a, W> {
    /// For so many connections (or groups of them), which may begin so many requests.
    pub fn new(
        plan: &'a Plan,
        request: &[u8],
        routes: &'a [Route],
        world: W,
        (groups, quota): (u32, Option<u64>),
    ) -> Self {
        let (batch, template) = match plan.version {
            _ if plan.scene.is_some() => <_>::default(),
            Version::Http2 => (Vec::new(), request::template(plan)),
            _ => (request.repeat(plan.depth as usize), Template::default()),
        };
        Self {
            plan,
            now_ns: world.now_ns(),
            world,
            tally: Tally::default(),
            in_flight: 0,
            open: None,
            users: None,
            left: quota,
            measuring: false,
            window_ns: 0,
            end_ns: u64::MAX,
            resting: Vec::new(),
            throttled: BinaryHeap::new(),
            records: Vec::new(),
            fatal: None,
            doubt: None,
            signs: None,
            lay: Lay::default(),
            streams_max: None,
            template,
            is_head: plan.method == "HEAD",
            has_ended: false,
            tls: None,
            os_error: None,
            batch,
            request_bytes: request.len(),
            depth: plan.depth as usize,
            groups,
            quota,
            routes,
            heads: Heads::new(&plan.method).keeping_when_told(plan.keeps_when_told),
            last_body: 0,
            anyone_established: false,
            anyone_answered: false,
        }
    }

    /// The head of the first answer, as it came.
    pub fn first_head(&self) -> &[u8] {
        self.heads.first()
    }

    /// Lets a connection that can take requests begin as many as it has room and turns for.
    #[inline]
    pub fn refill(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.is_retired {
            // It begins nothing, and is never connected again.
            if connection.phase == Phase::Open {
                self.flush(connection);
            }
            return;
        }
        if self.users.is_some() {
            return self.keep_ready(connection);
        }
        let places = self.places(connection).min(self.first_places(connection));
        while connection.flights.len() + connection.waiting < places {
            let Some(planned_ns) = self.take_turn(connection) else {
                self.rest(connection);
                break;
            };
            self.start(connection, planned_ns);
        }
        self.flush(connection);
    }

    /// Requests that a connection begins with: where there are few, each has some.
    #[inline]
    fn first_places(&self, connection: &Connection<W::Stream>) -> usize {
        match self.quota {
            Some(quota) if connection.connect_ns == 0 && self.depth > 1 => {
                share(quota, self.groups, connection.token).max(1) as usize
            }
            _ => usize::MAX,
        }
    }

    /// When the next request was to begin, if one can begin now.
    #[inline]
    fn take_turn(&mut self, connection: &Connection<W::Stream>) -> Option<u64> {
        let is_untouched = self.is_untouched(connection);
        let Some(open) = &mut self.open else {
            if self.left == Some(0) {
                return None;
            }
            if let Some(left) = self.left.as_mut().filter(|_| self.measuring) {
                *left -= 1;
            }
            return Some(self.now_ns);
        };
        // What belongs to the window begins in it, or its end would be counted as the warm-up's.
        let is_between = !self.measuring && self.now_ns >= self.window_ns;
        let is_usable = connection.phase == Phase::Open || !self.plan.keepalive;
        // Where others were free before, one of them takes what is due: it waited for none.
        let may_take = is_usable && !is_between && !is_untouched && !open.has_free();
        let due = if may_take { open.take_due(self.now_ns) } else { None };
        self.tally.open.queued += u64::from(due.is_some());
        due
    }

    /// Begins the request that is due on the connection that waited for it.
    pub fn start_due(&mut self, connection: &mut Connection<W::Stream>, due: Due) {
        let Due { planned_ns, free_ns, .. } = due;
        let is_usable = connection.phase == Phase::Open || !self.plan.keepalive;
        let was_free = free_ns <= planned_ns && is_usable;
        connection.waiting -= 1;
        self.start(connection, planned_ns);
        self.flush(connection);
        // Where each request has a connection of its own, it begins with the connect.
        let begun_ns = connection.flights.back().map(|exchange| match self.plan.keepalive {
            true => exchange.written_ns,
            false => connection.connect_ns,
        });
        match begun_ns.filter(|_| was_free) {
            Some(ns) => self.tally.open.lag.record_ns(ns.saturating_sub(planned_ns)),
            None => self.tally.open.queued += u64::from(!was_free),
        }
        self.tally.open.connecting += u64::from(free_ns <= planned_ns && !is_usable);
    }

    #[inline]
    fn start(&mut self, connection: &mut Connection<W::Stream>, planned_ns: u64) {
        let is_sparse = self.open.is_some() && self.is_sparse();
        self.tally.counts.sent += 1;
        self.in_flight += 1;
        let exchange = Exchange { is_sparse, ..Exchange::new(planned_ns, self.now_ns) };
        connection.flights.push_back(exchange);
        connection.pending += 1;
    }

    /// Fewer than half of the places are in use by others. A single place tells nothing: no other
    /// is ever in use.
    fn is_sparse(&self) -> bool {
        let places = u64::from(self.groups) * self.depth as u64;
        2 * self.in_flight < places && places > 1
    }

    /// No turn: what the connection's free places do until there is one.
    fn rest(&mut self, connection: &mut Connection<W::Stream>) {
        if self.open.is_none() {
            if connection.flights.is_empty() {
                connection.close();
                connection.phase = Phase::Done;
            }
        } else if connection.phase == Phase::Open || !self.plan.keepalive {
            self.offer(connection);
        } else if connection.stream.is_none() && connection.flights.is_empty() {
            // So that there is a connection when a request comes.
            self.connect(connection);
        }
    }

    /// A place that needs no connection yet was free all the time, however late the thread is.
    fn is_untouched(&self, connection: &Connection<W::Stream>) -> bool {
        !self.plan.keepalive && connection.connect_ns == 0
    }

    /// The connection's free places wait for what is due.
    fn offer(&mut self, connection: &mut Connection<W::Stream>) {
        if self.users.is_some() || connection.is_retired {
            return;
        }
        let places = self.places(connection);
        let since_ns = if self.is_untouched(connection) { 0 } else { self.now_ns };
        let Some(open) = &mut self.open else { return };
        for _ in connection.flights.len() + connection.waiting..places {
            open.rest(connection.token, since_ns);
            connection.waiting += 1;
        }
    }

    /// A connect for no request in particular has failed: it is tried again when there is one.
    fn rest_unconnected(&mut self, connection: &mut Connection<W::Stream>) {
        self.hang_up(connection);
        self.offer(connection);
    }

    /// Closes the socket; nobody waits for a place on it any more.
    fn hang_up(&mut self, connection: &mut Connection<W::Stream>) {
        connection.close();
        if connection.waiting > 0 {
            self.forget_waiting(connection);
        }
    }

    fn forget_waiting(&mut self, connection: &mut Connection<W::Stream>) {
        if let Some(open) = &mut self.open {
            open.forget_idle(connection.token);
            connection.waiting = 0;
        }
    }

    /// The server has closed a connection that was free, as it may, or spoke out of turn. One that
    /// has answered nothing on it would close the next one, too: there is one when a request comes.
    fn disturbed(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.on_socket == 0 && connection.flights.is_empty() && self.open.is_some() {
            return self.rest_unconnected(connection);
        }
        self.hang_up(connection);
        self.refill(connection);
    }

    /// What of the socket, or of a request on it, has lasted too long.
    fn is_late_on(&self, connection: &Connection<W::Stream>) -> Option<ErrorKind> {
        let is_on_the_way = connection.phase.is_on_the_way();
        let connect_max = self.plan.connect_timeout.filter(|_| is_on_the_way);
        if connect_max.is_some_and(|max| self.has_lasted(connection.connect_ns, max)) {
            return Some(ErrorKind::ConnectTimeout);
        }
        if connection.http2.is_some() && !is_on_the_way {
            return self.late_stream(connection).map(|(_, kind)| kind);
        }
        match connection.flights.front() {
            Some(exchange) if connection.pending < connection.flights.len() => {
                self.is_answer_late(exchange)
            }
            Some(exchange) => self.is_whole_late(exchange.begun_ns),
            None if is_on_the_way => self.is_whole_late(connection.connect_ns),
            None => None,
        }
    }

    /// The same of a request that is written.
    fn is_answer_late(&self, exchange: &Exchange) -> Option<ErrorKind> {
        let first_max = self.plan.first_byte_timeout.filter(|_| exchange.first_byte_ns == 0);
        let written_ns = exchange.written_ns + exchange.held_ns;
        match first_max.is_some_and(|max| self.has_lasted(written_ns, max)) {
            true => Some(ErrorKind::FirstByteTimeout),
            false => self.is_whole_late(exchange.begun_ns),
        }
    }

    fn is_whole_late(&self, since_ns: u64) -> Option<ErrorKind> {
        self.has_lasted(since_ns, self.plan.timeout).then_some(ErrorKind::Timeout)
    }

    fn has_lasted(&self, since_ns: u64, max: Duration) -> bool {
        self.now_ns.saturating_sub(since_ns) >= to_ns(max)
    }

    fn check_timeout_on(&mut self, connection: &mut Connection<W::Stream>) {
        match self.is_late_on(connection) {
            None => {}
            Some(_) if connection.http2.is_some() && connection.phase == Phase::Open => {
                self.check_streams(connection);
            }
            Some(_) if connection.flights.is_empty() => self.rest_unconnected(connection),
            Some(kind) => self.fail(connection, kind),
        }
    }

    /// The answer to request `at` of those under way is whole: counts it; whether the socket can
    /// go on.
    #[inline]
    fn complete(
        &mut self,
        connection: &mut Connection<W::Stream>,
        at: usize,
        reusable: bool,
        piece: &[u8],
    ) -> bool {
        if !self.body_is_expected(connection, piece) {
            self.fail(connection, ErrorKind::BadBody);
            return false;
        }
        let Some(mut exchange) = connection.flights.remove(at) else { return false };
        exchange.body_hash = self.sum(connection);
        self.in_flight -= 1;
        if !self.anyone_answered {
            self.note_first_answer();
        }
        // A server may answer before it has read the whole request: the rest would be taken for
        // the next one.
        let has_written = connection.pending <= connection.flights.len();
        let ended = connection.on_socket + 1;
        let is_worn = streams::left_on_socket(self.plan, ended) == 0;
        // What was read before a broken record is taken first.
        let goes_on = !connection.flights.is_empty()
            || connection.stream.as_ref().is_none_or(Transport::is_sound);
        let kept = reusable && self.plan.keepalive && has_written && !is_worn && goes_on;
        connection.pending = connection.pending.min(connection.flights.len());
        let is_good = match &mut self.users {
            None => exchange.status < 400,
            Some(users) => users.answered(&exchange, self.now_ns),
        };
        let latency_ns = match &self.open {
            None => self.tally.answered(&exchange, is_good, self.now_ns),
            Some(open) => {
                self.tally.open.drained += u64::from(self.now_ns >= self.end_ns);
                let place = (open.place_ns(exchange.planned_ns), self.is_sparse());
                self.tally.answered_open(&exchange, is_good, self.now_ns, place)
            }
        };
        let is_of_one_read = exchange.first_byte_ns == self.now_ns;
        let lay_ns = exchange.lay_ns + self.lay.first_lay_ns();
        let kept_ns = self.lay.kept_ns(self.now_ns, is_of_one_read).max(lay_ns);
        // A throttled client leaves them lying because it is told to.
        if kept_ns > 0 && self.plan.throttle.is_none() {
            self.tally.kept(latency_ns, kept_ns);
        }
        if !self.plan.keepalive {
            let whole_ns = self.now_ns.saturating_sub(exchange.begun_ns);
            self.tally.times.whole.record_ns(whole_ns);
        }
        self.record(connection, exchange, None, kept, false);
        connection.answers += 1;
        connection.on_socket += 1;
        if !kept && !connection.flights.is_empty() && self.fails_on_close() {
            self.fail(connection, ErrorKind::Closed);
        } else if !kept {
            // What the server has said it will not answer is asked again elsewhere.
            connection.take_written_back(self.now_ns);
            self.hang_up(connection);
            self.write_request(connection);
        }
        kept
    }

    /// What has come of an answer that is not whole yet may have lain there.
    #[inline]
    pub fn note_lay(&self, connection: &mut Connection<W::Stream>) {
        if !self.lay.is_wanted {
            return;
        }
        let lay_ns = self.lay.first_lay_ns();
        let flights = connection.retired.iter_mut().flat_map(|old| &mut old.flights);
        let flights = connection.flights.iter_mut().chain(flights);
        let begun = flights.filter(|exchange| exchange.first_byte_ns > 0);
        begun.for_each(|exchange| exchange.lay_ns += lay_ns);
    }

    #[inline]
    fn record(
        &mut self,
        connection: &Connection<W::Stream>,
        exchange: Exchange,
        error: Option<ErrorKind>,
        kept: bool,
        is_repeated: bool,
    ) {
        let is_kept = self.records.len() < self.plan.records_max && self.measuring;
        if !is_kept && (error.is_none() || self.plan.ends_with.is_none()) {
            return;
        }
        let record = Record {
            exchange,
            ended_ns: self.now_ns,
            connection: connection.token,
            on_socket: connection.on_socket,
            status: if error.is_none() { exchange.status } else { 0 },
            error,
            is_repeated,
            os_error: self.os_error,
            kept,
        };
        if error.is_some() {
            self.has_ended |= self.plan.ends_with.is_some_and(|ends| ends(&record));
        }
        if is_kept {
            self.records.push(record);
        }
    }

    #[inline]
    fn count_read(&mut self, length: usize) {
        self.tally.counts.bytes_read += length as u64;
        if self.now_ns >= self.end_ns {
            self.tally.open.drained_bytes += length as u64;
        }
    }

    /// Of the body so far, where it is asked for.
    fn sum(&self, connection: &mut Connection<W::Stream>) -> u64 {
        if self.plan.sums_bodies { connection.body.take().1 } else { 0 }
    }

    /// Error pages differ from the page: they are counted by their status.
    fn body_is_expected(&mut self, connection: &mut Connection<W::Stream>, piece: &[u8]) -> bool {
        let Some(expected) = self.plan.expect_body else { return true };
        let (length, hash) = connection.body.take();
        let is_error = connection.flights.front().is_some_and(|e| e.status >= 400);
        let good = expected.is_met_by((length, hash)) || is_error;
        if !good && self.measuring && self.tally.first_bad_body.is_none() {
            let part = piece[..piece.len().min(PART_BYTES)].to_vec();
            self.tally.first_bad_body = Some(BadBody { length, hash, part });
        }
        good
    }

    fn fault(&mut self, connection: &mut Connection<W::Stream>, fault: Fault) {
        self.tally.first_fault.get_or_insert(fault);
        self.fail(connection, ErrorKind::Protocol);
    }

    /// The first request under way has failed, and with it those that wait behind it on the same
    /// connection: theirs are answers that never come.
    fn fail(&mut self, connection: &mut Connection<W::Stream>, kind: ErrorKind) {
        self.now_ns = self.world.now_ns();
        if connection.phase.is_on_the_way() {
            return self.unreachable(connection, kind);
        }
        let has_answered = connection.on_socket > 0;
        let again = match kind {
            ErrorKind::Closed | ErrorKind::Tls | ErrorKind::Read if connection.http2.is_some() => {
                connection.take_unowed(self.now_ns)
            }
            _ => VecDeque::new(),
        };
        let is_refused = !has_answered && (kind == ErrorKind::Tls || !again.is_empty());
        let mut kind = kind;
        while !connection.flights.is_empty() {
            self.fail_one(connection, 0, kind, false);
            connection.on_socket += 1;
            kind = behind(kind);
        }
        self.hang_up(connection);
        (connection.pending, connection.flights) = (again.len(), again);
        match is_refused {
            true => self.turned_away(connection),
            false => self.rest_until(connection, self.now_ns),
        }
    }

    /// As after a connect that failed.
    fn rest_a_while(&mut self, connection: &mut Connection<W::Stream>) {
        self.rest_until(connection, self.now_ns + to_ns(REST_AFTER_CONNECT_ERROR));
    }

    /// It begins again then.
    fn rest_until(&mut self, connection: &mut Connection<W::Stream>, until_ns: u64) {
        connection.phase = Phase::Resting { until_ns };
        self.resting.push(connection.token);
    }

    /// Request `at` of those under way has failed; `kept`: the connection goes on.
    fn fail_one(
        &mut self,
        connection: &mut Connection<W::Stream>,
        at: usize,
        kind: ErrorKind,
        kept: bool,
    ) {
        let Some(mut exchange) = connection.flights.remove(at) else { return };
        self.tally.first_os_error = self.tally.first_os_error.or(self.os_error);
        exchange.body_hash = self.sum(connection);
        self.in_flight -= 1;
        self.note_failure(kind, connection.phase);
        self.tally.failed(kind, &exchange, self.now_ns);
        let was_used = connection.on_socket > 0;
        let users = self.users.as_mut();
        let is_repeated =
            users.is_some_and(|users| users.failed(&exchange, kind, self.now_ns, was_used));
        self.record(connection, exchange, Some(kind), kept, is_repeated);
    }

    /// [`Self::fail`] for an error of the system's.
    fn fail_by(&mut self, connection: &mut Connection<W::Stream>, kind: ErrorKind, by: &io::Error) {
        self.os_error = by.raw_os_error();
        self.fail(connection, kind);
        self.os_error = None;
    }
}

/// What a failure is for the requests behind the one that it happened to.
fn behind(kind: ErrorKind) -> ErrorKind {
    match kind {
        ErrorKind::Protocol | ErrorKind::BadBody => ErrorKind::Closed,
        same => same,
    }
}
