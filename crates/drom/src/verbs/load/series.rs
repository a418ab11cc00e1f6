//! The run second by second: of JSON's `series`, a line each of `--csv-series`, and the log of
//! histograms that `--hdr` writes. Pure.

use std::{collections::BTreeMap, fmt::Write as _, time::UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drom_load::{ErrorKind, Interval, metric::STATISTICS};
use serde::Serialize;

use super::{json::Latencies, told::Told};

/// The first columns of the series, and what they are; latencies and errors follow.
pub const SINGLE: [(&str, &str); 9] = [
    ("start_s", "when it began, from the opening of the window"),
    ("length_s", "1; the last one is shorter, those of a run of over two hours are 2, 4, ..."),
    ("sent", "requests begun in it"),
    ("ok", "complete answers with a status below 400"),
    ("failed", "answers with a status of 400 or more, and errors"),
    ("bytes_read", "bytes of answers"),
    ("in_flight", "requests under way at its end"),
    ("waiting", "requests of an open loop that were due at its end and had no connection"),
    ("rate_rps", "complete answers a second"),
];

/// A second of the window; in runs over two hours more than one.
#[derive(Serialize)]
pub struct Second {
    pub start_s: f64,
    pub length_s: f64,
    sent: u64,
    ok: u64,
    failed: u64,
    bytes_read: u64,
    in_flight: u64,
    waiting: u64,
    pub rate_rps: f64,
    pub latency_us: Latencies,
    pub errors: BTreeMap<&'static str, u64>,
}

pub fn seconds(told: &Told<'_>) -> Vec<Second> {
    told.outcome.timeline.iter().map(second).collect()
}

/// A line a second with a header; times without an answer are empty.
pub fn csv(told: &Told<'_>) -> String {
    let statistics = STATISTICS.iter().map(|(name, _)| format!("latency_{name}_us"));
    let kinds = ErrorKind::ALL.iter().map(|kind| format!("errors_{}", kind.name()));
    let single = SINGLE.iter().map(|(name, _)| (*name).to_owned());
    let mut out = single.chain(statistics).chain(kinds).collect::<Vec<_>>().join(",") + "\n";
    for second in seconds(told) {
        let Second { sent, ok, failed, bytes_read, in_flight, waiting, .. } = second;
        let _ = write!(out, "{:.6},{:.6}", second.start_s, second.length_s);
        let _ = write!(out, ",{sent},{ok},{failed},{bytes_read},{in_flight},{waiting}");
        let _ = write!(out, ",{:.3}", second.rate_rps);
        for (_, us) in second.latency_us.figures() {
            out += &us.map_or_else(|| ",".to_owned(), |us| format!(",{us:.3}"));
        }
        for kind in ErrorKind::ALL {
            let _ = write!(out, ",{}", second.errors.get(kind.name()).unwrap_or(&0));
        }
        out.push('\n');
    }
    out
}

/// HdrHistogram's log, version 1.3: what its tools plot and merge. Values are nanoseconds, the
/// column of maxima is in milliseconds.
pub fn hdr_log(told: &Told<'_>) -> String {
    let opened = told.outcome.opened.unwrap_or(UNIX_EPOCH);
    let opened_s = opened.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut out = format!(
        "#[drom load {}]\n#[Histogram log format version 1.3]\n\
         #[StartTime: {opened_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n",
        drom_report::format::plain(told.url),
    );
    for interval in &told.outcome.timeline {
        let max_ms = interval.latency().max_ns() as f64 / 1e6;
        let (start_s, length_s) = (interval.start.as_secs_f64(), interval.length.as_secs_f64());
        let histogram = STANDARD.encode(interval.latency_bytes());
        let _ = writeln!(out, "{start_s:.3},{length_s:.3},{max_ms:.3},{histogram}");
    }
    out
}

fn second(interval: &Interval) -> Second {
    Second {
        start_s: interval.start.as_secs_f64(),
        length_s: interval.length.as_secs_f64(),
        sent: interval.sent,
        ok: interval.ok,
        failed: interval.failed,
        bytes_read: interval.bytes_read,
        in_flight: interval.in_flight,
        waiting: interval.waiting,
        rate_rps: interval.rate_rps(),
        latency_us: Latencies::of(&interval.latency()),
        errors: interval.errors.iter().map(|(kind, count)| (kind.name(), *count)).collect(),
    }
}
