//! Ratio of a latency quantile between two variants. The point is the ratio of the quantiles of all
//! blocks merged; its interval is the delete-one-block jackknife of ln(qA / qB) (Miller 1974).
//! Counting requests as independent instead covers the truth in 6 to 49 % of cases
//! (METHODOLOGY.md).

use crate::{Estimate, Interval, Latency, StudentT, sd};

/// The ratio, or how many answers per block it would need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QuantileRatio {
    Known(Estimate),
    NeedsRequests { per_block: u64 },
}

/// Answers per block below which a quantile is not printed: 100 in the tail.
#[must_use]
pub fn requests_needed(quantile: f64) -> u64 {
    (100.0 / (1.0 - quantile)).round() as u64
}

/// `pairs`: one (variant, baseline) histogram per block.
#[must_use]
pub fn quantile_ratio(pairs: &[(Latency, Latency)], quantile: f64) -> QuantileRatio {
    let per_block = requests_needed(quantile);
    let fewest = pairs.iter().map(|(a, b)| a.count().min(b.count())).min().unwrap_or(0);
    if fewest < per_block || pairs.len() < 3 {
        return QuantileRatio::NeedsRequests { per_block };
    }
    let n = pairs.len() as f64;
    let whole = ln_ratio(pairs, quantile, None);
    let pseudo: Vec<f64> = (0..pairs.len())
        .map(|left_out| n * whole - (n - 1.0) * ln_ratio(pairs, quantile, Some(left_out)))
        .collect();
    let half = StudentT::of_blocks(pairs.len()).quantile(0.975) * sd(&pseudo) / n.sqrt();
    let interval = Interval { low: whole - half, high: whole + half };
    QuantileRatio::Known(Estimate { centre: whole, interval }.exp())
}

fn ln_ratio(pairs: &[(Latency, Latency)], quantile: f64, left_out: Option<usize>) -> f64 {
    let (mut a, mut b) = (Latency::default(), Latency::default());
    for (index, pair) in pairs.iter().enumerate() {
        if Some(index) != left_out {
            a.merge(&pair.0);
            b.merge(&pair.1);
        }
    }
    (a.quantile_ns(quantile) as f64 / b.quantile_ns(quantile).max(1) as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn too_few_answers_are_said_not_guessed() {
        let pairs = [(exponential(1.0, 500, 1), exponential(1.0, 500, 2))];
        let answer = quantile_ratio(&pairs, 0.99);
        assert_eq!(answer, QuantileRatio::NeedsRequests { per_block: 10_000 });
    }

    #[test]
    fn the_interval_covers_the_true_ratio_in_about_19_cases_of_20() {
        let mut rng = Rng::new(9);
        let covered = (0..150)
            .filter(|_| {
                let pairs: Vec<_> = (0..8)
                    .map(|_| {
                        // Each block has a level of its own: the requests are not independent.
                        let level = 1e6 * (0.02 * rng.normal()).exp();
                        let (sa, sb) = (rng.next_u64(), rng.next_u64());
                        let own = (0.03 * rng.normal()).exp();
                        (exponential(1.2 * level * own, 400, sa), exponential(level, 400, sb))
                    })
                    .collect();
                let QuantileRatio::Known(e) = quantile_ratio(&pairs, 0.5) else { return false };
                e.interval.low <= 1.2 && 1.2 <= e.interval.high
            })
            .count();
        assert!((133..=150).contains(&covered), "{covered} of 150");
    }

    fn exponential(mean_ns: f64, count: usize, seed: u64) -> Latency {
        let mut rng = Rng::new(seed);
        let mut latency = Latency::default();
        (0..count).for_each(|_| latency.record_ns((-(1.0 - rng.unit()).ln() * mean_ns) as u64));
        latency
    }
}
