//! Users of a scenario on a thread's connections: each has one of its own to every server that it
//! asks, or in HTTP/2 a place on one. Who does what is `users.rs`; how requests travel is `wire.rs`
//! and `streams.rs`.

use super::Lane;
use crate::{
    connection::{Connection, Phase},
    open::Due,
    outcome::ErrorKind,
    plan::OnClose,
    users::{Begins, Turn},
    world::World,
};

/// A user's request and the connection that it goes to.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub token: u32,
    user: u32,
    planned_ns: u64,
    is_punctual: bool,
}

impl<W: World> Lane<'_, W> {
    /// The next request of a user who can go on, if anybody has one.
    pub fn next_asking(&mut self, connections: &mut [Connection<W::Stream>]) -> Option<Asking> {
        let is_cut = self.is_cut();
        loop {
            match self.users.as_mut()?.next_turn(self.now_ns, is_cut) {
                Turn::Nobody => return None,
                Turn::Round { user } => self.take_round(user),
                Turn::Leave { user } => {
                    let own = self.first_token(user)..self.first_token(user) + self.routes.len();
                    let is_left =
                        |c: &&mut Connection<W::Stream>| c.stream.is_some() && c.flights.is_empty();
                    connections[own].iter_mut().filter(is_left).for_each(|c| self.hang_up(c));
                }
                Turn::Send { user, origin, planned_ns, is_punctual } => {
                    let token = (self.first_token(user) + origin) as u32;
                    return Some(Asking { token, user, planned_ns, is_punctual });
                }
            }
        }
    }

    /// Of the user's connections, one to each server. Neighbours have different ones, so that few
    /// users are spread.
    fn first_token(&self, user: u32) -> usize {
        (user % self.groups) as usize * self.routes.len()
    }

    /// Puts the request on its connection.
    pub fn ask(&mut self, connection: &mut Connection<W::Stream>, asking: Asking) {
        let is_open = connection.phase == Phase::Open;
        let is_gone = connection.stream.is_none()
            && self.users.as_ref().is_some_and(|users| users.writes_into_closed(asking.user));
        for row in self.users.as_ref().map_or(0..0, |users| users.burst(asking.user)) {
            self.start(connection, asking.planned_ns);
            if let Some(exchange) = connection.flights.back_mut() {
                (exchange.user, exchange.row) = (asking.user, row);
            }
        }
        if is_gone {
            return self.write_in_vain(connection);
        }
        self.write_request(connection);
        self.flush(connection);
        let written_ns = connection.flights.back().map(|exchange| exchange.written_ns);
        if let Some(ns) = written_ns.filter(|_| is_open && asking.is_punctual) {
            self.tally.open.lag.record_ns(ns.saturating_sub(asking.planned_ns));
        }
    }

    /// The server has closed the connection, and the request is written there nevertheless.
    fn write_in_vain(&mut self, connection: &mut Connection<W::Stream>) {
        connection.flights.iter_mut().for_each(|exchange| exchange.ready_ns = self.now_ns);
        // Of a socket that had others before it.
        connection.on_socket = 1;
        self.fail(connection, ErrorKind::Closed);
    }

    /// Whether what was written behind a connection's last answer has failed.
    pub(super) fn fails_on_close(&self) -> bool {
        self.plan.scene.as_ref().is_some_and(|scene| scene.on_close == OnClose::Fail)
    }

    /// What a user has under way there, as text; HTTP/2 writes it from its fields.
    pub(super) fn write_request(&self, connection: &mut Connection<W::Stream>) {
        let (Some(users), Some(version)) = (&self.users, self.plan.version.of_text()) else {
            return;
        };
        let bytes = &mut connection.request;
        bytes.clear();
        for exchange in &connection.flights {
            match &users.scene.raw {
                Some(raw) => bytes.extend_from_slice(raw.request(exchange.row)),
                None => {
                    let request = users.request(exchange.user);
                    request.write_http1(version, self.plan.keepalive, bytes);
                }
            }
        }
    }

    /// A round begins that was planned; the user waited for it.
    pub fn begin_planned_round(&mut self, due: Due) {
        let Some(users) = &mut self.users else { return };
        let was_free = due.free_ns <= due.planned_ns;
        self.tally.open.queued += u64::from(!was_free);
        users.begin_round(due.token, due.planned_ns, Begins::Planned { is_punctual: was_free });
    }

    /// Rounds that are to end are over, and no user is in one that may go on.
    pub fn are_users_done(&mut self) -> bool {
        let is_cut = self.is_cut();
        let Some(users) = &self.users else { return true };
        users.inside == 0 || is_cut
    }

    /// The time of an open loop is over: no request begins any more but the first ones of rounds.
    fn is_cut(&self) -> bool {
        self.now_ns >= self.end_ns
    }

    /// A user wants to begin a round.
    fn take_round(&mut self, user: u32) {
        let is_between = !self.measuring && self.now_ns >= self.window_ns;
        let Some(users) = &mut self.users else { return };
        let Some(open) = &mut self.open else {
            if self.left == Some(0) {
                return;
            }
            if is_between && self.left.is_some() {
                return users.hold(user);
            }
            if let Some(left) = self.left.as_mut().filter(|_| self.measuring) {
                *left -= 1;
            }
            return users.begin_round(user, self.now_ns, Begins::Again);
        };
        // As in `take_turn`: who was free before takes it.
        let may_take = !is_between && !open.has_free();
        let due = if may_take { open.take_due(self.now_ns) } else { None };
        match due {
            None => open.rest(user, self.now_ns),
            Some(planned_ns) => {
                self.tally.open.queued += 1;
                users.begin_round(user, planned_ns, Begins::Planned { is_punctual: false });
            }
        }
    }

    /// In an open loop there is mostly a connection before somebody has to wait for it.
    pub(super) fn keep_ready(&mut self, connection: &mut Connection<W::Stream>) {
        let is_first = (connection.token as usize).is_multiple_of(self.routes.len());
        let is_gone = connection.stream.is_none() && connection.flights.is_empty();
        let is_early = self.plan.scene.as_ref().is_some_and(|scene| !scene.connects_for_rounds);
        if is_first && is_gone && is_early && self.open.is_some() && self.plan.keepalive {
            self.connect(connection);
        }
        self.flush(connection);
    }
}
