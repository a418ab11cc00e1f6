//! httperf's report from the records of a run. Pure.
//!
//! Definitions are httperf 0.9's: a connection's time is its life, the median comes from bins of a
//! millisecond, sizes are cut off to whole bytes, reply rates come from samples of five seconds of
//! which the last, shorter one is left out, and "addrunavail" is always 0: what it should count is
//! under "other".

use std::collections::BTreeMap;

use drom_load::{ErrorKind, Record};

use super::{Calls, Options, Sessions};
use crate::spans::{most, whole_s};

/// Seconds of a sample.
const SAMPLE_S: f64 = 5.0;
const BIN_MS: f64 = 1.0;

/// What the process used, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    pub user_s: f64,
    pub system_s: f64,
}

/// All of a report but its words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub burst: u64,
    pub connections: u64,
    pub requests: u64,
    pub replies: u64,
    pub duration_s: f64,
    pub most_at_once: u64,
    /// Of connections with a reply, in milliseconds.
    pub lifetimes: Spread,
    pub lifetime_median_ms: f64,
    pub lives: u64,
    pub connect_ms: f64,
    pub request_bytes: u64,
    pub reply_rates: Spread,
    pub samples: usize,
    pub response_ms: f64,
    pub transfer_ms: f64,
    pub header_bytes: u64,
    pub content_bytes: u64,
    /// By class, 1xx first.
    pub statuses: [u64; 5],
    pub cpu: Cpu,
    pub errors: Errors,
    pub sessions: Option<Sessions>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
    pub sd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    pub client_timeout: u64,
    pub socket_timeout: u64,
    pub refused: u64,
    pub reset: u64,
    pub no_descriptor: u64,
    pub table_full: u64,
    pub other: u64,
}

/// A connection from its connect to its last reply.
struct Life {
    begun_ns: u64,
    ended_ns: u64,
    connect_ms: Option<f64>,
    replies: u64,
}

impl Figures {
    /// `calls` are those of the run, or one request again and again; `burst` is the most
    /// connections that began together.
    #[must_use]
    pub fn of(options: &Options, records: &[Record], calls: &Calls, burst: u64, cpu: Cpu) -> Self {
        let lives = lives(records);
        let times: Vec<f64> = lives.iter().filter(|l| l.replies > 0).map(Life::ms).collect();
        let connects: Vec<f64> = lives.iter().filter_map(|life| life.connect_ms).collect();
        let replied = || records.iter().filter(|record| record.status > 0);
        let content: u64 = replied().map(|record| record.exchange.body_bytes).sum();
        let wire: u64 = replied().map(|record| record.exchange.wire_bytes).sum();
        let responses: Vec<f64> = records.iter().filter_map(response_ms).collect();
        let transfers: Vec<f64> = replied().map(transfer_ms).collect();
        let ends: Vec<u64> = replied().map(|record| record.ended_ns).collect();
        let rates = rates(options, records, &ends);
        let duration_s = whole_s(records);
        let sent = || records.iter().filter(|record| record.exchange.ready_ns > 0);
        let row = |record: &Record| calls.requests.get(record.exchange.row as usize);
        let bytes = |record: &Record| row(record).map(|request| request.len() as u64);
        let sessions =
            options.is_sessions().then(|| Sessions::of(options, calls, records, duration_s));
        let errors = Errors::of(records);
        let mut statuses = [0; 5];
        for record in replied() {
            statuses[usize::from(record.status / 100).clamp(1, 5) - 1] += 1;
        }
        Self {
            burst: burst.max(u64::from(lives.len() > 1)),
            connections: (lives.len() as u64).saturating_sub(errors.no_socket()),
            requests: sent().count() as u64,
            replies: replied().count() as u64,
            duration_s,
            most_at_once: most(lives.iter().map(|life| (life.begun_ns, life.ended_ns))),
            lifetimes: Spread::of(&times),
            lifetime_median_ms: binned_median(&times),
            lives: times.len() as u64,
            connect_ms: Spread::of(&connects).mean,
            request_bytes: sent().filter_map(bytes).sum(),
            reply_rates: Spread::of(&rates),
            samples: rates.len(),
            response_ms: Spread::of(&responses).mean,
            transfer_ms: Spread::of(&transfers).mean,
            header_bytes: wire - content,
            content_bytes: content,
            statuses,
            cpu,
            errors,
            sessions,
        }
    }
}

impl Life {
    fn ms(&self) -> f64 {
        self.ended_ns.saturating_sub(self.begun_ns) as f64 / 1e6
    }
}

/// Connections in the order of their begins; a request that is the first on its socket begins one.
fn lives(records: &[Record]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut current: BTreeMap<u32, usize> = BTreeMap::new();
    for record in records {
        let exchange = record.exchange;
        if record.on_socket == 0 || !current.contains_key(&record.connection) {
            let took_ns = exchange.ready_ns.saturating_sub(exchange.begun_ns);
            let connect_ms = (exchange.ready_ns > 0).then_some(took_ns as f64 / 1e6);
            current.insert(record.connection, lives.len());
            let (begun_ns, ended_ns) = (exchange.begun_ns, record.ended_ns);
            lives.push(Life { begun_ns, ended_ns, connect_ms, replies: 0 });
        }
        let life = &mut lives[current[&record.connection]];
        life.ended_ns = record.ended_ns;
        life.replies += u64::from(record.status > 0);
    }
    lives
}

fn response_ms(record: &Record) -> Option<f64> {
    let exchange = record.exchange;
    let took_ns = exchange.first_byte_ns.saturating_sub(exchange.written_ns);
    (exchange.first_byte_ns > 0).then_some(took_ns as f64 / 1e6)
}

fn transfer_ms(record: &Record) -> f64 {
    record.ended_ns.saturating_sub(record.exchange.first_byte_ns) as f64 / 1e6
}

/// The middle of the bin in which half of them are reached.
fn binned_median(times_ms: &[f64]) -> f64 {
    let mut bins: Vec<u64> = times_ms.iter().map(|ms| (ms / BIN_MS) as u64).collect();
    bins.sort_unstable();
    let half = bins.len().div_ceil(2);
    let bin = half.checked_sub(1).and_then(|at| bins.get(at));
    bin.map_or(0.0, |bin| (*bin as f64 + 0.5) * BIN_MS)
}

/// What ended then, a second in each sample; the first one is as long as this client's turn says.
pub(super) fn rates(options: &Options, records: &[Record], ends_ns: &[u64]) -> Vec<f64> {
    let begun_ns = records.iter().map(|record| record.exchange.begun_ns).min().unwrap_or(0);
    let at_s = |ended_ns: u64| ended_ns.saturating_sub(begun_ns) as f64 / 1e9;
    let end_s = records.iter().map(|record| at_s(record.ended_ns)).fold(0.0, f64::max);
    let (id, of) = options.client;
    let (mut from_s, mut to_s) = (0.0, f64::from(id + 1) * SAMPLE_S / f64::from(of));
    let mut rates = Vec::new();
    while to_s <= end_s {
        let is_in = |ended_ns: &&u64| (from_s..to_s).contains(&at_s(**ended_ns));
        let ended = ends_ns.iter().filter(is_in).count();
        rates.push(ended as f64 / (to_s - from_s));
        (from_s, to_s) = (to_s, to_s + SAMPLE_S);
    }
    rates
}

impl Spread {
    /// Zeros without a value; the deviation of a sample, 0 of one value.
    pub(super) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            max: values.iter().copied().fold(0.0, f64::max),
            sd: if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

impl Errors {
    /// Numbers of errors are Linux's. What was written together on a connection fails together,
    /// and is one.
    fn of(records: &[Record]) -> Self {
        let mut errors = Self::default();
        let mut failed_ns: BTreeMap<u32, u64> = BTreeMap::new();
        for record in records {
            let Some(kind) = record.error else { continue };
            if failed_ns.insert(record.connection, record.ended_ns) == Some(record.ended_ns) {
                continue;
            }
            let place = match (kind, record.os_error) {
                (ErrorKind::Timeout, _) => &mut errors.client_timeout,
                (_, Some(110)) => &mut errors.socket_timeout,
                (_, Some(111)) => &mut errors.refused,
                (_, Some(104 | 32)) => &mut errors.reset,
                (_, Some(24)) => &mut errors.no_descriptor,
                (_, Some(23)) => &mut errors.table_full,
                // A reply that the server cuts off is no error to httperf, no reply is one.
                (ErrorKind::Closed, None) if record.exchange.status > 0 => continue,
                (ErrorKind::Closed, None) => &mut errors.reset,
                _ => &mut errors.other,
            };
            *place += 1;
        }
        errors
    }

    /// Those for which there was none were no connections.
    fn no_socket(&self) -> u64 {
        self.no_descriptor + self.table_full
    }

    fn total(&self) -> u64 {
        let Self { client_timeout, socket_timeout, refused, reset, .. } = self;
        let Self { no_descriptor, table_full, other, .. } = self;
        client_timeout + socket_timeout + refused + reset + no_descriptor + table_full + other
    }
}

/// From "Maximum connect burst length" on.
#[must_use]
pub fn report(figures: &Figures) -> String {
    format!("Maximum connect burst length: {}\n", figures.burst)
        + &connections(figures)
        + &requests(figures)
        + &replies(figures)
        + &machine(figures)
        + &errors(figures.errors)
        + &figures.sessions.as_ref().map_or_else(String::new, Sessions::text)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn connections(figures: &Figures) -> String {
    let Figures { connections, requests, replies, duration_s, .. } = figures;
    let Spread { min, mean, max, sd } = figures.lifetimes;
    let count = *connections as f64;
    format!(
        "\nTotal: connections {connections} requests {requests} replies {replies} \
         test-duration {duration_s:.3} s\n\n\
         Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)\n\
         Connection time [ms]: min {min:.1} avg {mean:.1} max {max:.1} median {:.1} \
         stddev {sd:.1}\n\
         Connection time [ms]: connect {:.1}\n\
         Connection length [replies/conn]: {:.3}\n",
        ratio(count, *duration_s),
        ratio(1e3 * duration_s, count),
        figures.most_at_once,
        figures.lifetime_median_ms,
        figures.connect_ms,
        ratio(*replies as f64, figures.lives as f64),
    )
}

fn requests(figures: &Figures) -> String {
    let (requests, duration_s) = (figures.requests as f64, figures.duration_s);
    format!(
        "\nRequest rate: {:.1} req/s ({:.1} ms/req)\nRequest size [B]: {:.1}\n",
        ratio(requests, duration_s),
        ratio(1e3 * duration_s, requests),
        whole_mean(figures.request_bytes, figures.requests),
    )
}

/// A mean in httperf's whole bytes: what is behind the point is cut off before it is printed.
fn whole_mean(bytes: u64, of: u64) -> f64 {
    bytes.checked_div(of).unwrap_or(0) as f64
}

fn replies(figures: &Figures) -> String {
    let Spread { min, mean, max, sd } = figures.reply_rates;
    let each = |bytes: u64| whole_mean(bytes, figures.replies);
    let (header, content) = (each(figures.header_bytes), each(figures.content_bytes));
    let [s1, s2, s3, s4, s5] = figures.statuses;
    format!(
        "\nReply rate [replies/s]: min {min:.1} avg {mean:.1} max {max:.1} stddev {sd:.1} \
         ({} samples)\n\
         Reply time [ms]: response {:.1} transfer {:.1}\n\
         Reply size [B]: header {header:.1} content {content:.1} footer 0.0 (total {:.1})\n\
         Reply status: 1xx={s1} 2xx={s2} 3xx={s3} 4xx={s4} 5xx={s5}\n",
        figures.samples,
        figures.response_ms,
        figures.transfer_ms,
        header + content,
    )
}

fn machine(figures: &Figures) -> String {
    let Cpu { user_s, system_s } = figures.cpu;
    let percent = |seconds: f64| 100.0 * ratio(seconds, figures.duration_s);
    let bytes = (figures.request_bytes + figures.header_bytes + figures.content_bytes) as f64;
    let bytes_a_second = ratio(bytes, figures.duration_s);
    format!(
        "\nCPU time [s]: user {user_s:.2} system {system_s:.2} \
         (user {:.1}% system {:.1}% total {:.1}%)\n\
         Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n",
        percent(user_s),
        percent(system_s),
        percent(user_s + system_s),
        bytes_a_second / 1024.0,
        8e-6 * bytes_a_second,
    )
}

fn errors(errors: Errors) -> String {
    let Errors { client_timeout, socket_timeout, refused, reset, .. } = errors;
    let Errors { no_descriptor, table_full, other, .. } = errors;
    format!(
        "\nErrors: total {} client-timo {client_timeout} socket-timo {socket_timeout} \
         connrefused {refused} connreset {reset}\n\
         Errors: fd-unavail {no_descriptor} addrunavail 0 ftab-full {table_full} other {other}\n",
        errors.total()
    )
}
