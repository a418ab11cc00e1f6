//! Where a probability falls through one half, from few trials that were held or not: the posterior
//! of a falling logistic curve over a grid.
//!
//! The curve may be as sharp as a step or as soft as a quarter, and now and then a trial fails by
//! accident far below its middle: both are part of the grid, for a dozen trials do not tell them.
//! This is how thresholds of perception are measured (Kontsevich and Tyler, *Bayesian adaptive
//! estimation of psychometric slope and threshold*, Vision Research 39, 1999), with the place of
//! the next trial left to others.

/// One trial: where it was, and whether it was held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    pub at: f64,
    pub held: bool,
}

/// The place: its posterior's median, and the interval with the asked mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub at: f64,
    pub lower: f64,
    pub upper: f64,
}

/// Of the grid of places, and how far it goes beyond the trials.
const STEP: f64 = 0.002;
const BEYOND: f64 = 0.3;
const PLACES_MAX: usize = 1_000;
/// The widths of the curve, each as likely as any other: from a step to a quarter.
const WIDTHS: [f64; 8] = [0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256];
/// How often a trial fails whatever the place is, and how likely that is.
const ACCIDENTS: [(f64, f64); 3] = [(0.01, 0.5), (0.05, 0.3), (0.15, 0.2)];
/// How often one is held by accident.
const LUCK: f64 = 0.01;
/// A logistic curve is within a hundredth of the normal one of this width.
const LOGISTIC: f64 = 1.702;

/// `None` when all trials came out the same.
#[must_use]
pub fn limit(trials: &[Trial], mass: f64) -> Option<Limit> {
    let some = |held| trials.iter().any(|trial| trial.held == held);
    if !some(true) || !some(false) {
        return None;
    }
    let places = grid(trials);
    let posterior: Vec<f64> = places.iter().map(|place| likelihood(trials, *place)).collect();
    let whole: f64 = posterior.iter().sum();
    let quantile = |share: f64| {
        let mut left = share * whole;
        let at = posterior.iter().position(|mass| {
            left -= mass;
            left <= 0.0
        });
        places[at.unwrap_or(places.len() - 1)]
    };
    let tail = (1.0 - mass) / 2.0;
    Some(Limit { at: quantile(0.5), lower: quantile(tail), upper: quantile(1.0 - tail) })
}

fn grid(trials: &[Trial]) -> Vec<f64> {
    let all = || trials.iter().map(|trial| trial.at);
    let from = all().fold(f64::INFINITY, f64::min) - BEYOND;
    let length = all().fold(f64::NEG_INFINITY, f64::max) + BEYOND - from;
    let count = ((length / STEP).ceil() as usize).min(PLACES_MAX);
    (0..=count).map(|at| from + length * at as f64 / count as f64).collect()
}

/// Of a place, over all widths and accidents.
fn likelihood(trials: &[Trial], place: f64) -> f64 {
    let mut sum = 0.0;
    for width in WIDTHS {
        for (accident, prior) in ACCIDENTS {
            let each = trials.iter().map(|trial| {
                let curve = 1.0 / (1.0 + (LOGISTIC * (trial.at - place) / width).exp());
                let held = LUCK + (1.0 - LUCK - accident) * curve;
                if trial.held { held } else { 1.0 - held }
            });
            sum += prior * each.product::<f64>();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn trials(of: &[(f64, u32, u32)]) -> Vec<Trial> {
        let at = |(at, held, missed): &(f64, u32, u32)| {
            let trial = |held| Trial { at: *at, held };
            let held = std::iter::repeat_n(trial(true), *held as usize);
            held.chain(std::iter::repeat_n(trial(false), *missed as usize)).collect::<Vec<_>>()
        };
        of.iter().flat_map(at).collect()
    }

    #[test]
    fn a_step_is_between_the_two_sides() {
        let found = limit(&trials(&[(1.0, 6, 0), (1.025, 0, 6)]), 0.95).expect("both sides");
        assert!((found.at - 1.0125).abs() < 0.002, "{found:?}");
        assert!(found.lower > 0.99 && found.upper < 1.035, "{found:?}");
    }

    #[test]
    fn one_accident_moves_little() {
        let found = limit(&trials(&[(0.9, 0, 1), (1.0, 5, 0), (1.025, 0, 6)]), 0.95);
        let found = found.expect("both sides");
        assert!((found.at - 1.0125).abs() < 0.01 && found.lower < 1.0, "{found:?}");
    }

    #[test]
    fn one_side_is_no_limit() {
        assert_eq!(limit(&trials(&[(1.0, 9, 0)]), 0.95), None);
        assert_eq!(limit(&trials(&[(1.0, 0, 9)]), 0.95), None);
        assert_eq!(limit(&[], 0.95), None);
    }

    /// Twelve trials near it, of curves as soft as the prior has them.
    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut rng = Rng::new(11);
        let runs = 1_000;
        let mut covered = 0;
        for _ in 0..runs {
            let width = WIDTHS[rng.below(WIDTHS.len())];
            let truth = 0.05 * rng.normal();
            let trials: Vec<Trial> = (0..12)
                .map(|_| {
                    let at = 0.05 * rng.normal();
                    let curve = 1.0 / (1.0 + (LOGISTIC * (at - truth) / width).exp());
                    Trial { at, held: rng.unit() < LUCK + (1.0 - LUCK - 0.04) * curve }
                })
                .collect();
            let found = limit(&trials, 0.95);
            covered += u32::from(found.is_none_or(|f| f.lower <= truth && truth <= f.upper));
        }
        assert!((930..=985).contains(&covered), "{covered} of {runs}");
    }
}
