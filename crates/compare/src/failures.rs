//! How often the servers of a variant have failed: one failure costs a block, too many end the run.
//! Pure.

use std::collections::BTreeMap;

/// So many blocks in a row without one that counts, and it will not get better.
const IN_A_ROW: usize = 3;

/// Failures by variant and group.
pub struct Failures {
    counts: BTreeMap<(String, String), Count>,
    /// A variant that fails now and then may cost as many blocks as the pilot has.
    most: usize,
}

#[derive(Default)]
struct Count {
    in_a_row: usize,
    in_all: usize,
}

impl Failures {
    pub fn new(pilot_blocks: usize) -> Self {
        Self { counts: BTreeMap::new(), most: pilot_blocks }
    }

    /// A block of the group counts.
    pub fn finished(&mut self, group: &str) {
        let of_group = self.counts.iter_mut().filter(|((known, _), _)| known == group);
        of_group.for_each(|(_, count)| count.in_a_row = 0);
    }

    /// A block was dropped; why the run is to end, if it is.
    pub fn failed(&mut self, group: &str, variant: &str) -> Option<String> {
        let count = self.counts.entry((group.to_owned(), variant.to_owned())).or_default();
        count.in_a_row += 1;
        count.in_all += 1;
        let tell = |often: String| Some(format!("`{variant}` failed in {often} of {group}"));
        if count.in_a_row >= IN_A_ROW {
            return tell(format!("{IN_A_ROW} blocks in a row"));
        }
        if count.in_all >= self.most {
            return tell(format!("{} blocks", count.in_all));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_or_a_pilot_of_them_end_the_run() {
        let mut failures = Failures::new(4);
        assert_eq!((failures.failed("g", "b"), failures.failed("g", "b")), (None, None));
        failures.finished("g");
        assert_eq!(failures.failed("g", "b"), None, "not in a row");
        assert_eq!(failures.failed("h", "b"), None, "another group");
        let fourth = failures.failed("g", "b").expect("too many");
        assert_eq!(fourth, "`b` failed in 4 blocks of g");
        (0..2).for_each(|_| assert_eq!(failures.failed("g", "a"), None));
        let third = failures.failed("g", "a").expect("too many");
        assert_eq!(third, "`a` failed in 3 blocks in a row of g");
    }
}
