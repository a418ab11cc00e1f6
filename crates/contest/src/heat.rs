//! One process's part of a contest: finds batch sizes where they are not known yet, runs each
//! candidate once to warm it up, then rounds in which each has one batch, in an order drawn anew.
//! A [`Heat`] says whose turns are next and hears how long they took. Pure.
//!
//! Batches are short and rounds are many: what else the machine does meets all candidates of a
//! round alike, and is gone from their ratio (docs/decisions/009).

use drom_stats::Rng;

use crate::Sizing;

/// A batch to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub candidate: usize,
    pub iterations: u64,
}

#[derive(Clone, Debug)]
pub struct Heat {
    sizes: Vec<Sizing>,
    rounds: usize,
    begun: usize,
    /// Nanoseconds an iteration, of each candidate.
    times: Vec<Vec<f64>>,
    warm: Vec<bool>,
    rng: Rng,
}

impl Heat {
    /// Sizes found by an earlier process are right for this one.
    #[must_use]
    pub fn new(sizes: Vec<Sizing>, rounds: usize, seed: u64) -> Self {
        let count = sizes.len();
        Self {
            sizes,
            rounds,
            begun: 0,
            times: vec![Vec::new(); count],
            warm: vec![false; count],
            rng: Rng::new(seed),
        }
    }

    /// One behind the other; none: all rounds are over.
    pub fn turns(&mut self) -> Vec<Turn> {
        let order = self.unprepared().map_or_else(|| self.round(), |one| vec![one]);
        let turn =
            |candidate: usize| Turn { candidate, iterations: self.sizes[candidate].iterations() };
        order.into_iter().map(turn).collect()
    }

    /// So long that turn took; whether it was one of a round.
    pub fn take(&mut self, turn: Turn, ns: f64) -> bool {
        let Turn { candidate, iterations } = turn;
        if !self.sizes[candidate].is_found() {
            self.sizes[candidate].take(ns);
        } else if !self.warm[candidate] {
            self.warm[candidate] = true;
        } else {
            self.times[candidate].push(ns / iterations as f64);
            return true;
        }
        false
    }

    #[must_use]
    pub fn sizes(&self) -> &[Sizing] {
        &self.sizes
    }

    /// Nanoseconds an iteration, by candidate, then by round.
    #[must_use]
    pub fn times(&self) -> &[Vec<f64>] {
        &self.times
    }

    /// Who has no size yet, or has not run with it.
    fn unprepared(&self) -> Option<usize> {
        let is_ready = |at: usize| self.sizes[at].is_found() && self.warm[at];
        (0..self.sizes.len()).find(|at| !is_ready(*at))
    }

    fn round(&mut self) -> Vec<usize> {
        let mut order = Vec::new();
        if self.begun < self.rounds {
            order.extend(0..self.sizes.len());
            self.rng.shuffle(&mut order);
            self.begun += 1;
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(heat: &mut Heat, each_ns: &[f64]) -> Vec<Vec<usize>> {
        let mut rounds = Vec::new();
        loop {
            let turns = heat.turns();
            if turns.is_empty() {
                return rounds;
            }
            rounds.push(turns.iter().map(|turn| turn.candidate).collect());
            for turn in turns {
                heat.take(turn, each_ns[turn.candidate] * turn.iterations as f64);
            }
        }
    }

    #[test]
    fn each_has_a_batch_in_each_round_in_changing_order() {
        let mut heat = Heat::new(vec![Sizing::new(1e6); 3], 20, 7);
        let all = run(&mut heat, &[100.0, 250.0, 4_000.0]);
        let rounds = &all[all.len() - 20..];
        for round in rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(rounds.iter().any(|round| *round != rounds[0]), "the order never changed");
        assert!(
            all[..all.len() - 20].iter().all(|alone| alone.len() == 1),
            "sizes are found alone"
        );
        assert_eq!(heat.times()[2], [4_000.0; 20]);
        let mut again = Heat::new(heat.sizes().to_vec(), 1, 8);
        let all = run(&mut again, &[100.0, 250.0, 4_000.0]);
        assert_eq!(all.len(), 4, "sizes are known: one each to warm up, one round");
    }
}
