//! Whether latency rises all the way through an open loop's window, as it does when a queue grows.
//! A [`Rise`] has the latencies of each twelfth of the plan, by planned time, so that answers which
//! come after the window are in it. Allocates nothing.
//!
//! A server that gets a hundredth more than it can serve is later by 10 ms after each second, long
//! before that breaks a limit of 250 ms. What tells such a rise from one that only comes and goes:
//! it is there in every third of the window, evenly, and the steps from part to part are far more
//! alike than chance makes them. Of steps, not of latencies: a queue that is not empty goes on from
//! where it was, so that latencies near each other are alike, and their scatter tells nothing.

use drom_stats::StudentT;

const PARTS: usize = 12;
const THIRD: usize = PARTS / 3;
/// Seconds a second: half a hundredth too much.
const SLOPE_MIN: f64 = 0.005;
/// Each of the two steps between thirds is more than so much of the other one.
const EVEN: f64 = 1.0 / 3.0;
/// Where there are few answers parts are put together.
const PUT_TOGETHER: [usize; 3] = [1, 2, 3];
/// Where the rate itself rises latency may rise without a queue: it takes so much more of it.
const TIMES_WITH_RATE: f64 = 2.5;
/// A third of fewer answers tells nothing.
const ANSWERS_MIN: f64 = 3.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rise {
    parts: [Part; PARTS],
}

/// Latencies in seconds: their number and sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    count: f64,
    sum: f64,
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
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.merge(other));
    }

    /// The mean latency of the third in which it was least, in seconds: what the server takes as
    /// long as it keeps up.
    #[must_use]
    pub fn quickest_third_s(&self) -> Option<f64> {
        let thirds = self.whole(THIRD).filter(|third| third.count >= ANSWERS_MIN);
        thirds.map(Part::mean).min_by(f64::total_cmp)
    }

    /// So many parts put together.
    fn whole(&self, parts: usize) -> impl Iterator<Item = Part> {
        self.parts.chunks(parts).map(|parts| {
            let mut whole = Part::default();
            parts.iter().for_each(|part| whole.merge(part));
            whole
        })
    }

    /// Seconds by which latency rises in a second of a window of this length, where it rises all
    /// the time. `is_steady`: the planned rate does not change. `chance`: in so many windows steps
    /// may be so much alike by chance alone.
    #[must_use]
    pub fn slope(&self, window_s: f64, is_steady: bool, chance: f64) -> Option<f64> {
        if self.whole(THIRD).any(|third| third.count < ANSWERS_MIN) {
            return None;
        }
        let thirds: Vec<f64> = self.whole(THIRD).map(Part::mean).collect();
        let (first, third) = (thirds[0], thirds[2]);
        let (early, late) = (thirds[1] - first, third - thirds[1]);
        let is_even = early > 0.0 && late > EVEN * early && early > EVEN * late;
        // The middles of the outer thirds are two thirds of the window apart.
        let slope = (third - first) / (window_s * 2.0 / 3.0);
        let is_own = is_steady || third > TIMES_WITH_RATE * first;
        let rises = is_even && slope > SLOPE_MIN && is_own && self.has_steps_alike(chance);
        rises.then_some(slope)
    }

    /// The mean step from part to part is no chance: Student's t over the steps.
    fn has_steps_alike(&self, chance: f64) -> bool {
        let means = PUT_TOGETHER.into_iter().find_map(|together| {
            let parts = self.whole(together);
            parts.map(|part| (part.count > 0.0).then(|| part.mean())).collect::<Option<Vec<f64>>>()
        });
        let Some(means) = means else { return false };
        let steps: Vec<f64> = means.windows(2).map(|two| two[1] - two[0]).collect();
        let count = steps.len() as f64;
        let mean = steps.iter().sum::<f64>() / count;
        let squares: f64 = steps.iter().map(|step| (step - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        mean > StudentT::new(count - 1.0).quantile(1.0 - chance) * error
    }
}

impl Part {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
    }

    fn mean(self) -> f64 {
        self.sum / self.count
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
        rise.slope(3.0, is_steady, 0.001)
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

    /// Servers with random service times at a part of their capacity, and above it.
    fn queues_taken(workers: usize, load: f64, seconds: u64, two_modes: bool) -> u64 {
        let mut taken = 0;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut free_s, mut rise) = (vec![0.0_f64; workers], Rise::default());
            let (rate, window_ns) = (load * workers as f64 / 0.05, seconds * SECOND);
            let mut at_s = 0.0;
            while at_s < seconds as f64 {
                let exponential = -(1.0 - rng.unit()).ln();
                let service_s = match two_modes {
                    false => 0.05 * exponential,
                    true if rng.unit() < 0.1 => 0.4,
                    true => 0.05 * 2.0 / 9.0,
                };
                let first = (0..workers).min_by(|a, b| free_s[*a].total_cmp(&free_s[*b]));
                let first = &mut free_s[first.expect("a worker")];
                *first = first.max(at_s) + service_s;
                rise.record((at_s * 1e9) as u64, window_ns, ((*first - at_s) * 1e9) as u64);
                at_s += -(1.0 - rng.unit()).ln() / rate;
            }
            taken += u64::from(rise.slope(seconds as f64, true, 0.001).is_some());
        }
        println!("{workers} workers at {load} for {seconds} s: {taken} of 200");
        taken
    }

    #[test]
    fn queues_that_come_and_go_are_seldom_taken_for_one_that_grows() {
        for (workers, load) in [(1, 0.8), (1, 0.9), (4, 0.9), (16, 0.95)] {
            for seconds in [3, 10, 30] {
                assert!(queues_taken(workers, load, seconds, false) <= 10, "{workers} {load}");
            }
        }
        assert!(queues_taken(1, 0.8, 10, true) <= 10);
        assert!(queues_taken(16, 1.3, 10, false) > 150, "a third too much is seen");
        assert!(queues_taken(4, 1.1, 30, false) > 100, "and a tenth, in time");
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
