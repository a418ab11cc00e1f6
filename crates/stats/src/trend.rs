//! Drift over the blocks of a run: Theil-Sen's slope (robust) with Kendall's test of it, and von
//! Neumann's ratio of successive differences.

use crate::{mean, median_of_sorted, sd};

/// How a series moves with its index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Median slope per step.
    pub slope: f64,
    /// Two-sided p-value of Kendall's S (normal approximation with continuity correction).
    pub p: f64,
    /// Near 2 for independent values, near 0 for slow movement.
    pub von_neumann: f64,
}

/// `None` below 6 values or without any spread.
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < 6 || sd(values) == 0.0 {
        return None;
    }
    let mut slopes = Vec::new();
    let mut s = 0.0;
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
            s += f64::from(i8::from(b > a) - i8::from(b < a));
        }
    }
    slopes.sort_by(f64::total_cmp);
    let slope = median_of_sorted(&slopes);
    Some(Trend { slope, p: kendall_p(s, values.len()), von_neumann: von_neumann(values) })
}

fn kendall_p(s: f64, n: usize) -> f64 {
    let n = n as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let z = (s.abs() - 1.0).max(0.0) / variance.sqrt();
    // A t with very many degrees of freedom is the normal distribution.
    crate::StudentT::new(1e7).two_sided_p(z)
}

fn von_neumann(values: &[f64]) -> f64 {
    let centre = mean(values);
    let successive: f64 = values.windows(2).map(|w| (w[1] - w[0]).powi(2)).sum();
    let total: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    successive / total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_climbing_series_is_a_trend() {
        let climbing: Vec<f64> = (0..10).map(|i| 0.5 * f64::from(i)).collect();
        let trend = trend(&climbing).expect("ten values");
        assert!((trend.slope - 0.5).abs() < 1e-12);
        // S = 45, var = 125: z = 44 / 11.18 = 3.935, p = 8.3e-5
        assert!((trend.p - 8.31e-5).abs() < 1e-6, "{trend:?}");
        assert!(trend.von_neumann < 0.2);
    }

    #[test]
    fn noise_is_called_a_trend_in_one_case_of_a_hundred() {
        let mut rng = crate::Rng::new(5);
        let flagged = (0..1_000)
            .filter(|_| {
                let noise: Vec<f64> = (0..12).map(|_| rng.normal()).collect();
                trend(&noise).expect("twelve values").p < 0.01
            })
            .count();
        assert!(flagged <= 20, "{flagged} of 1000");
    }
}
