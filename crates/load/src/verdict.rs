//! Was the client the limit? Pure: an outcome in, a verdict with its evidence out.
//!
//! A closed loop whose client thread never sleeps would have sent more with a faster client: its
//! rate is a lower bound of the server's. Time in which the thread was runnable but had no CPU
//! counts as busy: the client, not the server, was being waited for.

use std::time::Duration;

use crate::outcome::Outcome;

/// Above this share of the window a client thread is the limit. 100 % is never reached: the
/// kernel's own work and steal are not charged to the thread.
pub const PEGGED_SHARE: f64 = 0.90;
/// Above this share a faster client would have measured a little more, and latencies hold some of
/// the client's own queue. With 8 connections an exponential server loses 2 % of its rate to a
/// client that is busy for 70 %, and 7 % at 90 % (a closed network of two stations).
pub const BUSY_SHARE: f64 = 0.70;
/// A rate this near to what the client reaches against a server that does nothing is the client's.
pub const CEILING_SHARE: f64 = 0.90;
/// Above this share of it the client is worth a word.
pub const CEILING_NEAR_SHARE: f64 = 0.50;
/// A rate well over the ceiling says that the ceiling was measured while something disturbed it.
pub const CEILING_BELIEVED_SHARE: f64 = 1.10;

/// What is known about the client's part in the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub limited: bool,
    /// Limited, or so near to it that the rate is a lower bound.
    pub near: bool,
    /// Of the busiest thread: share of the window on a CPU, less what it spent looking for answers.
    pub busy_share: f64,
    /// Of the same thread: share of the window runnable without a CPU.
    pub starved_share: f64,
    /// The rate as a share of the client's ceiling, where that was measured.
    pub ceiling_share: Option<f64>,
    /// In words, for a report.
    pub evidence: String,
}

/// Judges `outcome`; `ceiling_rps` is the rate of the same plan against [`crate::null_server`].
#[must_use]
pub fn client_limited(outcome: &Outcome, ceiling_rps: Option<f64>) -> Verdict {
    let (busy_share, starved_share) = busiest(outcome);
    let ceiling_share = ceiling_rps.filter(|rps| *rps > 0.0).map(|rps| outcome.rate_rps() / rps);
    let believed = ceiling_share.filter(|share| *share <= CEILING_BELIEVED_SHARE);
    let pegged = busy_share + starved_share >= PEGGED_SHARE;
    let at_ceiling = believed.is_some_and(|share| share >= CEILING_SHARE);
    let near = busy_share + starved_share >= BUSY_SHARE
        || believed.is_some_and(|share| share >= CEILING_NEAR_SHARE);
    let mut evidence = format!("busiest thread {:.0} % at work", busy_share * 100.0);
    if starved_share >= 0.005 {
        evidence += &format!(", {:.0} % waiting for a CPU", starved_share * 100.0);
    }
    if let Some(share) = ceiling_share {
        evidence += &format!(", rate {:.0} % of the client's ceiling", share * 100.0);
    }
    if pegged || at_ceiling {
        evidence += "; rate is a lower bound";
    } else if near {
        evidence += "; near its limit";
    }
    let limited = pegged || at_ceiling;
    Verdict { limited, near, busy_share, starved_share, ceiling_share, evidence }
}

fn busiest(outcome: &Outcome) -> (f64, f64) {
    let window_s = outcome.duration.as_secs_f64();
    let share = |time: Duration| if window_s > 0.0 { time.as_secs_f64() / window_s } else { 0.0 };
    let threads = outcome.thread_cpu.iter().enumerate().map(|(at, cpu)| {
        let of = |times: &[Duration]| times.get(at).copied().unwrap_or_default();
        let work = cpu.saturating_sub(of(&outcome.thread_idle_spin));
        (share(work), share(of(&outcome.thread_run_delay)))
    });
    threads.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(cpu_ms: &[u64], delay_ms: &[u64]) -> Outcome {
        let ms = |values: &[u64]| values.iter().copied().map(Duration::from_millis).collect();
        Outcome {
            duration: Duration::from_secs(1),
            thread_cpu: ms(cpu_ms),
            thread_run_delay: ms(delay_ms),
            status: [(200, 1000)].into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_pegged_or_starved_thread_is_the_limit() {
        assert!(client_limited(&outcome(&[980], &[0]), None).limited);
        assert!(client_limited(&outcome(&[500], &[450]), None).limited);
        assert!(client_limited(&outcome(&[100, 980], &[]), None).limited);
        assert!(!client_limited(&outcome(&[600], &[100]), None).limited);
        assert!(!client_limited(&outcome(&[], &[]), None).limited);
    }

    #[test]
    fn looking_for_answers_is_waiting_not_work() {
        let looking = |ms| Outcome {
            thread_idle_spin: vec![Duration::from_millis(ms)],
            ..outcome(&[980], &[])
        };
        assert!(!client_limited(&looking(300), None).limited);
        assert!(client_limited(&looking(30), None).limited);
    }

    #[test]
    fn near_the_limit_begins_before_it() {
        let near = |cpu_ms, ceiling| client_limited(&outcome(&[cpu_ms], &[]), ceiling).near;
        assert!(!near(690, None) && near(700, None) && near(980, None));
        assert!(!near(300, Some(2_100.0)) && near(300, Some(1_900.0)));
    }

    #[test]
    fn the_ceiling_is_a_limit() {
        let idle = outcome(&[300], &[]);
        assert!(client_limited(&idle, Some(1_050.0)).limited);
        assert!(!client_limited(&idle, Some(3_000.0)).limited);
        assert!(!client_limited(&idle, Some(0.0)).limited);
        let mismeasured = client_limited(&idle, Some(500.0));
        assert!(!mismeasured.limited && !mismeasured.near, "{}", mismeasured.evidence);
        assert!(client_limited(&idle, Some(3_000.0)).evidence.contains("33 %"));
    }
}
