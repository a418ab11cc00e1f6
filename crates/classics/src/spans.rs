//! Requests as spans of time: how many were open at once, when the first began. Pure.

use drom_load::Record;

/// The most records under way together; where one ends as another begins they were not.
#[must_use]
pub fn most_at_once(records: &[Record]) -> u64 {
    most(records.iter().map(|record| (record.exchange.begun_ns, record.ended_ns)))
}

pub fn most(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut edges: Vec<(u64, i64)> = spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    edges.sort_unstable();
    let (mut open, mut most) = (0, 0);
    for (_, step) in edges {
        open += step;
        most = most.max(open);
    }
    most.unsigned_abs()
}

/// From the first planned begin, however late it was, to the last end.
#[must_use]
pub fn whole_s(records: &[Record]) -> f64 {
    let first = records.iter().map(|record| record.exchange.planned_ns).min();
    let last = records.iter().map(|record| record.ended_ns).max();
    first.zip(last).map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_are_not_together() {
        assert_eq!(most([(0, 10), (10, 20), (20, 30)].into_iter()), 1);
        assert_eq!(most([(0, 10), (9, 20), (5, 30)].into_iter()), 3);
        assert_eq!(most([(0, 4), (9, 20), (5, 30)].into_iter()), 2);
        assert_eq!(most(std::iter::empty()), 0);
    }
}
