//! What a client thread's time was, and how much of its requests' time it held itself: from when an
//! answer lay in its socket until the next request went out. A faster client, or one that had a
//! CPU all the time, would have given that back. Pure.
//!
//! From the return of a wait on, what a connection waits for is this thread: known of each report,
//! from stamps that are taken anyway. What came before the return is known from the kernel's
//! stamps: of each round that comes late (a client that was stopped, or had no CPU), and of one
//! round in [`SAMPLE_EACH`] of the others.

use std::{io, time::Duration};

use drom_observe::thread_cpu::ThreadCpu;

use crate::{socket::Transport, timeline::SLICE};

/// From one wake to the next; a loop that is well turns round faster or sleeps with nothing to do.
const LATE_NS: u64 = 1_000_000;
/// A stamped read costs a tenth of a microsecond more.
const SAMPLE_EACH: u32 = 64;
/// Shorter ones are judged with the whole window only.
const SLICE_MIN: Duration = Duration::from_millis(500);
/// A round that takes longer was interrupted, or is work for many connections at once.
const LONG_ROUND_NS: u64 = 5_000_000;
/// A client that works for most of the time and holds more of its requests' time than this is the
/// busier half of what it measures: of two stations with equal work each holds one half.
const HELD_BY_WORK_SHARE: f64 = 0.50;
const WORKING_SHARE: f64 = 0.70;
/// So much of it is held by nobody who works, when the thread often had no CPU: then the server's
/// own part in an answer's time is told wrongly by that much. A client that sleeps with nothing to
/// do holds no less where wake-ups are slow, but it is not late by a millisecond.
const HELD_IDLY_SHARE: f64 = 0.25;
const HINDERED_SHARE: f64 = 0.20;

/// What one thread did with a part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// From the opening of the window.
    pub start: Duration,
    pub length: Duration,
    /// Time of connections that carry requests; in an open loop time of requests.
    pub asked: Duration,
    /// Part of it that the client itself held.
    pub held: Duration,
    /// The longest that one answer lay before the thread looked, or that a round took.
    pub longest: Duration,
    /// The thread had something to do and did not come to it, a millisecond or more each time.
    pub late: Duration,
    /// On a CPU, without `looked`.
    pub worked: Duration,
    /// On a CPU, looking for answers in vain.
    pub looked: Duration,
    /// Runnable without a CPU, where the kernel tells.
    pub starved: Option<Duration>,
}

/// All accounts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accounts {
    pub total: Account,
    /// The slice in which the client held the largest share.
    pub worst: Account,
    /// Slices that were judged, and those of them that are spoiled.
    pub slices: u32,
    pub spoiled: u32,
}

impl Account {
    #[must_use]
    pub fn held_share(&self) -> f64 {
        share(self.held, self.asked).min(1.0)
    }

    #[must_use]
    pub fn worked_share(&self) -> f64 {
        share(self.worked, self.length)
    }

    #[must_use]
    pub fn starved_share(&self) -> f64 {
        share(self.starved.unwrap_or_default(), self.length).min(1.0)
    }

    /// Runnable without a CPU, or stopped: the kernel tells of the first only.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        share(self.late, self.length).min(1.0)
    }

    /// Kept from its work: without a CPU, or stopped.
    #[must_use]
    pub fn hindered_share(&self) -> f64 {
        self.starved_share().max(self.late_share())
    }

    /// What it was not free to wait in.
    #[must_use]
    pub fn occupied_share(&self) -> f64 {
        (self.worked_share() + self.hindered_share()).min(1.0)
    }

    /// The client, not the server, was what requests waited for.
    #[must_use]
    pub fn is_spoiled(&self) -> bool {
        let is_hindered = self.hindered_share() >= HINDERED_SHARE;
        let is_working = self.occupied_share() >= WORKING_SHARE;
        let held = self.held_share();
        (is_hindered && held >= HELD_IDLY_SHARE) || (is_working && held >= HELD_BY_WORK_SHARE)
    }

    /// A slice that was handed in late, because the thread stood still, is judged like the others.
    fn of_a_second(mut self) -> Self {
        if self.length > SLICE {
            self.asked = self.asked.mul_f64(share(SLICE, self.length));
            self.length = SLICE;
        }
        self
    }

    fn add(&mut self, other: &Self) {
        self.late += other.late;
        self.length += other.length;
        self.asked += other.asked;
        self.held += other.held;
        self.longest = self.longest.max(other.longest);
        self.worked += other.worked;
        self.looked += other.looked;
        self.starved = match (self.starved, other.starved) {
            (Some(own), Some(other)) => Some(own + other),
            (own, other) => own.or(other),
        };
    }
}

impl Accounts {
    fn add(&mut self, account: &Account) {
        self.total.add(account);
        if account.length < SLICE_MIN {
            return;
        }
        let account = account.of_a_second();
        self.slices += 1;
        self.spoiled += u32::from(account.is_spoiled());
        let rank = |account: &Account| (account.is_spoiled(), account.held_share());
        if rank(&account) > rank(&self.worst) {
            self.worst = account;
        }
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

/// Asks the kernel how long bytes have lain in their socket.
#[derive(Default)]
pub struct Lay {
    pub is_wanted: bool,
    /// When this wait returned, and the one before it.
    pub wake_ns: u64,
    pub before_ns: u64,
    /// When the bytes of this report came, by the first read that has a stamp.
    arrived_ns: Option<u64>,
    /// The same of the last read: what came while others were read was not kept waiting by them.
    last_ns: Option<u64>,
}

impl Lay {
    /// How long the first bytes of this report had lain when the wait returned: a millisecond and
    /// more, or nothing. A server whose window is full waits for them to be taken.
    #[inline]
    pub fn first_lay_ns(&self) -> u64 {
        let since_ns = self.arrived_ns.unwrap_or(self.wake_ns).max(self.before_ns);
        let lay_ns = self.wake_ns.saturating_sub(since_ns);
        if lay_ns < LATE_NS { 0 } else { lay_ns }
    }

    /// A wait has returned, at `wake_ns`.
    #[inline]
    pub fn begin(&mut self, is_wanted: bool, wake_ns: u64, before_ns: u64) {
        *self = Self { is_wanted, wake_ns, before_ns, arrived_ns: None, last_ns: None };
    }

    /// How long an answer that is whole at `now_ns` was kept waiting by the client itself: a
    /// millisecond and more, or nothing. Shorter ones are not worth the account. Without a stamp
    /// one that came in a single read was there when the wait returned; others may still have been
    /// on their way.
    #[inline]
    pub fn kept_ns(&self, now_ns: u64, is_of_one_read: bool) -> u64 {
        let there_ns = if is_of_one_read { self.wake_ns } else { now_ns };
        let since_ns = self.last_ns.unwrap_or(there_ns).max(self.before_ns);
        let kept_ns = now_ns.saturating_sub(since_ns);
        if kept_ns < LATE_NS { 0 } else { kept_ns }
    }

    /// `now_ns` is a look at the clock.
    pub fn read(
        &mut self,
        stream: &mut impl Transport,
        into: &mut [u8],
        now_ns: impl FnOnce() -> u64,
    ) -> io::Result<usize> {
        let (length, lay_ns) = stream.read_stamped(into)?;
        if let Some(lay_ns) = lay_ns {
            self.last_ns = Some(now_ns().saturating_sub(lay_ns));
            self.arrived_ns = self.arrived_ns.or(self.last_ns);
        }
        Ok(length)
    }
}

/// Keeps the accounts of a thread, round by round and slice by slice.
pub struct Ledger {
    wake_ns: u64,
    round: Round,
    rounds: u32,
    held_ns: u64,
    longest_ns: u64,
    late_ns: u64,
    /// The last round found what had lain there for long: when the wait before that had returned.
    /// One wait brings only so many reports: what the next one brings has lain there, too.
    behind_ns: Option<u64>,
    /// Until when lateness is accounted for.
    late_until_ns: u64,
    /// Where the slice began.
    began_ns: u64,
    cpu: ThreadCpu,
    looked_ns: u64,
    accounts: Accounts,
}

/// What one wait brought.
#[derive(Default)]
struct Round {
    /// From the wake before it, or before it fell behind.
    length_ns: u64,
    is_behind: bool,
    /// Rounds that this one stands for; 0 for one without stamps.
    weight: u64,
    reports: u64,
    stamped: u64,
    lay_ns: u64,
}

/// What a slice's account needs from others.
pub struct Spent {
    pub now_ns: u64,
    pub cpu: ThreadCpu,
    /// Looking in vain, since the window opened.
    pub looked_ns: u64,
    pub asked_ns: u64,
    /// Held before it was written, by a generator that was late.
    pub lag_ns: u64,
}

impl Ledger {
    pub fn open(now_ns: u64, cpu: ThreadCpu) -> Self {
        Self {
            wake_ns: now_ns,
            round: Round::default(),
            rounds: 0,
            held_ns: 0,
            longest_ns: 0,
            late_ns: 0,
            behind_ns: None,
            late_until_ns: now_ns,
            began_ns: now_ns,
            cpu,
            looked_ns: 0,
            accounts: Accounts::default(),
        }
    }

    /// A wait has returned: whether the reads of this round are to be stamped, and when the wait
    /// before it did.
    #[inline]
    pub fn wake(&mut self, now_ns: u64) -> (bool, u64) {
        let before_ns = self.behind_ns.take().unwrap_or(self.wake_ns);
        let length_ns = now_ns.saturating_sub(before_ns);
        self.wake_ns = now_ns;
        self.rounds = self.rounds.wrapping_add(1);
        let is_sample = self.rounds.is_multiple_of(SAMPLE_EACH);
        if length_ns < LATE_NS && !is_sample {
            return (false, before_ns);
        }
        let weight = if length_ns >= LATE_NS { 1 } else { u64::from(SAMPLE_EACH) };
        self.round = Round { length_ns, weight, ..Round::default() };
        (true, before_ns)
    }

    /// A report was dealt with until `now_ns`.
    #[inline]
    pub fn dealt_with(&mut self, now_ns: u64, lay: &mut Lay) {
        let own_ns = now_ns.saturating_sub(self.wake_ns);
        self.held_ns += own_ns;
        if lay.is_wanted {
            self.lay(lay.arrived_ns.take());
            lay.last_ns = None;
        }
    }

    fn lay(&mut self, arrived_ns: Option<u64>) {
        self.round.reports += 1;
        let Some(arrived_ns) = arrived_ns else { return };
        // What had come before the last wake was reported then: more is a clock that was set.
        let lay_ns = self.wake_ns.saturating_sub(arrived_ns).min(self.round.length_ns);
        self.round.stamped += 1;
        self.round.lay_ns += lay_ns;
        self.round.is_behind |= lay_ns >= LATE_NS;
        self.late(self.wake_ns - lay_ns, self.wake_ns);
    }

    /// There was something to do from one time to the other; time that is told twice counts once.
    pub fn late(&mut self, from_ns: u64, to_ns: u64) {
        let late_ns = to_ns.saturating_sub(from_ns);
        if late_ns < LATE_NS {
            return;
        }
        self.longest_ns = self.longest_ns.max(late_ns);
        self.late_ns += to_ns.saturating_sub(from_ns.max(self.late_until_ns));
        self.late_until_ns = self.late_until_ns.max(to_ns);
    }

    /// All reports of a round were dealt with.
    #[inline]
    pub fn end_round(&mut self, now_ns: u64, is_stamped: bool) {
        if now_ns.saturating_sub(self.wake_ns) >= LONG_ROUND_NS {
            self.late(self.wake_ns, now_ns);
        }
        if is_stamped {
            self.end_stamped();
        }
    }

    fn end_stamped(&mut self) {
        let round = std::mem::take(&mut self.round);
        let Round { length_ns, is_behind, weight, reports, stamped, lay_ns } = round;
        self.behind_ns = is_behind.then(|| self.wake_ns.saturating_sub(length_ns));
        self.held_ns += (lay_ns * weight * reports).checked_div(stamped).unwrap_or(0);
    }

    pub fn close_slice(&mut self, spent: &Spent, start: Duration) {
        let ns = Duration::from_nanos;
        let cost = spent.cpu.since(self.cpu);
        let looked = ns(spent.looked_ns.saturating_sub(self.looked_ns));
        self.accounts.add(&Account {
            start,
            length: ns(spent.now_ns.saturating_sub(self.began_ns)),
            asked: ns(spent.asked_ns + spent.lag_ns),
            held: ns(self.held_ns + spent.lag_ns),
            longest: ns(self.longest_ns),
            late: ns(self.late_ns),
            worked: cost.cpu.saturating_sub(looked),
            looked,
            starved: cost.run_delay,
        });
        (self.began_ns, self.cpu, self.looked_ns) = (spent.now_ns, spent.cpu, spent.looked_ns);
        (self.held_ns, self.longest_ns, self.late_ns) = (0, 0, 0);
    }

    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    pub fn accounts(&self) -> Accounts {
        self.accounts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ledger() -> Ledger {
        Ledger::open(0, ThreadCpu::default())
    }

    fn spent(now_ns: u64, asked_ns: u64) -> Spent {
        let cpu = ThreadCpu { cpu: Duration::from_nanos(now_ns / 10), run_delay: None };
        Spent { now_ns, cpu, looked_ns: 0, asked_ns, lag_ns: 0 }
    }

    /// A round that begins at `wake_ns`; each of `reports` takes a millisecond and came at `came`.
    fn round(ledger: &mut Ledger, wake_ns: u64, reports: u64, came: Option<u64>) {
        let (is_wanted, before_ns) = ledger.wake(wake_ns);
        for at in 1..=reports {
            let mut lay = Lay { is_wanted, wake_ns, before_ns, arrived_ns: came, last_ns: None };
            ledger.dealt_with(wake_ns + at * MS, &mut lay);
        }
        ledger.end_round(wake_ns + reports * MS, is_wanted);
    }

    #[test]
    fn what_lies_from_the_wake_on_is_held_until_its_turn() {
        let mut ledger = ledger();
        round(&mut ledger, 0, 4, None);
        ledger.close_slice(&spent(1_000 * MS, 4_000 * MS), Duration::ZERO);
        assert_eq!(ledger.accounts().total.held, Duration::from_millis(1 + 2 + 3 + 4));
    }

    #[test]
    fn an_answer_was_kept_from_when_it_came_to_its_turn() {
        let lay = |last_ns| {
            let (wake_ns, before_ns) = (90 * MS, 40 * MS);
            Lay { wake_ns, before_ns, arrived_ns: Some(1), last_ns, is_wanted: true }
        };
        assert_eq!(lay(Some(50 * MS)).kept_ns(92 * MS, false), 42 * MS);
        assert_eq!(lay(Some(3 * MS)).kept_ns(92 * MS, true), 52 * MS, "a clock that was set");
        assert_eq!(lay(None).kept_ns(92 * MS, true), 2 * MS, "its turn came late in the round");
        assert_eq!(lay(None).kept_ns(92 * MS, false), 0, "it may have come meanwhile");
        assert_eq!(lay(None).kept_ns(91 * MS - 1, true), 0);
        assert_eq!(lay(Some(95 * MS)).kept_ns(96 * MS, true), MS, "it came while others were read");
    }

    #[test]
    fn what_lay_while_the_thread_was_stopped_is_held_too() {
        let mut ledger = ledger();
        round(&mut ledger, 100 * MS, 1, Some(99 * MS));
        round(&mut ledger, 600 * MS, 2, Some(110 * MS));
        ledger.close_slice(&spent(1_000 * MS, 2_000 * MS), Duration::ZERO);
        let total = ledger.accounts().total;
        assert_eq!(total.held, Duration::from_millis(1 + 1 + 2 * 490 + 1 + 2));
        assert_eq!(total.late, Duration::from_millis(1 + 490), "once, not for each answer");
        assert_eq!(total.longest, Duration::from_millis(490));
        assert!(total.is_spoiled());
    }

    /// Three answers came while the thread stood still; a wait brings two.
    #[test]
    fn what_the_first_wait_had_no_room_for_lay_there_too() {
        let mut ledger = ledger();
        round(&mut ledger, 100 * MS, 1, None);
        round(&mut ledger, 150 * MS, 2, Some(110 * MS));
        let (is_wanted, before_ns) = ledger.wake(152 * MS + 100);
        assert_eq!((is_wanted, before_ns), (true, 100 * MS));
        ledger.dealt_with(152 * MS + 200, &mut Lay { is_wanted, ..Lay::default() });
        ledger.end_round(152 * MS + 200, is_wanted);
        assert_eq!(ledger.wake(152 * MS + 300), (false, 152 * MS + 100), "nothing lay there");
    }

    #[test]
    fn a_stamp_from_before_the_last_round_is_a_clock_that_was_set() {
        let mut ledger = ledger();
        round(&mut ledger, 100 * MS, 1, None);
        round(&mut ledger, 120 * MS, 1, Some(3 * MS));
        ledger.close_slice(&spent(1_000 * MS, 1_000 * MS), Duration::ZERO);
        assert_eq!(ledger.accounts().total.held, Duration::from_millis(1 + 20 + 1));
    }

    #[test]
    fn a_sample_stands_for_the_rounds_around_it() {
        let mut ledger = ledger();
        for at in 1..=u64::from(10 * SAMPLE_EACH) {
            let wake_ns = at * 10_000;
            let (is_wanted, before_ns) = ledger.wake(wake_ns);
            let arrived_ns = is_wanted.then(|| wake_ns - 4_000);
            let mut lay = Lay { is_wanted, wake_ns, before_ns, arrived_ns, last_ns: None };
            ledger.dealt_with(wake_ns + 1_000, &mut lay);
            ledger.end_round(wake_ns + 1_000, is_wanted);
        }
        ledger.close_slice(&spent(7 * MS, 7 * MS), Duration::ZERO);
        assert_eq!(ledger.accounts().total.held, Duration::from_nanos(640 * 5_000));
    }

    #[test]
    fn time_that_is_late_twice_counts_once() {
        let mut ledger = ledger();
        ledger.late(10 * MS, 30 * MS);
        ledger.late(20 * MS, 40 * MS);
        ledger.late(50 * MS, 50 * MS + LATE_NS - 1);
        ledger.close_slice(&spent(1_000 * MS, 1_000 * MS), Duration::ZERO);
        assert_eq!(ledger.accounts().total.late, Duration::from_millis(30));
    }

    #[test]
    fn half_a_second_in_ten_is_found_wherever_seconds_end() {
        for stop_ms in [1_100, 1_700, 1_950] {
            let mut ledger = ledger();
            let mut wake_ns = 0;
            for second in 1..=10u64 {
                while wake_ns < second * 1_000 * MS {
                    let is_stopped = wake_ns / MS == stop_ms;
                    let next_ns = wake_ns + if is_stopped { 500 * MS } else { 5 * MS };
                    let came_ns = if is_stopped { wake_ns + 4 * MS } else { next_ns };
                    round(&mut ledger, next_ns, 1, Some(came_ns));
                    wake_ns = next_ns;
                }
                ledger.close_slice(&spent(wake_ns, 1_000 * MS), Duration::from_secs(second - 1));
            }
            let accounts = ledger.accounts();
            assert_eq!((accounts.slices, accounts.spoiled), (10, 1), "{stop_ms} {accounts:?}");
            assert_eq!(accounts.worst.start, Duration::from_secs(1));
        }
    }

    #[test]
    fn waking_up_slowly_with_nothing_to_do_is_no_limit() {
        let ms = Duration::from_millis;
        let idle = Account {
            length: ms(1_000),
            asked: ms(1_000),
            held: ms(450),
            worked: ms(350),
            starved: Some(ms(20)),
            ..Account::default()
        };
        assert!(!idle.is_spoiled());
        assert!(Account { starved: Some(ms(300)), ..idle }.is_spoiled());
        assert!(Account { worked: ms(750), held: ms(550), ..idle }.is_spoiled());
        assert!(!Account { worked: ms(750), ..idle }.is_spoiled());
        assert!(!Account { held: ms(100), starved: Some(ms(500)), ..idle }.is_spoiled());
    }
}
