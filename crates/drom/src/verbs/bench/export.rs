//! A contest for programs and for other people's documents: JSON, CSV, Markdown.

use drom_contest::{CONFIDENCE, CONFIDENCE_OF_ALL, LEAST, Pace, Standing, growth};
use drom_report::format::markdown as escaped;
use serde_json::{Value, json};

use super::{
    Clock,
    text::{notes, percent, time},
    told::{Candidate, Kind, Told},
};

/// Keys are added, never renamed.
const SCHEMA: &str = "drom-bench/1";

pub fn json(told: &Told) -> String {
    let document = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "of": of(&told.kind),
        "clock": clock(told.clock),
        "seed": told.seed,
        "processes": told.standing.processes(),
        "rounds": told.rounds,
        "is_interrupted": told.is_interrupted,
        "time_confidence": CONFIDENCE,
        "ratio_confidence": CONFIDENCE_OF_ALL,
        "least_difference": LEAST,
        "candidates": (0..told.candidates.len()).map(|at| candidate(told, at)).collect::<Vec<_>>(),
        "ratios": ratios(&told.standing, &told.candidates, 1),
        "inputs": inputs(told),
        "notes": notes(told),
    });
    drom_report::pretty(&document) + "\n"
}

/// A line of each candidate; empty where there is no figure.
pub fn csv(told: &Told) -> String {
    let mut out =
        "name,time_ns,time_ns_low,time_ns_high,rate_per_s,spread,iterations,wall_s,user_s,\
                   system_s,grown_bytes\n"
            .to_owned();
    for (at, one) in told.candidates.iter().enumerate() {
        let pace = measured(&told.standing, at);
        let cell =
            |of: fn(&Pace) -> f64| pace.as_ref().map_or(String::new(), |p| of(p).to_string());
        let cells = [
            drom_report::quoted(&one.name),
            cell(|pace| pace.ns.centre),
            cell(|pace| pace.ns.interval.low),
            cell(|pace| pace.ns.interval.high),
            cell(|pace| 1e9 / pace.ns.centre),
            cell(|pace| pace.spread),
            one.iterations.to_string(),
            seconds(one.used.wall_ns),
            seconds(one.used.user_ns),
            seconds(one.used.system_ns),
            growth(&one.growths).map_or(String::new(), |grown| grown.centre.to_string()),
        ];
        out += &(cells.join(",") + "\n");
    }
    out
}

/// Two tables: how long each takes, and how they stand to each other.
pub fn markdown(told: &Told) -> String {
    let mut out = format!("| | each | {:.0} % interval |\n|---|---:|---|\n", 100.0 * CONFIDENCE);
    for (at, one) in told.candidates.iter().enumerate() {
        let (each, interval) = match measured(&told.standing, at) {
            Some(Pace { ns, .. }) => (
                time(ns.centre),
                format!("{} to {}", time(ns.interval.low), time(ns.interval.high)),
            ),
            None => ("-".to_owned(), String::new()),
        };
        out += &format!("| {} | {each} | {interval} |\n", escaped(&one.name));
    }
    out += "\n| faster than |";
    told.candidates.iter().for_each(|one| out += &format!(" {} |", escaped(&one.name)));
    out += &format!("\n|---|{}\n", "---:|".repeat(told.candidates.len()));
    for (row, one) in told.standing.ratios(1).iter().zip(&told.candidates) {
        let cells = row.iter().map(|ratio| ratio.as_ref().map_or("-".to_owned(), percent));
        out += &format!("| {} | {} |\n", escaped(&one.name), cells.collect::<Vec<_>>().join(" | "));
    }
    notes(told).iter().for_each(|note| out += &format!("\n{}\n", escaped(note)));
    out
}

fn of(kind: &Kind) -> Value {
    match kind {
        Kind::Perl { path, version, batch, inputs } => json!({
            "perl": path,
            "perl_version": version,
            "batch_ns": batch.as_nanos() as u64,
            "inputs": inputs.as_ref().map(|(path, ..)| path),
        }),
        Kind::Commands => json!("commands"),
    }
}

fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Cpu => "cpu",
        Clock::Wall => "wall",
    }
}

fn candidate(told: &Told, at: usize) -> Value {
    let Candidate { name, iterations, used, growths } = &told.candidates[at];
    let pace = told.standing.pace(at);
    json!({
        "name": name,
        "is_nothing": pace.is_some_and(|pace| pace.is_nothing),
        "time_ns": pace.map(|pace| pace.ns.centre),
        "time_ns_low": pace.map(|pace| pace.ns.interval.low),
        "time_ns_high": pace.map(|pace| pace.ns.interval.high),
        "spread": pace.map(|pace| pace.spread),
        "drift": pace.and_then(|pace| pace.drift),
        "process_time_ns": told.standing.times(at),
        "iterations": iterations,
        "wall_s": used.wall_ns / 1e9,
        "user_s": used.user_ns / 1e9,
        "system_s": used.system_ns / 1e9,
        "grown_bytes": growth(growths).map(|grown| grown.centre),
    })
}

/// Of each pair once: how many times as long the one takes as the other.
fn ratios(standing: &Standing, candidates: &[Candidate], tables: usize) -> Vec<Value> {
    let table = standing.ratios(tables);
    let pairs = (0..candidates.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let value = |(a, b): (usize, usize)| {
        let ratio = table[a][b]?;
        Some(json!({
            "of": candidates[a].name,
            "to": candidates[b].name,
            "time_ratio": ratio.estimate.centre,
            "time_ratio_low": ratio.estimate.interval.low,
            "time_ratio_high": ratio.estimate.interval.high,
            "is_different": ratio.is_different,
        }))
    };
    pairs.filter_map(value).collect()
}

/// Of each line how long each candidate takes with it.
fn inputs(told: &Told) -> Vec<Value> {
    let Kind::Perl { inputs: Some((_, lines, standings)), .. } = &told.kind else {
        return Vec::new();
    };
    let input = |(standing, line): (&Standing, &String)| {
        let ns = |at| standing.pace(at).map(|pace| pace.ns.centre);
        json!({
            "input": line,
            "time_ns": (0..told.candidates.len()).map(ns).collect::<Vec<_>>(),
            "ratios": ratios(standing, &told.candidates, lines.len()),
        })
    };
    standings.iter().zip(lines).map(input).collect()
}

fn measured(standing: &Standing, at: usize) -> Option<Pace> {
    standing.pace(at).filter(|pace| !pace.is_nothing)
}

fn seconds(ns: f64) -> String {
    (ns / 1e9).to_string()
}
