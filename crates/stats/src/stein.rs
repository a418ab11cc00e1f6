//! Stein's two-stage rule (1945): the spread of the pilot blocks alone decides how many blocks the
//! run gets, N = ceil((t s / delta)^2). The result never does, so looking does not cost anything.

use crate::StudentT;

/// Blocks in all for a 95 % half-width of `target`, from `pilot_blocks` blocks with spread `sd`.
#[must_use]
pub fn blocks_needed(pilot_blocks: usize, sd: f64, target: f64) -> usize {
    blocks_needed_at(0.05, pilot_blocks, sd, target)
}

/// The same at another two-sided level, one of a family's (Holm), say.
#[must_use]
pub fn blocks_needed_at(alpha: f64, pilot_blocks: usize, sd: f64, target: f64) -> usize {
    assert!(target > 0.0, "a target half-width is positive");
    let t = StudentT::of_blocks(pilot_blocks).quantile(1.0 - alpha / 2.0);
    let needed = (t * sd / target).powi(2).ceil();
    pilot_blocks.max(if needed.is_finite() { needed as usize } else { usize::MAX })
}

/// The 95 % half-width to expect of `blocks` blocks with spread `sd`.
#[must_use]
pub fn half_width_after(blocks: usize, sd: f64) -> f64 {
    half_width_at(0.05, blocks, sd)
}

/// The same at another two-sided level.
#[must_use]
pub fn half_width_at(alpha: f64, blocks: usize, sd: f64) -> f64 {
    StudentT::of_blocks(blocks).quantile(1.0 - alpha / 2.0) * sd / (blocks as f64).sqrt()
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
    fn one_of_a_family_needs_more_blocks_than_one_alone() {
        assert_eq!(blocks_needed_at(0.05, 8, 0.03, 0.02), blocks_needed(8, 0.03, 0.02));
        // t(7) at 0.05 / 4: 3.3353: (3.3353 * 3 / 2)^2 = 25.03
        assert_eq!(blocks_needed_at(0.0125, 8, 0.03, 0.02), 26);
        assert!(half_width_at(0.0125, 8, 0.03) > half_width_after(8, 0.03));
    }

    #[test]
    fn a_quiet_pilot_is_already_enough() {
        assert_eq!(blocks_needed(8, 0.001, 0.02), 8);
    }
}
