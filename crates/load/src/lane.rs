//! What one client thread does with one connection: begin a request, send, read, judge, begin
//! again.
//!
//! A request costs one `send` and one `recv`: the next request is written in the same turn that
//! completes an answer, and epoll is never re-armed. Failures only mark the connection as resting,
//! so that no chain of failures can recurse. The loop that calls this is `worker.rs`.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use crate::{
    connection::{Connection, Phase, to_ns},
    error::Error,
    open::{Due, Open},
    outcome::{BadBody, ErrorKind},
    plan::Plan,
    poll::Ready,
    protocol::{Event, Fault, Heads},
    tally::Tally,
    world::World,
};

/// A server that refuses is not asked again at once: its answer would be the client's CPU time.
const REST_AFTER_CONNECT_ERROR: Duration = Duration::from_millis(10);

/// Fits a segment on any common path.
const SEGMENT_BYTES: usize = 1_200;

/// How much of a wrong body is kept to be shown.
const PART_BYTES: usize = 60;

/// All of a thread but its connections.
pub struct Lane<'a, W> {
    pub plan: &'a Plan,
    pub request: &'a [u8],
    pub world: W,
    pub tally: Tally,
    /// What makes an open loop of it.
    pub open: Option<Open>,
    /// Requests that may still begin; `None` without a limit.
    pub left: Option<u64>,
    /// False in the warm-up, whose requests do not use up `left`.
    pub measuring: bool,
    /// Connections that wait to begin again.
    pub resting: Vec<u32>,
    /// The last stamp taken.
    pub now_ns: u64,
    /// Why the run as a whole cannot go on.
    pub fatal: Option<Error>,
    heads: Heads,
    anyone_established: bool,
}

impl<'a, W: World> Lane<'a, W> {
    pub fn new(plan: &'a Plan, request: &'a [u8], world: W, left: Option<u64>) -> Self {
        Self {
            plan,
            request,
            now_ns: world.now_ns(),
            world,
            tally: Tally::default(),
            open: None,
            left,
            measuring: false,
            resting: Vec::new(),
            fatal: None,
            heads: Heads::new(&plan.method),
            anyone_established: false,
        }
    }

    /// Begins the connection's next request, if one is left.
    pub fn begin(&mut self, connection: &mut Connection<W::Stream>) {
        if self.left == Some(0) {
            connection.close();
            connection.phase = Phase::Done;
            return;
        }
        if let Some(left) = self.left.as_mut().filter(|_| self.measuring) {
            *left -= 1;
        }
        self.start(connection, self.now_ns);
    }

    /// What a connection without a request does next.
    #[inline]
    pub fn next(&mut self, connection: &mut Connection<W::Stream>) {
        let Some(open) = &mut self.open else { return self.begin(connection) };
        let is_usable = connection.stream.is_some() || !self.plan.keepalive;
        let due = if is_usable { open.take_due(self.now_ns) } else { None };
        match due {
            Some(planned_ns) => {
                open.tally.queued += 1;
                self.start(connection, planned_ns);
            }
            None => self.rest(connection),
        }
    }

    /// Begins the request that is due on the connection that waited for it.
    pub fn start_due(&mut self, connection: &mut Connection<W::Stream>, due: Due) {
        let Due { planned_ns, free_ns, .. } = due;
        let was_free = free_ns <= planned_ns && connection.stream.is_some();
        self.start(connection, planned_ns);
        let Some(open) = &mut self.open else { return };
        if was_free {
            open.tally.lag.record_ns(connection.written_ns.saturating_sub(planned_ns));
        } else {
            open.tally.queued += 1;
        }
    }

    fn start(&mut self, connection: &mut Connection<W::Stream>, planned_ns: u64) {
        self.tally.sent += 1;
        connection.planned_ns = planned_ns;
        connection.begun_ns = self.now_ns;
        if connection.stream.is_some() {
            self.send_from(connection, 0);
        } else {
            connection.phase = Phase::Connecting;
            self.connect(connection);
        }
    }

    /// Free for the next request, once it is connected. A connection whose connect failed tries
    /// again when there is a request for it.
    fn rest(&mut self, connection: &mut Connection<W::Stream>) {
        let failed = connection.phase == Phase::Warming;
        if connection.stream.is_none() && self.plan.keepalive && !failed {
            connection.phase = Phase::Warming;
            connection.begun_ns = self.now_ns;
            return self.connect(connection);
        }
        connection.phase = Phase::Idle;
        if let Some(open) = &mut self.open {
            open.rest(connection.token, self.now_ns);
        }
    }

    /// The server has closed a connection that was free, as it may, or spoke out of turn.
    fn disturbed(&mut self, connection: &mut Connection<W::Stream>) {
        connection.close();
        if let Some(open) = &mut self.open {
            open.forget_idle(connection.token);
        }
        self.rest(connection);
    }

    /// Acts on what epoll said about the connection.
    #[inline]
    pub fn ready(
        &mut self,
        connection: &mut Connection<W::Stream>,
        ready: Ready,
        buffer: &mut [u8],
    ) {
        match connection.phase {
            Phase::Connecting | Phase::Warming => self.connected(connection, ready),
            Phase::Idle if ready.readable => return self.disturbed(connection),
            Phase::Sending(written) if ready.writable => self.send_from(connection, written),
            _ => {}
        }
        if ready.readable {
            self.read(connection, ready.closing, buffer);
        }
    }

    /// Ends the request with an error when it has lasted too long.
    pub fn check_timeout(&mut self, connection: &mut Connection<W::Stream>) {
        let age_ns = self.now_ns.saturating_sub(connection.begun_ns);
        if age_ns < to_ns(self.plan.timeout) {
            return;
        }
        if connection.has_request() {
            self.fail(connection, ErrorKind::Timeout);
        } else if connection.phase == Phase::Warming {
            connection.close();
            self.rest(connection);
        }
    }

    fn connect(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.established {
            self.tally.reconnects += 1;
        }
        let one_segment = self.plan.keepalive && self.request.len() <= SEGMENT_BYTES;
        let address = self.plan.target.address;
        match self.world.connect(address, connection.token, one_segment) {
            Ok(stream) => connection.stream = Some(stream),
            Err(error) => self.connect_failed(connection, error),
        }
    }

    fn connected(&mut self, connection: &mut Connection<W::Stream>, ready: Ready) {
        let Some(stream) = &connection.stream else { return };
        let error = if ready.closing { self.world.connect_error(stream) } else { None };
        if let Some(error) = error {
            return self.connect_failed(connection, error);
        }
        if ready.writable {
            self.now_ns = self.world.now_ns();
            self.tally.connect.record_ns(self.now_ns.saturating_sub(connection.begun_ns));
            connection.established = true;
            self.anyone_established = true;
            match connection.phase {
                // Closed already, or the server speaks first. It is told only once: as a free one
                // it would look as if it could carry a request.
                Phase::Warming if ready.readable => {
                    connection.close();
                    self.rest(connection);
                }
                Phase::Warming => self.next(connection),
                _ => self.send_from(connection, 0),
            }
        }
    }

    fn connect_failed(&mut self, connection: &mut Connection<W::Stream>, error: io::Error) {
        if let Some(fatal) = self.judge_connect(error) {
            self.fatal = Some(fatal);
        }
        if connection.phase == Phase::Warming {
            connection.close();
            return self.rest(connection);
        }
        self.fail(connection, ErrorKind::Connect);
        let until_ns = self.now_ns + to_ns(REST_AFTER_CONNECT_ERROR);
        connection.phase = Phase::Resting { until_ns };
    }

    /// A server that was never reached is no measurement; one that goes away is.
    fn judge_connect(&self, source: io::Error) -> Option<Error> {
        let address = self.plan.target.address;
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                let wanted = u64::from(self.plan.connections) + 64;
                Some(Error::Descriptors { wanted, limit: wanted - 1 })
            }
            _ if self.anyone_established => None,
            Some(libc::ECONNREFUSED) => Some(Error::Refused { address }),
            _ => Some(Error::Connect { address, source }),
        }
    }

    #[inline]
    fn send_from(&mut self, connection: &mut Connection<W::Stream>, already: usize) {
        if already == 0 {
            self.now_ns = self.world.now_ns();
            connection.written_ns = self.now_ns;
        }
        let Some(stream) = &mut connection.stream else { return };
        let mut written = already;
        while written < self.request.len() {
            match stream.write(&self.request[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.phase = Phase::Sending(written);
                    return;
                }
                Err(error) => return self.fail(connection, write_error(&error)),
            }
        }
        connection.phase = Phase::Awaiting;
    }

    #[inline]
    fn read(&mut self, connection: &mut Connection<W::Stream>, closing: bool, buffer: &mut [u8]) {
        while matches!(connection.phase, Phase::Awaiting | Phase::Sending(_)) {
            let Some(stream) = &mut connection.stream else { return };
            match stream.read(buffer) {
                Ok(0) => return self.closed(connection),
                Ok(length) => {
                    self.now_ns = self.world.now_ns();
                    self.tally.bytes_read += length as u64;
                    let same_socket = self.take(connection, &buffer[..length], closing);
                    if !same_socket || (length < buffer.len() && !closing) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(connection, read_error(&error)),
            }
        }
    }

    /// Feeds the protocol core; whether the socket is still the same.
    #[inline]
    fn take(
        &mut self,
        connection: &mut Connection<W::Stream>,
        mut input: &[u8],
        closing: bool,
    ) -> bool {
        let mut piece: &[u8] = &[];
        loop {
            match connection.answer.next(&mut self.heads, input) {
                Ok((None, _)) => return true,
                Ok((Some(Event::Head(head)), rest)) => {
                    connection.status = head.status;
                    input = rest;
                }
                Ok((Some(Event::Body(body)), rest)) => {
                    if self.plan.expect_body.is_some() {
                        connection.body.add(body);
                        piece = body;
                    }
                    input = rest;
                }
                Ok((Some(Event::Complete { .. }), rest)) if !rest.is_empty() => {
                    self.fault(connection, Fault::Excess);
                    return false;
                }
                Ok((Some(Event::Complete { reusable }), _)) => {
                    return self.complete(connection, reusable && !closing, piece);
                }
                Err(fault) => {
                    self.fault(connection, fault);
                    return false;
                }
            }
        }
    }

    /// The answer is whole: counts it and begins the next request; whether the socket was kept.
    #[inline]
    fn complete(
        &mut self,
        connection: &mut Connection<W::Stream>,
        reusable: bool,
        piece: &[u8],
    ) -> bool {
        if !self.body_is_expected(connection, piece) {
            self.fail(connection, ErrorKind::BadBody);
            return false;
        }
        let keep = self.plan.keepalive;
        let from_ns = if keep { connection.written_ns } else { connection.begun_ns };
        let mut latency_ns = self.account(connection, from_ns);
        if let Some(open) = &mut self.open {
            open.tally.service.record_ns(latency_ns);
            latency_ns = self.now_ns.saturating_sub(connection.planned_ns);
        }
        self.tally.answered(connection.status, latency_ns);
        connection.answers += 1;
        // A server may answer before it has read the whole request: the rest would be taken for the
        // next one.
        let kept = reusable && keep && connection.phase == Phase::Awaiting;
        if !kept {
            connection.close();
        }
        self.next(connection);
        kept
    }

    /// Error pages differ from the page: they are counted by their status.
    fn body_is_expected(&mut self, connection: &mut Connection<W::Stream>, piece: &[u8]) -> bool {
        let Some(expected) = self.plan.expect_body else { return true };
        let (length, hash) = connection.body.take();
        let good = expected.is_met_by((length, hash)) || connection.status >= 400;
        if !good && self.measuring && self.tally.first_bad_body.is_none() {
            let part = piece[..piece.len().min(PART_BYTES)].to_vec();
            self.tally.first_bad_body = Some(BadBody { length, hash, part });
        }
        good
    }

    /// The peer has closed.
    fn closed(&mut self, connection: &mut Connection<W::Stream>) {
        self.now_ns = self.world.now_ns();
        match connection.answer.end() {
            Ok(_) => {
                self.complete(connection, false, &[]);
            }
            Err(_) => self.fail(connection, ErrorKind::Closed),
        }
    }

    fn fault(&mut self, connection: &mut Connection<W::Stream>, fault: Fault) {
        self.tally.first_fault.get_or_insert(fault);
        self.fail(connection, ErrorKind::Protocol);
    }

    fn fail(&mut self, connection: &mut Connection<W::Stream>, kind: ErrorKind) {
        self.now_ns = self.world.now_ns();
        let after_ns = self.account(connection, connection.begun_ns);
        self.tally.failed(kind, after_ns);
        connection.close();
        connection.phase = Phase::Resting { until_ns: self.now_ns };
        self.resting.push(connection.token);
    }

    /// Accounts for the connection's time until now; how much of it came after `from_ns`.
    #[inline]
    fn account(&mut self, connection: &mut Connection<W::Stream>, from_ns: u64) -> u64 {
        self.tally.between_ns += from_ns as i64 - connection.accounted_to_ns as i64;
        connection.accounted_to_ns = self.now_ns;
        self.now_ns.saturating_sub(from_ns)
    }
}

fn write_error(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ErrorKind::Closed,
        _ => ErrorKind::Write,
    }
}

fn read_error(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ErrorKind::Closed,
        _ => ErrorKind::Read,
    }
}
