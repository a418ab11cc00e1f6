//! The result as JSON, schema `drom-load/1`. Keys are added, never renamed; units are in their
//! names.

use std::collections::BTreeMap;

use drom_load::{Arrivals, Latency, OpenTally, Outcome, Plan, client_limited};
use serde::Serialize;

use super::{
    checks::Check,
    told::{Goal, Told},
};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    engine: &'static str,
    duration_s: f64,
    requests: Requests,
    rate_rps: Option<f64>,
    /// In an open loop from the planned time.
    latency_us: Latencies,
    phases: Phases,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Open>,
    status: &'a BTreeMap<u16, u64>,
    errors: BTreeMap<&'static str, u64>,
    client: Client,
    checks: &'a [Check],
    thresholds: &'a [Goal],
}

#[derive(Serialize)]
struct Requests {
    sent: u64,
    ok: u64,
    failed: u64,
    in_flight: u64,
}

/// The parts of a request's time, and what comes before the first one of a connection.
#[derive(Serialize)]
struct Phases {
    lookup_us: Option<f64>,
    connect_us: Latencies,
    tls_us: Latencies,
    first_byte_us: Latencies,
    transfer_us: Latencies,
    whole_us: Latencies,
}

/// What only an open loop has.
#[derive(Serialize)]
struct Open {
    arrivals: &'static str,
    seed: Option<u64>,
    planned: u64,
    unsent: u64,
    queued: u64,
    planned_rps: Option<f64>,
    service_us: Latencies,
    lag_us: Latencies,
    burst_max: u64,
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

pub fn render(told: &Told<'_>) -> String {
    let Told { plan, outcome, .. } = *told;
    let Outcome { sent, ok, failed, in_flight, .. } = *outcome;
    let errors = outcome.errors.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    let document = Document {
        schema: "drom-load/1",
        engine: outcome.engine,
        duration_s: outcome.duration.as_secs_f64(),
        requests: Requests { sent, ok, failed, in_flight },
        rate_rps: (!outcome.duration.is_zero()).then(|| outcome.rate_rps()),
        latency_us: latencies(&outcome.latency),
        phases: phases(plan, outcome),
        open: outcome.open.as_ref().map(|tally| open(plan, outcome, tally)),
        status: &outcome.status,
        errors,
        client: Client {
            cpu_us_per_request: outcome.cpu_us_per_request(),
            limited: client_limited(outcome, None).limited,
        },
        checks: &told.checks,
        thresholds: &told.goals,
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("numbers and strings always have a JSON form") + "\n"
}

fn phases(plan: &Plan, outcome: &Outcome) -> Phases {
    Phases {
        lookup_us: plan.target.lookup.map(|lookup| lookup.as_secs_f64() * 1e6),
        connect_us: latencies(&outcome.connect),
        tls_us: latencies(&outcome.tls),
        first_byte_us: latencies(&outcome.first_byte),
        transfer_us: latencies(&outcome.transfer),
        whole_us: latencies(&outcome.whole),
    }
}

fn open(plan: &Plan, outcome: &Outcome, tally: &OpenTally) -> Open {
    let planned = outcome.sent + tally.unsent;
    let (arrivals, seed) = match plan.pace.as_ref().map(|pace| pace.arrivals) {
        Some(Arrivals::Poisson { seed }) => ("poisson", Some(seed)),
        _ => ("constant", None),
    };
    let seconds = outcome.duration.as_secs_f64();
    Open {
        arrivals,
        seed,
        planned,
        unsent: tally.unsent,
        queued: tally.queued,
        planned_rps: (seconds > 0.0).then(|| planned as f64 / seconds),
        service_us: latencies(&tally.service),
        lag_us: latencies(&tally.lag),
        burst_max: tally.burst_max,
    }
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
