//! HTTP/2 on a connection: streams instead of turns. What `wire.rs` does for HTTP/1.

use std::io;

use super::{
    Lane,
    retired::REFUSALS_MAX,
    wire::{Digested, write_error, write_on},
};
use crate::{
    connection::{Connection, Phase},
    exchange::Exchange,
    http2::{Event, Http2, WINDOW_STEP},
    outcome::ErrorKind,
    plan::{Address, Plan},
    protocol::Fault,
    world::World,
};

impl<W: World> Lane<'_, W> {
    /// Begins with HTTP/2. Requests wait until the server has told how many it takes: one that
    /// takes few may close a connection with more.
    pub(super) fn greet(&mut self, connection: &mut Connection<W::Stream>) {
        let mut http2 = Box::<Http2>::default();
        http2.keep_heads(self.users.is_some());
        connection.http2 = Some(http2);
        connection.phase = Phase::Greeting;
        self.write_out(connection);
    }

    /// Goes on when it has; whether the socket is still the same.
    pub(super) fn greeted(&mut self, connection: &mut Connection<W::Stream>) -> bool {
        if connection.http2.as_ref().is_some_and(|http2| http2.is_greeted()) {
            self.open_up(connection);
        }
        connection.http2.is_some()
    }

    /// Puts what is pending into streams, as many as the server takes, and writes what is to be
    /// written.
    pub(super) fn flush_streams(&mut self, connection: &mut Connection<W::Stream>) {
        let is_secure = self.route(connection).security.is_some();
        let Some(http2) = &mut connection.http2 else { return };
        let allowed = http2.streams_max();
        self.streams_max = Some(allowed).filter(|allowed| (*allowed as usize) < self.depth);
        if connection.pending > 0 {
            self.now_ns = self.world.now_ns();
            let under_way = connection.flights.len() - connection.pending;
            let left = left_on_socket(self.plan, connection.on_socket).min(http2.places());
            let room = left.saturating_sub(under_way).min(connection.pending);
            for exchange in connection.flights.iter_mut().skip(under_way).take(room) {
                exchange.stream = match &self.users {
                    None => http2.request(&self.template),
                    Some(users) => http2.send(users.request(exchange.user), is_secure),
                };
                self.tally.counts.resent += u64::from(exchange.write(self.now_ns));
                exchange.ready_ns = connection.ready_ns;
            }
            connection.pending -= room;
        }
        self.write_out(connection);
    }

    /// What the server has said before it closed is still to be read, and then its end: a GOAWAY
    /// tells which requests it will not answer. A Unix socket may have an end for one side only.
    pub(super) fn leaves_to_reader(
        &self,
        connection: &Connection<W::Stream>,
        error: &io::Error,
    ) -> bool {
        let is_tcp = matches!(self.route(connection).address, Address::Tcp(_));
        connection.http2.is_some() && is_tcp && write_error(error) == ErrorKind::Closed
    }

    pub(super) fn write_out(&mut self, connection: &mut Connection<W::Stream>) {
        let (Some(http2), Some(stream)) = (&mut connection.http2, &mut connection.stream) else {
            return;
        };
        match write_on(stream, &http2.out, &mut connection.written) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) if !self.leaves_to_reader(connection, &error) => {
                return self.fail_by(connection, write_error(&error), &error);
            }
            Err(_) => {}
        }
        if let Some(http2) = &mut connection.http2 {
            http2.out.clear();
        }
        connection.written = 0;
    }

    /// Requests that the connection can carry at once.
    #[inline]
    pub(super) fn places(&self, connection: &Connection<W::Stream>) -> usize {
        let depth = self.depth.saturating_sub(connection.owed());
        let places = match &connection.http2 {
            // One waits for a server that allows none for now: its time runs.
            Some(http2) if http2.streams_max() == 0 && http2.last_stream().is_none() => {
                depth.min(1)
            }
            Some(http2) => depth.min(http2.places()),
            None => depth,
        };
        places.min(left_on_socket(self.plan, connection.on_socket))
    }

    /// The same as `digest` of HTTP/1.
    pub(super) fn digest_streams(
        &mut self,
        connection: &mut Connection<W::Stream>,
        input: &[u8],
    ) -> Digested {
        let Some(mut http2) = connection.http2.take() else { return Digested::Failed };
        let allowed = http2.streams_max();
        let acted = self.act_on_all(connection, &mut http2, input);
        if connection.stream.is_none() {
            // An answer was the connection's last.
            return Digested::Answers;
        }
        let last = http2.last_stream();
        let allows_more = http2.streams_max() > allowed && connection.pending > 0;
        connection.http2 = Some(http2);
        let has_room = match acted {
            Ok(has_room) => has_room,
            Err(fault) => {
                self.fault(connection, fault);
                return Digested::Failed;
            }
        };
        self.write_out(connection);
        if let Some(last) = last.filter(|_| !connection.is_retired && connection.http2.is_some()) {
            self.go_away(connection, last);
            return Digested::Failed;
        }
        match (connection.http2.is_some(), has_room || allows_more) {
            (false, _) => Digested::Failed,
            (true, true) => Digested::Answers,
            (true, false) => Digested::Part,
        }
    }

    /// Acts on what the bytes mean, as long as the connection lives; whether there is room for
    /// another request.
    fn act_on_all(
        &mut self,
        connection: &mut Connection<W::Stream>,
        http2: &mut Http2,
        mut input: &[u8],
    ) -> Result<bool, Fault> {
        let mut has_room = false;
        while let (Some(event), rest) = http2.next(input)? {
            input = rest;
            has_room |= self.act(connection, http2, &event)?;
            if connection.stream.is_none() {
                break;
            }
        }
        Ok(has_room)
    }

    /// Acts on an event; whether there is room for another request.
    fn act(
        &mut self,
        connection: &mut Connection<W::Stream>,
        http2: &mut Http2,
        event: &Event<'_>,
    ) -> Result<bool, Fault> {
        let (Event::Head { stream, .. }
        | Event::Body { stream, .. }
        | Event::End { stream }
        | Event::Reset { stream, .. }) = *event;
        // A stream that was given up may still speak.
        let Some(at) = connection.flights.iter().position(|e| e.stream == stream) else {
            return Ok(false);
        };
        let exchange = &mut connection.flights[at];
        match *event {
            Event::Head { status, length, .. } => {
                exchange.status = status;
                exchange.first_byte_ns = self.now_ns;
                let is_head = match &mut self.users {
                    None => self.is_head,
                    Some(users) => {
                        users.keep_head(exchange.user, http2.last_head());
                        users.is_head(exchange)
                    }
                };
                let has_body = !is_head && status != 204 && status != 304;
                exchange.length = length.filter(|_| has_body);
            }
            Event::Body { bytes, .. } => {
                if let Some(users) = &mut self.users {
                    users.keep_body(exchange.user, bytes);
                }
                let steps = |bytes: u64| bytes / u64::from(WINDOW_STEP);
                let before = steps(exchange.body_bytes);
                exchange.body_bytes += bytes.len() as u64;
                exchange.wire_bytes += bytes.len() as u64;
                if steps(exchange.body_bytes) > before {
                    http2.widen(stream, WINDOW_STEP);
                }
            }
            Event::End { .. } => {
                if exchange.length.is_some_and(|length| length != exchange.body_bytes) {
                    // Of this stream alone (RFC 9113, 8.1.1): the others have their answers.
                    self.tally.first_fault.get_or_insert(Fault::WrongLength);
                    self.fail_stream(connection, at, ErrorKind::Protocol);
                    return Ok(true);
                }
                if exchange.status == 0 {
                    return Err(Fault::BadHeaderBlock);
                }
                self.complete(connection, at, true, &[]);
                return Ok(true);
            }
            Event::Reset { refused: true, .. } if exchange.refuse() <= REFUSALS_MAX => {
                if let Some(mut exchange) = connection.flights.remove(at) {
                    exchange.take_back(self.now_ns);
                    connection.flights.push_back(exchange);
                    connection.pending += 1;
                }
                return Ok(true);
            }
            Event::Reset { .. } => {
                self.fail_stream(connection, at, ErrorKind::Closed);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the streams that have lasted too long; the others go on.
    pub(super) fn check_streams(&mut self, connection: &mut Connection<W::Stream>) {
        while let Some((at, kind)) = self.late_stream(connection) {
            let stream = connection.flights[at].stream;
            if at + connection.pending >= connection.flights.len() {
                connection.pending -= 1;
                self.fail_one(connection, at, kind, true);
                continue;
            }
            if let Some(http2) = &mut connection.http2 {
                http2.cancel(stream);
            }
            self.fail_stream(connection, at, kind);
        }
        self.refill(connection);
    }

    /// A stream has failed; the connection goes on, unless it has carried as many as it may.
    fn fail_stream(&mut self, connection: &mut Connection<W::Stream>, at: usize, kind: ErrorKind) {
        self.fail_one(connection, at, kind, true);
        connection.on_socket += 1;
        if left_on_socket(self.plan, connection.on_socket) == 0 {
            self.hang_up(connection);
        }
    }

    pub(super) fn late_stream(
        &self,
        connection: &Connection<W::Stream>,
    ) -> Option<(usize, ErrorKind)> {
        let written = connection.flights.len() - connection.pending;
        let late = |(at, exchange): (usize, &Exchange)| {
            let kind = match at < written {
                true => self.is_answer_late(exchange),
                false => self.is_whole_late(exchange.begun_ns),
            };
            kind.map(|kind| (at, kind))
        };
        connection.flights.iter().enumerate().find_map(late)
    }
}

/// Requests that a socket may still carry, on which so many have ended.
pub(super) fn left_on_socket(plan: &Plan, ended: u64) -> usize {
    let left = plan.answers_per_connection.map(|max| max.saturating_sub(ended));
    left.map_or(usize::MAX, |left| left as usize)
}
