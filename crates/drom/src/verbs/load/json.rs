//! The result as JSON, schema `drom-load/1`. Keys are added, never renamed; units are in their
//! names. The catalogue of `drom_load::metric` says what each is, and a test here compares.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use drom_load::{Arrivals, Cause, Latency, OpenTally, Outcome, Plan, Stop, client_limited};
use serde::Serialize;
use serde_json::Value;

use super::{
    checks::Check,
    pace,
    series::{self, Second},
    steps,
    told::{Goal, Told},
};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    url: &'a str,
    /// When the window opened.
    opened_at: Option<String>,
    plan: Planned<'a>,
    streams_max: Option<u32>,
    engine: &'static str,
    fallback: Option<&'a str>,
    duration_s: f64,
    requests: Requests,
    bytes_read: u64,
    rate_rps: Option<f64>,
    /// In an open loop from the planned time.
    latency_us: Latencies,
    phases: Phases,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Open>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<steps::Document<'a>>,
    status: &'a BTreeMap<u16, u64>,
    errors: BTreeMap<&'static str, u64>,
    error_us: Latencies,
    client: Client,
    kernel: Kernel,
    checks: &'a [Check],
    thresholds: &'a [Goal],
    series: Vec<Second>,
}

/// What was asked for, so that the results of many runs can be told apart.
#[derive(Serialize)]
struct Planned<'a> {
    /// Users of a scenario have many.
    method: Option<&'a str>,
    connections: u32,
    depth: u32,
    threads: u32,
    keepalive: bool,
    answers_per_connection: Option<u64>,
    throttle_bytes_per_second: Option<u64>,
    warmup_s: f64,
    duration_s: Option<f64>,
    requests: Option<u64>,
    rate_rps: Option<f64>,
    stages: Option<String>,
    timeout_s: f64,
}

#[derive(Serialize)]
struct Requests {
    sent: u64,
    ok: u64,
    failed: u64,
    in_flight: u64,
    resent: u64,
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
    carried: u64,
    queued: u64,
    planned_rps: Option<f64>,
    service_us: Latencies,
    lag_us: Latencies,
    burst_max: u64,
    drain_s: f64,
    drained: u64,
}

/// Null without a single answer: 0 would be a latency.
#[derive(Default, Serialize)]
pub struct Latencies {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct Client {
    /// Null where none ended.
    cpu_us_per_request: Option<f64>,
    limited: bool,
    /// What it lacked, when it was the limit.
    cause: Option<Cause>,
    /// Of the busiest thread, shares of the window.
    work_share: f64,
    starved_share: f64,
    late_share: f64,
    /// Of the thread with the most: share of its requests' time that the client held itself.
    held_share: f64,
    late_max_us: f64,
    kept_answers: u64,
    unkept_us: Latencies,
    limited_seconds: u32,
    worst_at_s: Option<f64>,
    /// Of the machine.
    steal_share: Option<f64>,
}

/// Of the network namespace from begin to end; null is not known.
#[derive(Serialize)]
struct Kernel {
    retransmits: Option<u64>,
    timeouts: Option<u64>,
    listen_overflows: Option<u64>,
    listen_drops: Option<u64>,
    is_server_local: Option<bool>,
    mtu: Option<u32>,
    ports: Option<u64>,
    connections_made: u64,
    descriptors: Option<u64>,
    descriptors_max: Option<u64>,
}

pub fn render(told: &Told<'_>) -> String {
    let text = serde_json::to_string_pretty(&document(told));
    text.expect("numbers and strings always have a JSON form") + "\n"
}

/// The document with every key that it can have: those of an open loop are null in a closed one.
pub fn template(told: &Told<'_>) -> Value {
    let mut document = document(told);
    document.series.clear();
    let (is_closed, has_users) = (document.open.is_none(), document.scenario.is_some());
    document.open.get_or_insert_with(|| open(told.plan, told.outcome, &OpenTally::default()));
    document.scenario.get_or_insert_default();
    let mut value = serde_json::to_value(&document).unwrap_or_default();
    if is_closed {
        blank(&mut value["open"]);
    }
    if !has_users {
        blank(&mut value["scenario"]);
    }
    value
}

fn blank(value: &mut Value) {
    match value.as_object_mut() {
        Some(members) => members.values_mut().for_each(blank),
        None => *value = Value::Null,
    }
}

fn document<'a>(told: &'a Told<'_>) -> Document<'a> {
    let Told { plan, outcome, .. } = *told;
    let Outcome { sent, ok, failed, in_flight, resent, .. } = *outcome;
    let errors = outcome.errors.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    Document {
        schema: "drom-load/1",
        version: env!("CARGO_PKG_VERSION"),
        url: told.url,
        opened_at: outcome.opened.map(utc),
        plan: planned(plan),
        streams_max: outcome.streams_max,
        engine: outcome.engine,
        fallback: outcome.fallback.as_deref(),
        duration_s: outcome.duration.as_secs_f64(),
        requests: Requests { sent, ok, failed, in_flight, resent },
        bytes_read: outcome.bytes_read,
        rate_rps: (!outcome.duration.is_zero()).then(|| outcome.rate_rps()),
        latency_us: Latencies::of(&outcome.latency),
        phases: phases(plan, outcome),
        open: outcome.open.as_ref().map(|tally| open(plan, outcome, tally)),
        scenario: steps::document(plan, outcome),
        status: &outcome.status,
        errors,
        error_us: Latencies::of(&outcome.error_latency),
        client: client(outcome),
        kernel: kernel(outcome),
        checks: &told.checks,
        thresholds: &told.goals,
        series: series::seconds(told),
    }
}

fn utc(time: SystemTime) -> String {
    drom_store::utc(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn planned(plan: &Plan) -> Planned<'_> {
    let stages = plan.pace.as_ref().map_or(&[][..], |pace| &pace.stages);
    let steady = match stages {
        [one] if one.from_rps == one.to_rps => Some(one.from_rps),
        _ => None,
    };
    let is_written = steady.is_none() && !stages.is_empty();
    let stages = stages.iter().map(pace::written).collect::<Vec<_>>().join(",");
    let (duration_s, requests) = match plan.stop {
        Stop::After(duration) => (Some(duration.as_secs_f64()), None),
        Stop::Requests(requests) => (None, Some(requests)),
    };
    Planned {
        method: plan.scene.is_none().then_some(&plan.method[..]),
        connections: plan.connections,
        depth: plan.depth,
        threads: plan.threads,
        keepalive: plan.keepalive,
        answers_per_connection: plan.answers_per_connection,
        throttle_bytes_per_second: plan.throttle,
        warmup_s: plan.warmup.as_secs_f64(),
        duration_s,
        requests,
        rate_rps: steady,
        stages: is_written.then_some(stages),
        timeout_s: plan.timeout.as_secs_f64(),
    }
}

fn client(outcome: &Outcome) -> Client {
    let verdict = client_limited(outcome, None);
    Client {
        cpu_us_per_request: (outcome.ok + outcome.failed > 0).then(|| outcome.cpu_us_per_request()),
        limited: verdict.limited,
        cause: verdict.cause,
        work_share: verdict.busy_share,
        starved_share: verdict.starved_share,
        late_share: verdict.late_share,
        held_share: verdict.held_share,
        late_max_us: verdict.late_max.as_secs_f64() * 1e6,
        kept_answers: outcome.kept.count(),
        unkept_us: match outcome.kept.count() {
            0 => Latencies::default(),
            _ => Latencies::of(&outcome.latency_unkept()),
        },
        limited_seconds: verdict.spoiled,
        worst_at_s: verdict.worst_at.map(|at| at.as_secs_f64()),
        steal_share: outcome.steal_share,
    }
}

fn kernel(outcome: &Outcome) -> Kernel {
    let limits = outcome.limits.as_ref();
    let network = limits.map(|limits| limits.network).unwrap_or_default();
    Kernel {
        retransmits: network.retransmits,
        timeouts: network.timeouts,
        listen_overflows: network.listen_overflows,
        listen_drops: network.listen_drops,
        is_server_local: limits.map(|limits| limits.is_local),
        mtu: limits.and_then(|limits| limits.mtu),
        ports: limits.and_then(|limits| limits.ports),
        connections_made: outcome.connections_made(),
        descriptors: limits.map(|limits| limits.descriptors),
        descriptors_max: limits.and_then(|limits| limits.descriptors_max),
    }
}

fn phases(plan: &Plan, outcome: &Outcome) -> Phases {
    Phases {
        lookup_us: plan.target.lookup.map(|lookup| lookup.as_secs_f64() * 1e6),
        connect_us: Latencies::of(&outcome.connect),
        tls_us: Latencies::of(&outcome.tls),
        first_byte_us: Latencies::of(&outcome.first_byte),
        transfer_us: Latencies::of(&outcome.transfer),
        whole_us: Latencies::of(&outcome.whole),
    }
}

fn open(plan: &Plan, outcome: &Outcome, tally: &OpenTally) -> Open {
    let planned = tally.planned(outcome.begun());
    let (arrivals, seed) = match plan.pace.as_ref().map(|pace| &pace.arrivals) {
        Some(Arrivals::Poisson { seed } | Arrivals::PoissonOf { seed, .. }) => {
            ("poisson", Some(*seed))
        }
        Some(Arrivals::Recorded(_)) => ("recorded", None),
        _ => ("constant", None),
    };
    let seconds = super::text::planned_s(plan, outcome);
    Open {
        arrivals,
        seed,
        planned,
        unsent: tally.unsent,
        carried: tally.carried,
        queued: tally.queued,
        planned_rps: (seconds > 0.0).then(|| planned as f64 / seconds),
        service_us: Latencies::of(&tally.service),
        lag_us: Latencies::of(&tally.lag),
        burst_max: tally.burst_max,
        drain_s: outcome.drain.as_secs_f64(),
        drained: tally.drained,
    }
}

impl Latencies {
    pub fn of(latency: &Latency) -> Self {
        let some = |us: f64| (latency.count() > 0).then_some(us);
        let quantile = |q| some(latency.quantile_ns(q) as f64 / 1e3);
        Self {
            mean: some(latency.mean_ns() / 1e3),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: some(latency.max_ns() as f64 / 1e3),
        }
    }

    /// With their names, in the order of the keys.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 6] {
        let Self { mean, p50, p90, p99, p999, max } = *self;
        [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)]
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use drom_load::{Target, metric};

    /// Keys with points between objects; a histogram is one key.
    pub fn keys(path: &str, value: &Value, found: &mut Vec<String>) {
        let is_leaf = |name: &str| metric::find(name).is_some();
        let members = value.as_object().filter(|_| path.is_empty() || !is_leaf(path));
        let Some(members) = members else { return found.push(path.to_owned()) };
        for (name, value) in members {
            let point = if path.is_empty() { "" } else { "." };
            keys(&format!("{path}{point}{name}"), value, found);
        }
    }

    #[test]
    fn the_result_has_the_keys_of_the_catalogue() {
        let plan = Plan::get(Target::at("127.0.0.1:80".parse().expect("an address"), "/"));
        let outcome = Outcome::default();
        let told = Told {
            url: "http://x/",
            plan: &plan,
            outcome: &outcome,
            checks: Vec::new(),
            goals: Vec::new(),
        };
        let (document, mut found) = (template(&told), Vec::new());
        keys("", &document, &mut found);
        found.retain(|key| !key.starts_with("scenario."));
        let known = metric::METRICS.iter().map(|metric| metric.key);
        // `steps` compares what a scenario adds.
        let known = known.filter(|key| !key.is_empty() && !key.starts_with("scenario."));
        let known: Vec<&str> = known.collect();
        assert_eq!(found, known, "crates/load/src/metric.rs has an entry for each key, in order");
        for histogram in metric::METRICS.iter().filter(|metric| metric.is_histogram()) {
            let path = format!("/{}", histogram.key.replace('.', "/"));
            let members = document.pointer(&path).and_then(Value::as_object);
            let members: Vec<&str> = members.expect("an object").keys().map(|k| &**k).collect();
            assert_eq!(members, metric::STATISTICS.map(|(name, _)| name), "{}", histogram.key);
        }
    }
}
