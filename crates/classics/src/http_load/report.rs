//! http_load's report and what it complains of, from the records of a run. Pure.

use std::collections::BTreeMap;

use drom_load::{ErrorKind, Record};

use super::{End, Options, Url};
use crate::{
    number::general,
    spans::{most_at_once, whole_s},
};

/// All of a report but its words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub fetches: u64,
    pub most_at_once: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Mean, maximum, minimum in milliseconds, of those that got so far.
    pub connect_ms: Option<[f64; 3]>,
    pub first_response_ms: Option<[f64; 3]>,
    pub timeouts: u64,
    /// Fetches that brought something else than the first one of the same URL: other sums where
    /// those are asked for, else another number of bytes.
    pub bad_sums: u64,
    pub bad_bytes: u64,
    pub statuses: BTreeMap<u16, u64>,
}

impl Figures {
    /// Of what ended until the end: when the seconds are over, what is under way is thrown away.
    /// `stopped_s`: how long it went on where somebody stopped it.
    #[must_use]
    pub fn of(options: &Options, records: &[Record], stopped_s: Option<f64>) -> Self {
        let begun_ns = records.iter().map(|record| record.exchange.planned_ns).min().unwrap_or(0);
        let interval_ns = options.interval_ms().unwrap_or(0) * 1_000_000;
        // The clock of a rate starts an interval before the first fetch.
        let begun_ns = begun_ns.saturating_sub(interval_ns);
        let ended_ns = match options.end {
            End::Seconds(seconds) => begun_ns.saturating_add(seconds * 1_000_000_000),
            End::Fetches(_) => u64::MAX,
        };
        let is_in = |record: &&Record| record.ended_ns <= ended_ns;
        let done: Vec<Record> = records.iter().filter(is_in).copied().collect();
        let seconds = match options.end {
            End::Seconds(seconds) => stopped_s.unwrap_or(seconds as f64),
            End::Fetches(_) => whole_s(&done) + interval_ns as f64 / 1e9,
        };
        let bad = wrong_ones(options, &done).filter(|is_wrong| *is_wrong).count() as u64;
        let mut statuses = BTreeMap::new();
        for record in done.iter().filter(|record| record.status > 0) {
            *statuses.entry(record.status).or_default() += 1;
        }
        Self {
            fetches: done.len() as u64,
            most_at_once: most_at_once(records),
            bytes: done.iter().map(|record| record.exchange.body_bytes).sum(),
            seconds,
            connect_ms: spread(done.iter().filter_map(connect_us)),
            first_response_ms: spread(done.iter().filter_map(first_response_us)),
            timeouts: count(&done, |record| record.error == Some(ErrorKind::Timeout)),
            bad_sums: if options.checksum { bad } else { 0 },
            bad_bytes: if options.checksum { 0 } else { bad },
            statuses,
        }
    }
}

fn count(records: &[Record], is_one: impl Fn(&Record) -> bool) -> u64 {
    records.iter().filter(|record| is_one(record)).count() as u64
}

/// Of each, whether it is another than the first one of the same URL.
fn wrong_ones(options: &Options, records: &[Record]) -> impl Iterator<Item = bool> {
    let mut firsts = BTreeMap::new();
    let is_wrong = move |record: &Record| {
        let exchange = record.exchange;
        let own = if options.checksum { exchange.body_hash } else { exchange.body_bytes };
        *firsts.entry(exchange.row).or_insert(own) != own
    };
    records.iter().map(is_wrong)
}

/// Without a TLS handshake, which is a part of the wait for the answer; none for connections that
/// never were.
fn connect_us(record: &Record) -> Option<u64> {
    let exchange = record.exchange;
    let is_connected = exchange.ready_ns > 0;
    is_connected.then(|| exchange.connected_ns.saturating_sub(exchange.begun_ns) / 1_000)
}

fn first_response_us(record: &Record) -> Option<u64> {
    let exchange = record.exchange;
    let is_answered = exchange.first_byte_ns > 0;
    is_answered.then(|| exchange.first_byte_ns.saturating_sub(exchange.connected_ns) / 1_000)
}

fn spread(us: impl Iterator<Item = u64>) -> Option<[f64; 3]> {
    let us: Vec<u64> = us.collect();
    let (min, max) = (us.iter().min()?, us.iter().max()?);
    let mean = us.iter().sum::<u64>() as f64 / us.len() as f64;
    Some([mean, *max as f64, *min as f64].map(|us| us / 1_000.0))
}

/// From the first line to the last.
#[must_use]
pub fn report(figures: &Figures) -> String {
    let Figures { fetches, most_at_once, seconds, .. } = figures;
    let bytes = figures.bytes as f64;
    let mut text = format!(
        "{fetches} fetches, {most_at_once} max parallel, {} bytes, in {} seconds\n",
        general(bytes),
        general(*seconds)
    );
    if *fetches > 0 {
        text += &format!("{} mean bytes/connection\n", general(bytes / *fetches as f64));
    }
    if *seconds > 0.01 {
        let rates = [*fetches as f64 / seconds, bytes / seconds].map(general);
        text += &format!("{} fetches/sec, {} bytes/sec\n", rates[0], rates[1]);
    }
    let spreads = [("connect", figures.connect_ms), ("first-response", figures.first_response_ms)];
    for (name, [mean, max, min]) in spreads.into_iter().filter_map(|(n, s)| s.map(|s| (n, s))) {
        let (mean, max, min) = (general(mean), general(max), general(min));
        text += &format!("msecs/{name}: {mean} mean, {max} max, {min} min\n");
    }
    let bad = [
        (figures.timeouts, "timeouts"),
        (figures.bad_sums, "bad checksums"),
        (figures.bad_bytes, "bad byte counts"),
    ];
    for (number, what) in bad {
        if number > 0 {
            text += &format!("{number} {what}\n");
        }
    }
    text += "HTTP response codes:\n";
    text.extend(figures.statuses.iter().map(|(code, n)| format!("  code {code:03} -- {n}\n")));
    text
}

/// What http_load says of single fetches while it runs.
#[must_use]
pub fn complaints(options: &Options, urls: &[Url], records: &[Record]) -> String {
    let what = if options.checksum { "checksum" } else { "byte count" };
    let mut text = String::new();
    for (record, is_wrong) in records.iter().zip(wrong_ones(options, records)) {
        let url = urls.get(record.exchange.row as usize).map_or("", |url| &url.full);
        if record.error == Some(ErrorKind::Timeout) {
            text += &format!("{url}: timed out\n");
        }
        if is_wrong {
            text += &format!("{url}: {what} wrong\n");
        }
    }
    text
}
