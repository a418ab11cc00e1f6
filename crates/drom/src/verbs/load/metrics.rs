//! A run's counters and histogram for those who watch it from elsewhere: Prometheus' text format
//! and OpenTelemetry's JSON. Pure. Counts are those of the window since it was opened; seconds
//! that are not over yet are not in them.

use std::{fmt::Write as _, time::SystemTime, time::UNIX_EPOCH};

use drom_load::{ErrorKind, Latency, Outcome, Progress};
use serde_json::{Value, json};

/// Upper limits of the histogram's buckets in seconds.
const LIMITS_S: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// What is known at one time.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    sent: u64,
    ok: u64,
    failed: u64,
    bytes_read: u64,
    in_flight: u64,
    errors: Vec<(ErrorKind, u64)>,
    /// Answers up to each limit, and all.
    buckets: Vec<u64>,
    answers: u64,
    sum_s: f64,
}

impl Totals {
    pub fn of_progress(now: &Progress<'_>) -> Self {
        let so_far = &now.so_far;
        let in_flight = now.last.map_or(0, |last| last.in_flight);
        Self {
            sent: so_far.sent,
            ok: so_far.ok,
            failed: so_far.failed,
            bytes_read: so_far.bytes_read,
            in_flight,
            errors: so_far.errors.clone(),
            ..so_far.latency.map(Self::of_latency).unwrap_or_default()
        }
    }

    pub fn of_outcome(outcome: &Outcome) -> Self {
        Self {
            sent: outcome.sent,
            ok: outcome.ok,
            failed: outcome.failed,
            bytes_read: outcome.bytes_read,
            in_flight: outcome.in_flight,
            errors: outcome.errors.iter().map(|(kind, count)| (*kind, *count)).collect(),
            ..Self::of_latency(&outcome.latency)
        }
    }

    fn of_latency(latency: &Latency) -> Self {
        let up_to = |limit_s: &f64| latency.histogram().count_between(0, (limit_s * 1e9) as u64);
        Self {
            buckets: LIMITS_S.iter().map(up_to).collect(),
            answers: latency.count(),
            sum_s: latency.mean_ns() * latency.count() as f64 / 1e9,
            ..Self::default()
        }
    }

    /// Name, words and value of what only grows.
    fn counters(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("drom_load_requests_sent", "Requests begun.", self.sent),
            ("drom_load_requests_ok", "Complete answers with a status below 400.", self.ok),
            ("drom_load_requests_failed", "Status of 400 or more, and errors.", self.failed),
            ("drom_load_read_bytes", "Bytes of answers.", self.bytes_read),
        ]
    }

    fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ErrorKind::ALL.into_iter().map(|kind| {
            let known = self.errors.iter().find(|(known, _)| *known == kind);
            (kind.name(), known.map_or(0, |(_, count)| *count))
        })
    }

    /// <https://prometheus.io/docs/instrumenting/exposition_formats/>, version 0.0.4.
    pub fn prometheus(&self) -> String {
        let mut out = String::new();
        for (name, help, value) in self.counters() {
            let _ = write!(out, "# HELP {name}_total {help}\n# TYPE {name}_total counter\n");
            let _ = writeln!(out, "{name}_total {value}");
        }
        let name = "drom_load_errors_total";
        let _ = write!(out, "# HELP {name} {ERRORS}\n# TYPE {name} counter\n");
        for (kind, count) in self.errors() {
            let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
        }
        let name = "drom_load_in_flight";
        let _ = write!(out, "# HELP {name} {IN_FLIGHT}\n# TYPE {name} gauge\n");
        let _ = writeln!(out, "{name} {}", self.in_flight);
        let name = "drom_load_latency_seconds";
        let _ = write!(out, "# HELP {name} {LATENCY}\n# TYPE {name} histogram\n");
        for (limit, count) in LIMITS_S.iter().zip(self.filled_buckets()) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{limit}\"}} {count}");
        }
        let Self { answers, sum_s, .. } = self;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {answers}");
        let _ = writeln!(out, "{name}_sum {sum_s}\n{name}_count {answers}");
        out
    }

    /// OTLP's `ExportMetricsServiceRequest` as JSON: 64-bit integers are strings there.
    pub fn otlp(&self, from: SystemTime, now: SystemTime) -> Value {
        let (start, time) = (nanos(from), nanos(now));
        let point = |value: u64, attributes: Value| {
            json!({"startTimeUnixNano": start, "timeUnixNano": time, "asInt": value.to_string(),
                   "attributes": attributes})
        };
        let sum = |name: &str, help: &str, unit: &str, points: Vec<Value>| {
            json!({"name": name, "description": help, "unit": unit, "sum": {
                "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}})
        };
        let unit = |name: &str| if name.ends_with("bytes") { "By" } else { "{request}" };
        let counters = self.counters();
        let mut metrics: Vec<Value> = counters
            .iter()
            .map(|(name, help, value)| sum(name, help, unit(name), vec![point(*value, json!([]))]))
            .collect();
        let kind = |kind: &str| json!([{"key": "kind", "value": {"stringValue": kind}}]);
        let errors = self.errors().map(|(name, count)| point(count, kind(name))).collect();
        metrics.push(sum("drom_load_errors", ERRORS, "{request}", errors));
        metrics.push(json!({"name": "drom_load_in_flight", "description": IN_FLIGHT,
            "unit": "{request}", "gauge": {"dataPoints": [point(self.in_flight, json!([]))]}}));
        metrics.push(json!({"name": "drom_load_latency", "description": LATENCY, "unit": "s",
            "histogram": {"aggregationTemporality": CUMULATIVE, "dataPoints": [{
                "startTimeUnixNano": start, "timeUnixNano": time, "explicitBounds": LIMITS_S,
                "count": self.answers.to_string(), "sum": self.sum_s,
                "bucketCounts": self.single_buckets()}]}}));
        let service = json!([{"key": "service.name", "value": {"stringValue": "drom load"}}]);
        let scope = json!({"name": "drom", "version": env!("CARGO_PKG_VERSION")});
        json!({"resourceMetrics": [{"resource": {"attributes": service},
            "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
    }

    /// As many as limits, before the first answer too.
    fn filled_buckets(&self) -> Vec<u64> {
        let mut buckets = self.buckets.clone();
        buckets.resize(LIMITS_S.len(), 0);
        buckets
    }

    /// Not up to a limit but between two; one more than limits.
    fn single_buckets(&self) -> Vec<String> {
        let upper = self.filled_buckets().into_iter().chain([self.answers]);
        let mut before = 0;
        upper.map(|count| (count - std::mem::replace(&mut before, count)).to_string()).collect()
    }
}

const ERRORS: &str = "Requests that ended without a complete answer, by kind.";
const IN_FLIGHT: &str = "Requests under way at the end of the last second.";
const LATENCY: &str = "Latency of complete answers.";
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u32 = 2;

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let mut outcome = Outcome { sent: 12, ok: 9, failed: 3, ..Outcome::default() };
        outcome.errors.insert(ErrorKind::Timeout, 2);
        for ns in [50_000, 700_000, 700_000, 20_000_000_000] {
            outcome.latency.record_ns(ns);
        }
        Totals::of_outcome(&outcome)
    }

    #[test]
    fn prometheus_buckets_are_cumulative_and_end_with_all() {
        let text = totals().prometheus();
        for line in [
            "drom_load_requests_sent_total 12",
            "drom_load_errors_total{kind=\"timeout\"} 2",
            "drom_load_latency_seconds_bucket{le=\"0.0001\"} 1",
            "drom_load_latency_seconds_bucket{le=\"0.001\"} 3",
            "drom_load_latency_seconds_bucket{le=\"10\"} 3",
            "drom_load_latency_seconds_bucket{le=\"+Inf\"} 4",
            "drom_load_latency_seconds_count 4",
            "# TYPE drom_load_latency_seconds histogram",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn opentelemetry_buckets_are_single_and_add_up() {
        let value = totals().otlp(UNIX_EPOCH, UNIX_EPOCH);
        let metrics = &value["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let point = &metrics[6]["histogram"]["dataPoints"][0];
        let buckets = point["bucketCounts"].as_array().expect("a list");
        assert_eq!((buckets.len(), &point["count"]), (LIMITS_S.len() + 1, &"4".into()));
        assert_eq!(
            (&buckets[0], &buckets[3], &buckets[16]),
            (&"1".into(), &"2".into(), &"1".into())
        );
    }
}
