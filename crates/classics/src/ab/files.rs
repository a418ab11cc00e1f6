//! The files of `-e` and `-g`. Pure: text comes out.

use super::figures::{Figures, round_ms};
use crate::WallClock;

/// Each percent from the fastest request to the slowest. Its index rounds where that of the
/// report's table cuts, so that the two can differ by one request.
#[must_use]
pub fn percentile_csv(figures: &Figures) -> String {
    let totals = figures.sorted_totals();
    let mut text = "Percentage served,Time in ms\n".to_owned();
    let Some(last) = totals.len().checked_sub(1) else { return text };
    for percent in 0..=100 {
        let at = match percent {
            0 => 0,
            100 => last,
            // Past the end of a single request, where ab reads what is behind it.
            _ => ((0.5 + totals.len() as f64 * f64::from(percent) / 100.0) as usize).min(last),
        };
        text += &format!("{percent},{:.3}\n", totals[at] as f64 / 1_000.0);
    }
    text
}

/// A line a request, the fastest first: not in the order of time, as plots of it pretend.
#[must_use]
pub fn gnuplot(figures: &Figures, clock: WallClock) -> String {
    let mut times = figures.times.clone();
    times.sort_by_key(|times| times.total_us);
    let mut text = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    for times in times {
        let started = clock.local(times.begun_ns);
        let (connect, total) = (times.connect_us, times.total_us);
        text += &format!(
            "{started}\t{}\t{}\t{}\t{}\t{}\n",
            clock.unix_s(times.begun_ns),
            round_ms(connect),
            round_ms(total - connect),
            round_ms(total),
            round_ms(times.wait_us)
        );
    }
    text
}
