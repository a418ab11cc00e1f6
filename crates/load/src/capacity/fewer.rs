//! Would more connections have carried more? Asked the other way round: do fewer carry less? Pure.
//!
//! A server with fewer workers than connections is full, whatever its answers take and however they
//! scatter: some connections fewer carry as much. One with more workers answers each connection as
//! if it were alone: a quarter fewer carry a quarter less. Between them are servers that gain by
//! every request under way, if less and less (batches, locks): the rate is what they take over
//! these connections, and it is said that more may bring more.

use crate::{outcome::Outcome, verdict::client_limited};

/// Of the connections.
const FEWER_SHARE: f64 = 0.75;
/// The connections are the limit where fewer lose this part of what they would lose if each
/// counted, and more may carry more where they lose this part of it.
const COUNTS: f64 = 0.8;
const COUNTS_A_LITTLE: f64 = 0.1;
/// So many errors from that is decided.
const ERRORS: f64 = 2.0;

/// Closed loops of all connections and of some fewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fewer {
    connections: u32,
    fewer: u32,
    all: Arm,
    less: Arm,
    /// The client was the limit: nothing is known of the server.
    is_limited: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Arm {
    done: f64,
    seconds: f64,
}

impl Fewer {
    pub fn of(connections: u32) -> Self {
        let fewer = (f64::from(connections) * FEWER_SHARE) as u32;
        let (all, less) = Default::default();
        Self { connections, fewer: fewer.max(1), all, less, is_limited: false }
    }

    pub fn connections(&self, is_fewer: bool) -> u32 {
        if is_fewer { self.fewer } else { self.connections }
    }

    pub fn take(&mut self, is_fewer: bool, outcome: &Outcome) {
        let seconds = outcome.duration.as_secs_f64();
        self.add(is_fewer, outcome.done_rps() * seconds, seconds);
        self.is_limited |= client_limited(outcome, None).limited;
    }

    fn add(&mut self, is_fewer: bool, done: f64, seconds: f64) {
        let arm = if is_fewer { &mut self.less } else { &mut self.all };
        arm.done += done;
        arm.seconds += seconds;
    }

    /// Nothing more is to be learnt.
    pub fn is_decided(&self) -> bool {
        let Some((gained, error)) = self.gained() else { return self.fewer == self.connections };
        self.is_limited || (gained - COUNTS).abs() > ERRORS * error
    }

    /// The server takes as much as it is given: more connections would carry more.
    pub fn has_room(&self) -> bool {
        self.is_limited || self.gained().is_none_or(|(gained, error)| gained + error >= COUNTS)
    }

    /// How many carried which part less, where that is to be seen: more may carry more.
    #[must_use]
    pub fn lost(&self) -> Option<(u32, f64)> {
        let (gained, error) = self.gained().filter(|_| !self.is_limited)?;
        let lost = 1.0 - self.less.rate() / self.all.rate();
        (gained > COUNTS_A_LITTLE.max(error)).then_some((self.fewer, lost))
    }

    /// What those that are more have brought, 1: as much as each of the others; with its error
    /// where answers come as by chance.
    fn gained(&self) -> Option<(f64, f64)> {
        let more = f64::from(self.connections) / f64::from(self.fewer) - 1.0;
        let is_seen = more > 0.0 && self.all.done > 0.0 && self.less.done > 0.0;
        let ratio = self.all.rate() / self.less.rate();
        let error = ratio * (1.0 / self.all.done + 1.0 / self.less.done).sqrt();
        is_seen.then(|| ((ratio - 1.0) / more, error / more))
    }
}

impl Arm {
    fn rate(self) -> f64 {
        self.done / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of `workers` answers a hundred a second.
    fn trial(connections: u32, workers: u32, seconds: f64) -> Fewer {
        let mut trial = Fewer::of(connections);
        for is_fewer in [false, true] {
            let busy = f64::from(trial.connections(is_fewer).min(workers));
            trial.add(is_fewer, 100.0 * busy * seconds, seconds);
        }
        trial
    }

    #[test]
    fn a_server_as_full_as_its_connections_has_no_room() {
        for (connections, workers) in [(10, 8), (22, 20), (1_000, 760), (2, 1), (4, 3), (5, 3)] {
            let trial = trial(connections, workers, 10.0);
            assert!(!trial.has_room(), "{connections} on {workers}");
        }
        for (connections, workers) in [(8, 8), (5, 200), (2, 2), (1, 1), (1_000, 5_000)] {
            let trial = trial(connections, workers, 10.0);
            assert!(trial.has_room(), "{connections} on {workers}");
        }
    }

    #[test]
    fn who_is_full_or_not_quite_is_told() {
        assert_eq!(trial(10, 4, 10.0).lost(), None, "as much");
        let (fewer, lost) = trial(22, 20, 10.0).lost().expect("16 are fewer than 20 workers");
        assert!(fewer == 16 && (lost - 0.2).abs() < 1e-9, "{fewer} {lost}");
        // Of 690 answers a second fifteen carry 640: each batch has more in it.
        let mut batches = Fewer::of(20);
        batches.add(false, 6_900.0, 10.0);
        batches.add(true, 6_400.0, 10.0);
        assert!(!batches.has_room() && batches.lost().is_some(), "{batches:?}");
        let mut chance = Fewer::of(20);
        chance.add(false, 69.0, 0.1);
        chance.add(true, 64.0, 0.1);
        assert_eq!(chance.lost(), None);
    }

    #[test]
    fn few_answers_decide_nothing() {
        assert!(trial(10, 8, 10.0).is_decided() && trial(8, 8, 100.0).is_decided());
        assert!(!trial(10, 8, 0.1).is_decided());
        assert!(!Fewer::of(10).is_decided(), "nothing was seen");
        assert!(Fewer::of(1).is_decided() && Fewer::of(1).has_room(), "there are no fewer");
    }

    #[test]
    fn a_client_at_its_limit_tells_nothing_of_the_server() {
        let mut trial = trial(10, 8, 10.0);
        let second = std::time::Duration::from_secs(1);
        let pegged = Outcome { duration: second, thread_cpu: vec![second], ..Outcome::default() };
        trial.take(true, &pegged);
        assert!(trial.has_room());
    }
}
