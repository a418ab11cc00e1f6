//! An interval that may be looked at after every block: the asymptotic confidence sequence of
//! Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (arXiv 2103.06476, theorem 2.2). It covers the
//! mean at all looks together, where a t interval only does at one that was fixed before. For
//! watching only; no verdict is made from it.

use crate::{
    Estimate, Interval,
    paired::{mean, sd},
};

/// Blocks at which the sequence is narrowest.
const TUNED_FOR: f64 = 10.0;

/// Mean of `differences` with its sequence at `alpha` (0.05, say); none below two.
#[must_use]
pub fn confidence_sequence(differences: &[f64], alpha: f64) -> Option<Estimate> {
    if differences.len() < 2 || !differences.iter().all(|d| d.is_finite()) {
        return None;
    }
    let (n, centre) = (differences.len() as f64, mean(differences));
    let tail = -2.0 * alpha.ln();
    let rho2 = (tail + tail.ln() + 1.0) / TUNED_FOR;
    let grown = n * rho2 + 1.0;
    let half =
        sd(differences) * (2.0 * grown / (n * n * rho2) * (grown.sqrt() / alpha).ln()).sqrt();
    Some(Estimate { centre, interval: Interval { low: centre - half, high: centre + half } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StudentT;

    #[test]
    fn watching_costs_width_that_more_blocks_give_back() {
        let d =
            |n: usize| (0..n).map(|i| if i % 2 == 0 { 0.01 } else { -0.01 }).collect::<Vec<_>>();
        let half = |n: usize| {
            let found = confidence_sequence(&d(n), 0.05).expect("two or more");
            found.interval.half_width()
        };
        let t = |n: usize| StudentT::of_blocks(n).quantile(0.975) * sd(&d(n)) / (n as f64).sqrt();
        assert!((1.2..1.7).contains(&(half(10) / t(10))), "{}", half(10) / t(10));
        assert!(half(40) < half(20) && half(20) < half(10));
        assert!(confidence_sequence(&[0.1], 0.05).is_none());
    }
}
