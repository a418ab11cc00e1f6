//! `drom load --find-capacity`: its flags, the search's run, and what is told of it.
//!
//! The method is `drom-load`'s (`capacity`); the forms of the result are in the files beside this.

mod csv;
mod json;
mod text;

use std::time::Duration;

use drom_load::{
    Latency, Outcome, Plan, Threshold,
    capacity::{Asked, Attempt, Found, Verdict, Wall, find},
    client_limited, threshold,
};

use super::{Failure, checks, duration, interrupt, pace, progress::How};
use crate::{exit::Exit, say};

pub use {csv::render as csv, json::render as json, text::render as text};

#[derive(clap::Args)]
#[command(next_help_heading = "Capacity")]
pub struct Capacity {
    /// Search for the highest rate at which these hold: p99<50ms,failed<0.1%
    #[arg(long, value_parser = condition, value_delimiter = ',', value_name = "LIMITS")]
    #[arg(conflicts_with_all = NOT_BESIDE, long_help = long_help())]
    find_capacity: Vec<Threshold>,
    /// How long the search may take; 20 s at least
    #[arg(long, value_parser = capacity_time, value_name = "TIME", default_value = "60s")]
    #[arg(requires = "find_capacity", conflicts_with_all = NOT_BESIDE)]
    capacity_time: Duration,
    /// The first rate [default: 80 % of what a closed loop reaches]
    #[arg(long, value_parser = pace::rate, value_name = "RPS", requires = "find_capacity")]
    #[arg(conflicts_with_all = NOT_BESIDE)]
    capacity_start: Option<f64>,
    /// No rate below this is tried
    #[arg(long, value_parser = pace::rate, value_name = "RPS", default_value = "1")]
    #[arg(requires = "find_capacity", conflicts_with_all = NOT_BESIDE)]
    capacity_min: f64,
    /// No rate above this is tried
    #[arg(long, value_parser = pace::rate, value_name = "RPS", default_value = "10000k")]
    #[arg(requires = "find_capacity", conflicts_with_all = NOT_BESIDE)]
    capacity_max: f64,
}

/// What says how to load, where the search does, and what is told of one load alone.
const NOT_BESIDE: [&str; 11] = [
    "replay",
    "rate",
    "stages",
    "requests",
    "duration",
    "threshold",
    "csv_series",
    "hdr",
    "html",
    "prometheus",
    "otlp",
];

/// With less the tries are too short for a second of them to be looked at.
const TIME_MIN: Duration = Duration::from_secs(20);

/// A try, as it is told.
pub struct Row {
    pub attempt: Attempt,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub failed_share: Option<f64>,
    /// Checks that make its figures doubtful, the client's apart.
    pub doubts: Vec<&'static str>,
    /// Why the client is said to have been the limit.
    pub client: String,
}

/// A search and what is thought of it: all that a report of any form is made from.
pub struct Told<'a> {
    pub url: &'a str,
    pub asked: Asked<'a>,
    pub found: Found,
    pub rows: Vec<Row>,
}

impl Capacity {
    pub fn is_asked(&self) -> bool {
        !self.find_capacity.is_empty()
    }

    pub fn conditions(&self) -> &[Threshold] {
        &self.find_capacity
    }

    pub fn search<'a>(
        &'a self,
        url: &'a str,
        plan: &'a Plan,
        seed: Option<u64>,
        progress: How,
    ) -> Result<Told<'a>, Failure> {
        let asked = Asked {
            plan,
            conditions: &self.find_capacity,
            seed,
            start_rps: self.capacity_start,
            min_rps: self.capacity_min,
            max_rps: self.capacity_max,
            time: self.capacity_time,
        };
        if asked.min_rps > asked.max_rps {
            let message = "--capacity-min is more than --capacity-max".to_owned();
            return Err(Failure { message, exit: Exit::Usage });
        }
        let is_shown = progress != How::None;
        let mut rows = Vec::new();
        let found = find(&asked, interrupt::watch(), &mut |attempt, outcome| {
            let row = row(plan, attempt, outcome);
            if is_shown {
                let width = super::super::report::style().width;
                say::line(text::progress(&row, rows.len() + 1, asked.conditions, width));
            }
            rows.push(row);
        })?;
        if let Some(error) = &found.broken {
            say::line(format!("drom load: the search ended early: {error}"));
        }
        Ok(Told { url, asked, found, rows })
    }
}

impl Told<'_> {
    /// What the rates count, where that is not requests: rounds of users with several steps.
    pub fn counts_rounds(&self) -> bool {
        self.asked.plan.scene.as_ref().is_some_and(|scene| !scene.scenario.is_list)
    }

    /// Connections that the server never served while it did others.
    pub fn mute(&self) -> usize {
        self.rows.iter().map(|row| row.attempt.seen.mute).max().unwrap_or(0)
    }

    pub fn exit(&self) -> Exit {
        let answers = self.rows.iter().any(|row| row.p50_us.is_some());
        match self.found.capacity.verdict {
            _ if self.found.interrupted => Exit::Interrupted,
            _ if self.found.broken.is_some() => Exit::Failed,
            _ if !answers => Exit::Failed,
            _ if self.rows.iter().any(|row| !row.doubts.is_empty()) => Exit::Doubtful,
            // Which try meets them depends on its length, and so would the capacity.
            _ if self.mute() > 0 => Exit::Doubtful,
            Verdict::NoneHeld => Exit::NoCapacity,
            Verdict::AtLeast(Wall::Client | Wall::Connections) | Verdict::Unknown => {
                Exit::ClientLimited
            }
            Verdict::Found if self.found.capacity.failed_last > 0 => Exit::Doubtful,
            Verdict::Found | Verdict::AtLeast(_) => Exit::Done,
        }
    }
}

fn row(plan: &Plan, attempt: &Attempt, outcome: &Outcome) -> Row {
    let latency: &Latency = &outcome.latency;
    let at = |quantile| (latency.count() > 0).then(|| latency.quantile_ns(quantile) as f64 / 1e3);
    let ended = outcome.ok + outcome.failed;
    let spoiling = checks::all(plan, outcome).into_iter().filter(checks::Check::spoils);
    let doubts = spoiling.map(|check| check.name).filter(|name| *name != checks::CLIENT);
    Row {
        attempt: attempt.clone(),
        p50_us: at(0.5),
        p99_us: at(0.99),
        failed_share: (ended > 0).then(|| outcome.failed as f64 / ended as f64),
        doubts: doubts.collect(),
        client: client_limited(outcome, None).evidence,
    }
}

fn condition(text: &str) -> Result<Threshold, String> {
    let threshold = Threshold::parse(text).map_err(|error| error.to_string())?;
    if threshold.expression.starts_with("rate") {
        return Err("the rate is what is searched for; write what must hold at it".to_owned());
    }
    match threshold.is_upper() {
        true => Ok(threshold),
        false => {
            Err("a rate holds while something stays below a limit over 0: p99<50ms".to_owned())
        }
    }
}

fn capacity_time(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        time if time < TIME_MIN => Err(format!("a search takes at least {} s", TIME_MIN.as_secs())),
        time => Ok(time),
    }
}

fn long_help() -> String {
    let catalogue = threshold::help();
    let metrics = catalogue.split_once("\n\n").map_or("", |(_, metrics)| metrics);
    format!(
        "Search for the highest rate of an open loop at which all of these hold, with an \
         interval: 'p99<50ms,failed<0.1%'. See docs/load.md.\n\n{metrics}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_thresholds_of_anything_but_the_rate() {
        assert!(condition("p99<50ms").is_ok() && condition("failed<0.1%").is_ok());
        let error = condition("rate>=2k").expect_err("what is searched for");
        assert!(error.contains("searched for"), "{error}");
        for nonsense in ["p99>5ms", "p99<0ms", "failed>=1%"] {
            assert!(condition(nonsense).expect_err(nonsense).contains("p99<50ms"));
        }
        assert!(condition("failed<=0").is_ok());
        assert!(condition("fialed<1%").expect_err("a typo").contains("did you mean"));
    }

    #[test]
    fn a_search_has_time_to_look_twice() {
        assert_eq!(capacity_time("1m"), Ok(Duration::from_secs(60)));
        assert!(capacity_time("5s").expect_err("too short").contains("at least 20 s"));
    }
}
