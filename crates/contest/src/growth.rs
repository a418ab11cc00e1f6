//! Whether code leaves memory behind. The kernel tells how far a process's data grew while a batch
//! ran many times; malloc asks it for 132 KiB at once, so that one process shows all or nothing and
//! only several together show how much an iteration leaves. Pure.

use drom_stats::{Estimate, Paired};

/// That it grows at all is told with this.
const CONFIDENCE: f64 = 0.99;

/// Bytes an iteration, of the processes that were looked at; `None` where no growth is shown.
#[must_use]
pub fn growth(bytes_an_iteration: &[f64]) -> Option<Estimate> {
    let found = Paired::new(bytes_an_iteration)?.t_interval(CONFIDENCE);
    (found.interval.low > 0.0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_everywhere_grows_and_one_step_is_none() {
        let step = 135_168.0 / 10_000.0;
        let steady: Vec<f64> = (0..16).map(|at| step * f64::from(7 + at % 2)).collect();
        let found = growth(&steady).expect("each process grew");
        assert!((found.centre / (7.5 * step) - 1.0).abs() < 1e-9, "{found:?}");
        let mut once = vec![0.0; 16];
        assert_eq!(growth(&once), None, "no growth at all");
        once[3] = step;
        assert_eq!(growth(&once), None, "one step of malloc's in one process");
        assert_eq!(growth(&[]), None);
    }
}
