//! Whether there are too few workers for what is asked, to be said once and not all the time.

/// Every worker is busy for so long before that is worth a line.
const FULL_NS: u64 = 1_000_000_000;
/// Some worker was idle for so long before it is worth another.
const CALM_NS: u64 = 10_000_000_000;

#[derive(Default)]
pub struct Pressure {
    /// Since when every worker is busy and no more may be started; 0: that is not so.
    full_ns: u64,
    /// When it last was so.
    last_full_ns: u64,
    said: bool,
}

impl Pressure {
    /// Tells how it is now; true when it is to be said that it is so.
    pub fn look(&mut self, full: bool, now_ns: u64) -> bool {
        if !full {
            self.full_ns = 0;
            self.said &= now_ns < self.last_full_ns + CALM_NS;
            return false;
        }
        self.last_full_ns = now_ns;
        if self.full_ns == 0 {
            self.full_ns = now_ns;
        }
        let say = !self.said && now_ns >= self.full_ns + FULL_NS;
        self.said |= say;
        say
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_busy_period_is_said_once() {
        let mut pressure = Pressure::default();
        let mut look = |full, at_s: u64| pressure.look(full, (100 + at_s) * S);
        assert!(!look(true, 0), "a moment is nothing");
        assert!(!look(false, 1));
        assert!(!look(true, 2));
        assert!(look(true, 3));
        assert!(!look(true, 20));
        assert!(!look(false, 21));
        assert!(!look(true, 22) && !look(true, 29), "the same period goes on");
        assert!(!look(false, 30) && !look(false, 39));
        assert!(!look(true, 40) && look(true, 41), "it was calm, and is not any more");
    }
}
