//! Stein's two-stage rule (1945): the spread of the pilot blocks alone decides how many blocks the
//! run gets, N = ceil((t s / delta)^2). The result never does, so looking does not cost anything.

use crate::StudentT;

/// Blocks in all for a 95 % half-width of `target`, from `pilot_blocks` blocks with spread `sd`.
#[must_use]
pub fn blocks_needed(pilot_blocks: usize, sd: f64, target: f64) -> usize {
    assert!(target > 0.0, "a target half-width is positive");
    let t = StudentT::of_blocks(pilot_blocks).quantile(0.975);
    let needed = (t * sd / target).powi(2).ceil();
    pilot_blocks.max(if needed.is_finite() { needed as usize } else { usize::MAX })
}

/// The 95 % half-width to expect of `blocks` blocks with spread `sd`.
#[must_use]
pub fn half_width_after(blocks: usize, sd: f64) -> f64 {
    StudentT::of_blocks(blocks).quantile(0.975) * sd / (blocks as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_three_percent_spread_needs_thirteen_blocks_for_two_percent() {
        // t(7) = 2.3646: (2.3646 * 3 / 2)^2 = 12.58
        assert_eq!(blocks_needed(8, 0.03, 0.02), 13);
        assert_eq!(blocks_needed(8, 0.03, 0.01), 51);
    }

    #[test]
    fn a_quiet_pilot_is_already_enough() {
        assert_eq!(blocks_needed(8, 0.001, 0.02), 8);
    }
}
