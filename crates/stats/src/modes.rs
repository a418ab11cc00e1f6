//! Two modes or one? Some servers settle at one of two speeds when they start. The best split of
//! the sorted values into two groups leaves a share of the variance inside the groups; how small
//! that share gets for *normal* values of the same number is simulated, so the test is exact for
//! any n.

use crate::Rng;

/// A split that normal values would show in less than one case of a thousand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    pub low: f64,
    pub high: f64,
    /// Share of the values in the upper mode.
    pub share_high: f64,
}

/// `None` for one mode, or for fewer than 15 values.
#[must_use]
pub fn two_modes(values: &[f64]) -> Option<Modes> {
    if values.len() < 15 {
        return None;
    }
    let (share, modes) = best_split(values)?;
    // Normal values stay far above this share: the simulation is for what is near the limit.
    (share < 0.35 && share < critical_share(values.len())).then_some(modes)
}

/// The share of variance left inside the two groups of the best split.
fn best_split(values: &[f64]) -> Option<(f64, Modes)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let total: f64 = sorted.iter().sum();
    let centre = total / n;
    let spread: f64 = sorted.iter().map(|v| (v - centre).powi(2)).sum();
    let mut best: Option<(f64, Modes)> = None;
    let mut below = 0.0;
    // Two values or more on each side: one outlier is not a mode.
    for (index, value) in sorted.iter().enumerate().take(sorted.len() - 2) {
        below += value;
        let k = index as f64 + 1.0;
        if index == 0 || spread == 0.0 {
            continue;
        }
        let (low, high) = (below / k, (total - below) / (n - k));
        let between = k * (low - centre).powi(2) + (n - k) * (high - centre).powi(2);
        let share = 1.0 - between / spread;
        if best.is_none_or(|(least, _)| share < least) {
            best = Some((share, Modes { low, high, share_high: (n - k) / n }));
        }
    }
    best
}

/// The 0.1 % quantile of the share for `n` normal values (fixed seed: the same n, the same answer).
fn critical_share(n: usize) -> f64 {
    let mut rng = Rng::new(0x0002_0d35 ^ n as u64);
    let mut shares: Vec<f64> = (0..3_000)
        .filter_map(|_| {
            let normal: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            best_split(&normal).map(|(share, _)| share)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    shares[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_speeds_are_two_modes() {
        let mut rng = Rng::new(1);
        let values: Vec<f64> =
            (0..20).map(|i| f64::from(i % 2) * 0.2 + 0.01 * rng.normal()).collect();
        let modes = two_modes(&values).expect("two speeds");
        assert!((modes.high - modes.low - 0.2).abs() < 0.02, "{modes:?}");
        assert!((modes.share_high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn normal_values_have_one_mode() {
        let mut rng = Rng::new(2);
        let flagged = (0..200)
            .filter(|_| {
                let values: Vec<f64> = (0..16).map(|_| rng.normal()).collect();
                two_modes(&values).is_some()
            })
            .count();
        assert!(flagged <= 6, "{flagged} of 200");
    }
}
