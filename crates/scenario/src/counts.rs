//! How often each check passed and failed: two numbers a check, which threads add up at the end.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    passed: Vec<u64>,
    failed: Vec<u64>,
    /// Cookies that a jar did not take: foreign, too large, or one too many.
    pub cookies_refused: u64,
}

impl Counts {
    /// For so many checks.
    #[must_use]
    pub fn new(checks: usize) -> Self {
        Self { passed: vec![0; checks], failed: vec![0; checks], cookies_refused: 0 }
    }

    pub fn count(&mut self, check: usize, passed: bool) {
        let side = if passed { &mut self.passed } else { &mut self.failed };
        side[check] += 1;
    }

    /// Adds those of another thread with the same scenario.
    pub fn add(&mut self, other: &Self) {
        let length = self.passed.len().max(other.passed.len());
        self.passed.resize(length, 0);
        self.failed.resize(length, 0);
        self.passed.iter_mut().zip(&other.passed).for_each(|(sum, more)| *sum += more);
        self.failed.iter_mut().zip(&other.failed).for_each(|(sum, more)| *sum += more);
        self.cookies_refused += other.cookies_refused;
    }

    #[must_use]
    pub fn passed(&self, check: usize) -> u64 {
        self.passed.get(check).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn failed(&self, check: usize) -> u64 {
        self.failed.get(check).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn failed_in_all(&self) -> u64 {
        self.failed.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let (mut one, mut two) = (Counts::new(2), Counts::new(2));
        one.count(0, true);
        two.count(0, true);
        two.count(1, false);
        one.add(&two);
        assert_eq!((one.passed(0), one.failed(1), one.failed_in_all()), (2, 1, 1));
        let mut empty = Counts::default();
        empty.add(&one);
        assert_eq!(empty, one);
    }
}
