//! What users of a scenario did, for every form of the report: rounds, steps, checks that failed.
//! Pure.

use drom_load::{Outcome, Plan, Scene, SceneTally, StepTally};
use serde::Serialize;

use super::{
    json::Latencies,
    text::{count, si_count, time_us},
};

/// In the JSON report.
#[derive(Default, Serialize)]
pub struct Document<'a> {
    name: &'a str,
    seed: u64,
    rounds: Rounds,
    steps: Vec<Step<'a>>,
    checks: Vec<Check<'a>>,
    /// Users who had no more to do, and the feeder whose rows were all taken.
    users_ended: u32,
    exhausted: Option<&'a str>,
    cookies_refused: u64,
}

#[derive(Default, Serialize)]
struct Rounds {
    begun: u64,
    done: u64,
    under_way: u64,
    rate_rps: Option<f64>,
    time_us: Latencies,
}

#[derive(Serialize)]
struct Step<'a> {
    name: &'a str,
    sent: u64,
    ok: u64,
    failed: u64,
    unsent: u64,
    latency_us: Latencies,
}

#[derive(Serialize)]
struct Check<'a> {
    step: &'a str,
    name: &'a str,
    passed: u64,
    failed: u64,
}

/// The names of the columns of [`row`].
pub const COLUMNS: [&str; 6] = ["sent", "failed", "p50", "p99", "max", "step"];

/// What is told of a scenario that was run.
pub fn document<'a>(plan: &'a Plan, outcome: &'a Outcome) -> Option<Document<'a>> {
    let (scene, tally) = both(plan, outcome)?;
    let scenario = &scene.scenario;
    let step = |(step, tally): (&'a drom_scenario::Step, &StepTally)| Step {
        name: &step.name,
        sent: tally.sent,
        ok: tally.ok,
        failed: tally.failed,
        unsent: tally.unsent,
        latency_us: Latencies::of(&tally.latency),
    };
    let rounds = &tally.rounds;
    Some(Document {
        name: &scenario.name,
        seed: scene.seed,
        rounds: Rounds {
            begun: rounds.begun,
            done: rounds.done,
            under_way: rounds.under_way,
            rate_rps: rate_rps(outcome),
            time_us: Latencies::of(&rounds.time),
        },
        steps: scenario.steps().iter().zip(&tally.steps).map(step).collect(),
        checks: checks(scene, tally).collect(),
        users_ended: tally.users_ended,
        exhausted: tally.exhausted.map(|at| &scenario.feeders()[at].name[..]),
        cookies_refused: tally.checks.cookies_refused,
    })
}

/// One line for all rounds.
pub fn rounds(outcome: &Outcome, tally: &SceneTally) -> String {
    let rounds = &tally.rounds;
    let rate = rate_rps(outcome).map_or_else(|| "-".to_owned(), si_count);
    let mut text = format!("{rate:>10} rounds/s, {} done", count(rounds.done));
    if rounds.under_way > 0 {
        text += &format!(", {} under way at the end", count(rounds.under_way));
    }
    if rounds.time.count() > 0 {
        let at = |quantile| time_us(rounds.time.quantile_ns(quantile) as f64 / 1e3);
        text += &format!("; p50 {}, p99 {} each", at(0.5), at(0.99));
    }
    text
}

/// A line for each step that was asked, in the order of [`COLUMNS`].
pub fn rows(scene: &Scene, tally: &SceneTally) -> Vec<[String; 6]> {
    let known = scene.scenario.steps().iter().zip(&tally.steps);
    known.map(|(step, tally)| row(&step.name, tally)).collect()
}

fn row(name: &str, tally: &StepTally) -> [String; 6] {
    let at = |quantile: f64| match (tally.latency.count(), quantile) {
        (0, _) => "-".to_owned(),
        (_, 1.0) => time_us(tally.latency.max_ns() as f64 / 1e3),
        _ => time_us(tally.latency.quantile_ns(quantile) as f64 / 1e3),
    };
    let unsent = match tally.unsent {
        0 => String::new(),
        unsent => format!(" ({} could not be sent)", count(unsent)),
    };
    let name = drom_report::format::plain(name) + &unsent;
    [count(tally.sent), count(tally.failed), at(0.5), at(0.99), at(1.0), name]
}

/// Checks that failed, worst first: how often, of how many, and which.
pub fn failures(scene: &Scene, tally: &SceneTally) -> Vec<(u64, u64, String)> {
    let failed = checks(scene, tally).filter(|check| check.failed > 0);
    let mut failed: Vec<_> = failed
        .map(|check| {
            let what = format!("{}: {}", check.step, check.name);
            let what = drom_report::format::plain(&what);
            (check.failed, check.passed + check.failed, what)
        })
        .collect();
    failed.sort_by_key(|(failed, ..)| std::cmp::Reverse(*failed));
    failed
}

/// The feeder without more rows, but of a recording, which ends so.
pub fn exhausted<'a>(scene: &'a Scene, tally: &SceneTally) -> Option<&'a str> {
    let feeder = scene.scenario.feeders().get(tally.exhausted?)?;
    (!scene.scenario.is_list).then_some(&*feeder.name)
}

/// Scene and tally of a run of users.
pub fn both<'a>(plan: &'a Plan, outcome: &'a Outcome) -> Option<(&'a Scene, &'a SceneTally)> {
    plan.scene.as_ref().zip(outcome.scene.as_ref())
}

fn checks<'a>(scene: &'a Scene, tally: &'a SceneTally) -> impl Iterator<Item = Check<'a>> {
    let steps = scene.scenario.steps();
    scene.scenario.checks().iter().enumerate().map(move |(at, check)| Check {
        step: &steps[check.step].name,
        name: &check.name,
        passed: tally.checks.passed(at),
        failed: tally.checks.failed(at),
    })
}

fn rate_rps(outcome: &Outcome) -> Option<f64> {
    (!outcome.duration.is_zero()).then(|| outcome.done_rps())
}

#[cfg(test)]
mod tests {
    use drom_load::{Latency, metric};

    use super::*;

    #[test]
    fn the_scenario_has_the_keys_of_the_catalogue() {
        let rounds = Rounds {
            begun: 0,
            done: 0,
            under_way: 0,
            rate_rps: None,
            time_us: Latencies::of(&Latency::default()),
        };
        let (steps, checks) = (Vec::new(), Vec::new());
        let document = Document {
            name: "",
            seed: 0,
            rounds,
            steps,
            checks,
            users_ended: 0,
            cookies_refused: 0,
            exhausted: None,
        };
        let (document, mut found) = (serde_json::json!({"scenario": document}), Vec::new());
        super::super::json::tests::keys("", &document, &mut found);
        let known = metric::METRICS.iter().map(|metric| metric.key);
        let known: Vec<&str> = known.filter(|key| key.starts_with("scenario.")).collect();
        assert_eq!(found, known, "crates/load/src/metric.rs has an entry for each key, in order");
    }
}
