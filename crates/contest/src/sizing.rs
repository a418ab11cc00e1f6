//! How many iterations make a batch: as many as take a given time, so that the clock and the turn
//! from one batch to the next weigh nothing. Pure.

/// A batch that takes this part of the time is long enough: sizes must not hunt for it.
const ENOUGH: f64 = 0.7;
/// The next guess is so many times as large at most, for what was so short was mostly the clock.
const GROWTH_MAX: f64 = 16.0;
/// Code of which so many iterations do not fill a batch does nothing.
const ITERATIONS_MAX: u64 = 1 << 32;

/// The search for a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizing {
    target_ns: f64,
    iterations: u64,
    is_found: bool,
}

impl Sizing {
    #[must_use]
    pub fn new(target_ns: f64) -> Self {
        Self { target_ns, iterations: 1, is_found: false }
    }

    /// What is tried next, or what was found.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    #[must_use]
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    /// So long the last one took.
    pub fn take(&mut self, ns: f64) {
        if ns >= ENOUGH * self.target_ns || self.iterations >= ITERATIONS_MAX {
            self.is_found = true;
            return;
        }
        let factor = (self.target_ns / ns.max(1.0)).clamp(2.0, GROWTH_MAX);
        self.iterations = ((self.iterations as f64 * factor) as u64).min(ITERATIONS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code of so many ns behind a clock of 50 ns: its batch, and how many it took to find it.
    fn found(iteration_ns: f64) -> (u64, usize) {
        let mut sizing = Sizing::new(10e6);
        for tries in 0.. {
            if sizing.is_found() {
                return (sizing.iterations(), tries);
            }
            sizing.take(50.0 + iteration_ns * sizing.iterations() as f64);
        }
        unreachable!()
    }

    #[test]
    fn a_batch_takes_its_time_however_quick_the_code() {
        for iteration_ns in [5.0, 80.0, 1e3, 1e5, 3e6] {
            let (iterations, tries) = found(iteration_ns);
            let took_ns = iteration_ns * iterations as f64;
            assert!((7e6..16e6).contains(&took_ns), "{iteration_ns}: {iterations}");
            assert!(tries < 12, "{iteration_ns}: {tries} tries");
        }
        assert_eq!(found(2e9), (1, 1), "longer than a batch");
    }

    #[test]
    fn code_that_does_nothing_ends_the_search() {
        assert_eq!(found(0.0).0, ITERATIONS_MAX);
    }
}
