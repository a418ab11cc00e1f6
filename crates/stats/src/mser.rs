//! Where a series has settled: MSER-5.
//!
//! White, An effective truncation heuristic for bias reduction in simulation output, Simulation 69
//! (1997); in batches of five: White, Cobb and Spratt, A comparison of five steady-state truncation
//! heuristics for simulation, Winter Simulation Conference 2000.

const BATCH: usize = 5;

/// Where the settled part of a series begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Observations to leave out.
    pub from: usize,
    /// The last place that is looked at: it may well take longer.
    pub or_later: bool,
}

/// The truncation that makes the standard error of what is left smallest. Only the first half is
/// looked at: with little left, that error is small by chance. `None` below four batches.
#[must_use]
pub fn mser5(series: &[f64]) -> Option<Settled> {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < 4 {
        return None;
    }
    let last = batches.len() / 2;
    let best = (0..=last).min_by(|a, b| error(&batches[*a..]).total_cmp(&error(&batches[*b..])))?;
    Some(Settled { from: best * BATCH, or_later: best == last })
}

/// Square of the standard error, but for a constant.
fn error(rest: &[f64]) -> f64 {
    let n = rest.len() as f64;
    let mean = rest.iter().sum::<f64>() / n;
    rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn a_slow_beginning_is_cut_off() {
        let mut rng = Rng::new(3);
        let mut step = |low: usize| -> Vec<f64> {
            let value = |at| if at < low { 0.8 } else { 1.0 };
            (0..50).map(|at| value(at) + 0.01 * rng.normal()).collect()
        };
        // Among the cuts that leave an even rest chance decides: never too few, often some more.
        for low in [5, 10, 20] {
            for _ in 0..50 {
                let found = mser5(&step(low)).expect("ten batches");
                assert!((low..=25).contains(&found.from), "{low} {found:?}");
            }
        }
        let rising: Vec<f64> = (0..50).map(f64::from).collect();
        assert!(mser5(&rising).expect("ten batches").or_later, "it never settles");
        assert_eq!(mser5(&[1.0; 19]), None);
    }

    #[test]
    fn what_is_even_loses_nothing() {
        assert_eq!(mser5(&[1.0; 50]), Some(Settled { from: 0, or_later: false }));
    }
}
