//! Between a connection and its socket: connect, write what is pending, read and take apart.

use std::{
    cmp::Reverse,
    io::{self, Read, Write},
};

use super::{Lane, doubt::Stage};
use crate::{
    connection::{Connection, Phase, to_ns},
    error::Error,
    outcome::ErrorKind,
    plan::{Plan, Target, Version},
    poll::Ready,
    protocol::{Event, Fault},
    socket::{Route, Transport},
    tls::Security,
    world::World,
};

/// Fits a segment on any common path.
const SEGMENT_BYTES: usize = 1_200;
/// So much more of a body is thrown away without being looked at, where nobody wants it.
const SKIP_BYTES_MIN: u64 = 16 * 1024;
/// A throttled connection reads so often.
const SHARES_A_SECOND: u64 = 50;
/// Most heads are shorter.
const HEAD_ROOM: usize = 1_024;

/// How the connections of `plan` are made; what users of a scenario ask may be of any length.
pub fn routes(plan: &Plan, request: &[u8]) -> Result<Vec<Route>, Error> {
    let one_segment = plan.keepalive && request.len() <= SEGMENT_BYTES && plan.scene.is_none();
    let targets = plan.scene.as_ref().map_or(std::slice::from_ref(&plan.target), |s| &s.targets);
    targets.iter().map(|target| route(plan, target, one_segment)).collect()
}

/// A slow reader's, or the system would read ahead of it and the server notice nothing.
fn slow_buffers(throttle: u64) -> (usize, usize) {
    const SEND: usize = 256 * 1024;
    let receive = usize::try_from(throttle / SHARES_A_SECOND).unwrap_or(SEND);
    (SEND, receive.clamp(4_096, SEND))
}

fn route(plan: &Plan, target: &Target, one_segment: bool) -> Result<Route, Error> {
    let security = || {
        let security = plan.trust.security(target.name(), plan.version.alpn());
        security.map(|security| security.through(target.tunnel.as_deref()))
    };
    let security = target.secure.then(security);
    Ok(Route {
        address: target.address.clone(),
        security: security.transpose()?,
        sources: plan.sources.clone(),
        one_segment,
        buffer_bytes: plan.buffer_bytes.or(plan.throttle.map(slow_buffers)),
    })
}

impl<W: World> Lane<'_, W> {
    /// Acts on what epoll said about the connection's socket.
    #[inline]
    pub(super) fn ready_on(
        &mut self,
        connection: &mut Connection<W::Stream>,
        ready: Ready,
        buffer: &mut [u8],
    ) {
        match connection.phase {
            Phase::Connecting => self.connected(connection, ready),
            Phase::Securing => self.secure(connection),
            Phase::Open if ready.readable && is_idle(connection) => {
                return self.listen(connection, buffer);
            }
            Phase::Open | Phase::Greeting if ready.writable => self.go_on_writing(connection),
            _ => {}
        }
        if ready.readable && connection.phase == Phase::Open && is_idle(connection) {
            // Just made, for no request, and mostly closed already. It is told only once: as a free
            // one it would look as if it could carry a request.
            if !self.is_silent(connection, buffer) {
                self.rest_unconnected(connection);
            }
        } else if ready.readable {
            self.read(connection, ready.closing, buffer);
        }
    }

    pub(super) fn connect(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.established {
            self.tally.counts.reconnects += 1;
        }
        connection.phase = Phase::Connecting;
        connection.connect_ns = self.now_ns;
        connection.sockets = connection.sockets.wrapping_add(1);
        let route = &self.routes[connection.token as usize % self.routes.len()];
        match self.world.connect(route, connection.socket_token()) {
            Ok(stream) => connection.stream = Some(stream),
            Err(error) => self.connect_failed(connection, error),
        }
    }

    fn connected(&mut self, connection: &mut Connection<W::Stream>, ready: Ready) {
        let Some(stream) = &connection.stream else { return };
        let error = if ready.closing { self.world.connect_error(stream) } else { None };
        match error {
            // Where nobody listens it is refused: this one was made, and reset before it was seen.
            Some(error) if write_error(&error) == ErrorKind::Closed => {
                self.note_made(connection);
                self.reset_at_once(connection, &error);
            }
            Some(error) => self.connect_failed(connection, error),
            None if ready.writable => {
                self.note_made(connection);
                connection.phase = Phase::Securing;
                self.secure(connection);
            }
            None => {}
        }
    }

    fn note_made(&mut self, connection: &mut Connection<W::Stream>) {
        self.now_ns = self.world.now_ns();
        let waited_ns = self.now_ns.saturating_sub(connection.connect_ns);
        self.tally.counts.connecting_ns += waited_ns;
        // Of many that are begun together the last ones wait for the client, not the server.
        let took_ns = connection.stream.as_ref().and_then(Transport::connect_time).map(to_ns);
        self.tally.times.connect.record_ns(took_ns.map_or(waited_ns, |ns| ns.min(waited_ns)));
        connection.secure_ns = self.now_ns;
    }

    fn reset_at_once(&mut self, connection: &mut Connection<W::Stream>, error: &io::Error) {
        if self.route(connection).security.is_some() {
            return self.handshake_failed(connection, error);
        }
        connection.established = true;
        if !self.anyone_established {
            self.note_first_connection();
        }
        // Behind an end a reset is no more than that.
        self.os_error = error.raw_os_error().filter(|code| *code == libc::ECONNRESET);
        self.unreachable(connection, ErrorKind::Closed);
        self.os_error = None;
    }

    pub(super) fn route(&self, connection: &Connection<W::Stream>) -> &Route {
        &self.routes[connection.token as usize % self.routes.len()]
    }

    /// Goes on with the handshake, if there is one; then requests can be written.
    fn secure(&mut self, connection: &mut Connection<W::Stream>) {
        let is_secured = self.route(connection).security.is_some();
        let Some(stream) = &mut connection.stream else { return };
        match stream.settle() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.handshake_failed(connection, &error),
        }
        if is_secured {
            self.now_ns = self.world.now_ns();
            self.tally.times.tls.record_ns(self.now_ns.saturating_sub(connection.secure_ns));
            if self.tls.is_none() {
                self.tls = stream.tls();
            }
        }
        if self.plan.version == Version::Http2 {
            self.greet(connection);
        } else {
            self.open_up(connection);
        }
    }

    /// Requests can be written.
    pub(super) fn open_up(&mut self, connection: &mut Connection<W::Stream>) {
        connection.established = true;
        if !self.anyone_established {
            self.note_first_connection();
        }
        connection.phase = Phase::Open;
        connection.ready_ns = self.now_ns;
        self.refill(connection);
    }

    fn handshake_failed(&mut self, connection: &mut Connection<W::Stream>, error: &io::Error) {
        let why = self.refused_by_tls(connection, error);
        self.doubt(Stage::Outside, why);
        self.unreachable(connection, ErrorKind::Tls);
    }

    fn refused_by_tls(&self, connection: &Connection<W::Stream>, error: &io::Error) -> Error {
        let security = self.route(connection).security.as_ref();
        let lacks_own = security.is_some_and(Security::lacks_own_certificate);
        let reason = match error.kind() {
            _ if lacks_own && may_want_certificate(error) => {
                // The alert of TLS 1.3.
                "CertificateRequired".to_owned()
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                "the server closed the connection".to_owned()
            }
            _ => error.to_string(),
        };
        Error::Handshake { address: self.route(connection).address.clone(), reason }
    }

    fn read_failed(&mut self, connection: &mut Connection<W::Stream>, error: &io::Error) {
        let kind = read_error(error);
        // With TLS 1.3 a client has its side of the handshake done before the server has looked at
        // its certificate.
        if kind == ErrorKind::Tls {
            let why = self.refused_by_tls(connection, error);
            self.doubt(Stage::Inside, why);
        }
        self.fail_by(connection, kind, error);
    }

    /// The socket takes bytes again.
    fn go_on_writing(&mut self, connection: &mut Connection<W::Stream>) {
        let Some(stream) = &mut connection.stream else { return };
        match stream.push() {
            Ok(()) if connection.phase == Phase::Greeting => self.write_out(connection),
            Ok(()) => self.flush(connection),
            Err(error) if self.leaves_to_reader(connection, &error) => {}
            Err(error) => self.fail_by(connection, write_error(&error), &error),
        }
    }

    /// Something has come on a connection that waits for nothing: its end, or words of TLS.
    fn listen(&mut self, connection: &mut Connection<W::Stream>, buffer: &mut [u8]) {
        if !self.is_silent(connection, buffer) {
            self.disturbed(connection);
        }
    }

    fn is_silent(&self, connection: &mut Connection<W::Stream>, buffer: &mut [u8]) -> bool {
        let Some(stream) = &mut connection.stream else { return true };
        matches!(stream.read(buffer), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn connect_failed(&mut self, connection: &mut Connection<W::Stream>, error: io::Error) {
        if !self.is_up() && !self.plan.counts_refusals {
            self.fatal = Some(self.why_unreachable(connection, &error));
        }
        self.os_error = error.raw_os_error();
        self.unreachable(connection, ErrorKind::Connect);
        self.os_error = None;
    }

    /// There is no connection for the requests that wait for one.
    pub(super) fn unreachable(&mut self, connection: &mut Connection<W::Stream>, kind: ErrorKind) {
        if connection.flights.is_empty() {
            return self.rest_unconnected(connection);
        }
        self.now_ns = self.world.now_ns();
        while !connection.flights.is_empty() {
            self.fail_one(connection, 0, kind, false);
        }
        self.hang_up(connection);
        self.rest_a_while(connection);
    }

    /// A server that was never reached is no measurement; one that goes away is.
    fn why_unreachable(&self, connection: &Connection<W::Stream>, source: &io::Error) -> Error {
        let address = self.route(connection).address.clone();
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                let wanted = u64::from(self.plan.connections) + 64;
                Error::Descriptors { wanted, limit: wanted - 1 }
            }
            Some(libc::EADDRNOTAVAIL) => Error::Ports { address },
            Some(libc::ECONNREFUSED) => Error::Refused { address },
            code => {
                let source =
                    code.map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
                Error::Connect { address, source }
            }
        }
    }

    /// Writes what is pending, over a new connection where there is none.
    #[inline]
    pub(super) fn flush(&mut self, connection: &mut Connection<W::Stream>) {
        match connection.phase {
            Phase::Open if connection.http2.is_some() => return self.flush_streams(connection),
            Phase::Open if connection.pending > 0 => {}
            Phase::Closed | Phase::Resting { .. } if connection.pending > 0 => {
                return self.connect(connection);
            }
            _ => return,
        }
        self.stamp_written(connection);
        let Some(stream) = &mut connection.stream else { return };
        let pending = match self.users {
            None => &self.batch[..connection.pending * self.request_bytes],
            Some(_) => &connection.request[..],
        };
        match write_on(stream, pending, &mut connection.written) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.fail_by(connection, write_error(&error), &error),
        }
        if self.plan.records_max > 0 {
            self.stamp_sent(connection);
        }
        (connection.pending, connection.written) = (0, 0);
    }

    /// Costs a look at the clock: only records have a place for it.
    fn stamp_sent(&mut self, connection: &mut Connection<W::Stream>) {
        self.now_ns = self.world.now_ns();
        let first = connection.flights.len() - connection.pending;
        for exchange in connection.flights.iter_mut().skip(first) {
            exchange.sent_ns = self.now_ns;
        }
    }

    /// The pending requests of which no byte was written yet begin to be written now.
    #[inline]
    fn stamp_written(&mut self, connection: &mut Connection<W::Stream>) {
        self.now_ns = self.world.now_ns();
        let begun = match self.users {
            None => connection.written.div_ceil(self.request_bytes),
            Some(_) if connection.written > 0 => connection.pending,
            Some(_) => 0,
        };
        let first = connection.flights.len() - connection.pending + begun;
        for exchange in connection.flights.iter_mut().skip(first) {
            self.tally.counts.resent += u64::from(exchange.write(self.now_ns));
            exchange.connected_ns = connection.secure_ns;
            exchange.ready_ns = connection.ready_ns;
        }
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        connection: &mut Connection<W::Stream>,
        closing: bool,
        buffer: &mut [u8],
    ) {
        while !connection.flights.is_empty() || connection.http2.is_some() {
            if self.plan.throttle.is_some() && !self.may_read(connection) {
                connection.is_ending |= closing;
                return;
            }
            if self.skips(connection) {
                match self.skip(connection) {
                    Skipped::Some => continue,
                    Skipped::NothingLeft => return,
                    Skipped::CannotBe => {}
                }
            }
            let room = self.room(connection, buffer.len());
            let Some(stream) = &mut connection.stream else { return };
            let got = if self.lay.is_wanted {
                self.lay.read(stream, &mut buffer[..room], || self.world.now_ns())
            } else {
                stream.read(&mut buffer[..room])
            };
            match got {
                Ok(0) => return self.closed(connection),
                Ok(length) => {
                    let is_drained = stream.is_drained_by_short_reads() && length < room;
                    self.now_ns = self.world.now_ns();
                    self.count_read(length);
                    self.pay(connection, length);
                    let same_socket = self.take(connection, &buffer[..length], closing);
                    if !same_socket || (is_drained && !closing) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.read_failed(connection, &error),
            }
        }
    }

    /// How much to read at once: where the last body was large and nobody wants to see this one,
    /// little more than the head.
    #[inline]
    fn room(&self, connection: &Connection<W::Stream>, whole: usize) -> usize {
        let is_large = self.last_body >= SKIP_BYTES_MIN && !self.is_looked_at(connection);
        let room = if is_large && connection.answer.left() == 0 { HEAD_ROOM } else { whole };
        room.min(self.share_of_throttle())
    }

    /// So much may be read at once.
    fn share_of_throttle(&self) -> usize {
        let share = |rate: u64| usize::try_from(rate / SHARES_A_SECOND).unwrap_or(usize::MAX);
        self.plan.throttle.map_or(usize::MAX, |rate| share(rate).max(1))
    }

    /// Whether what was read is paid for; if not, reading goes on when it is.
    fn may_read(&mut self, connection: &mut Connection<W::Stream>) -> bool {
        let may = connection.paid_ns <= self.now_ns;
        if !may && !connection.is_throttled {
            connection.is_throttled = true;
            self.throttled.push(Reverse((connection.paid_ns, connection.token)));
        }
        may
    }

    /// The time has come that [`Self::may_read`] has noted. What epoll has told meanwhile, the end
    /// perhaps, it does not tell again.
    pub(super) fn read_on_socket(
        &mut self,
        connection: &mut Connection<W::Stream>,
        buffer: &mut [u8],
    ) {
        if std::mem::take(&mut connection.is_throttled) {
            let is_ending = connection.is_ending;
            self.read(connection, is_ending, buffer);
        }
    }

    /// So many bytes were read.
    fn pay(&self, connection: &mut Connection<W::Stream>, bytes: usize) {
        if let Some(rate) = self.plan.throttle {
            let takes_ns = bytes as u128 * 1_000_000_000 / u128::from(rate);
            // A thread that wakes late reads on as if it had not, or each share would take longer.
            let is_going_on = self.now_ns < connection.paid_ns + 1_000_000_000 / SHARES_A_SECOND;
            let from_ns = if is_going_on { connection.paid_ns } else { self.now_ns };
            connection.paid_ns = from_ns + u64::try_from(takes_ns).unwrap_or(u64::MAX / 2);
        }
    }

    /// Much of the body is still to come, and nobody wants to see it.
    #[inline]
    fn skips(&self, connection: &Connection<W::Stream>) -> bool {
        connection.answer.left() >= SKIP_BYTES_MIN && !self.is_looked_at(connection)
    }

    /// Somebody wants to see the body.
    #[inline]
    fn is_looked_at(&self, connection: &Connection<W::Stream>) -> bool {
        match (&self.users, connection.flights.front()) {
            (Some(users), Some(exchange)) if users.wants(exchange.user).body => true,
            _ => self.plan.looks_at_bodies(),
        }
    }

    fn skip(&mut self, connection: &mut Connection<W::Stream>) -> Skipped {
        let left = connection.answer.left();
        let Some(stream) = &mut connection.stream else { return Skipped::NothingLeft };
        // One byte of it stays, so that its end is seen where all ends are seen.
        let max = usize::try_from(left - 1).unwrap_or(usize::MAX).min(self.share_of_throttle());
        match stream.skip(max) {
            None => Skipped::CannotBe,
            Some(Ok(0)) => {
                self.closed(connection);
                Skipped::NothingLeft
            }
            Some(Ok(length)) => {
                self.pay(connection, length);
                connection.answer.skip(length as u64);
                self.count_read(length);
                if let Some(exchange) = connection.flights.front_mut() {
                    exchange.wire_bytes += length as u64;
                    exchange.body_bytes += length as u64;
                }
                Skipped::Some
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Skipped::NothingLeft,
            Some(Err(error)) => {
                self.fail_by(connection, read_error(&error), &error);
                Skipped::NothingLeft
            }
        }
    }

    /// Feeds the protocol core and begins what the answers make room for; whether the socket is
    /// still the same.
    #[inline]
    fn take(
        &mut self,
        connection: &mut Connection<W::Stream>,
        input: &[u8],
        closing: bool,
    ) -> bool {
        let digested = if connection.http2.is_some() {
            self.digest_streams(connection, input)
        } else {
            self.digest(connection, input)
        };
        if connection.phase == Phase::Greeting {
            return self.greeted(connection);
        }
        match digested {
            Digested::Part => return true,
            Digested::Failed => return false,
            Digested::Answers => {}
        }
        if closing && connection.flights.is_empty() {
            self.hang_up(connection);
        }
        let same_socket = connection.phase == Phase::Open;
        let takes_turns = self.open.is_none() && connection.http2.is_none();
        if same_socket && takes_turns && !connection.flights.is_empty() {
            // A closed loop writes pipelined requests together, as wrk's scripts do: one by one
            // they would cost a write each.
            return true;
        }
        self.refill(connection);
        same_socket && connection.phase == Phase::Open
    }

    fn digest(&mut self, connection: &mut Connection<W::Stream>, mut input: &[u8]) -> Digested {
        if let Some(exchange) = connection.flights.front_mut().filter(|e| e.first_byte_ns == 0) {
            exchange.first_byte_ns = self.now_ns;
        }
        self.expect_head(connection);
        let (mut piece, mut digested): (&[u8], _) = (&[], Digested::Part);
        loop {
            let (event, rest) = match connection.answer.next(&mut self.heads, input) {
                Ok((None, _)) => return digested,
                Ok((Some(event), rest)) => (event, rest),
                Err(fault) => {
                    self.fault(connection, fault);
                    return Digested::Failed;
                }
            };
            let Some(exchange) = connection.flights.front_mut() else { return digested };
            exchange.wire_bytes += (input.len() - rest.len()) as u64;
            input = rest;
            match event {
                Event::Head(head) => {
                    exchange.status = head.status;
                    if let Some(users) = &mut self.users {
                        users.keep_head(exchange.user, self.heads.last());
                    }
                    self.last_body = connection.answer.left();
                }
                Event::Body(body) => {
                    exchange.body_bytes += body.len() as u64;
                    if let Some(users) = &mut self.users {
                        users.keep_body(exchange.user, body);
                    }
                    if self.plan.looks_at_bodies() {
                        connection.body.add(body);
                        piece = body;
                    }
                }
                Event::Complete { .. } if connection.flights.len() == 1 && !rest.is_empty() => {
                    self.fault(connection, Fault::Excess);
                    return Digested::Failed;
                }
                Event::Complete { reusable } => {
                    let kept = self.complete(connection, 0, reusable, piece);
                    digested = Digested::Answers;
                    if !kept {
                        let failed = matches!(connection.phase, Phase::Resting { .. });
                        return if failed { Digested::Failed } else { Digested::Answers };
                    }
                    let next = connection.flights.front_mut().filter(|_| !rest.is_empty());
                    if let Some(next) = next {
                        next.first_byte_ns = self.now_ns;
                        self.expect_head(connection);
                    }
                }
            }
        }
    }

    /// What the next answer is to, and whether somebody wants to see its head.
    #[inline]
    fn expect_head(&mut self, connection: &Connection<W::Stream>) {
        if let (Some(users), Some(exchange)) = (&self.users, connection.flights.front()) {
            self.heads.expect(users.is_head(exchange), users.wants(exchange.user).head);
        }
    }

    /// The peer has closed.
    fn closed(&mut self, connection: &mut Connection<W::Stream>) {
        self.now_ns = self.world.now_ns();
        if connection.flights.is_empty() {
            return self.disturbed(connection);
        }
        if connection.http2.is_some() || connection.answer.end().is_err() {
            return self.fail(connection, ErrorKind::Closed);
        }
        self.complete(connection, 0, false, &[]);
        if connection.phase == Phase::Closed {
            self.refill(connection);
        }
    }
}

/// TLS 1.2 has no word of its own for it, and a close may come before any.
fn may_want_certificate(error: &io::Error) -> bool {
    let alerts = ["CertificateRequired", "HandshakeFailure", "BadCertificate", "AccessDenied"];
    match error.kind() {
        io::ErrorKind::InvalidData => {
            let text = error.to_string();
            alerts.iter().any(|alert| text.ends_with(&format!("fatal alert: {alert}")))
        }
        kind => matches!(
            kind,
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
        ),
    }
}

/// Nothing is to come on it. In HTTP/2 a server may speak at any time.
fn is_idle<Stream>(connection: &Connection<Stream>) -> bool {
    connection.flights.is_empty() && connection.http2.is_none()
}

/// What became of a try to throw bytes away unseen.
enum Skipped {
    Some,
    NothingLeft,
    CannotBe,
}

/// What the bytes of a read were.
pub(super) enum Digested {
    /// Part of an answer.
    Part,
    /// The end of at least one answer.
    Answers,
    /// The end of the connection's requests.
    Failed,
}

/// Writes `bytes` from the first that is not `written` on, as far as the socket takes them; whether
/// that is to the end.
#[inline]
pub(super) fn write_on(
    stream: &mut impl Write,
    bytes: &[u8],
    written: &mut usize,
) -> io::Result<bool> {
    while *written < bytes.len() {
        match stream.write(&bytes[*written..]) {
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

pub(super) fn write_error(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ErrorKind::Closed,
        io::ErrorKind::InvalidData => ErrorKind::Tls,
        _ => ErrorKind::Write,
    }
}

fn read_error(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ErrorKind::Closed,
        io::ErrorKind::InvalidData => ErrorKind::Tls,
        _ => ErrorKind::Read,
    }
}
