//! The result as JSON, schema `drom-load/1`. Keys are added, never renamed; units are in their
//! names.

use std::collections::BTreeMap;

use drom_load::{Latency, Outcome, client_limited};
use serde::Serialize;

use super::checks::Check;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    engine: &'static str,
    duration_s: f64,
    requests: Requests,
    rate_rps: Option<f64>,
    latency_us: Latencies,
    status: &'a BTreeMap<u16, u64>,
    errors: BTreeMap<&'static str, u64>,
    client: Client,
    checks: &'a [Check],
}

#[derive(Serialize)]
struct Requests {
    sent: u64,
    ok: u64,
    failed: u64,
    in_flight: u64,
}

/// Null without a single answer: 0 would be a latency.
#[derive(Serialize)]
struct Latencies {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct Client {
    cpu_us_per_request: f64,
    limited: bool,
}

pub fn render(outcome: &Outcome, checks: &[Check]) -> String {
    let Outcome { sent, ok, failed, in_flight, .. } = *outcome;
    let errors = outcome.errors.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    let document = Document {
        schema: "drom-load/1",
        engine: outcome.engine,
        duration_s: outcome.duration.as_secs_f64(),
        requests: Requests { sent, ok, failed, in_flight },
        rate_rps: (!outcome.duration.is_zero()).then(|| outcome.rate_rps()),
        latency_us: latencies(&outcome.latency),
        status: &outcome.status,
        errors,
        client: Client {
            cpu_us_per_request: outcome.cpu_us_per_request(),
            limited: client_limited(outcome, None).limited,
        },
        checks,
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("numbers and strings always have a JSON form") + "\n"
}

fn latencies(latency: &Latency) -> Latencies {
    let some = |us: f64| (latency.count() > 0).then_some(us);
    let quantile = |q| some(latency.quantile_ns(q) as f64 / 1e3);
    Latencies {
        mean: some(latency.mean_ns() / 1e3),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: some(latency.max_ns() as f64 / 1e3),
    }
}
