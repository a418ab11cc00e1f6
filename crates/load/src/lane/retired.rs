//! HTTP/2 connections on which the server takes no more requests (GOAWAY) and still owes answers.
//! Their place has a new connection at once: one slow answer would keep all others waiting, and a
//! server is free to leave the closing to the client.

use std::collections::VecDeque;

use super::Lane;
use crate::{
    connection::{Connection, Phase},
    exchange::Exchange,
    outcome::ErrorKind,
    poll::Ready,
    world::World,
};

/// A server that has turned a request away so often does not want it.
pub(super) const REFUSALS_MAX: u8 = 8;

impl<W: World> Lane<'_, W> {
    /// Acts on what the kernel said about one of the connection's sockets.
    #[inline]
    pub fn ready(
        &mut self,
        connection: &mut Connection<W::Stream>,
        ready: Ready,
        buffer: &mut [u8],
    ) {
        if connection.is_current(ready.token) {
            self.ready_on(connection, ready, buffer);
            if !connection.retired.is_empty() {
                self.read_fresh(connection, ready.closing, buffer);
            }
            return;
        }
        let of_socket = |old: &Connection<W::Stream>| old.is_current(ready.token);
        let Some(at) = connection.retired.iter().position(of_socket) else { return };
        self.ready_on(&mut connection.retired[at], ready, buffer);
        self.settle_retired(connection);
    }

    /// The time has come that a throttled connection waits for.
    pub fn read_on(&mut self, connection: &mut Connection<W::Stream>, buffer: &mut [u8]) {
        let is_ending = connection.is_ending;
        self.read_on_socket(connection, buffer);
        self.read_fresh(connection, is_ending, buffer);
        for old in &mut connection.retired {
            self.read_on_socket(old, buffer);
        }
        self.settle_retired(connection);
    }

    /// What of the connection, or of a request on it, has lasted too long.
    pub fn is_late(&self, connection: &Connection<W::Stream>) -> Option<ErrorKind> {
        let of_old = || connection.retired.iter().find_map(|old| self.is_late_on(old));
        self.is_late_on(connection).or_else(of_old)
    }

    /// Ends requests with an error that have lasted too long.
    pub fn check_timeout(&mut self, connection: &mut Connection<W::Stream>) {
        self.check_timeout_on(connection);
        for old in &mut connection.retired {
            self.check_timeout_on(old);
        }
        self.settle_retired(connection);
    }

    /// The server answers nothing after this stream. What it answers is waited for on the old
    /// socket, the rest is asked again on a new one.
    pub(super) fn go_away(&mut self, connection: &mut Connection<W::Stream>, last: u32) {
        if connection.flights.is_empty() {
            return self.disturbed(connection);
        }
        let is_owed = |exchange: &Exchange| (1..=last).contains(&exchange.stream);
        if connection.flights.iter().any(is_owed) {
            self.retire(connection);
            return self.settle_retired(connection);
        }
        let has_answered = connection.on_socket > 0;
        connection.take_written_back(self.now_ns);
        self.hang_up(connection);
        match has_answered {
            true => self.refill(connection),
            false => self.turned_away(connection),
        }
    }

    /// A connection has come to nothing, and the next one may, too: it waits as after a connect
    /// that failed.
    pub(super) fn turned_away(&mut self, connection: &mut Connection<W::Stream>) {
        self.refuse_from(connection, 0);
        self.rest_a_while(connection);
    }

    /// Of requests on a socket that answered none those to which this has happened too often are
    /// not asked again: of those that are pending, from this one on.
    fn refuse_from(&mut self, connection: &mut Connection<W::Stream>, mut at: usize) {
        while at < connection.flights.len() {
            if connection.flights[at].refuse() > REFUSALS_MAX {
                connection.pending -= 1;
                self.fail_one(connection, at, ErrorKind::Closed, false);
            } else {
                at += 1;
            }
        }
    }

    /// The socket and its requests become an old one, and the connection is without.
    fn retire(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.waiting > 0 {
            self.forget_waiting(connection);
        }
        let mut old = connection.succeed();
        old.is_retired = true;
        old.is_fresh = true;
        connection.retired.append(&mut old.retired);
        connection.retired.push(old);
    }

    /// What lies on a socket that was retired in the middle of reading is told of no more.
    fn read_fresh(
        &mut self,
        connection: &mut Connection<W::Stream>,
        is_closing: bool,
        buffer: &mut [u8],
    ) {
        for old in &mut connection.retired {
            if std::mem::take(&mut old.is_fresh) {
                self.read(old, is_closing, buffer);
            }
        }
        self.settle_retired(connection);
    }

    /// Takes back what old sockets will not answer, closes those that owe nothing, and fills the
    /// places that have become free.
    fn settle_retired(&mut self, connection: &mut Connection<W::Stream>) {
        if connection.retired.is_empty() {
            return;
        }
        let mut is_turned_away = false;
        for mut old in std::mem::take(&mut connection.retired) {
            let first = connection.flights.len();
            connection.take_back(&mut old, self.now_ns);
            // One that owes something may answer yet: it is no refusal that more was asked of it.
            if old.flights.is_empty() && old.on_socket == 0 && connection.flights.len() > first {
                is_turned_away = true;
                self.refuse_from(connection, first);
            }
            if old.flights.is_empty() {
                connection.answers += old.answers;
            } else {
                connection.retired.push(old);
            }
        }
        if connection.phase == Phase::Done && connection.pending > 0 {
            connection.phase = Phase::Closed;
        }
        // One that is on its way fills its places when it has come, one that rests when it may.
        match connection.phase {
            Phase::Closed if is_turned_away => self.rest_a_while(connection),
            Phase::Open | Phase::Closed | Phase::Done => self.refill(connection),
            _ => {}
        }
    }
}

impl<Stream> Connection<Stream> {
    /// Itself, as it was; what is left has no socket.
    fn succeed(&mut self) -> Self {
        let mut next = Self::new(self.token, self.secure_ns);
        next.phase = Phase::Closed;
        next.established = self.established;
        next.connect_ns = self.connect_ns;
        // No report of the old socket is its own, before it has one and after.
        next.sockets = self.sockets.wrapping_add(1);
        std::mem::replace(self, next)
    }

    /// Takes over what an old socket will not answer.
    fn take_back(&mut self, old: &mut Self, now_ns: u64) {
        let again = old.take_unowed(now_ns);
        self.pending += again.len();
        self.flights.extend(again);
    }

    /// Requests that the server has said it will not answer here; on a socket that begins nothing,
    /// those too that were never written.
    pub(super) fn take_unowed(&mut self, now_ns: u64) -> VecDeque<Exchange> {
        let last = self.http2.as_ref().and_then(|http2| http2.last_stream());
        let written = self.written_flights();
        let mut again = VecDeque::new();
        self.pending = 0;
        for (at, mut exchange) in std::mem::take(&mut self.flights).into_iter().enumerate() {
            let is_written = at < written;
            let is_unowed = match is_written {
                true => last.is_some_and(|last| exchange.stream > last),
                false => self.is_retired || exchange.is_taken_back,
            };
            if is_unowed && is_written {
                exchange.take_back(now_ns);
            }
            self.pending += usize::from(!is_unowed && !is_written);
            if is_unowed { &mut again } else { &mut self.flights }.push_back(exchange);
        }
        again
    }

    fn written_flights(&self) -> usize {
        self.flights.len() - self.pending
    }

    /// Those that were written are to be written again, elsewhere.
    pub(super) fn take_written_back(&mut self, now_ns: u64) {
        let written = self.written_flights();
        self.flights.iter_mut().take(written).for_each(|exchange| exchange.take_back(now_ns));
    }
}
