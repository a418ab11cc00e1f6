//! A run as a page: what of it goes where. How the page looks is `drom-report`'s business. Pure.

use drom_load::{Interval, Latency, Outcome, Plan};
use drom_report::{
    format::{ms, three},
    load_page::{LoadPage, PageSecond, PageUsers, Tone, load_page},
};

use super::{
    checks::{Check, State},
    json::Latencies,
    steps,
    text::{self, count, heading_items, is_drain_told, planned_s, si_count, time_us, times},
    told::{Goal, Told},
};

pub fn render(told: &Told<'_>) -> String {
    let outcome = told.outcome;
    load_page(&LoadPage {
        title: title(told),
        subtitle: heading_items(told.plan, outcome),
        verdicts: verdicts(told),
        figures: figures(told.plan, outcome),
        thresholds: told.goals.iter().map(threshold).collect(),
        seconds: outcome.timeline.iter().map(second).collect(),
        window_s: window_s(told),
        curves: curves(outcome),
        times_head: Latencies::of(&outcome.latency).figures().map(|(name, _)| name).to_vec(),
        times: rows(outcome),
        users: users(told),
        answers: answers(outcome),
        checks: told.checks.iter().map(check).collect(),
    })
}

fn title(told: &Told<'_>) -> String {
    match &told.plan.scene {
        None => format!("{} {}", told.plan.method, told.url),
        Some(scene) => {
            format!("{} on {}", text::scenario_name(told.url, scene), text::servers(scene))
        }
    }
}

fn users(told: &Told<'_>) -> Option<PageUsers> {
    let (scene, tally) = steps::both(told.plan, told.outcome)?;
    let row = |row: [String; 6]| {
        let is_bad = row[1] != "0";
        (row.to_vec(), is_bad)
    };
    let failure = |(failed, of, what)| (format!("{} of {}", count(failed), count(of)), what);
    Some(PageUsers {
        rounds: steps::rounds(told.outcome, tally).trim().to_owned(),
        steps_head: steps::COLUMNS.to_vec(),
        steps: steps::rows(scene, tally).into_iter().map(row).collect(),
        failures: steps::failures(scene, tally).into_iter().map(failure).collect(),
    })
}

fn verdicts(told: &Told<'_>) -> Vec<(Tone, String)> {
    let of = |state: State| {
        let names = told.checks.iter().filter(|check| check.state == state).map(|check| check.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let missed = told.goals.iter().filter(|goal| !goal.judged.met).count();
    let mut said = Vec::new();
    if told.outcome.interrupted {
        said.push((Tone::Warning, "stopped early".to_owned()));
    }
    match (told.goals.len(), missed) {
        (0, _) => {}
        (1, 0) => said.push((Tone::Good, "the threshold is met".to_owned())),
        (all, 0) => said.push((Tone::Good, format!("all {all} thresholds are met"))),
        (all, _) => said.push((Tone::Bad, format!("{missed} of {all} thresholds not met"))),
    }
    let kinds = [
        (State::Failed, Tone::Bad, "doubtful, for a check failed: "),
        (State::Warning, Tone::Warning, "warnings: "),
        (State::Unknown, Tone::Unknown, "not known: "),
    ];
    let told = kinds.map(|(state, tone, words)| (tone, words, of(state)));
    let told = told.into_iter().filter(|(.., names)| !names.is_empty());
    let told: Vec<_> = told.map(|(tone, words, names)| (tone, words.to_owned() + &names)).collect();
    if told.is_empty() {
        said.push((Tone::Good, "every check passed".to_owned()));
    }
    said.extend(told);
    said
}

fn figures(plan: &Plan, outcome: &Outcome) -> Vec<(&'static str, String, bool)> {
    let answered = outcome.latency.count() > 0;
    let at = |quantile: f64| match answered {
        true => ms(outcome.latency.quantile_ns(quantile) as f64 / 1e6),
        false => "-".to_owned(),
    };
    let ended = (outcome.ok + outcome.failed).max(1) as f64;
    let ran = !outcome.duration.is_zero();
    let known = |text: String| if ran { text } else { "-".to_owned() };
    let failed = match outcome.failed {
        0 => known("0".to_owned()),
        failed => format!("{} %", three(100.0 * failed as f64 / ended)),
    };
    let open = outcome.open.as_ref().filter(|_| ran);
    let planned = open.map(|open| {
        let rate = open.planned(outcome.begun()) as f64 / planned_s(plan, outcome);
        let title = if outcome.scene.is_some() { "rounds planned" } else { "planned a second" };
        (title, si_count(rate), false)
    });
    let drained = open.filter(|open| is_drain_told(outcome, open));
    let drained = drained.map(|open| ("after the window", count(open.drained), true));
    let first = [("answers a second", known(si_count(outcome.rate_rps())), false)];
    let last = [
        ("p50", at(0.5), false),
        ("p90", at(0.9), false),
        ("p99", at(0.99), false),
        ("max", at(1.0), false),
        ("failed", failed, outcome.failed > 0),
        ("CPU a request", known(time_us(outcome.cpu_us_per_request())), false),
    ];
    first.into_iter().chain(planned).chain(drained).chain(last).collect()
}

/// Of an open loop with late answers.
fn window_s(told: &Told<'_>) -> Option<f64> {
    let open = told.outcome.open.as_ref();
    let is_told = open.is_some_and(|open| is_drain_told(told.outcome, open));
    is_told.then(|| planned_s(told.plan, told.outcome))
}

fn threshold(goal: &Goal) -> (String, String, bool) {
    (goal.threshold.expression.clone(), goal.value(), goal.judged.met)
}

fn second(interval: &Interval) -> PageSecond {
    let latency = interval.latency();
    let at = |quantile: f64| latency.quantile_ns(quantile) as f64 / 1e6;
    let length_s = interval.length.as_secs_f64();
    PageSecond {
        start_s: interval.start.as_secs_f64(),
        length_s,
        rate_rps: interval.rate_rps(),
        failed_rps: if length_s > 0.0 { interval.failed as f64 / length_s } else { 0.0 },
        latency_ms: (latency.count() > 0).then(|| [at(0.5), at(0.9), at(0.99), at(1.0)]),
    }
}

fn curves(outcome: &Outcome) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let open = outcome.open.as_ref();
    let all = [
        ("latency", Some(&outcome.latency)),
        ("service", open.map(|open| &open.service)),
        ("first byte", Some(&outcome.first_byte)),
    ];
    let known = all.into_iter().filter_map(|(name, latency)| Some((name, latency?)));
    let known = known.filter(|(_, latency)| latency.count() > 0);
    known.map(|(name, latency)| (name, curve(latency))).collect()
}

/// To the share that one answer in all is beyond, in steps of a twentieth of a nine.
fn curve(latency: &Latency) -> Vec<(f64, f64)> {
    let most = (latency.count() as f64).log10().min(7.0);
    let steps = (20.0 * most).ceil() as u32;
    let quantiles = (0..=steps).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 20.0));
    quantiles.map(|quantile| (quantile, latency.quantile_ns(quantile) as f64 / 1e6)).collect()
}

fn rows(outcome: &Outcome) -> Vec<(&'static str, Vec<String>, &'static str)> {
    let known = times(outcome).into_iter().filter(|(_, latency, _)| latency.count() > 0);
    let row = |(name, latency, note)| {
        let figures = Latencies::of(latency).figures();
        (name, figures.iter().filter_map(|(_, us)| us.map(time_us)).collect(), note)
    };
    known.map(row).collect()
}

fn answers(outcome: &Outcome) -> Vec<(String, String, bool)> {
    let statuses = outcome.status.iter();
    let statuses = statuses.map(|(code, n)| (format!("status {code}"), count(*n), *code >= 400));
    let errors = outcome.errors.iter();
    let errors = errors.map(|(kind, n)| (format!("error: {}", kind.name()), count(*n), true));
    let rest = [("in flight at the end".to_owned(), count(outcome.in_flight), false)];
    let sent = [("sent".to_owned(), count(outcome.sent), false)];
    sent.into_iter().chain(statuses).chain(errors).chain(rest).collect()
}

fn check(check: &Check) -> (Tone, &'static str, String) {
    let tone = match check.state {
        State::Ok => Tone::Good,
        State::Warning => Tone::Warning,
        State::Unknown => Tone::Unknown,
        State::Failed => Tone::Bad,
    };
    (tone, check.name, check.words())
}
