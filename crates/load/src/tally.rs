//! What one thread counts: fixed arrays and histograms, so that recording allocates nothing.
//!
//! `sent == ok + failed + in_flight` is asserted when a tally is settled. Knows no sockets.

use drom_stats::Latency;

use crate::{
    fault::Fault,
    outcome::{BadBody, ErrorKind, Outcome},
};

const STATUS_MAX: usize = 1000;

/// Counts of one window.
pub struct Tally {
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub reconnects: u64,
    pub first_fault: Option<Fault>,
    pub first_bad_body: Option<BadBody>,
    pub connect: Latency,
    /// Time of connections that was spent neither on an answer nor on an error. Signed: a request
    /// under way when the window opens brings time from before it.
    pub between_ns: i64,
    status: Box<[u64; STATUS_MAX]>,
    errors: [u64; ErrorKind::ALL.len()],
    latency: Latency,
    error_latency: Latency,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sent: 0,
            ok: 0,
            failed: 0,
            bytes_read: 0,
            reconnects: 0,
            first_fault: None,
            first_bad_body: None,
            connect: Latency::default(),
            between_ns: 0,
            status: Box::new([0; STATUS_MAX]),
            errors: [0; ErrorKind::ALL.len()],
            latency: Latency::default(),
            error_latency: Latency::default(),
        }
    }
}

impl Tally {
    /// A complete answer.
    #[inline]
    pub fn answered(&mut self, status: u16, latency_ns: u64) {
        if status < 400 {
            self.ok += 1;
        } else {
            self.failed += 1;
        }
        self.status[usize::from(status)] += 1;
        self.latency.record_ns(latency_ns);
    }

    /// A request that ended without a good answer.
    pub fn failed(&mut self, kind: ErrorKind, after_ns: u64) {
        self.failed += 1;
        self.errors[kind as usize] += 1;
        self.error_latency.record_ns(after_ns);
    }

    /// Requests that have ended.
    pub fn ended(&self) -> u64 {
        self.ok + self.failed
    }

    /// Connection time that the recorded latencies and the pauses between them explain. In an open
    /// loop latencies begin before their connection's time: there the service times tell.
    pub fn accounted_ns(&self, service: Option<&Latency>) -> f64 {
        let total = |latency: &Latency| latency.mean_ns() * latency.count() as f64;
        total(service.unwrap_or(&self.latency))
            + total(&self.error_latency)
            + self.between_ns as f64
    }

    /// Adds the counts to `outcome`, which `in_flight` requests leave open.
    pub fn settle(&self, in_flight: u64, outcome: &mut Outcome) {
        assert_eq!(self.sent, self.ok + self.failed + in_flight, "requests were lost or invented");
        assert_eq!(
            self.latency.count(),
            self.status.iter().sum::<u64>(),
            "an answer has no latency"
        );
        outcome.sent += self.sent;
        outcome.ok += self.ok;
        outcome.failed += self.failed;
        outcome.in_flight += in_flight;
        outcome.bytes_read += self.bytes_read;
        outcome.reconnects += self.reconnects;
        outcome.first_fault = outcome.first_fault.or(self.first_fault);
        outcome.first_bad_body = outcome.first_bad_body.take().or(self.first_bad_body.clone());
        outcome.latency.merge(&self.latency);
        outcome.error_latency.merge(&self.error_latency);
        outcome.connect.merge(&self.connect);
        for (status, count) in (0u16..).zip(self.status.iter()).filter(|(_, count)| **count > 0) {
            *outcome.status.entry(status).or_default() += count;
        }
        for kind in ErrorKind::ALL {
            if self.errors[kind as usize] > 0 {
                *outcome.errors.entry(kind).or_default() += self.errors[kind as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let mut outcome = Outcome::default();
        for _ in 0..2 {
            let mut tally = Tally { sent: 5, ..Tally::default() };
            tally.answered(200, 10);
            tally.answered(404, 20);
            tally.failed(ErrorKind::Timeout, 30);
            tally.settle(2, &mut outcome);
        }
        assert_eq!((outcome.sent, outcome.ok, outcome.failed, outcome.in_flight), (10, 2, 4, 4));
        assert_eq!(outcome.status.into_iter().collect::<Vec<_>>(), [(200, 2), (404, 2)]);
        assert_eq!(outcome.errors[&ErrorKind::Timeout], 2);
        assert_eq!((outcome.latency.count(), outcome.error_latency.count()), (4, 2));
    }

    #[test]
    #[should_panic(expected = "lost or invented")]
    fn a_lost_request_is_not_swallowed() {
        Tally { sent: 1, ..Tally::default() }.settle(0, &mut Outcome::default());
    }

    #[test]
    fn every_kind_has_its_own_place() {
        for (at, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }
}
