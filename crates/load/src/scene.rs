//! What users of a scenario did: rounds, steps, checks. Counted by each thread, added up
//! at the end.

use drom_scenario::{Counts, Judged, Scenario};
use drom_stats::Latency;

/// One window's.
#[derive(Clone, Debug, Default)]
pub struct SceneTally {
    pub rounds: Rounds,
    /// In the scenario's order.
    pub steps: Vec<StepTally>,
    pub checks: Counts,
    /// Users who had no more to do, and the feeder whose rows were all taken.
    pub users_ended: u32,
    pub exhausted: Option<usize>,
    /// Of a test: each answer, in the order they came.
    pub judged: Vec<Judged>,
}

/// `begun == done + under_way`.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub begun: u64,
    /// To the last step, or to the one that ended it early.
    pub done: u64,
    /// At the end of the window.
    pub under_way: u64,
    /// From the begin of a round (in an open loop: when it was planned) to its end, with the
    /// pauses.
    pub time: Latency,
}

/// `sent == ok + failed + in flight`, as for all requests together.
#[derive(Clone, Debug, Default)]
pub struct StepTally {
    pub sent: u64,
    /// Answers that are what the checks want, and redirects that were followed.
    pub ok: u64,
    /// Answers that are not, and requests without an answer.
    pub failed: u64,
    /// Requests that could not be written: a value was missing or would have broken them.
    pub unsent: u64,
    /// Of whole answers, from the write to the last byte.
    pub latency: Latency,
}

impl SceneTally {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let steps = scenario.steps().iter().map(|_| StepTally::default()).collect();
        Self { steps, ..Self::default() }
    }

    /// A new window, in which so many rounds and requests are under way.
    pub(crate) fn clear(&mut self, inside: u64) {
        self.rounds = Rounds { begun: inside, ..Rounds::default() };
        for step in &mut self.steps {
            let in_flight = step.sent - step.ok - step.failed;
            *step = StepTally { sent: in_flight, ..StepTally::default() };
        }
        self.judged.clear();
    }

    /// Both threads' together.
    pub(crate) fn merged(mut self, other: Self) -> Self {
        self.rounds.begun += other.rounds.begun;
        self.rounds.done += other.rounds.done;
        self.rounds.under_way += other.rounds.under_way;
        self.rounds.time.merge(&other.rounds.time);
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            own.sent += other.sent;
            own.ok += other.ok;
            own.failed += other.failed;
            own.unsent += other.unsent;
            own.latency.merge(&other.latency);
        }
        self.checks.add(&other.checks);
        self.users_ended += other.users_ended;
        self.exhausted = self.exhausted.or(other.exhausted);
        self.judged.extend(other.judged);
        self
    }
}
