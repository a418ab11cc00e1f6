//! HTTP/2 on a connection: streams instead of turns. What `wire.rs` does for HTTP/1.

use std::io::{self, Write};

use super::{Lane, wire::Digested};
use crate::{
    connection::{Connection, Phase, to_ns},
    http2::{Event, Http2},
    outcome::ErrorKind,
    protocol::Fault,
    world::World,
};

/// A stream may send so much more each time that it has sent so much.
const WINDOW_STEP: u64 = 1 << 29;

impl<W: World> Lane<'_, W> {
    /// Begins with HTTP/2. Requests wait until the server has told how many it takes: one that
    /// takes few may close a connection with more.
    pub(super) fn greet(&mut self, connection: &mut Connection<W::Stream>) {
        connection.http2 = Some(Box::default());
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
        let Some(http2) = &mut connection.http2 else { return };
        if connection.pending > 0 {
            self.now_ns = self.world.now_ns();
            let under_way = connection.flights.len() - connection.pending;
            let room = http2.places().saturating_sub(under_way).min(connection.pending);
            for exchange in connection.flights.iter_mut().skip(under_way).take(room) {
                exchange.stream = http2.request(&self.template);
                exchange.written_ns = self.now_ns;
                exchange.ready_ns = connection.ready_ns;
            }
            connection.pending -= room;
        }
        self.write_out(connection);
    }

    fn write_out(&mut self, connection: &mut Connection<W::Stream>) {
        let (Some(http2), Some(stream)) = (&mut connection.http2, &mut connection.stream) else {
            return;
        };
        while connection.written < http2.out.len() {
            match stream.write(&http2.out[connection.written..]) {
                Ok(count) => connection.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let kind = super::wire::write_error(&error);
                    return self.fail(connection, kind);
                }
            }
        }
        http2.out.clear();
        connection.written = 0;
    }

    /// Requests that the connection can carry at once.
    #[inline]
    pub(super) fn places(&self, connection: &Connection<W::Stream>) -> usize {
        let places = match &connection.http2 {
            Some(http2) => self.depth.min(http2.places()),
            None => self.depth,
        };
        let Some(answers_max) = self.plan.answers_per_connection else { return places };
        places.min(answers_max.saturating_sub(connection.on_socket) as usize)
    }

    /// The same as `digest` of HTTP/1.
    pub(super) fn digest_streams(
        &mut self,
        connection: &mut Connection<W::Stream>,
        mut input: &[u8],
    ) -> Digested {
        let Some(mut http2) = connection.http2.take() else { return Digested::Failed };
        let mut digested = Digested::Part;
        loop {
            let (event, rest) = match http2.next(input) {
                Ok((None, _)) => break,
                Ok((Some(event), rest)) => (event, rest),
                Err(fault) => {
                    connection.http2 = Some(http2);
                    self.fault(connection, fault);
                    return Digested::Failed;
                }
            };
            input = rest;
            match self.act(connection, &mut http2, &event) {
                // An answer that was the connection's last.
                Ok(_) if connection.stream.is_none() => return Digested::Answers,
                Ok(false) => {}
                Ok(true) => digested = Digested::Answers,
                Err(fault) => {
                    connection.http2 = Some(http2);
                    self.fault(connection, fault);
                    return Digested::Failed;
                }
            }
        }
        let last = http2.last_stream();
        connection.http2 = Some(http2);
        let mut streams = connection.flights.iter().map(|exchange| exchange.stream);
        let mut is_answered_here = |last| streams.any(|stream| (1..=last).contains(&stream));
        if last.is_some_and(|last| !is_answered_here(last)) {
            // The others are asked again elsewhere: the server has said that it did not begin them.
            let asked = connection.flights.len() - connection.pending;
            self.tally.counts.resent += asked as u64;
            self.hang_up(connection);
            return Digested::Answers;
        }
        self.write_out(connection);
        if connection.http2.is_some() { digested } else { Digested::Failed }
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
                let has_body = !self.is_head && status != 204 && status != 304;
                exchange.length = length.filter(|_| has_body);
            }
            Event::Body { bytes, .. } => {
                let before = exchange.body_bytes / WINDOW_STEP;
                exchange.body_bytes += bytes.len() as u64;
                exchange.wire_bytes += bytes.len() as u64;
                if exchange.body_bytes / WINDOW_STEP > before {
                    http2.widen(stream, WINDOW_STEP as u32);
                }
            }
            Event::End { .. } => {
                if exchange.length.is_some_and(|length| length != exchange.body_bytes) {
                    return Err(Fault::WrongLength);
                }
                if exchange.status == 0 {
                    return Err(Fault::BadHeaderBlock);
                }
                connection.status = exchange.status;
                self.complete(connection, at, true, &[]);
                return Ok(true);
            }
            Event::Reset { refused: true, .. } => {
                if let Some(exchange) = connection.flights.remove(at) {
                    connection.flights.push_back(exchange);
                    connection.pending += 1;
                    self.tally.counts.resent += 1;
                }
                return Ok(true);
            }
            Event::Reset { .. } => {
                self.fail_one(connection, at, ErrorKind::Closed);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One request fails, and the connection goes on.
    fn fail_one(&mut self, connection: &mut Connection<W::Stream>, at: usize, kind: ErrorKind) {
        let Some(exchange) = connection.flights.remove(at) else { return };
        self.in_flight -= 1;
        self.tally.failed(kind, &exchange, self.now_ns);
        self.record(connection, exchange, Some(kind), true);
        connection.on_socket += 1;
    }

    /// Ends the streams that have lasted too long; the others go on.
    pub(super) fn check_streams(&mut self, connection: &mut Connection<W::Stream>) {
        let limit_ns = to_ns(self.plan.timeout);
        let is_late = |begun_ns: u64, now_ns: u64| now_ns.saturating_sub(begun_ns) >= limit_ns;
        while let Some(at) =
            connection.flights.iter().position(|e| is_late(e.begun_ns, self.now_ns))
        {
            let stream = connection.flights[at].stream;
            if at + connection.pending >= connection.flights.len() {
                connection.pending -= 1;
            } else if let Some(http2) = &mut connection.http2 {
                http2.cancel(stream);
            }
            self.fail_one(connection, at, ErrorKind::Timeout);
        }
        self.refill(connection);
    }
}
