//! A search as JSON, schema `drom-load-capacity/1`. Keys are added, never renamed.

use drom_load::capacity::{Ended, Verdict, Wall};
use serde::Serialize;

use super::{Row, Told};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    conditions: Vec<&'a str>,
    /// What the rates count: `requests` or `rounds`.
    counts: &'static str,
    /// `found`, `at_least`, `none_held` or `unknown`.
    verdict: &'static str,
    /// Of `at_least`: `client`, `connections`, `bound`, `time` or `gone`.
    wall: Option<Wall>,
    capacity_rps: Option<f64>,
    /// Of the 95 % interval.
    lower_rps: Option<f64>,
    upper_rps: Option<f64>,
    closed_loop_rps: Option<f64>,
    /// Of the closed loop with all connections, what a quarter fewer carried less, where all of
    /// them were in use and that was seen.
    fewer_connections: Option<u32>,
    fewer_lost_share: Option<f64>,
    outdated_tries: usize,
    failed_last_tries: usize,
    full_tries: usize,
    duration_s: f64,
    interrupted: bool,
    /// For how long the server had answered nothing when it was stopped.
    silent_s: Option<f64>,
    tries: Vec<Line>,
}

/// A try.
#[derive(Serialize)]
pub struct Line {
    pub rate_rps: f64,
    pub duration_s: f64,
    pub ended: Ended,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub failed_share: Option<f64>,
    pub unsent_share: f64,
    /// Answers that came after it, where they were more than a server leaves that keeps up.
    pub behind_share: Option<f64>,
    /// Connections without an answer.
    pub mute_connections: usize,
    /// By how many seconds latency rose a second.
    pub growth: Option<f64>,
    pub came_to_rest: bool,
    /// Conditions that were not kept.
    pub missed: Vec<String>,
    /// Checks that failed, the client's apart.
    pub doubts: Vec<&'static str>,
}

pub fn render(told: &Told<'_>) -> String {
    let found = &told.found;
    let (verdict, wall) = match found.capacity.verdict {
        Verdict::Found => ("found", None),
        Verdict::AtLeast(wall) => ("at_least", Some(wall)),
        Verdict::NoneHeld => ("none_held", None),
        Verdict::Unknown => ("unknown", None),
    };
    let lost = found.fewer.and_then(|fewer| fewer.lost());
    let document = Document {
        schema: "drom-load-capacity/1",
        conditions: told.asked.conditions.iter().map(|one| one.expression.as_str()).collect(),
        counts: if told.counts_rounds() { "rounds" } else { "requests" },
        verdict,
        wall,
        capacity_rps: found.capacity.rate_rps,
        lower_rps: found.capacity.lower_rps,
        upper_rps: found.capacity.upper_rps,
        closed_loop_rps: found.closed_rps,
        fewer_connections: lost.map(|(fewer, _)| fewer),
        fewer_lost_share: lost.map(|(_, share)| share),
        outdated_tries: found.capacity.outdated,
        failed_last_tries: found.capacity.failed_last,
        full_tries: found.capacity.full_tries,
        duration_s: found.took.as_secs_f64(),
        interrupted: found.interrupted,
        silent_s: found.silent.map(|silent| silent.as_secs_f64()),
        tries: told.rows.iter().map(|row| line(told, row)).collect(),
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("numbers and strings always have a JSON form") + "\n"
}

pub fn line(told: &Told<'_>, row: &Row) -> Line {
    let (tried, seen) = (row.attempt.tried, &row.attempt.seen);
    let missed = told.asked.conditions.iter().zip(&seen.judged).filter(|(_, one)| !one.met);
    Line {
        rate_rps: tried.rate_rps,
        duration_s: tried.duration.as_secs_f64(),
        ended: tried.ended,
        p50_us: row.p50_us,
        p99_us: row.p99_us,
        failed_share: row.failed_share,
        unsent_share: seen.unsent_share,
        behind_share: seen.behind_share,
        mute_connections: seen.mute,
        growth: seen.growth,
        came_to_rest: row.attempt.came_to_rest,
        missed: missed.map(|(condition, _)| condition.expression.clone()).collect(),
        doubts: row.doubts.clone(),
    }
}
