//! How a run comes on, on standard error: a view on a terminal, a line a second elsewhere.

use std::{io::IsTerminal, os::fd::AsRawFd};

use drom_load::Progress;
use drom_observe::{clock::monotonic_ns, self_cpu_s};

use super::{
    text::{count, si_count},
    view::{self, Frame, View},
};
use crate::{say, verbs::report::terminal_size};

/// What is shown while a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum How {
    /// A view on a terminal, a line a second elsewhere
    Auto,
    /// A line a second
    Lines,
    /// Nothing
    None,
}

/// Shows how the run comes on.
pub struct Show {
    how: How,
    connections: u32,
    view: View,
    /// Rows on the terminal, to be written over.
    rows: usize,
    /// Clock and CPU time of the last look.
    looked: (u64, f64),
}

impl Show {
    pub fn new(how: How, connections: u32) -> Self {
        let is_drawn = how == How::Auto && std::io::stderr().is_terminal();
        let how = if how == How::Auto && !is_drawn { How::Lines } else { how };
        let looked = (monotonic_ns(), self_cpu_s());
        Self { how, connections, view: View::default(), rows: 0, looked }
    }

    pub fn show(&mut self, now: &Progress<'_>) {
        match self.how {
            How::None => {}
            How::Lines => say::line(view::line(&sentence(now), now.last)),
            How::Auto => self.draw(now),
        }
    }

    /// The view goes away: the report takes its place. The terminal itself may have written `^C`
    /// behind it.
    pub fn clear(&mut self) {
        if self.rows > 0 {
            say::part(format!("\r\x1b[{}A\x1b[J", self.rows));
            self.rows = 0;
        }
    }

    /// One write over what is there, so that nothing flickers.
    fn draw(&mut self, now: &Progress<'_>) {
        self.view.take(now.last);
        let frame = self.frame();
        let rows = self.view.rows(&sentence(now), now, frame);
        let mut text = if self.rows > 0 { format!("\r\x1b[{}A", self.rows) } else { String::new() };
        rows.iter().for_each(|row| text += &format!("\r{row}\x1b[K\n"));
        say::part(text + "\x1b[J");
        self.rows = rows.len();
    }

    fn frame(&mut self) -> Frame {
        let (then_ns, then_s) = self.looked;
        self.looked = (monotonic_ns(), self_cpu_s());
        let passed_s = self.looked.0.saturating_sub(then_ns).max(1) as f64 / 1e9;
        let size = terminal_size(std::io::stderr().as_raw_fd());
        let (width, height) = size.unwrap_or((80, 24));
        Frame {
            width,
            height,
            has_utf8: say::has_utf8(),
            connections: self.connections,
            cpu: (self.looked.1 - then_s) / passed_s,
        }
    }
}

fn sentence(now: &Progress) -> String {
    let (elapsed, requests) = (now.elapsed.as_secs_f64(), count(now.requests));
    let phase = if now.warming_up { "warming up" } else { "measuring" };
    // Of the last whole second, where there is one.
    let rate = si_count(now.last.map_or(now.rate_rps, |last| last.rate_rps()));
    let mut line = format!("{phase}  {elapsed:.0} s  {rate}/s  {requests} requests");
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
            so_far: drom_load::SoFar::default(),
        };
        assert_eq!(sentence(&now), "measuring  3 s  120,400/s  361,000 requests  12 failed");
    }
}
