//! The one clock. Everything that measures time asks here, so that a test can find every place that
//! does (`tidy` refuses `Instant::now` elsewhere) and so that all figures share one origin.

use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds of `CLOCK_MONOTONIC`: comparable between threads and processes of one machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, exclusively owned timespec; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_REALTIME`, the clock of the kernel's stamps; it may be set meanwhile.
#[must_use]
pub fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A point in monotonic time, for deadlines inside one process.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// What the wall's clock showed, or will show, at a time of [`monotonic_ns`].
#[must_use]
pub fn wall_at(at_ns: u64) -> SystemTime {
    let (wall, now_ns) = (SystemTime::now(), monotonic_ns());
    let (passed, ahead) = (now_ns.saturating_sub(at_ns), at_ns.saturating_sub(now_ns));
    wall - Duration::from_nanos(passed) + Duration::from_nanos(ahead)
}

/// Sleeps at least `pause`.
pub fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_passes() {
        let before = monotonic_ns();
        sleep(Duration::from_millis(2));
        assert!(monotonic_ns() - before >= 2_000_000);
    }
}
