//! The live view: what the last seconds were like, in rows of plain text. Pure.
//!
//! Rows of the heat map are latencies on a logarithmic scale, columns seconds, the newest at the
//! right; the darker a cell, the larger its share of that second's answers.

use std::{collections::VecDeque, time::Duration};

use drom_load::{ErrorKind, Interval, Progress};

use super::text::{count, time_us};

/// More seconds than the widest terminal has columns.
const SECONDS_MAX: usize = 400;
/// Steps of the heat map in a power of ten.
const STEPS: f64 = 4.0;
/// From 1 us to beyond an hour.
const CELLS: usize = 40;
const TITLE_WIDTH: usize = 9;
const HEAT_ROWS_MAX: usize = 8;
/// Rows beside the heat map.
const ROWS_BESIDE: usize = 5;

/// What is remembered of the run.
#[derive(Default)]
pub struct View {
    seconds: VecDeque<Second>,
    newest: Option<Duration>,
    errors: [u64; ErrorKind::ALL.len()],
    in_flight: u64,
}

/// What the view has beside the run.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub width: usize,
    pub height: usize,
    /// Whether blocks and shades can be shown.
    pub has_utf8: bool,
    pub connections: u32,
    /// Cores' worth of CPU time that the client took over the last second.
    pub cpu: f64,
}

struct Second {
    rate_rps: f64,
    /// Answers of each step of latency.
    cells: [u64; CELLS],
}

impl View {
    /// Takes the last second of the window in, once.
    pub fn take(&mut self, last: Option<&Interval>) {
        let Some(last) = last.filter(|last| self.newest.is_none_or(|newest| last.start > newest))
        else {
            return;
        };
        self.newest = Some(last.start);
        self.in_flight = last.in_flight;
        for (kind, count) in &last.errors {
            let place = ErrorKind::ALL.iter().position(|known| known == kind);
            self.errors[place.unwrap_or(0)] += count;
        }
        let mut second = Second { rate_rps: last.rate_rps(), cells: [0; CELLS] };
        for value in last.latency().histogram().iter_recorded() {
            second.cells[cell(value.value_iterated_to())] += value.count_since_last_iteration();
        }
        self.seconds.push_back(second);
        if self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_front();
        }
    }

    /// The rows, none wider than the terminal.
    pub fn rows(&self, sentence: &str, now: &Progress<'_>, frame: Frame) -> Vec<String> {
        let mut rows = vec![sentence.to_owned()];
        let room = frame.width.saturating_sub(TITLE_WIDTH + 1).max(1);
        let shown = self.seconds.iter().rev().take(room).rev().collect::<Vec<_>>();
        if !shown.is_empty() && frame.height > ROWS_BESIDE + 2 {
            rows.push(titled("rate", &sparkline(&shown, frame.has_utf8)));
            let most = HEAT_ROWS_MAX.min(frame.height - ROWS_BESIDE - 1);
            rows.extend(heat(&shown, most, frame.has_utf8));
        }
        if now.so_far.failed > 0 {
            rows.push(titled("failed", &self.failures(now)));
        }
        let (cpu, in_flight) = (100.0 * frame.cpu, count(self.in_flight));
        let connections = count(u64::from(frame.connections));
        let client =
            format!("{cpu:.0} % of a core, {connections} connections, {in_flight} under way");
        rows.push(titled("client", &client));
        // In a low one the line below the last is the cursor's.
        let is_low = frame.height <= ROWS_BESIDE + 2;
        let most = if is_low { frame.height.saturating_sub(1).clamp(1, 2) } else { rows.len() };
        rows.truncate(most);
        let room = frame.width.saturating_sub(1);
        rows.iter().map(|row| fitting(row, room)).collect()
    }

    /// Of the same seconds as their kinds.
    fn failures(&self, now: &Progress<'_>) -> String {
        let errors: u64 = self.errors.iter().sum();
        let bad_answers = now.so_far.failed.saturating_sub(errors);
        let names = ErrorKind::ALL.iter().map(|kind| kind.name()).chain(["bad answers"]);
        let counts = self.errors.into_iter().chain([bad_answers]);
        let known = names.zip(counts).filter(|(_, failed)| *failed > 0);
        let kinds = known.map(|(name, failed)| format!("{} {name}", count(failed)));
        kinds.collect::<Vec<_>>().join(", ")
    }
}

/// Without its last parts where there is no room for them: a figure that is cut is another one.
fn fitting(row: &str, room: usize) -> String {
    let mut fits = row;
    while fits.chars().count() > room {
        let at = fits.rfind("  ").max(fits.rfind(", ")).unwrap_or(0);
        fits = fits[..at].trim_end();
    }
    if fits.is_empty() { row.chars().take(room).collect() } else { fits.to_owned() }
}

fn titled(title: &str, text: &str) -> String {
    format!("{title:>TITLE_WIDTH$} {text}")
}

fn cell(latency_ns: u64) -> usize {
    let steps = (latency_ns.max(1_000) as f64 / 1e3).log10() * STEPS;
    (steps as usize).min(CELLS - 1)
}

/// Where a step begins.
fn step_us(cell: usize) -> f64 {
    10_f64.powf(cell as f64 / STEPS)
}

fn sparkline(seconds: &[&Second], has_utf8: bool) -> String {
    let levels = if has_utf8 { "▁▂▃▄▅▆▇█" } else { "_.-=+*%#" };
    let levels: Vec<char> = levels.chars().collect();
    let top = seconds.iter().map(|second| second.rate_rps).fold(0.0, f64::max).max(1e-9);
    let level = |second: &&Second| match second.rate_rps {
        rate if rate <= 0.0 => ' ',
        rate => levels[((rate / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    seconds.iter().map(level).collect()
}

/// The slowest on top; steps are put together until they fit.
fn heat(seconds: &[&Second], most: usize, has_utf8: bool) -> Vec<String> {
    let shades: Vec<char> = if has_utf8 { " ·░▒▓█" } else { " .:+*#" }.chars().collect();
    let is_used = |cell: &usize| seconds.iter().any(|second| second.cells[*cell] > 0);
    let Some(lowest) = (0..CELLS).find(is_used) else { return Vec::new() };
    let highest = (0..CELLS).rfind(is_used).unwrap_or(lowest);
    let step = (highest - lowest + 1).div_ceil(most.max(1));
    let row = |from: usize| {
        let to = (from + step).min(CELLS);
        let cells = seconds.iter().map(|second| {
            let all = second.cells.iter().sum::<u64>().max(1) as f64;
            let part = second.cells[from..to].iter().sum::<u64>() as f64;
            shades[shade(part / all)]
        });
        titled(&time_us(step_us(from)), &cells.collect::<String>())
    };
    (lowest..highest + 1).step_by(step).map(row).rev().collect()
}

/// Of six: nothing, less than 1 %, 10 %, 30 %, 60 %, more.
fn shade(share: f64) -> usize {
    let limits = [0.0, 0.01, 0.1, 0.3, 0.6];
    limits.iter().filter(|limit| share > **limit).count()
}

/// A line a second, for files and pipes.
pub fn line(sentence: &str, last: Option<&Interval>) -> String {
    let Some(last) = last else { return sentence.to_owned() };
    let latency = last.latency();
    let at = |quantile: f64| time_us(latency.quantile_ns(quantile) as f64 / 1e3);
    let mut line = sentence.to_owned();
    if latency.count() > 0 {
        line += &format!("  p50 {}  p99 {}  max {}", at(0.5), at(0.99), at(1.0));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame =
        Frame { width: 40, height: 12, has_utf8: true, connections: 8, cpu: 0.345 };

    fn second(rate_rps: f64, latencies_us: &[(u64, u64)]) -> Second {
        let mut cells = [0; CELLS];
        latencies_us.iter().for_each(|(us, answers)| cells[cell(us * 1_000)] += answers);
        Second { rate_rps, cells }
    }

    fn now() -> Progress<'static> {
        Progress {
            elapsed: Duration::from_secs(3),
            requests: 300,
            failed: 3,
            rate_rps: 100.0,
            warming_up: false,
            last: None,
            so_far: drom_load::SoFar { failed: 3, ..Default::default() },
        }
    }

    #[test]
    fn a_figure_is_there_as_a_whole_or_not_at_all() {
        let row = "measuring  4 s  37,040/s  148,711 requests  2 failed";
        assert_eq!(fitting(row, 60), row);
        assert_eq!(fitting(row, 51), "measuring  4 s  37,040/s  148,711 requests");
        assert_eq!(fitting(row, 39), "measuring  4 s  37,040/s");
        assert_eq!(fitting("  client 5 % of a core, 4 connections", 35), "  client 5 % of a core");
        assert_eq!(fitting("  client", 4), "  cl");
    }

    #[test]
    fn slow_is_above_fast_and_new_is_at_the_right() {
        let seconds = [second(100.0, &[(1_000, 100)]), second(50.0, &[(1_000, 45), (100_000, 5)])];
        let mut errors = [0; ErrorKind::ALL.len()];
        errors[ErrorKind::Timeout as usize] = 3;
        let view = View { seconds: seconds.into(), errors, ..View::default() };
        let rows = view.rows("measuring", &now(), FRAME);
        assert_eq!(rows[1], "     rate █▄");
        assert_eq!(rows[2].trim_end(), "   100 ms  ░", "{rows:#?}");
        assert_eq!(rows.iter().filter(|row| row.ends_with("██")).count(), 1, "{rows:#?}");
        let tail = ["   failed 3 timeout", "   client 34 % of a core, 8 connections"];
        assert_eq!(rows[rows.len() - 2], tail[0]);
        assert!(rows[rows.len() - 1].starts_with(&tail[1][..30]), "{rows:#?}");
    }

    #[test]
    fn rows_fit_every_terminal() {
        let slow = (0..9).map(|power| (10_u64.pow(power), 1)).collect::<Vec<_>>();
        let seconds = (0..500).map(|_| second(1e6, &slow)).collect();
        let view = View { seconds, ..View::default() };
        for (width, height) in [(80, 24), (40, 12), (20, 6), (5, 2), (300, 60)] {
            let frame = Frame { width, height, has_utf8: false, ..FRAME };
            let rows = view.rows(&"measuring ".repeat(20), &now(), frame);
            assert!(rows.len() < height.max(2), "{width} x {height}: {rows:#?}");
            assert!(rows[0].starts_with("meas"), "what is most worth: {rows:#?}");
            assert!(rows.iter().all(|row| row.chars().count() < width), "{rows:#?}");
            assert!(rows.iter().all(|row| row.is_ascii() || row.contains('\u{b5}')), "{rows:#?}");
        }
    }

    #[test]
    fn a_shade_is_a_share() {
        let shares = [0.0, 0.005, 0.05, 0.2, 0.5, 1.0];
        assert_eq!(shares.map(shade), [0, 1, 2, 3, 4, 5]);
        assert_eq!((cell(0), cell(1_000), cell(u64::MAX)), (0, 0, 39));
    }
}
