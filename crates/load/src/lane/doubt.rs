//! Whether the run as a whole is in vain: a server that nobody can reach, or that TLS refuses. The
//! first ones that fail are not all, so that a thread goes on for some tries, and what they said is
//! judged when all threads have ended.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Lane;
use crate::{
    error::Error,
    outcome::{ErrorKind, Outcome},
    world::World,
};

/// With so many tries, and one for each connection, it is not tried any more; ...
const TRIES: u32 = 4;
/// ... or as soon as this has passed: of thousands of connections not all need to have tried.
/// Behind a good handshake it always has to: answers are slower than alerts.
const PATIENCE_NS: u64 = 1_000_000_000;

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
    /// There is no connection, or no handshake came to its end.
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
        let is_refusal = |kind: &ErrorKind| matches!(kind, ErrorKind::Tls | ErrorKind::Connect);
        let is_all = outcome.errors.keys().all(is_refusal)
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
        let is_each = stage == Stage::Outside && tries >= self.groups;
        if tries >= TRIES && (is_each || has_lasted) {
            self.fatal = Some(why);
        } else {
            self.doubt = Some(Doubt { stage, why, tries, since_ns });
        }
    }
}
