//! What is known of measurements beforehand, from arithmetic. Pure; the measuring is elsewhere.

use std::time::Duration;

use crate::Delay;

/// A server that answers after `base` and stands still once for `freeze`, under an open loop in
/// `window`.
#[derive(Clone, Copy, Debug)]
pub struct Freeze {
    pub window: Duration,
    pub base: Duration,
    pub freeze: Duration,
}

impl Freeze {
    /// The latency that a share `quantile` of the requests does not exceed.
    ///
    /// Of requests planned at `x` after the freeze began: from `-base` to 0 they are answered when
    /// it ends, after `freeze - x`; from 0 to `freeze` they are read then, and answered after
    /// `freeze + base - x`; all others after `base`.
    #[must_use]
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        let [window, base, freeze] =
            [self.window, self.base, self.freeze].map(|duration| duration.as_secs_f64() * 1e3);
        // Requests planned in so many milliseconds are slower than it.
        let slower = (1.0 - quantile) * window;
        match slower <= 2.0 * base {
            true => freeze + base - slower / 2.0,
            false => (freeze + 2.0 * base - slower).max(base),
        }
    }
}

/// Delays to be found again, by their names.
#[must_use]
pub fn shapes() -> [(&'static str, Delay); 3] {
    let ms = Duration::from_millis;
    [
        ("constant 1 ms", Delay::Constant(ms(1))),
        ("exponential, mean 1 ms", Delay::Exponential { mean: ms(1) }),
        (
            "1 ms, and 10 ms one in twenty",
            Delay::TwoModes { usual: ms(1), slow: ms(10), slow_share: 0.05 },
        ),
    ]
}

/// How far the gaps between arrivals lie from those of a Poisson process of that rate, and how far
/// they may: Kolmogorov and Smirnov at 1 %, for many gaps. `times_ns` are in order.
#[must_use]
pub fn poisson_distance(times_ns: &[u64], rps: f64) -> (f64, f64) {
    let mut gaps: Vec<f64> =
        times_ns.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e9).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = (0..).zip(&gaps).map(|(at, gap)| {
        let expected = 1.0 - (-gap * rps).exp();
        (expected - f64::from(at) / n).abs().max((expected - f64::from(at + 1) / n).abs())
    });
    (distance.fold(0.0, f64::max), 1.628 / n.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ms of freeze in 10 s, answers after 10: one request in a hundred meets it.
    #[test]
    fn a_freeze_is_in_the_last_percent() {
        let ms = Duration::from_millis;
        let freeze = Freeze { window: ms(10_000), base: ms(10), freeze: ms(100) };
        let at = |quantile| freeze.latency_ms(quantile).round();
        assert_eq!([at(0.5), at(0.99), at(0.995), at(1.0)], [10.0, 20.0, 70.0, 110.0]);
    }

    #[test]
    fn regular_arrivals_are_no_poisson_process() {
        let regular: Vec<u64> = (0..1_000).map(|at| at * 1_000_000).collect();
        let (distance, limit) = poisson_distance(&regular, 1_000.0);
        assert!(distance > 0.6 && limit < 0.06, "{distance} {limit}");
    }
}
