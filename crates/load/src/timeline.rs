//! How a run came on, second by second: slices of all threads, put together and kept small.
//!
//! A thread hands its tally over once a second and goes on with an empty one; here they are added
//! to the sum of the run, and what is left of each second is a line of [`Interval`]s. A long run
//! doubles their length rather than their number. Pure.

use std::{collections::VecDeque, time::Duration};

use drom_stats::Latency;

use crate::{outcome::ErrorKind, run::SoFar, tally::Tally};

/// Length of a slice.
pub const SLICE: Duration = Duration::from_secs(1);
/// As many as two hours have; then two become one.
const INTERVALS_MAX: usize = 7_200;

/// A part of the window, of all threads together.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// From the opening of the window.
    pub start: Duration,
    pub length: Duration,
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub errors: Vec<(ErrorKind, u64)>,
    pub bytes_read: u64,
    /// At its end: requests under way, and those of an open loop that no connection was free for.
    pub in_flight: u64,
    pub waiting: u64,
    /// [`Latency::to_bytes`]: two hours of whole histograms would not fit.
    latency: Vec<u8>,
}

/// What one thread counted in slice `number`.
pub struct Slice {
    pub thread: usize,
    pub number: usize,
    pub length: Duration,
    pub tally: Tally,
    pub in_flight: u64,
    pub waiting: u64,
    /// None comes after it from this thread.
    pub is_last: bool,
}

/// Adds up slices.
pub struct Timeline {
    pub sum: Tally,
    /// The number of each thread's last slice, once that is known.
    lasts: Vec<Option<usize>>,
    /// Slices that not all threads have handed in, from number `first` on.
    open: VecDeque<(usize, Gathered)>,
    first: usize,
    intervals: Vec<Interval>,
    /// Slices in an interval.
    step: usize,
}

/// What some threads have handed in of a slice.
#[derive(Default)]
struct Gathered {
    tally: Tally,
    length: Duration,
    in_flight: u64,
    waiting: u64,
}

impl Timeline {
    pub fn new(threads: usize) -> Self {
        Self {
            sum: Tally::default(),
            lasts: vec![None; threads],
            open: VecDeque::new(),
            first: 0,
            intervals: Vec::new(),
            step: 1,
        }
    }

    /// Takes a slice in; its tally comes back empty, to be used again.
    pub fn take(&mut self, mut slice: Slice) -> Tally {
        self.sum.merge(&slice.tally);
        let at = slice.number - self.first;
        while self.open.len() <= at {
            self.open.push_back(Default::default());
        }
        let (handed_in, gathered) = &mut self.open[at];
        *handed_in += 1;
        gathered.tally.merge(&slice.tally);
        gathered.length = gathered.length.max(slice.length);
        gathered.in_flight += slice.in_flight;
        gathered.waiting += slice.waiting;
        if slice.is_last {
            self.lasts[slice.thread] = Some(slice.number);
        }
        while self.open.front().is_some_and(|(handed_in, _)| *handed_in >= self.wanted()) {
            self.close_first();
        }
        slice.tally.clear();
        slice.tally
    }

    /// From how many threads the first open slice comes.
    fn wanted(&self) -> usize {
        self.lasts.iter().filter(|last| last.is_none_or(|last| last >= self.first)).count()
    }

    /// The last whole interval.
    pub fn last(&self) -> Option<&Interval> {
        self.intervals.last()
    }

    pub fn so_far(&self) -> SoFar<'_> {
        let counts = &self.sum.counts;
        SoFar {
            sent: counts.sent,
            ok: counts.ok,
            failed: counts.failed,
            bytes_read: counts.bytes_read,
            errors: counts.errors().filter(|(_, count)| *count > 0).collect(),
            latency: Some(&self.sum.times.latency),
        }
    }

    pub fn finish(mut self) -> (Tally, Vec<Interval>) {
        while !self.open.is_empty() {
            self.close_first();
        }
        (self.sum, self.intervals)
    }

    fn close_first(&mut self) {
        let Some((_, gathered)) = self.open.pop_front() else { return };
        let interval = gathered.interval(SLICE * u32::try_from(self.first).unwrap_or(u32::MAX));
        let begins = self.first.is_multiple_of(self.step);
        self.first += 1;
        match self.intervals.last_mut().filter(|_| !begins) {
            Some(last) => last.merge(&interval),
            None => self.intervals.push(interval),
        }
        if self.intervals.len() > INTERVALS_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.step *= 2;
        let pairs = self.intervals.chunks(2).map(|pair| {
            let mut one = pair[0].clone();
            pair[1..].iter().for_each(|other| one.merge(other));
            one
        });
        self.intervals = pairs.collect();
    }
}

impl Gathered {
    fn interval(&self, start: Duration) -> Interval {
        let counts = &self.tally.counts;
        Interval {
            start,
            length: self.length,
            sent: counts.sent,
            ok: counts.ok,
            failed: counts.failed,
            errors: counts.errors().filter(|(_, count)| *count > 0).collect(),
            bytes_read: counts.bytes_read,
            in_flight: self.in_flight,
            waiting: self.waiting,
            latency: self.tally.times.latency.to_bytes(),
        }
    }
}

impl Interval {
    /// Of the complete answers that came in it.
    #[must_use]
    pub fn latency(&self) -> Latency {
        Latency::from_bytes(&self.latency).expect("bytes that this file has written")
    }

    /// The same, in HdrHistogram's V2 format, deflated.
    #[must_use]
    pub fn latency_bytes(&self) -> &[u8] {
        &self.latency
    }

    /// Complete answers.
    #[must_use]
    pub fn answers(&self) -> u64 {
        let errors: u64 = self.errors.iter().map(|(_, count)| count).sum();
        self.ok + self.failed - errors
    }

    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        let seconds = self.length.as_secs_f64();
        if seconds > 0.0 { self.answers() as f64 / seconds } else { 0.0 }
    }

    /// Adds what came right after it.
    fn merge(&mut self, next: &Self) {
        self.length += next.length;
        self.sent += next.sent;
        self.ok += next.ok;
        self.failed += next.failed;
        self.bytes_read += next.bytes_read;
        (self.in_flight, self.waiting) = (next.in_flight, next.waiting);
        for (kind, count) in &next.errors {
            match self.errors.iter_mut().find(|(own, _)| own == kind) {
                Some((_, own)) => *own += count,
                None => self.errors.push((*kind, *count)),
            }
        }
        let mut latency = self.latency();
        latency.merge(&next.latency());
        self.latency = latency.to_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;

    fn slice(thread: usize, number: usize, answers: u64) -> Slice {
        let mut tally = Tally::default();
        tally.counts.sent = answers + 1;
        for at in 0..answers {
            tally.answered(
                &Exchange { status: 200, ..Exchange::new(0, 0) },
                true,
                1_000 * (at + 1),
            );
        }
        tally.failed(ErrorKind::Closed, &Exchange::new(0, 0), 5);
        Slice { thread, number, length: SLICE, tally, in_flight: 1, waiting: 3, is_last: false }
    }

    #[test]
    fn slices_of_threads_become_seconds_whatever_their_order() {
        let mut timeline = Timeline::new(2);
        for (thread, number) in [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)] {
            let empty = timeline.take(slice(thread, number, 10));
            assert_eq!((empty.counts.sent, empty.times.latency.count()), (0, 0));
        }
        assert_eq!(timeline.last().map(|last| last.start), Some(Duration::from_secs(1)));
        let (sum, intervals) = timeline.finish();
        assert_eq!((sum.counts.ok, sum.times.latency.count()), (50, 50));
        let told = |i: &Interval| (i.start.as_secs(), i.answers(), i.in_flight, i.waiting);
        let all: Vec<_> = intervals.iter().map(told).collect();
        assert_eq!(all, [(0, 20, 2, 6), (1, 20, 2, 6), (2, 10, 1, 3)]);
        assert!(intervals[0].latency().max_ns().abs_diff(10_000) < 10, "three digits");
        assert_eq!(intervals[0].errors, [(ErrorKind::Closed, 2)]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_ended() {
        let mut timeline = Timeline::new(2);
        timeline.take(Slice { is_last: true, ..slice(0, 0, 1) });
        for number in 0..3 {
            timeline.take(slice(1, number, 1));
            assert_eq!(timeline.last().map(|last| last.start), Some(SLICE * number as u32));
        }
    }

    #[test]
    fn a_long_run_keeps_few_intervals_and_loses_nothing() {
        let mut timeline = Timeline::new(1);
        let seconds = 2 * INTERVALS_MAX + 11;
        for number in 0..seconds {
            timeline.take(slice(0, number, 1));
        }
        let (sum, intervals) = timeline.finish();
        assert!(intervals.len() <= INTERVALS_MAX, "{}", intervals.len());
        let answers: u64 = intervals.iter().map(Interval::answers).sum();
        assert_eq!((answers, sum.counts.ok), (seconds as u64, seconds as u64));
        let length: Duration = intervals.iter().map(|i| i.length).sum();
        assert_eq!(length, SLICE * seconds as u32);
        assert!(intervals.windows(2).all(|two| two[0].start + two[0].length == two[1].start));
        assert_eq!(intervals[0].latency().count(), 4);
    }
}
