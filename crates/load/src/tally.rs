//! What one thread counts: fixed arrays and histograms, so that recording allocates nothing.
//!
//! A tally is of one slice of the window; slices and threads are added up, and
//! `sent == ok + failed + in_flight` is asserted when the sum is settled. Knows no sockets.

use drom_stats::Latency;

use crate::{
    exchange::Exchange,
    fault::Fault,
    open::OpenTally,
    outcome::{BadBody, ErrorKind, Outcome},
};

const STATUS_MAX: usize = 1000;
const ERRORS: usize = ErrorKind::ALL.len();

/// What one slice brought.
#[derive(Default)]
pub struct Tally {
    pub counts: Counts,
    pub times: Times,
    /// What only an open loop has to tell.
    pub open: OpenTally,
    pub first_fault: Option<Fault>,
    /// The system's number of the first error of a socket.
    pub first_os_error: Option<i32>,
    pub first_bad_body: Option<BadBody>,
}

#[derive(Clone, Debug)]
pub struct Counts {
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub body_bytes: u64,
    pub reconnects: u64,
    /// Requests that the server would not answer where they were written, written once more.
    pub resent: u64,
    /// Time of requests on their connections, by the stamps: what the histograms should add up to.
    pub stamped_ns: u64,
    /// From the begin of each connect to the look that found it done.
    pub connecting_ns: u64,
    status: Box<[u64; STATUS_MAX]>,
    errors: [u64; ERRORS],
}

#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Of complete answers: from the write to the last byte; in an open loop from the planned time.
    pub latency: Latency,
    /// From the begin of a request to its error.
    pub error: Latency,
    pub connect: Latency,
    /// The TLS handshake, after the connect.
    pub tls: Latency,
    /// Of answers that came in several reads: their service times, the part until their first
    /// bytes, and the part from those to the last. Most come in one: they cost no record more.
    pub split: Latency,
    pub first_byte: Latency,
    pub transfer: Latency,
    /// With the connect, where each request has one.
    pub whole: Latency,
    /// Of answers that the client kept waiting: their latencies, and what those would have been.
    pub kept: Latency,
    pub unkept: Latency,
}

impl Tally {
    /// A complete answer to a request of a closed loop: its latency is its service time.
    #[inline]
    pub fn answered(&mut self, exchange: &Exchange, is_good: bool, now_ns: u64) -> u64 {
        let service_ns = self.served(exchange, is_good, now_ns);
        self.times.latency.record_ns(service_ns);
        service_ns
    }

    /// Of that latency so much was the client's own.
    pub fn kept(&mut self, latency_ns: u64, kept_ns: u64) {
        self.times.kept.record_ns(latency_ns);
        self.times.unkept.record_ns(latency_ns.saturating_sub(kept_ns));
    }

    /// The same in an open loop: latency counts from the planned time, which has a place in the
    /// window ([`Open::place_ns`](crate::open::Open::place_ns)); few others are under way or not.
    #[inline]
    pub fn answered_open(
        &mut self,
        exchange: &Exchange,
        is_good: bool,
        now_ns: u64,
        (place_ns, ends_sparse): (Option<(u64, u64)>, bool),
    ) -> u64 {
        let service_ns = self.served(exchange, is_good, now_ns);
        self.open.service.record_ns(service_ns);
        if exchange.is_sparse {
            self.open.sparse.record(service_ns);
        }
        if exchange.is_sparse && ends_sparse {
            self.open.sparse_throughout.record(service_ns);
        }
        let latency_ns = now_ns.saturating_sub(exchange.planned_ns);
        self.times.latency.record_ns(latency_ns);
        if let Some((after_ns, window_ns)) = place_ns {
            self.open.rise.record(after_ns, window_ns, latency_ns);
        }
        latency_ns
    }

    #[inline]
    fn served(&mut self, exchange: &Exchange, is_good: bool, now_ns: u64) -> u64 {
        let status = exchange.status;
        let Counts { ok, failed, .. } = &mut self.counts;
        *(if is_good { ok } else { failed }) += 1;
        self.counts.status[usize::from(status)] += 1;
        self.counts.body_bytes += exchange.body_bytes;
        let service_ns = now_ns.saturating_sub(exchange.written_ns);
        self.counts.stamped_ns += service_ns;
        let transfer_ns = now_ns.saturating_sub(exchange.first_byte_ns);
        if transfer_ns > 0 {
            self.times.split.record_ns(service_ns);
            self.times.transfer.record_ns(transfer_ns);
            self.times.first_byte.record_ns(service_ns.saturating_sub(transfer_ns));
        }
        service_ns
    }

    /// A request that ended without a good answer.
    pub fn failed(&mut self, kind: ErrorKind, exchange: &Exchange, now_ns: u64) {
        self.counts.failed += 1;
        self.counts.errors[kind as usize] += 1;
        let after_ns = now_ns.saturating_sub(exchange.begun_ns);
        self.counts.stamped_ns += after_ns;
        self.times.error.record_ns(after_ns);
    }

    /// Requests that have ended.
    pub fn ended(&self) -> u64 {
        self.counts.ok + self.counts.failed
    }

    /// Time on connections that the histograms tell of: in an open loop latencies begin before
    /// their connection's time, and the service times tell.
    pub fn recorded_ns(&self, is_open: bool) -> f64 {
        let service = if is_open { &self.open.service } else { &self.times.latency };
        total_ns(service) + total_ns(&self.times.error)
    }

    /// Of requests that do not follow one another at once: time on connections, and on making them.
    pub fn asked_ns(&self, is_open: bool) -> u64 {
        let connecting_ns = self.counts.connecting_ns as f64;
        (self.recorded_ns(is_open) + connecting_ns + total_ns(&self.times.tls)) as u64
    }

    /// Time by which the generator was late.
    pub fn lag_ns(&self) -> u64 {
        total_ns(&self.open.lag) as u64
    }

    /// Adds another slice, or another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        for (own, other) in self.times.each_mut().into_iter().zip(other.times.each()) {
            own.merge(other);
        }
        self.open.merge(&other.open);
        self.first_fault = self.first_fault.or(other.first_fault);
        self.first_os_error = self.first_os_error.or(other.first_os_error);
        if self.first_bad_body.is_none() {
            self.first_bad_body.clone_from(&other.first_bad_body);
        }
    }

    /// Empty again, the memory of the histograms kept.
    pub fn clear(&mut self) {
        self.counts = Counts::default();
        self.times.each_mut().into_iter().for_each(Latency::clear);
        self.open.clear();
        (self.first_fault, self.first_bad_body, self.first_os_error) = (None, None, None);
    }

    /// Times until the first bytes, and from those to the last, of all answers.
    fn parts(&self, is_open: bool) -> (Latency, Latency) {
        let service = if is_open { &self.open.service } else { &self.times.latency };
        let (mut first_byte, mut transfer) = (service.clone(), self.times.transfer.clone());
        first_byte.take_out(&self.times.split);
        transfer.record_many_ns(0, first_byte.count());
        first_byte.merge(&self.times.first_byte);
        (first_byte, transfer)
    }

    /// Makes the sum of all slices an outcome, which `in_flight` requests leave open.
    pub fn settle(self, in_flight: u64, outcome: &mut Outcome, is_open: bool) {
        (outcome.first_byte, outcome.transfer) = self.parts(is_open);
        outcome.open = is_open.then_some(self.open);
        let Self { counts, times, .. } = self;
        assert_eq!(counts.sent, counts.ok + counts.failed + in_flight, "requests were lost");
        let answers = counts.status.iter().sum::<u64>();
        assert_eq!(times.latency.count(), answers, "an answer has no latency");
        outcome.status = counts.statuses().collect();
        outcome.errors = counts.errors().filter(|(_, count)| *count > 0).collect();
        (outcome.sent, outcome.ok, outcome.failed) = (counts.sent, counts.ok, counts.failed);
        outcome.in_flight = in_flight;
        (outcome.bytes_read, outcome.body_bytes) = (counts.bytes_read, counts.body_bytes);
        (outcome.reconnects, outcome.resent) = (counts.reconnects, counts.resent);
        outcome.first_fault = self.first_fault;
        outcome.first_os_error = self.first_os_error;
        outcome.first_bad_body = self.first_bad_body;
        outcome.latency = times.latency;
        outcome.error_latency = times.error;
        outcome.connect = times.connect;
        outcome.tls = times.tls;
        outcome.whole = times.whole;
        outcome.kept = times.kept;
        outcome.unkept = times.unkept;
    }
}

impl Counts {
    /// Requests that ended in an error, by kind.
    pub fn errors(&self) -> impl Iterator<Item = (ErrorKind, u64)> {
        ErrorKind::ALL.into_iter().map(|kind| (kind, self.errors[kind as usize]))
    }

    /// Complete answers, by status.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = (0u16..).zip(self.status.iter().copied());
        all.filter(|(_, count)| *count > 0)
    }

    fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.ok += other.ok;
        self.failed += other.failed;
        self.bytes_read += other.bytes_read;
        self.body_bytes += other.body_bytes;
        self.reconnects += other.reconnects;
        self.resent += other.resent;
        self.stamped_ns += other.stamped_ns;
        self.connecting_ns += other.connecting_ns;
        self.status.iter_mut().zip(other.status.iter()).for_each(|(own, other)| *own += other);
        self.errors.iter_mut().zip(other.errors).for_each(|(own, other)| *own += other);
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            sent: 0,
            ok: 0,
            failed: 0,
            bytes_read: 0,
            body_bytes: 0,
            reconnects: 0,
            resent: 0,
            stamped_ns: 0,
            connecting_ns: 0,
            status: Box::new([0; STATUS_MAX]),
            errors: [0; ERRORS],
        }
    }
}

impl Times {
    fn each(&self) -> [&Latency; 10] {
        let Self { latency, error, connect, tls, split, first_byte, transfer, .. } = self;
        let Self { whole, kept, unkept, .. } = self;
        [latency, error, connect, tls, split, first_byte, transfer, whole, kept, unkept]
    }

    fn each_mut(&mut self) -> [&mut Latency; 10] {
        let Self { latency, error, connect, tls, split, first_byte, transfer, .. } = self;
        let Self { whole, kept, unkept, .. } = self;
        [latency, error, connect, tls, split, first_byte, transfer, whole, kept, unkept]
    }
}

fn total_ns(latency: &Latency) -> f64 {
    latency.mean_ns() * latency.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let exchange = |written_ns| Exchange { written_ns, ..Exchange::new(1, 1) };
        let answered = |status| Exchange { status, ..exchange(10) };
        let mut tally = Tally::default();
        tally.counts.sent = 5;
        tally.answered(&answered(200), true, 20);
        tally.answered(&answered(404), false, 30);
        tally.failed(ErrorKind::Timeout, &exchange(0), 31);
        tally
    }

    #[test]
    fn tallies_add_up() {
        let (mut sum, mut outcome) = (tally(), Outcome::default());
        sum.merge(&tally());
        sum.settle(4, &mut outcome, false);
        assert_eq!((outcome.sent, outcome.ok, outcome.failed, outcome.in_flight), (10, 2, 4, 4));
        assert_eq!(outcome.status.into_iter().collect::<Vec<_>>(), [(200, 2), (404, 2)]);
        assert_eq!(outcome.errors[&ErrorKind::Timeout], 2);
        assert_eq!((outcome.latency.count(), outcome.error_latency.count()), (4, 2));
        assert_eq!(outcome.latency.max_ns(), 20);
    }

    #[test]
    fn what_is_recorded_is_what_the_stamps_say() {
        let tally = tally();
        assert_eq!(tally.counts.stamped_ns, 10 + 20 + 30);
        assert!((tally.recorded_ns(false) - 60.0).abs() < 1.0);
    }

    #[test]
    fn what_the_client_kept_can_be_taken_out_again() {
        let (mut tally, mut outcome) = (tally(), Outcome::default());
        let exchange = Exchange { status: 200, written_ns: 0, ..Exchange::new(1, 1) };
        tally.counts.sent += 1;
        let latency_ns = tally.answered(&exchange, true, 5_000_000);
        tally.kept(latency_ns, 4_000_000);
        tally.settle(2, &mut outcome, false);
        assert_eq!((outcome.latency.count(), outcome.kept.count()), (3, 1));
        let unkept = outcome.latency_unkept();
        assert_eq!((unkept.count(), unkept.max_ns() / 10_000), (3, 100));
    }

    #[test]
    fn a_cleared_tally_is_a_new_one() {
        let (mut cleared, mut outcome) = (tally(), Outcome::default());
        cleared.clear();
        cleared.merge(&tally());
        cleared.settle(2, &mut outcome, false);
        assert_eq!((outcome.ok, outcome.latency.count(), outcome.errors.len()), (1, 2, 1));
    }

    #[test]
    #[should_panic(expected = "were lost")]
    fn a_lost_request_is_not_swallowed() {
        let counts = Counts { sent: 1, ..Counts::default() };
        Tally { counts, ..Tally::default() }.settle(0, &mut Outcome::default(), false);
    }

    #[test]
    fn every_kind_has_its_own_place() {
        for (at, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }
}
