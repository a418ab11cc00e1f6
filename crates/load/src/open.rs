//! The open loop's part of a client thread: which request is due, which connection is free for it,
//! and how late it was. Arrivals do not wait for answers; those that find no free connection wait
//! in the schedule itself, so that a backlog of any length takes no memory.

use std::{collections::VecDeque, iter::Peekable};

use drom_stats::Latency;

use crate::{rise::Rise, schedule::Schedule};

/// A generator later than this on one request in a hundred is part of what it measures.
const LAG_P99_NS_MAX: u64 = 1_000_000;

/// What only an open loop has to tell, of one window.
#[derive(Clone, Debug, Default)]
pub struct OpenTally {
    /// From the write of a request to the last byte of its answer.
    pub service: Latency,
    /// From the planned time to the write, where a connection was free all the while: the
    /// generator's own lateness.
    pub lag: Latency,
    /// Requests for which no connection was free at their planned time.
    pub queued: u64,
    /// Those of them that waited for a connect only: their place was free, its connection closed.
    pub connecting: u64,
    /// The most requests that were late together and went out at once.
    pub burst_max: u64,
    /// Planned in time, and no connection was free until the end.
    pub unsent: u64,
    /// Planned in the warm-up, and under way or not begun when the window opened.
    pub carried: u64,
    /// Answers that came when the window was over, and bytes of answers.
    pub drained: u64,
    pub drained_bytes: u64,
    /// Latencies over the window.
    pub rise: Rise,
    /// Answers to requests that began while few were under way, those of the warm-up too: the
    /// server may have a queue by the time that the window opens. And those that ended so as well.
    pub sparse: Sparse,
    pub sparse_throughout: Sparse,
}

/// What the server takes while fewer than half of the places for requests are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sparse {
    pub answers: u64,
    /// The sum, each from its write.
    pub service_ns: u64,
}

impl Sparse {
    pub fn record(&mut self, service_ns: u64) {
        self.answers += 1;
        self.service_ns += service_ns;
    }

    fn merge(&mut self, other: Self) {
        self.answers += other.answers;
        self.service_ns += other.service_ns;
    }

    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.answers > 0).then(|| self.service_ns as f64 / self.answers as f64)
    }
}

impl OpenTally {
    /// Requests whose time came in the window, of which so many were begun in it, or under way when
    /// it opened.
    #[must_use]
    pub fn planned(&self, begun: u64) -> u64 {
        (begun + self.unsent).saturating_sub(self.carried)
    }

    /// Sent ones that waited for a place: not those whose place was free and had to connect.
    #[must_use]
    pub fn waited_for_place(&self) -> u64 {
        self.queued.saturating_sub(self.connecting)
    }

    /// The generator itself did not keep its schedule.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.lag.count() > 0 && self.lag.quantile_ns(0.99) > LAG_P99_NS_MAX
    }

    /// Empty again, the memory kept.
    pub fn clear(&mut self) {
        self.service.clear();
        self.lag.clear();
        (self.queued, self.burst_max, self.unsent, self.carried) = (0, 0, 0, 0);
        (self.drained, self.drained_bytes, self.connecting) = (0, 0, 0);
        self.rise = Rise::default();
        (self.sparse, self.sparse_throughout) = Default::default();
    }

    pub fn merge(&mut self, other: &Self) {
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.queued += other.queued;
        self.connecting += other.connecting;
        self.burst_max = self.burst_max.max(other.burst_max);
        self.unsent += other.unsent;
        self.carried += other.carried;
        self.drained += other.drained;
        self.drained_bytes += other.drained_bytes;
        self.rise.merge(&other.rise);
        self.sparse.merge(other.sparse);
        self.sparse_throughout.merge(other.sparse_throughout);
    }
}

/// A request whose time has come, and a connection for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub planned_ns: u64,
    pub token: u32,
    /// Since when the connection has nothing to do.
    pub free_ns: u64,
}

/// What became of all planned requests, the warm-up's too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    pub planned: u64,
    pub begun: u64,
    /// Never begun.
    pub unsent: u64,
    /// Due before the window, and not begun when it opened.
    pub carried: u64,
}

pub struct Open {
    /// As it was before anything of it came.
    whole: Schedule,
    schedule: Peekable<Schedule>,
    /// On the clock: where the schedule begins and where it ends.
    start_ns: u64,
    end_ns: u64,
    /// Connections with nothing to do, and since when; the one that waits longest is next.
    idle: VecDeque<(u32, u64)>,
    /// Requests begun, the warm-up's too.
    begun: u64,
    /// When the window opened, by plan, and how many had begun by then.
    window: (u64, u64),
}

impl Open {
    pub fn new(schedule: Schedule, start_ns: u64) -> Self {
        Self {
            end_ns: start_ns + schedule.duration_ns(),
            whole: schedule.clone(),
            schedule: schedule.peekable(),
            start_ns,
            idle: VecDeque::new(),
            begun: 0,
            window: (start_ns, 0),
        }
    }

    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// How long after the opening of the window a request was planned, and how long it is; `None`
    /// of those that were planned before.
    pub fn place_ns(&self, planned_ns: u64) -> Option<(u64, u64)> {
        let (opened_ns, _) = self.window;
        Some((planned_ns.checked_sub(opened_ns)?, self.end_ns.checked_sub(opened_ns)?))
    }

    /// The warm-up is over.
    pub fn open_window(&mut self, planned_ns: u64) {
        self.window = (planned_ns, self.begun);
    }

    /// When the next request is to begin; `None` when none is left or its time is over.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.schedule.peek().map(|at_ns| self.start_ns + at_ns)
    }

    /// The planned time of a request whose time has come.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let is_in_time = now_ns < self.end_ns || self.is_late(now_ns);
        let planned_ns = self.next_ns().filter(|at_ns| *at_ns <= now_ns && is_in_time)?;
        self.schedule.next();
        self.begun += 1;
        Some(planned_ns)
    }

    /// Requests whose time has come and that no connection was free for: of a Poisson process
    /// about so many, since the one that has waited longest. Counted one by one a backlog would
    /// hold the thread up.
    pub fn waiting(&mut self, now_ns: u64) -> u64 {
        let until_ns = now_ns.min(self.end_ns);
        let Some(oldest_ns) = self.next_ns().filter(|oldest_ns| *oldest_ns < until_ns) else {
            return 0;
        };
        let behind = self.whole.about(oldest_ns - self.start_ns, until_ns - self.start_ns);
        (behind.ceil() as u64).max(1)
    }

    pub fn has_free(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The connection that a request whose time has come would take.
    pub fn next_free(&mut self, now_ns: u64) -> Option<u32> {
        let (token, _) = *self.idle.front()?;
        self.next_ns().filter(|at_ns| *at_ns <= now_ns).map(|_| token)
    }

    /// The same for a connection that waits for it, if one does.
    pub fn take_free(&mut self, now_ns: u64) -> Option<Due> {
        let (token, free_ns) = *self.idle.front()?;
        let planned_ns = self.take_due(now_ns)?;
        self.idle.pop_front();
        Some(Due { planned_ns, token, free_ns })
    }

    /// Only the generator was late: a connection was free for the next request all the while. It
    /// begins after the end, too.
    fn is_late(&mut self, now_ns: u64) -> bool {
        let free_ns = self.idle.front().map(|(_, since_ns)| *since_ns);
        let due = self.next_ns().filter(|at_ns| *at_ns <= now_ns && *at_ns < self.end_ns);
        due.zip(free_ns).is_some_and(|(at_ns, free_ns)| free_ns <= at_ns)
    }

    /// When somebody is to be woken for the next request: never while no connection is free, nor
    /// for what was left unsent.
    pub fn wake_ns(&mut self, now_ns: u64) -> Option<u64> {
        if self.idle.is_empty() || now_ns >= self.end_ns && !self.is_late(now_ns) {
            return None;
        }
        self.next_ns().filter(|at| *at < self.end_ns)
    }

    pub fn rest(&mut self, token: u32, now_ns: u64) {
        self.idle.push_back((token, now_ns));
    }

    pub fn forget_idle(&mut self, token: u32) {
        self.idle.retain(|(idle, _)| *idle != token);
    }

    /// No request begins any more.
    pub fn is_over(&mut self, now_ns: u64) -> bool {
        self.schedule.peek().is_none() || now_ns >= self.end_ns && !self.is_late(now_ns)
    }

    /// How many were planned until then, counted anew, and what became of them.
    pub fn settle(&mut self, now_ns: u64) -> Settled {
        let (start_ns, end_ns) = (self.start_ns, self.end_ns);
        let is_due = |at_ns: &u64| start_ns + at_ns <= now_ns && start_ns + at_ns < end_ns;
        let mut unsent = 0;
        while self.schedule.next_if(is_due).is_some() {
            unsent += 1;
        }
        let (opened_ns, begun) = self.window;
        let (mut planned, mut before) = (0, 0);
        for at_ns in self.whole.clone().take_while(is_due) {
            planned += 1;
            before += u64::from(start_ns + at_ns < opened_ns);
        }
        let carried = before.saturating_sub(begun);
        Settled { planned, begun: self.begun, unsent, carried }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::schedule::{Arrivals, Part, Stage};

    const MS: u64 = 1_000_000;

    /// Ten a second for a second, from 5 s on.
    fn open() -> Open {
        let stages = [Stage::steady(Duration::from_secs(1), 10.0)];
        let schedule = Schedule::new(&Arrivals::Constant, &stages, Part::ALL);
        Open::new(schedule, 5_000 * MS)
    }

    #[test]
    fn requests_are_due_one_by_one_and_not_after_the_end() {
        let mut open = open();
        assert_eq!(open.take_due(4_999 * MS), None);
        assert_eq!(open.take_due(5_150 * MS), Some(5_000 * MS));
        assert_eq!(open.take_due(5_150 * MS), Some(5_100 * MS));
        assert_eq!(open.take_due(5_150 * MS), None);
        assert_eq!(open.take_due(6_000 * MS), None, "its time is over");
        assert_eq!(
            open.settle(6_500 * MS),
            Settled { planned: 10, begun: 2, unsent: 8, carried: 0 }
        );
    }

    #[test]
    fn nobody_is_woken_while_no_connection_is_free() {
        let mut open = open();
        assert_eq!(open.wake_ns(0), None);
        open.rest(3, 0);
        open.rest(4, 0);
        assert_eq!(open.wake_ns(0), Some(5_000 * MS));
        let mut take = || open.take_free(5_200 * MS).map(|due| due.token);
        assert_eq!((take(), take(), take()), (Some(3), Some(4), None));
    }

    #[test]
    fn who_waits_is_counted_and_goes_on_waiting() {
        let mut open = open();
        assert_eq!(open.waiting(4_999 * MS), 0);
        assert_eq!((open.waiting(5_150 * MS), open.waiting(9_000 * MS)), (2, 10));
        assert_eq!(open.waiting(5_001 * MS), 1);
        open.take_due(5_150 * MS);
        assert_eq!(open.waiting(5_150 * MS), 1);
    }

    /// Or the thread would look for it again and again until the last answer.
    #[test]
    fn nobody_is_woken_for_what_was_left_unsent() {
        let mut open = open();
        open.rest(3, 5_950 * MS);
        assert_eq!(open.wake_ns(5_990 * MS), Some(5_000 * MS));
        assert_eq!((open.wake_ns(6_000 * MS), open.take_due(6_000 * MS)), (None, None));
    }

    #[test]
    fn who_was_late_itself_sends_after_the_end_what_a_connection_was_free_for() {
        let mut open = open();
        open.rest(3, 5_850 * MS);
        assert!((0..9).all(|_| open.take_due(5_999 * MS).is_some()));
        assert_eq!(
            (open.is_over(6_001 * MS), open.take_due(6_001 * MS)),
            (false, Some(5_900 * MS))
        );
        assert!(open.is_over(6_001 * MS));
        assert_eq!(
            open.settle(6_001 * MS),
            Settled { planned: 10, begun: 10, unsent: 0, carried: 0 }
        );
        let mut open = self::open();
        assert!((0..9).all(|_| open.take_due(5_999 * MS).is_some()));
        open.rest(3, 5_950 * MS);
        assert_eq!((open.is_over(6_001 * MS), open.take_due(6_001 * MS)), (true, None));
    }

    #[test]
    fn a_run_that_is_stopped_leaves_only_what_was_due_unsent() {
        let mut open = open();
        open.take_due(5_000 * MS);
        assert_eq!(
            open.settle(5_250 * MS),
            Settled { planned: 3, begun: 1, unsent: 2, carried: 0 }
        );
    }
}
