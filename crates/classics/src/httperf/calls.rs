//! Which calls a run of httperf makes: one again and again, or what `--wset`, `--wlog` and
//! `--wsesslog` say, on connections with several calls or in sessions with pauses. Pure.
//!
//! Each different request is a row, and requests that are written together are a burst of rows;
//! what a connection or session does is a scenario that asks for bursts by their numbers.

use std::ops::Range;

use super::{Options, Printed, Wset, request, request_of, session_log::Session};

/// A run with more to it than one request again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Row by row.
    pub requests: Vec<Vec<u8>>,
    /// Of rows.
    pub bursts: Vec<Range<u32>>,
    /// Connections, or sessions.
    pub rounds: u64,
    /// In each, by its first row, where they differ; else one entry for all.
    pub lengths: Vec<(u32, u64)>,
    /// In the scenario's language, with a file [`Calls::FILE`] of [`Calls::rows`]; empty where the
    /// engine needs none.
    pub scenario: String,
}

impl Calls {
    pub const FILE: &'static str = "calls.csv";

    /// `uris` are those of `--wlog`, `sessions` those of `--wsesslog`.
    #[must_use]
    pub fn of(options: &Options, uris: &str, sessions: &[Session]) -> Self {
        if options.wsesslog.is_some() {
            return Self::of_sessions(options, sessions);
        }
        if options.wset.is_some() || options.wlog.is_some() {
            return Self::of_list(options, uris);
        }
        if options.wsess.is_none() && options.num_calls == 1 {
            return Self::again_and_again(options);
        }
        Self::of_one(options)
    }

    /// Calls of the session or connection that begins with this row.
    #[must_use]
    pub fn length(&self, row: u32) -> u64 {
        let behind = self.lengths.partition_point(|(first, _)| *first <= row);
        behind.checked_sub(1).map_or(0, |at| self.lengths[at].1)
    }

    /// The most of one session or connection.
    #[must_use]
    pub fn length_max(&self) -> u64 {
        self.lengths.iter().map(|(_, calls)| *calls).max().unwrap_or(0)
    }

    /// The file that the scenario names.
    #[must_use]
    pub fn rows(&self) -> String {
        let numbers = (0..self.bursts.len()).map(|burst| format!("{burst}\n"));
        "burst\n".to_owned() + &numbers.collect::<String>()
    }

    fn again_and_again(options: &Options) -> Self {
        let (rounds, calls) = rounds(options);
        let requests = vec![request(options)];
        Self { requests, rounds, lengths: vec![(0, calls)], ..Self::default() }
    }

    /// One request in bursts of several lengths: burst 3 has 3 of them.
    fn of_one(options: &Options) -> Self {
        let (rounds, calls) = rounds(options);
        let most = u64::from(options.burst_length.max(1)).min(calls) as u32;
        Self {
            requests: vec![request(options); most as usize],
            bursts: (0..=most).map(|length| 0..length).collect(),
            rounds,
            lengths: vec![(0, calls)],
            scenario: round(options, calls, &|name, length| {
                step(name, &length.to_string(), &label(options.method(), &options.uri, length))
            }),
        }
    }

    /// Calls that take the next request of a list, one at a time.
    fn of_list(options: &Options, uris: &str) -> Self {
        let (rounds, calls) = rounds(options);
        let uris = match options.wset {
            Some(wset) => pages(options, wset, rounds.saturating_mul(calls)),
            None => uris.split('\0').filter(|uri| !uri.is_empty()).map(str::to_owned).collect(),
        };
        let ends = options.wlog.as_ref().is_some_and(|wlog| !wlog.wraps);
        let most = (uris.len() as u64).div_ceil(calls.max(1));
        let feeder = format!(
            "[feeder.calls]\nfile = \"{}\"\ntake = \"request\"\nonce = {ends}\n",
            Self::FILE
        );
        let one = |name: &str, length: u64| {
            let label = format!("{}, URI by URI", options.method());
            step(name, "{{calls.burst}}", &label) + &format!("repeat = {length}\n")
        };
        Self {
            requests: uris
                .iter()
                .map(|uri| request_of(options, options.method(), uri, b""))
                .collect(),
            bursts: (0..uris.len() as u32).map(|row| row..row + 1).collect(),
            rounds: if ends { rounds.min(most) } else { rounds },
            lengths: vec![(0, calls)],
            scenario: BASE.to_owned() + &feeder + &round(options, calls, &one)[BASE.len()..],
        }
    }

    /// Sessions as a file has them, from the first one again behind the last.
    fn of_sessions(options: &Options, sessions: &[Session]) -> Self {
        let rounds = options.wsesslog.as_ref().map_or(0, |log| log.sessions);
        let mut calls = Self { rounds, scenario: BASE.to_owned(), ..Self::default() };
        for session in sessions {
            calls.add_session(options, session);
        }
        calls
    }

    fn add_session(&mut self, options: &Options, session: &Session) {
        let length = session.bursts.iter().map(|burst| burst.calls.len() as u64).sum();
        self.lengths.push((self.requests.len() as u32, length));
        self.scenario += &format!("[[scenario]]\nname = \"session {}\"\n", self.lengths.len());
        for (at, burst) in session.bursts.iter().enumerate() {
            for call in &burst.calls {
                let method = call.method;
                self.requests.push(request_of(options, method, &call.uri, &call.contents));
            }
            // The first one is a page, and what comes with it the pictures on it.
            let rows = (self.requests.len() - burst.calls.len()) as u32..self.requests.len() as u32;
            for part in [rows.start..rows.start + 1, rows.start + 1..rows.end] {
                if !part.is_empty() {
                    let first = &burst.calls[(part.start - rows.start) as usize];
                    let label = label(first.method, &first.uri, part.len() as u64);
                    let number = self.bursts.len().to_string();
                    self.scenario += &step("scenario.step", &number, &label);
                    self.bursts.push(part);
                }
            }
            if at + 1 < session.bursts.len() {
                self.scenario += &pause("scenario.step", burst.think_s);
            }
        }
    }
}

const BASE: &str = "base = \"http://server\"\n";

/// How many connections or sessions, and the calls of each.
fn rounds(options: &Options) -> (u64, u64) {
    let session = options.wsess.map(|wsess| (wsess.sessions, wsess.calls));
    session.unwrap_or((options.num_conns, options.num_calls))
}

fn pages(options: &Options, wset: Wset, calls: u64) -> Vec<String> {
    let client = options.client;
    (0..calls).map(|call| page(options, wset, call, client)).collect()
}

/// Page 12 of 1000 is `/0/1/2.html`. The clients take turns.
fn page(options: &Options, wset: Wset, call: u64, (id, of): (u32, u32)) -> String {
    let steps = (wset.step * (call + 1) as f64) as u64;
    let number = u64::from(id).wrapping_add(steps.wrapping_mul(u64::from(of))) % wset.pages;
    let digits = (wset.pages - 1).to_string().len();
    let path: String =
        format!("{number:0digits$}").chars().flat_map(|digit| ['/', digit]).collect();
    format!("{}{path}.html", options.uri.trim_end_matches('/'))
}

/// A connection or session: bursts, with pauses between those of a session. `calls_of` writes a
/// step with so many calls.
fn round(options: &Options, calls: u64, calls_of: &dyn Fn(&str, u64) -> String) -> String {
    let burst = u64::from(options.burst_length.max(1));
    let think_s = options.wsess.map_or(0.0, |wsess| wsess.think_s);
    let part = |name: &str, length: u64| -> String {
        // A session's first call of a burst is alone: what it brings says what else there is.
        let first = if options.wsess.is_some() { length.min(1) } else { 0 };
        let parts = [first, length - first].into_iter().filter(|length| *length > 0);
        parts.map(|length| calls_of(name, length)).collect()
    };
    // Behind the last burst there is no pause.
    let whole = calls.saturating_sub(1) / burst;
    let mut text = BASE.to_owned();
    if whole > 0 {
        text += &format!("[[step]]\nrepeat = {whole}\n");
        text += &part("step.step", burst);
        text += &pause("step.step", think_s);
    }
    text + &part("step", calls - whole * burst)
}

fn step(name: &str, burst: &str, label: &str) -> String {
    format!("[[{name}]]\nname = \"{label}\"\nurl = \"/{burst}\"\n")
}

/// What reports call a step, fit to stand between quotes.
fn label(method: &str, uri: &str, length: u64) -> String {
    let is_plain = |c: char| (c.is_ascii_graphic() && !matches!(c, '"' | '\\')) || c == ' ';
    let more = if length > 1 { format!(" and {} more at once", length - 1) } else { String::new() };
    let text = format!("{method} {uri}{more}");
    text.chars().map(|c| if is_plain(c) { c } else { '?' }).collect()
}

fn pause(name: &str, think_s: f64) -> String {
    if think_s <= 0.0 {
        return String::new();
    }
    format!("[[{name}]]\nthink = \"{}us\"\n", (think_s * 1e6) as u64)
}

/// `--print-request`: of so many requests, by their rows.
#[must_use]
pub fn printed(part: Printed, requests: &[&[u8]]) -> String {
    let mut text = String::new();
    for (number, request) in requests.iter().enumerate() {
        let whole = String::from_utf8_lossy(request);
        let (head, contents) = whole.split_once("\r\n\r\n").unwrap_or((&whole, ""));
        if part != Printed::Body {
            let lines = head.split("\r\n").chain([""]);
            lines.for_each(|line| text += &format!("SH{number}:{line}\r\n"));
        }
        if part != Printed::Header && !contents.is_empty() {
            text += &format!("SB{number}:{contents}\n");
        }
        let head = request.len() - contents.len();
        text += &format!("SS{number}: header {head} content {}\n", contents.len());
    }
    text
}
