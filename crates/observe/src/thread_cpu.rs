//! What the calling thread has cost so far: CPU time, and time it waited for a CPU.

use std::time::Duration;

/// Readings of one thread; differences of two are what a piece of work cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    pub cpu: Duration,
    /// Runnable but not running; `None` where the kernel keeps no scheduler statistics.
    pub run_delay: Option<Duration>,
}

impl ThreadCpu {
    /// The calling thread's, since it began.
    #[must_use]
    pub fn own() -> Self {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid, exclusively owned timespec; every Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ts) };
        let cpu = Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32);
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat");
        Self { cpu, run_delay: schedstat.ok().and_then(|text| run_delay(&text)) }
    }

    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let run_delay = self.run_delay.zip(earlier.run_delay).map(|(a, b)| a.saturating_sub(b));
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), run_delay }
    }
}

/// The second field (Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat").
fn run_delay(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_field_is_the_run_delay() {
        assert_eq!(run_delay("123 456 7\n"), Some(Duration::from_nanos(456)));
        assert_eq!(run_delay(""), None);
        assert_eq!(run_delay("1 x 2"), None);
    }

    #[test]
    fn work_costs_cpu_time() {
        let before = ThreadCpu::own();
        let sum = (0..3_000_000u64).fold(0u64, |sum, i| std::hint::black_box(sum ^ i));
        std::hint::black_box(sum);
        assert!(ThreadCpu::own().since(before).cpu > Duration::ZERO);
    }
}
