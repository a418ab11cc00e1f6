//! Whether latency rises all the way through an open loop's window, as it does when a queue grows.
//! A [`Rise`] has the latencies of each twelfth of the plan, by planned time, so that answers which
//! come after the window are in it. Allocates nothing.
//!
//! A server that gets a hundredth more than it can serve is later by 10 ms after each second, long
//! before that breaks a limit of 250 ms. What tells such a rise from one that only comes and goes:
//! it is there in every third of the window, evenly, and far beyond what the latencies scatter by.

const PARTS: usize = 12;
const THIRD: usize = PARTS / 3;
/// Seconds a second: half a hundredth too much.
const SLOPE_MIN: f64 = 0.005;
/// Each of the two steps between thirds is more than so much of the other one.
const EVEN: f64 = 1.0 / 3.0;
/// Standard errors of the difference of two means.
const ERRORS: f64 = 4.0;
/// Where the rate itself rises latency may rise without a queue: it takes so much more of it.
const TIMES_WITH_RATE: f64 = 2.5;
/// A third of fewer answers tells nothing.
const ANSWERS_MIN: f64 = 3.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rise {
    parts: [Part; PARTS],
}

/// Latencies in seconds: their number, sum, and sum of squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Rise {
    /// An answer to a request that was planned `after_ns` from the beginning of a window.
    #[inline]
    pub fn record(&mut self, after_ns: u64, window_ns: u64, latency_ns: u64) {
        let at = (after_ns as f64 * PARTS as f64 / window_ns as f64) as usize;
        if let Some(part) = self.parts.get_mut(at) {
            let latency_s = latency_ns as f64 / 1e9;
            part.count += 1.0;
            part.sum += latency_s;
            part.squares += latency_s * latency_s;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.merge(other));
    }

    /// Seconds by which latency rises in a second of a window of this length, where it rises all
    /// the time. `is_steady`: the planned rate does not change.
    #[must_use]
    pub fn slope(&self, window_s: f64, is_steady: bool) -> Option<f64> {
        let thirds = [0, 1, 2].map(|third| {
            let mut whole = Part::default();
            self.parts[third * THIRD..][..THIRD].iter().for_each(|part| whole.merge(part));
            whole
        });
        if thirds.iter().any(|third| third.count < ANSWERS_MIN) {
            return None;
        }
        let [first, second, third] = thirds.map(Part::mean);
        let (early, late) = (second - first, third - second);
        let is_even = early > 0.0 && late > EVEN * early && early > EVEN * late;
        let error = (thirds[0].mean_variance() + thirds[2].mean_variance()).sqrt();
        // The middles of the outer thirds are two thirds of the window apart.
        let slope = (third - first) / (window_s * 2.0 / 3.0);
        let is_much = third - first > ERRORS * error && slope > SLOPE_MIN;
        let is_own = is_steady || third > TIMES_WITH_RATE * first;
        (is_even && is_much && is_own).then_some(slope)
    }
}

impl Part {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// Of the mean, if latencies did not depend on each other.
    fn mean_variance(self) -> f64 {
        let variance = self.squares / self.count - self.mean() * self.mean();
        variance.max(0.0) / (self.count - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use drom_stats::Rng;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Requests at `rate` for three seconds; their latencies in seconds by when they are planned.
    fn slope(rate: u64, mut latency_s: impl FnMut(f64) -> f64, is_steady: bool) -> Option<f64> {
        let mut rise = Rise::default();
        for number in 0..3 * rate {
            let at_ns = number * SECOND / rate;
            let latency_ns = (latency_s(at_ns as f64 / 1e9) * 1e9) as u64;
            rise.record(at_ns, 3 * SECOND, latency_ns);
        }
        rise.slope(3.0, is_steady)
    }

    #[test]
    fn a_queue_that_grows_is_seen_however_long_an_answer_takes() {
        for service_s in [0.0005, 0.02, 0.4] {
            let seen = slope(60, |at_s| service_s + 0.01 * at_s, true).expect("it grows");
            assert!((seen - 0.01).abs() < 1e-3, "{service_s}: {seen}");
        }
    }

    #[test]
    fn what_only_moves_is_no_growth() {
        let stall = |at_s: f64| if at_s > 2.0 { 0.3 } else { 0.001 };
        let warms_up = |at_s: f64| 0.02 + 0.2 * (-4.0 * at_s).exp();
        let slowly = |at_s: f64| 0.02 + 0.003 * at_s;
        let saturates = |at_s: f64| 0.02 + 0.1 * (1.0 - (-3.0 * at_s).exp());
        assert_eq!(slope(100, stall, true), None);
        assert_eq!(slope(100, warms_up, true), None);
        assert_eq!(slope(100, slowly, true), None);
        assert_eq!(slope(100, saturates, true), None);
        assert_eq!(slope(2, |at_s| 0.1 * at_s, true), None, "six answers");
        assert_eq!(slope(100, |at_s| 0.5 + 0.02 * at_s, false), None, "the rate rises, too");
        assert!(slope(100, |at_s| 0.01 + 0.02 * at_s, false).is_some());
    }

    #[test]
    fn latencies_that_scatter_are_seldom_taken_for_a_rise() {
        let mut taken = 0;
        for seed in 0..1_000 {
            let mut rng = Rng::new(seed);
            let scattered = |_| -0.05 * (1.0 - rng.unit()).ln();
            taken += u64::from(slope(40, scattered, true).is_some());
        }
        assert!(taken <= 3, "{taken}");
    }

    #[test]
    fn what_lies_outside_of_the_window_is_not_in_it() {
        let mut rise = Rise::default();
        rise.record(3 * SECOND, 3 * SECOND, 1);
        rise.record(5, 0, 1);
        assert_eq!(rise, Rise::default());
    }

    #[test]
    fn parts_of_threads_are_added() {
        let (mut one, mut two) = (Rise::default(), Rise::default());
        one.record(0, SECOND, 5);
        two.record(0, SECOND, 7);
        one.merge(&two);
        assert!(
            (one.parts[0].count - 2.0).abs() < 1e-9 && (one.parts[0].sum - 12e-9).abs() < 1e-18
        );
    }
}
