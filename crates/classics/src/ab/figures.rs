//! What ab counts and how: from the records of a run to the figures of its report. Pure.
//!
//! Definitions are those of ab 2.4, oddities and all: a page of another length than the first one
//! is a failed request, a 404 is none, one reset counts three times, and times are whole
//! microseconds. docs/ab.md says which figure to believe.

use drom_load::{ErrorKind, Outcome, Record};

use super::{Options, Secured};

/// All of a report but its words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub server: String,
    /// Of the first connection, where it is one of TLS.
    pub secured: Option<Secured>,
    /// Bytes of the first answer's body; those behind it are compared with it.
    pub document_bytes: u64,
    /// Those that no error of a socket ended; a connection that was closed is none.
    good: u64,
    pub taken_s: f64,
    pub done: u64,
    pub failed: u64,
    /// That failed at once: one that is refused fails later.
    pub connect: u64,
    refused: u64,
    pub receive: u64,
    pub length: u64,
    pub exceptions: u64,
    pub write_errors: u64,
    pub non_2xx: u64,
    pub kept: u64,
    pub read_bytes: u64,
    pub body_bytes: u64,
    pub sent_bytes: u64,
    /// Of each request that is done, in the order of their ends.
    pub times: Vec<Times>,
}

/// One request's, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The engine's stamp of its begin.
    pub begun_ns: u64,
    pub connect_us: i64,
    pub wait_us: i64,
    pub total_us: i64,
}

/// One line of the table of connection times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    pub min: i64,
    pub mean: i64,
    pub sd: f64,
    pub median: i64,
    pub max: i64,
}

/// Whether ab would end the run here: without `-r` any error of a socket does; a timeout always.
/// What it says before it ends and its status are the request's error.
#[must_use]
pub fn ends_run(goes_on: bool) -> fn(&Record) -> bool {
    let always = |record: &Record| record.error == Some(ErrorKind::Timeout);
    let any = |record: &Record| {
        record.error == Some(ErrorKind::Timeout)
            || record.os_error.is_some_and(|code| code != EPIPE)
    };
    if goes_on { always } else { any }
}

/// A broken pipe is a "write error", which ends nothing. The number is Linux's.
const EPIPE: i32 = 32;
const ECONNREFUSED: i32 = 111;

impl Figures {
    #[must_use]
    pub fn of(options: &Options, outcome: &Outcome, request_bytes: u64) -> Self {
        let mut figures = Self {
            server: server(&outcome.first_head),
            secured: outcome.secured.as_ref().map(|facts| Secured::of(options, facts)),
            taken_s: outcome.duration.as_micros() as f64 / 1e6,
            read_bytes: outcome.bytes_read,
            ..Self::default()
        };
        for record in &outcome.records {
            figures.count(options, record);
        }
        let connected = outcome.sent.saturating_sub(figures.connect + figures.refused);
        figures.sent_bytes = connected * request_bytes;
        figures
    }

    fn count(&mut self, options: &Options, record: &Record) {
        self.body_bytes += record.exchange.body_bytes;
        match (record.error, record.os_error) {
            (Some(ErrorKind::Connect), Some(ECONNREFUSED)) => return self.count_refused(record),
            (Some(ErrorKind::Connect), _) => {
                (self.connect, self.failed) = (self.connect + 1, self.failed + 1);
                return;
            }
            _ => {}
        }
        self.done += 1;
        self.times.push(Times::of(record));
        self.kept += u64::from(record.kept);
        self.non_2xx += u64::from(record.error.is_none() && record.status / 100 != 2);
        match (record.error, record.os_error) {
            (Some(_), Some(EPIPE)) | (Some(ErrorKind::Write), _) => self.write_errors += 1,
            // The call fails, and then the socket is reported as broken.
            (Some(_), Some(_)) => {
                self.receive += 1;
                self.exceptions += 1;
                self.failed += 2;
            }
            (Some(ErrorKind::Protocol), _) => {
                self.exceptions += 1;
                self.failed += 1;
            }
            _ => {}
        }
        let bytes = record.exchange.body_bytes;
        self.good += u64::from(record.os_error.is_none());
        // As ab has it: also of one that is reset right behind the first good one.
        if self.good == 1 {
            self.document_bytes = bytes;
        } else if !options.variable_length && bytes != self.document_bytes {
            self.length += 1;
            self.failed += 1;
        }
    }

    /// ab hears of it by a read that fails; then the same report of the socket is an exception, at
    /// which it reads the next connection, too, refused as well: two are three failures, and the
    /// last one of an odd number is as many.
    fn count_refused(&mut self, record: &Record) {
        if self.refused.is_multiple_of(2) {
            self.receive += 2;
            self.exceptions += 1;
            self.failed += 3;
        }
        self.refused += 1;
        self.done += 1;
        self.times.push(Times::of(record));
    }

    #[must_use]
    pub fn connects(&self) -> Column {
        column(self.times.iter().map(|times| times.connect_us))
    }

    #[must_use]
    pub fn processings(&self) -> Column {
        column(self.times.iter().map(|times| times.total_us - times.connect_us))
    }

    #[must_use]
    pub fn waits(&self) -> Column {
        column(self.times.iter().map(|times| times.wait_us))
    }

    #[must_use]
    pub fn totals(&self) -> Column {
        column(self.times.iter().map(|times| times.total_us))
    }

    /// All total times in microseconds, the longest last.
    #[must_use]
    pub fn sorted_totals(&self) -> Vec<i64> {
        let mut totals: Vec<i64> = self.times.iter().map(|times| times.total_us).collect();
        totals.sort_unstable();
        totals
    }
}

impl Times {
    /// Stamps are cut to microseconds first, as a clock of microseconds has them.
    fn of(record: &Record) -> Self {
        let exchange = record.exchange;
        let us = |stamp_ns: u64| (stamp_ns / 1_000) as i64;
        let between = |from_ns: u64, to_ns: u64| (us(to_ns) - us(from_ns)).max(0);
        let wait_us = match exchange.first_byte_ns {
            0 => 0,
            first_byte_ns => between(exchange.sent_ns, first_byte_ns),
        };
        Self {
            begun_ns: exchange.begun_ns,
            connect_us: between(exchange.begun_ns, exchange.written_ns),
            wait_us,
            total_us: between(exchange.begun_ns, record.ended_ns),
        }
    }
}

/// Rounded to milliseconds, half up.
#[must_use]
pub fn round_ms(us: i64) -> i64 {
    (us + 500) / 1_000
}

/// The mean is cut to whole microseconds, and the deviation is from that one.
fn column(values: impl Iterator<Item = i64>) -> Column {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    let (Some(min), Some(max)) = (values.first(), values.last()) else {
        return Column { min: 0, mean: 0, sd: 0.0, median: 0, max: 0 };
    };
    let mean = values.iter().sum::<i64>() / values.len() as i64;
    let squares: f64 = values.iter().map(|value| ((value - mean) as f64).powi(2)).sum();
    let sd = if values.len() > 1 { (squares / (values.len() - 1) as f64).sqrt() } else { 0.0 };
    Column {
        min: round_ms(*min),
        mean: round_ms(mean),
        sd: sd / 1_000.0,
        median: round_ms(median(&values)),
        max: round_ms(*max),
    }
}

/// ab's: of an odd number the one in the middle and the next above are averaged, of an even one it
/// is the upper of the two. It is the other way round everywhere else.
fn median(sorted: &[i64]) -> i64 {
    let half = sorted.len() / 2;
    if sorted.len() > 1 && sorted.len() % 2 == 1 {
        (sorted[half] + sorted[half + 1]) / 2
    } else {
        sorted[half]
    }
}

/// The first word of the first answer's `Server` header.
fn server(head: &[u8]) -> String {
    let head = String::from_utf8_lossy(head);
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let server = fields.filter(|(name, _)| name.eq_ignore_ascii_case("server")).map(|(_, v)| v);
    let word = server.flat_map(|value| value.split_whitespace().next()).next();
    word.unwrap_or_default().chars().take_while(|c| !c.is_control()).collect()
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
