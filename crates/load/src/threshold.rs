//! What a run shall reach: `p99<250ms`, `failed<0.1%`, `first_byte.p99<=20ms`, `rate>2k`. Pure.
//!
//! Which metrics there are is the catalogue's business ([`crate::metric`]).

use std::time::Duration;

use std::fmt::Write as _;

use crate::{
    metric::{self, Kind, METRICS, Of},
    outcome::{Latency, Outcome},
    plan::Plan,
};

/// A metric with its comparison and limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// As it was written, without spaces.
    pub expression: String,
    metric: Metric,
    comparison: Comparison,
    /// In `unit`.
    limit: f64,
    unit: Unit,
}

/// What became of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// In the unit of the limit; none when nothing was measured that it could come from.
    pub value: Option<f64>,
    /// Never without a value: what was not measured has not been reached.
    pub met: bool,
}

/// Why a text is no threshold: which part of it, and what it could have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThresholdError {
    #[error("{0:?} has no comparison; write METRIC<LIMIT, with <, <=, > or >=: p99<250ms")]
    Comparison(String),
    #[error("there is no metric {name:?}{near}; there are {}", names())]
    Metric { name: String, near: String },
    #[error("{0:?} is no percentile; write one below 100, as p50 or p99.9")]
    Percentile(String),
    #[error("the limit {0:?} has no number")]
    Limit(String),
    #[error("{}; write {wanted}", unit_fault(unit, metric))]
    Unit { unit: String, metric: String, wanted: &'static str },
}

fn unit_fault(unit: &str, metric: &str) -> String {
    match unit {
        "" => format!("the number of {metric} needs a unit"),
        unit => format!("the unit {unit:?} does not go with {metric}"),
    }
}

impl Threshold {
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let expression: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (name, comparison, limit) = Comparison::split(&expression)
            .ok_or_else(|| ThresholdError::Comparison(text.to_owned()))?;
        let metric = Metric::parse(name)?;
        let (limit, unit) = metric.limit(limit, name)?;
        Ok(Self { metric, comparison, limit, unit, expression })
    }

    #[must_use]
    pub fn judge(&self, outcome: &Outcome) -> Judged {
        let value = self.metric.value(self.unit, outcome).map(|value| value / self.unit.scale());
        let met = value.is_some_and(|value| self.comparison.holds(value, self.limit));
        Judged { value, met }
    }

    /// What a run by `plan` lacks to be judged by this: known before it, not after it. A plan that
    /// has no pace yet may get one (`is_open`).
    #[must_use]
    pub fn missing(&self, plan: &Plan, is_open: bool) -> Option<&'static str> {
        let (Metric::Times(at, _) | Metric::Figure(at)) = self.metric;
        METRICS[at].needs.missing(plan, is_open)
    }

    /// Something is below the limit, and less is better.
    #[must_use]
    pub fn is_upper(&self) -> bool {
        match self.comparison {
            Comparison::Less => self.limit > 0.0,
            Comparison::LessOrEqual => self.limit >= 0.0,
            Comparison::More | Comparison::MoreOrEqual => false,
        }
    }

    /// The limit, where it is one of a time.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        let is_time = matches!(self.unit, Unit::Ns | Unit::Us | Unit::Ms | Unit::S);
        let limit = Duration::try_from_secs_f64(self.limit * self.unit.scale() / 1e9);
        is_time.then(|| limit.unwrap_or(Duration::MAX))
    }

    /// What value and limit are in: `ms`, `%`, or nothing.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.unit.name()
    }
}

/// The metrics for a terminal.
#[must_use]
pub fn help() -> String {
    let mut out = String::from(
        "Metrics of --threshold:\n  Times (ns, us, ms, s): mean, max and any percentile, alone or \
         after the name of a part\n",
    );
    let (times, numbers): (Vec<_>, Vec<_>) =
        metric::limits().partition(|metric| metric.is_histogram());
    for metric in times {
        let _ = writeln!(out, "    {:<11} {}", metric.name, metric.doc);
    }
    out += "  Numbers (k, M; shares with %)\n";
    for metric in numbers {
        let _ = writeln!(out, "    {:<11} {}", metric.name, metric.doc);
    }
    out.trim_end().to_owned()
}

/// It needs no prefix: `p99` is `latency.p99`.
pub const FIRST: &str = "latency";

/// An entry of the catalogue, by its place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Times(usize, Statistic),
    Figure(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Max,
    /// As a share.
    Quantile(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
    Percent,
    One,
}

impl Metric {
    fn parse(name: &str) -> Result<Self, ThresholdError> {
        if let Some(at) = place(name, false) {
            return Ok(Self::Figure(at));
        }
        let (times, statistic) = name.split_once('.').unwrap_or((FIRST, name));
        // `p99.9` has a point of its own.
        let (times, statistic) = match place(times, true) {
            Some(at) => (at, statistic),
            None if looks_like_percentile(name) => (place(FIRST, true).unwrap_or(0), name),
            None => return Err(unknown(name)),
        };
        match statistic {
            "mean" => Ok(Self::Times(times, Statistic::Mean)),
            "max" => Ok(Self::Times(times, Statistic::Max)),
            _ if looks_like_percentile(statistic) => {
                Ok(Self::Times(times, Statistic::Quantile(quantile(statistic)?)))
            }
            _ => Err(unknown(name)),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Figure(at) if let Of::Figure(kind, _) = METRICS[at].of => kind,
            _ => Kind::Time,
        }
    }

    /// Number and unit of a limit.
    fn limit(self, text: &str, name: &str) -> Result<(f64, Unit), ThresholdError> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let unit_at = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.parse().map_err(|_| ThresholdError::Limit(text.to_owned()))?;
        let (scale, unit) = self.kind().unit(unit).ok_or_else(|| ThresholdError::Unit {
            unit: unit.to_owned(),
            metric: name.to_owned(),
            wanted: self.kind().wanted(),
        })?;
        Ok((number * scale, unit))
    }

    /// Times in nanoseconds, shares as shares.
    fn value(self, unit: Unit, run: &Outcome) -> Option<f64> {
        match self {
            Self::Times(at, statistic) => match METRICS[at].of {
                Of::Times(of) => statistic.of(of(run)?),
                _ => None,
            },
            Self::Figure(at) => match METRICS[at].of {
                Of::Figure(kind, of) => figure(kind, of(run), unit, run),
                _ => None,
            },
        }
    }
}

/// As it is, or as a share of what it is a part of.
fn figure(kind: Kind, value: f64, unit: Unit, run: &Outcome) -> Option<f64> {
    let ended = run.ok + run.failed + run.unwritten();
    let whole = match (kind, unit) {
        (Kind::Number, _) => return (!run.duration.is_zero()).then_some(value),
        (Kind::Time, _) => return (ended > 0).then_some(value),
        (Kind::Requests, Unit::One) => return (ended > 0).then_some(value),
        (Kind::Requests, _) => ended,
        (Kind::Planned, Unit::Percent) => {
            run.sent + run.open.as_ref().map_or(0, |open| open.unsent)
        }
        _ => return Some(value),
    };
    (whole > 0).then(|| value / whole as f64)
}

impl Statistic {
    fn of(self, latency: &Latency) -> Option<f64> {
        let value = match self {
            Self::Mean => latency.mean_ns(),
            Self::Max => latency.max_ns() as f64,
            Self::Quantile(quantile) => latency.quantile_ns(quantile) as f64,
        };
        (latency.count() > 0).then_some(value)
    }
}

impl Comparison {
    /// What stands left of it, and right.
    fn split(text: &str) -> Option<(&str, Self, &str)> {
        let at = text.find(['<', '>'])?;
        let (name, rest) = text.split_at(at);
        let (is_less, rest) = (rest.starts_with('<'), &rest[1..]);
        Some(match (is_less, rest.strip_prefix('=')) {
            (true, None) => (name, Self::Less, rest),
            (true, Some(limit)) => (name, Self::LessOrEqual, limit),
            (false, None) => (name, Self::More, rest),
            (false, Some(limit)) => (name, Self::MoreOrEqual, limit),
        })
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
            Self::More => value > limit,
            Self::MoreOrEqual => value >= limit,
        }
    }
}

impl Kind {
    /// What a number before `unit` is multiplied by, and the unit it then has.
    fn unit(self, unit: &str) -> Option<(f64, Unit)> {
        let unit = match (self, unit) {
            (Self::Time, "ns") => Unit::Ns,
            (Self::Time, "us" | "\u{b5}s") => Unit::Us,
            (Self::Time, "ms") => Unit::Ms,
            (Self::Time, "s") => Unit::S,
            (Self::Requests | Self::Planned, "%") => Unit::Percent,
            (Self::Time, _) => return None,
            (_, "") => Unit::One,
            (_, "k" | "K") => return Some((1e3, Unit::One)),
            (_, "M") => return Some((1e6, Unit::One)),
            _ => return None,
        };
        Some((1.0, unit))
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Time => "ns, us, ms or s",
            Self::Number => "a number, with k or M",
            Self::Requests | Self::Planned => "%, or a number, with k or M",
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
            Self::Percent => "%",
            Self::One => "",
        }
    }

    /// Nanoseconds, or a share, of one.
    fn scale(self) -> f64 {
        match self {
            Self::Ns | Self::One => 1.0,
            Self::Us => 1e3,
            Self::Ms => 1e6,
            Self::S => 1e9,
            Self::Percent => 0.01,
        }
    }
}

fn looks_like_percentile(name: &str) -> bool {
    let digits = name.strip_prefix('p').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn quantile(name: &str) -> Result<f64, ThresholdError> {
    let percent = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| ThresholdError::Percentile(name.into()))
}

/// Where the catalogue has it.
fn place(name: &str, histogram: bool) -> Option<usize> {
    let wanted = |known: &metric::Metric| known.name == name && known.is_histogram() == histogram;
    METRICS.iter().position(|known| !name.is_empty() && wanted(known))
}

/// Every name, one of each kind of statistic, for messages.
fn names() -> String {
    let plain = ["percentiles (p50, p99.9)", "mean", "max"].into_iter().map(str::to_owned);
    let (times, figures): (Vec<_>, Vec<_>) =
        metric::limits().partition(|metric| metric.is_histogram());
    let figures = figures.into_iter().map(|metric| metric.name.to_owned());
    let times = times.into_iter().filter(|metric| metric.name != FIRST);
    let times = times.map(|metric| format!("{}.p99", metric.name));
    plain.chain(figures).chain(times).collect::<Vec<_>>().join(", ")
}

fn unknown(name: &str) -> ThresholdError {
    let statistics = ["mean", "max", "p50", "p90", "p95", "p99", "p99.9"];
    let written = |metric: &metric::Metric| match metric.is_histogram() {
        true => statistics.map(|statistic| format!("{}.{statistic}", metric.name)).to_vec(),
        false => vec![metric.name.to_owned()],
    };
    let all = metric::limits().flat_map(written).chain(statistics.map(str::to_owned));
    let near = all.map(|known| (strsim::damerau_levenshtein(&known, name), known)).min();
    let near = near.filter(|(distance, known)| *distance <= 2.max(known.len() / 3));
    let near = near.map_or_else(String::new, |(_, known)| format!(" (did you mean {known}?)"));
    ThresholdError::Metric { name: name.to_owned(), near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{open::OpenTally, outcome::ErrorKind};
    use std::time::Duration;

    /// 1000 answers of 1 ms to 1 s, and 4 errors, in 2 s.
    fn run() -> Outcome {
        let mut run = Outcome {
            sent: 1_004,
            ok: 1_000,
            failed: 4,
            duration: Duration::from_secs(2),
            status: [(200, 1_000)].into(),
            errors: [(ErrorKind::Closed, 4)].into(),
            ..Outcome::default()
        };
        (1..=1_000).for_each(|ms| run.latency.record_ns(ms * 1_000_000));
        run.first_byte.record_ns(7_000_000);
        run
    }

    fn judged(text: &str) -> Judged {
        Threshold::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).judge(&run())
    }

    #[test]
    fn each_kind_of_limit_is_judged_in_its_own_unit() {
        for (text, value, met) in [
            ("p99<991ms", 990.0, true),
            ("p99 < 980ms", 990.0, false),
            ("p99.9>=0.9s", 0.999, true),
            ("latency.p50<=501000us", 500_000.0, true),
            ("max<1000000001ns", 1e9, false),
            ("mean>500ms", 500.5, true),
            ("rate>=500", 500.0, true),
            ("rate>0.6k", 500.0, false),
            ("failed<0.4%", 400.0 / 1_004.0, true),
            ("failed<=3", 4.0, false),
            ("errors<5", 4.0, true),
            ("unsent<1", 0.0, true),
            ("first_byte.p99<7.1ms", 7.0, true),
            ("service.p50<600ms", 500.0, true),
        ] {
            let judged = judged(text);
            let found = judged.value.expect("measured");
            let value: f64 = value;
            assert!((found / value.max(1e-9) - 1.0).abs() < 2e-3 || value == 0.0, "{text} {found}");
            assert_eq!(judged.met, met, "{text}: {found}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        for text in ["tls.p99<1s", "lag.max<1s", "whole.mean>=0ns"] {
            assert_eq!(judged(text), Judged { value: None, met: false }, "{text}");
        }
        let nothing = |text: &str| {
            Threshold::parse(text).expect("a threshold").judge(&Outcome::default()).met
        };
        assert!(!nothing("failed<100%") && !nothing("rate>=0") && !nothing("failed<1"));
    }

    #[test]
    fn an_open_loop_has_figures_of_its_own() {
        let open = OpenTally { unsent: 96, ..OpenTally::default() };
        let run = Outcome { sent: 904, open: Some(open), ..Outcome::default() };
        let judged = Threshold::parse("unsent<10%").expect("a threshold").judge(&run);
        assert!((judged.value.expect("a share") - 9.6).abs() < 1e-9 && judged.met);
    }

    #[test]
    fn a_wrong_one_says_what_is_wrong_and_what_is_near() {
        for (text, words) in [
            ("p99", "no comparison"),
            ("p99=5ms", "no comparison"),
            ("fialed<1%", "did you mean failed?"),
            ("firstbyte.p99<1ms", "did you mean first_byte.p99?"),
            ("median<1ms", "there are percentiles (p50, p99.9), mean, max, failed, rate"),
            ("latency.average<1ms", "no metric \"latency.average\""),
            ("p100<1ms", "no percentile"),
            ("p9.9.9<1ms", "no percentile"),
            ("p99<ms", "no number"),
            ("p99<-1ms", "no number"),
            ("p99<250", "the number of p99 needs a unit; write ns, us, ms or s"),
            ("rate>5ms", "\"ms\" does not go with rate"),
            ("failed<1s", "%, or a number"),
            ("rate>5%", "\"%\" does not go with rate"),
        ] {
            let error = Threshold::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
