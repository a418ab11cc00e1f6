//! The rate over the window in steps of equal length, from marks that each thread makes about
//! fifty times: no answer costs a stamp more. Pure.

use std::time::Duration;

/// Steps of a window.
pub const STEPS: usize = 50;

/// So many good answers, so long after the window opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub after_ns: u64,
    pub ok: u64,
}

/// Good answers a second in each step, over all threads.
pub fn rates(threads: &[&[Mark]], window: Duration) -> Vec<f64> {
    let window_ns = window.as_nanos() as f64;
    if window_ns <= 0.0 {
        return Vec::new();
    }
    let until = |step: usize| -> f64 {
        let at_ns = window_ns * step as f64 / STEPS as f64;
        threads.iter().map(|marks| answers_until(marks, at_ns)).sum()
    };
    let counts: Vec<f64> = (0..=STEPS).map(until).collect();
    let step_s = window.as_secs_f64() / STEPS as f64;
    counts.windows(2).map(|pair| (pair[1] - pair[0]) / step_s).collect()
}

/// Between two marks the rate is taken as even.
fn answers_until(marks: &[Mark], at_ns: f64) -> f64 {
    let (mut before_ns, mut before) = (0.0, 0.0);
    for mark in marks {
        let (after_ns, ok) = (mark.after_ns as f64, mark.ok as f64);
        if after_ns >= at_ns {
            let share = (at_ns - before_ns) / (after_ns - before_ns).max(1.0);
            return before + (ok - before) * share.clamp(0.0, 1.0);
        }
        (before_ns, before) = (after_ns, ok);
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_threads_add_up_to_an_even_grid() {
        let window = Duration::from_secs(1);
        let mark = |after_ms: u64, ok| Mark { after_ns: after_ms * 1_000_000, ok };
        // One thread is slow for half of the window; marks may be late.
        let slow = [mark(33, 33), mark(500, 500), mark(731, 962), mark(1_000, 1_500)];
        let even = [mark(400, 400), mark(1_001, 1_001)];
        let rates = rates(&[&slow, &even], window);
        assert_eq!(rates.len(), STEPS);
        assert!(rates[..25].iter().all(|rate| (rate - 2_000.0).abs() < 1.0), "{rates:?}");
        assert!(rates[26..].iter().all(|rate| (rate - 3_000.0).abs() < 10.0), "{rates:?}");
        let answers: f64 = rates.iter().sum::<f64>() / STEPS as f64;
        assert!((answers - 2_500.0).abs() < 1.5, "{answers}");
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(rates(&[], Duration::ZERO).is_empty());
        assert!(rates(&[&[]], Duration::from_secs(1)).iter().all(|rate| *rate == 0.0));
    }
}
