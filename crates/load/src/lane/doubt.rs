//! Whether the run as a whole is in vain because TLS refuses everybody. The first ones are not all:
//! a run is given up when every connection of every thread has been refused, and nothing else has
//! failed. What was doubted until the end of a run is judged with its counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Lane;
use crate::{
    connection::{Connection, Phase},
    error::Error,
    outcome::{ErrorKind, Outcome},
    world::World,
};

/// With fewer refusals, of all threads together, nothing is given up.
const TRIES: u32 = 4;
/// As long as nobody hopes any more; each thread looks at its connections every 50 ms at least.
const HOPELESS_NS: u64 = 150_000_000;
/// Behind a good handshake answers are slower than alerts.
const PATIENCE_NS: u64 = 1_000_000_000;

/// What any thread has seen of the server.
#[derive(Debug, Default)]
pub struct Signs {
    is_up: AtomicBool,
    has_answered: AtomicBool,
    /// Something failed that was no refusal of TLS's, on a connection that was made.
    has_other: AtomicBool,
    refusals: AtomicU32,
    /// When the first of them was; 0 before.
    since_ns: AtomicU64,
    /// When some connection was seen last that has waited since before that.
    hope_ns: AtomicU64,
}

/// What makes it doubtful that anybody is ever answered.
#[derive(Debug)]
pub struct Doubt {
    stage: Stage,
    why: Error,
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

    fn refused(&self, now_ns: u64) {
        self.refusals.fetch_add(1, Relaxed);
        let _ = self.since_ns.compare_exchange(0, now_ns, Relaxed, Relaxed);
    }

    fn is_hopeless(&self, stage: Stage, now_ns: u64) -> bool {
        let since_ns = self.since_ns.load(Relaxed);
        let hope_ns = self.hope_ns.load(Relaxed).max(since_ns);
        let patience_ns = if stage == Stage::Inside { PATIENCE_NS } else { HOPELESS_NS };
        self.refusals.load(Relaxed) >= TRIES
            && !self.has_other.load(Relaxed)
            && !self.contradict(stage)
            && now_ns.saturating_sub(hope_ns) >= HOPELESS_NS
            && now_ns.saturating_sub(since_ns) >= patience_ns
    }
}

impl Doubt {
    /// Why there is nothing to be told. Where most failed in other ways, or wait in silence, the
    /// counts say more.
    pub fn judged(self, signs: &Signs, outcome: &Outcome) -> Option<Error> {
        let refused = outcome.errors.get(&ErrorKind::Tls).copied().unwrap_or(0);
        let is_most = refused >= outcome.in_flight && 2 * refused >= outcome.failed;
        (is_most && !signs.contradict(self.stage)).then_some(self.why)
    }
}

impl<W: World> Lane<'_, W> {
    /// The server has let somebody in.
    pub(super) fn is_up(&self) -> bool {
        self.anyone_established || self.signs.is_some_and(|signs| signs.is_up.load(Relaxed))
    }

    pub(super) fn note_first_connection(&mut self) {
        self.anyone_established = true;
        self.signs.iter().for_each(|signs| signs.is_up.store(true, Relaxed));
    }

    pub(super) fn note_first_answer(&mut self) {
        self.anyone_answered = true;
        self.signs.iter().for_each(|signs| signs.has_answered.store(true, Relaxed));
    }

    /// A connection that was never made says nothing of TLS: a listen queue may be full.
    pub(super) fn note_failure(&self, kind: ErrorKind, phase: Phase) {
        let is_other = kind != ErrorKind::Tls && phase != Phase::Connecting;
        if let Some(signs) = self.signs.filter(|_| is_other) {
            signs.has_other.store(true, Relaxed);
        }
    }

    /// One was refused; among others that are let in or answered it is an error like any other.
    pub(super) fn doubt(&mut self, stage: Stage, why: Error) {
        if let Some(signs) = self.signs.filter(|signs| !signs.contradict(stage)) {
            signs.refused(self.now_ns);
            self.doubt = Some(Doubt { stage, why });
        }
    }

    /// From time to time: gives up where everybody has been refused.
    pub fn settle_doubt(&mut self, connections: &[Connection<W::Stream>]) {
        let Some(signs) = self.signs else { return };
        let since_ns = signs.since_ns.load(Relaxed);
        if since_ns == 0 || signs.has_answered.load(Relaxed) {
            return;
        }
        if connections.iter().any(|connection| hopes(connection, since_ns)) {
            signs.hope_ns.store(self.now_ns, Relaxed);
        }
        let is_hopeless = |doubt: &Doubt| signs.is_hopeless(doubt.stage, self.now_ns);
        if self.doubt.as_ref().is_some_and(is_hopeless) {
            self.fatal = self.doubt.take().map(|doubt| doubt.why);
        }
    }
}

/// It was begun before the first refusal, was made, and is still waiting.
fn hopes<Stream>(connection: &Connection<Stream>, since_ns: u64) -> bool {
    let is_waiting = match connection.phase {
        Phase::Securing | Phase::Greeting => true,
        Phase::Open => !connection.flights.is_empty(),
        _ => false,
    };
    is_waiting && connection.connect_ns <= since_ns
}
