//! A run's counters and histogram for those who watch it from elsewhere: Prometheus' text format
//! and OpenTelemetry's JSON. Pure. Counts are those of the window since it was opened; seconds
//! that are not over yet are not in them.

use std::{fmt::Write as _, time::SystemTime, time::UNIX_EPOCH};

use drom_load::{
    ErrorKind, Latency, Outcome, Progress,
    metric::{ExportKind, Exported, METRICS, Metric, Unit},
};
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

    /// What is known of a counter or gauge of the catalogue.
    fn value(&self, key: &str) -> u64 {
        match key {
            "requests.sent" => self.sent,
            "requests.ok" => self.ok,
            "requests.failed" => self.failed,
            "requests.in_flight" => self.in_flight,
            "bytes_read" => self.bytes_read,
            _ => 0,
        }
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
        for (metric, exported) in exported() {
            let (name, doc) = (exported.prometheus(), sentence(metric));
            let kind = match exported.kind {
                ExportKind::Counter | ExportKind::CounterByKind => "counter",
                ExportKind::Gauge => "gauge",
                ExportKind::Histogram => "histogram",
            };
            let _ = write!(out, "# HELP {name} {doc}\n# TYPE {name} {kind}\n");
            match exported.kind {
                ExportKind::Counter | ExportKind::Gauge => {
                    let _ = writeln!(out, "{name} {}", self.value(metric.key));
                }
                ExportKind::CounterByKind => self.prometheus_errors(&name, &mut out),
                ExportKind::Histogram => self.prometheus_histogram(&name, &mut out),
            }
        }
        out
    }

    fn prometheus_errors(&self, name: &str, out: &mut String) {
        for (kind, count) in self.errors() {
            let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
        }
    }

    fn prometheus_histogram(&self, name: &str, out: &mut String) {
        for (limit, count) in LIMITS_S.iter().zip(self.filled_buckets()) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{limit}\"}} {count}");
        }
        let Self { answers, sum_s, .. } = self;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {answers}");
        let _ = writeln!(out, "{name}_sum {sum_s}\n{name}_count {answers}");
    }

    /// OTLP's `ExportMetricsServiceRequest` as JSON: 64-bit integers are strings there.
    pub fn otlp(&self, from: SystemTime, now: SystemTime) -> Value {
        let span = Span { start: nanos(from), time: nanos(now) };
        let metrics: Vec<Value> =
            exported().map(|(metric, known)| self.otlp_metric(metric, known, &span)).collect();
        let service = json!([{"key": "service.name", "value": {"stringValue": "drom load"}}]);
        let scope = json!({"name": "drom", "version": env!("CARGO_PKG_VERSION")});
        json!({"resourceMetrics": [{"resource": {"attributes": service},
            "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
    }

    fn otlp_metric(&self, metric: &Metric, exported: Exported, span: &Span) -> Value {
        let value = self.value(metric.key);
        let (name, data) = match exported.kind {
            ExportKind::Counter => ("sum", sum(vec![span.point(value, json!([]))])),
            ExportKind::CounterByKind => {
                let kind = |kind: &str| json!([{"key": "kind", "value": {"stringValue": kind}}]);
                let points = self.errors().map(|(name, count)| span.point(count, kind(name)));
                ("sum", sum(points.collect()))
            }
            ExportKind::Gauge => ("gauge", json!({"dataPoints": [span.point(value, json!([]))]})),
            ExportKind::Histogram => ("histogram", self.otlp_histogram(span)),
        };
        let unit = match (exported.kind, metric.unit) {
            (ExportKind::Histogram, _) => "s",
            (_, Unit::Bytes) => "By",
            _ => "{request}",
        };
        json!({"name": exported.name, "description": sentence(metric), "unit": unit, name: data})
    }

    fn otlp_histogram(&self, span: &Span) -> Value {
        let Span { start, time } = span;
        json!({"aggregationTemporality": CUMULATIVE, "dataPoints": [{
            "startTimeUnixNano": start, "timeUnixNano": time, "explicitBounds": LIMITS_S,
            "count": self.answers.to_string(), "sum": self.sum_s,
            "bucketCounts": self.single_buckets()}]})
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

/// From when to when, as OTLP writes it.
struct Span {
    start: String,
    time: String,
}

impl Span {
    fn point(&self, value: u64, attributes: Value) -> Value {
        json!({"startTimeUnixNano": self.start, "timeUnixNano": self.time,
               "asInt": value.to_string(), "attributes": attributes})
    }
}

fn sum(points: Vec<Value>) -> Value {
    json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true})
}

/// What of the catalogue is told while a run goes on.
fn exported() -> impl Iterator<Item = (&'static Metric, Exported)> {
    METRICS.iter().filter_map(|metric| Some((metric, metric.exported?)))
}

/// What an exported figure is, as a sentence.
fn sentence(metric: &Metric) -> String {
    let mut letters = metric.doc.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{}{}.", String::from_iter(first), letters.as_str())
}

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
    fn every_exported_figure_of_the_catalogue_has_its_value() {
        let totals =
            Totals { sent: 1, ok: 2, failed: 3, bytes_read: 4, in_flight: 5, ..Totals::default() };
        let single = |kind| matches!(kind, ExportKind::Counter | ExportKind::Gauge);
        let single = exported().filter(|(_, exported)| single(exported.kind));
        let values: Vec<u64> = single.map(|(metric, _)| totals.value(metric.key)).collect();
        assert_eq!(values, [1, 2, 3, 5, 4], "a new one is told by Totals::value");
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
        let metrics = metrics.as_array().expect("a list");
        let latency = metrics.iter().find(|metric| metric["name"] == "drom_load_latency");
        let point = &latency.expect("it is there")["histogram"]["dataPoints"][0];
        let buckets = point["bucketCounts"].as_array().expect("a list");
        assert_eq!((buckets.len(), &point["count"]), (LIMITS_S.len() + 1, &"4".into()));
        assert_eq!(
            (&buckets[0], &buckets[3], &buckets[16]),
            (&"1".into(), &"2".into(), &"1".into())
        );
    }
}
