//! One line on the terminal that tells how the run comes on; nothing when stderr is no terminal.

use std::io::IsTerminal;

use drom_load::Progress;

use super::text::{count, si_count};
use crate::say;

/// The line; it is overwritten each second and wiped at the end.
pub struct Line {
    wanted: bool,
    shown: bool,
}

impl Line {
    pub fn new(quiet: bool) -> Self {
        Self { wanted: !quiet && std::io::stderr().is_terminal(), shown: false }
    }

    pub fn show(&mut self, now: &Progress) {
        if self.wanted {
            self.shown = true;
            say::part(format!("\r\x1b[K{}", sentence(now)));
        }
    }

    pub fn clear(&mut self) {
        if self.shown {
            say::part("\r\x1b[K");
        }
    }
}

fn sentence(now: &Progress) -> String {
    let (elapsed, requests) = (now.elapsed.as_secs_f64(), count(now.requests));
    let phase = if now.warming_up { "warming up" } else { "measuring" };
    let rate = si_count(now.rate_rps);
    let mut line = format!("{phase}  {elapsed:.0} s  {requests} requests  {rate}/s");
    if now.failed > 0 {
        line += &format!("  {} failed", count(now.failed));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_line_says_what_counts() {
        let now = Progress {
            elapsed: Duration::from_millis(3_010),
            requests: 361_000,
            failed: 12,
            rate_rps: 120_400.0,
            warming_up: false,
            last: None,
        };
        assert_eq!(sentence(&now), "measuring  3 s  361,000 requests  120,400/s  12 failed");
    }
}
