//! What all users of one thread have in common: its part of the feeders, the request that is being
//! filled, the counts, and memory for searching. A [`Share`] is k of n, so that threads need
//! nothing of each other while they run.

use drom_stats::Rng;

use crate::{
    check::Tool, counts::Counts, feeder::Cursor, gzip::Unpacker, request::Request,
    scenario::Scenario,
};

#[derive(Debug)]
pub struct Share {
    /// Filled by [`User::next`](crate::User::next); stands until the next call for any user.
    pub request: Request,
    pub counts: Counts,
    /// Rounds take the ways through the scenario in turn, whatever their weights: for a test.
    pub takes_ways_in_turn: bool,
    next_way: usize,
    pub(crate) cursors: Vec<Cursor>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) unpacker: Unpacker,
    /// A body that was unpacked.
    pub(crate) plain: Vec<u8>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) unix_s_at_zero: i64,
    pub(crate) seed: u64,
    sequence: u64,
    of: u64,
}

/// How one check of an answer came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub check: usize,
    pub passed: bool,
}

/// Which part of the work, and what makes it repeatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub number: u32,
    pub of: u32,
    /// The same for all parts of a run.
    pub seed: u64,
    /// What the calendar said when the clock that [`User::next`](crate::User::next) gets was 0: for
    /// cookies that expire. Seconds since 1970.
    pub unix_s_at_zero: i64,
}

impl Part {
    /// All of it, by one thread.
    #[must_use]
    pub fn whole(seed: u64) -> Self {
        Self { number: 0, of: 1, seed, unix_s_at_zero: 0 }
    }
}

impl Share {
    #[must_use]
    pub fn new(scenario: &Scenario, part: Part) -> Self {
        let (number, of) = (part.number as usize, part.of.max(1) as usize);
        let cursors = scenario.feeders.iter().enumerate();
        let cursors =
            cursors.map(|(at, feeder)| Cursor::new(feeder, number, of, part.seed ^ at as u64));
        Self {
            request: Request::default(),
            counts: Counts::new(scenario.checks.len()),
            takes_ways_in_turn: false,
            next_way: 0,
            cursors: cursors.collect(),
            tools: scenario.regexes.iter().map(Tool::new).collect(),
            scratch: Vec::new(),
            unpacker: Unpacker::default(),
            plain: Vec::new(),
            verdicts: Vec::new(),
            unix_s_at_zero: part.unix_s_at_zero,
            seed: part.seed,
            sequence: u64::from(part.number) + 1,
            of: u64::from(part.of.max(1)),
        }
    }

    /// How the checks of the last judged answer came out, in the step's order.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    pub(crate) fn next_way(&mut self, ways: usize) -> usize {
        let way = self.next_way % ways;
        self.next_way = way + 1;
        way
    }

    pub(crate) fn next_in_sequence(&mut self) -> u64 {
        let number = self.sequence;
        self.sequence += self.of;
        number
    }

    pub(crate) fn take_row(
        &mut self,
        scenario: &Scenario,
        feeder: usize,
        rng: &mut Rng,
    ) -> Option<usize> {
        self.cursors[feeder].take(&scenario.feeders[feeder], rng)
    }

    pub(crate) fn judge(&mut self, check: usize, passed: bool) {
        self.counts.count(check, passed);
        self.verdicts.push(Verdict { check, passed });
    }

    pub(crate) fn unix_s(&self, now_ns: u64) -> i64 {
        self.unix_s_at_zero.saturating_add((now_ns / 1_000_000_000) as i64)
    }
}
