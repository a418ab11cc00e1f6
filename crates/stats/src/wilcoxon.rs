//! Hodges-Lehmann's shift with the exact interval of Wilcoxon's signed-rank test (Hollander and
//! Wolfe, *Nonparametric Statistical Methods*, 3.2-3.3): what to believe when one block in ten went
//! astray.

use crate::{Estimate, Interval};

/// The median of all pairwise means, with its interval and the confidence that it really has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HodgesLehmann {
    pub estimate: Estimate,
    /// At least what was asked for: the exact test has steps.
    pub confidence: f64,
}

/// `None` when so few values cannot reach the confidence (95 % needs 6).
#[must_use]
pub fn hodges_lehmann(values: &[f64], confidence: f64) -> Option<HodgesLehmann> {
    let averages = walsh_averages(values);
    let (cut, tail) = critical(values.len(), (1.0 - confidence) / 2.0)?;
    let interval = Interval { low: averages[cut], high: averages[averages.len() - 1 - cut] };
    let estimate = Estimate { centre: median_of_sorted(&averages), interval };
    Some(HodgesLehmann { estimate, confidence: 1.0 - 2.0 * tail })
}

fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        averages.extend(values[i..].iter().map(|b| 0.5 * (a + b)));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// The largest k with P(W <= k) <= `tail`, and that probability.
fn critical(n: usize, tail: f64) -> Option<(usize, f64)> {
    let mut cumulative = 0.0;
    let mut found = None;
    for (k, p) in signed_rank_probabilities(n).into_iter().enumerate() {
        cumulative += p;
        if cumulative > tail {
            return found;
        }
        found = Some((k, cumulative));
    }
    found
}

/// P(W = k): every rank is in the sum or not, with probability one half.
fn signed_rank_probabilities(n: usize) -> Vec<f64> {
    let mut p = vec![0.0; n * (n + 1) / 2 + 1];
    p[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..p.len()).rev() {
            let with = if sum >= rank { p[sum - rank] } else { 0.0 };
            p[sum] = 0.5 * (p[sum] + with);
        }
    }
    p
}

/// The middle of ascending values, or the mean of the two in the middle. NaN-free and not empty.
#[must_use]
pub fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n % 2 == 1 { sorted[n / 2] } else { 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::approx_constant, reason = "3.14 is a patient's score")]
    fn the_interval_is_that_of_r_on_the_depression_data() {
        // Hollander and Wolfe 1973 p. 29; R: wilcox.test(y, x, paired = TRUE, conf.int = TRUE):
        // pseudomedian -0.46, 95 % interval -0.786 to -0.010.
        let x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = y.iter().zip(x).map(|(y, x)| y - x).collect();
        let hl = hodges_lehmann(&d, 0.95).expect("nine values reach 95 %");
        assert!((hl.estimate.centre - -0.46).abs() < 1e-9, "{hl:?}");
        assert!((hl.estimate.interval.low - -0.786).abs() < 1e-9, "{hl:?}");
        assert!((hl.estimate.interval.high - -0.010).abs() < 1e-9, "{hl:?}");
        assert!((hl.confidence - (1.0 - 2.0 * 10.0 / 512.0)).abs() < 1e-12, "{hl:?}");
    }

    #[test]
    fn five_values_cannot_give_95_percent() {
        assert!(hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).is_none());
        let six = hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95).expect("six do");
        assert_eq!((six.estimate.interval.low, six.estimate.interval.high), (1.0, 6.0));
        // Its exact confidence is 1 - 2 / 64, and that may be asked for.
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert!(hodges_lehmann(&six, 0.968_75).is_some());
    }

    #[test]
    fn probabilities_sum_to_one() {
        let sum: f64 = signed_rank_probabilities(20).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
