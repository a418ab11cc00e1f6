//! Whether the run as a whole is in vain because TLS refuses everybody. The first ones are not all,
//! so that a thread goes on for some tries, and what they said is judged when all threads have
//! ended.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Lane;
use crate::{
    connection::{Connection, Phase},
    error::Error,
    outcome::{ErrorKind, Outcome},
    world::World,
};

/// With so many tries, and one for each connection, it is not tried any more; ...
const TRIES: u32 = 4;
/// ... or as soon as this has passed: of thousands of connections not all need to have tried.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Behind a good handshake answers are slower than alerts: as long as somebody has waited for one
/// so long there may be one.
const HOPE_NS: u64 = PATIENCE_NS / 2;

/// What any thread has seen of the server.
#[derive(Debug, Default)]
pub struct Signs {
    is_up: AtomicBool,
    has_answered: AtomicBool,
}

/// What makes it doubtful that anybody is ever answered.
#[derive(Debug)]
pub struct Doubt {
    stage: Stage,
    why: Error,
    tries: u32,
    since_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No handshake came to its end.
    Outside,
    /// It was refused afterwards.
    Inside,
}

impl Signs {
    fn contradict(&self, stage: Stage) -> bool {
        match stage {
            Stage::Outside => self.is_up.load(Relaxed),
            Stage::Inside => self.has_answered.load(Relaxed),
        }
    }
}

impl Doubt {
    /// Why there is nothing to be told. Where something else has failed as well, or most wait in
    /// silence, the counts say more.
    pub fn judged(self, signs: &Signs, outcome: &Outcome) -> Option<Error> {
        let is_all = outcome.errors.keys().all(|kind| *kind == ErrorKind::Tls)
            && outcome.errors.values().sum::<u64>() >= outcome.in_flight;
        (is_all && !signs.contradict(self.stage)).then_some(self.why)
    }
}

impl<W: World> Lane<'_, W> {
    /// The server has let somebody in.
    pub(super) fn is_up(&self) -> bool {
        self.anyone_established || self.signs.is_some_and(|signs| signs.is_up.load(Relaxed))
    }

    /// And has answered somebody.
    fn has_answered(&self) -> bool {
        self.anyone_answered || self.signs.is_some_and(|signs| signs.has_answered.load(Relaxed))
    }

    pub(super) fn note_first_connection(&mut self) {
        self.anyone_established = true;
        self.signs.iter().for_each(|signs| signs.is_up.store(true, Relaxed));
    }

    pub(super) fn note_first_answer(&mut self) {
        self.anyone_answered = true;
        self.signs.iter().for_each(|signs| signs.has_answered.store(true, Relaxed));
    }

    /// One was refused; among others that are let in or answered it is an error like any other.
    pub(super) fn doubt(&mut self, stage: Stage, why: Error) {
        let is_contradicted = match stage {
            Stage::Outside => self.is_up(),
            Stage::Inside => self.has_answered(),
        };
        if is_contradicted {
            return;
        }
        let before = self.doubt.take().filter(|before| before.stage == stage);
        let (tries, since_ns) =
            before.map_or((1, self.now_ns), |before| (before.tries + 1, before.since_ns));
        let has_lasted = self.now_ns.saturating_sub(since_ns) >= PATIENCE_NS;
        let is_outside = stage == Stage::Outside;
        if is_outside && tries >= TRIES && (tries >= self.groups || has_lasted) {
            self.fatal = Some(why);
        } else {
            self.doubt = Some(Doubt { stage, why, tries, since_ns });
        }
    }

    /// From time to time: whether those that were let in are all refused.
    pub fn settle_doubt(&mut self, connections: &[Connection<W::Stream>]) {
        let now_ns = self.now_ns;
        let is_old = |doubt: &Doubt| {
            let has_lasted = now_ns.saturating_sub(doubt.since_ns) >= PATIENCE_NS;
            doubt.stage == Stage::Inside && doubt.tries >= TRIES && has_lasted
        };
        if !self.doubt.as_ref().is_some_and(is_old) || self.has_answered() {
            return;
        }
        let waits = |connection: &Connection<W::Stream>| {
            let has_lasted = now_ns.saturating_sub(connection.ready_ns) >= HOPE_NS;
            connection.phase == Phase::Open && !connection.flights.is_empty() && has_lasted
        };
        if !connections.iter().any(waits) {
            self.fatal = self.doubt.take().map(|doubt| doubt.why);
        }
    }
}
