//! `--rate`, `--stages`, `--arrivals`: when requests begin. Pure.

use std::time::Duration;

use drom_load::{Arrivals, Pace, Stage};

use super::duration;

/// How arrivals are spread, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Spread {
    /// As regular as a clock
    Constant,
    /// Each at random, as those of many independent clients
    Poisson,
}

/// What was written of it.
pub struct Written<'a> {
    pub rate_rps: Option<f64>,
    pub stages: &'a [Stage],
    pub spread: Spread,
    pub seed: u64,
    pub duration: Duration,
    /// Ends the run, in place of the duration.
    pub requests: Option<u64>,
}

impl Written<'_> {
    /// `None`: a closed loop.
    pub fn pace(&self) -> Option<Pace> {
        let stages = match (self.rate_rps, self.requests) {
            (None, _) if self.stages.is_empty() => return None,
            (None, _) => self.stages.to_vec(),
            (Some(rps), Some(n)) => {
                vec![Stage::steady(Duration::from_secs_f64(n as f64 / rps), rps)]
            }
            (Some(rps), None) => vec![Stage::steady(self.duration, rps)],
        };
        let arrivals = match (self.spread, self.requests) {
            (Spread::Constant, _) => Arrivals::Constant,
            (Spread::Poisson, None) => Arrivals::Poisson { seed: self.seed },
            (Spread::Poisson, Some(requests)) => Arrivals::PoissonOf { seed: self.seed, requests },
        };
        Some(Pace { arrivals, stages })
    }
}

/// Requests a second: 100, 2.5, 20k.
pub fn rate(text: &str) -> Result<f64, String> {
    match number(text) {
        Some(rps) if rps > 0.0 => Ok(rps),
        Some(_) => {
            Err("a rate is more than 0; without --rate the load is a closed loop".to_owned())
        }
        None => Err("that is no rate; write 100, 2.5 or 20k requests a second".to_owned()),
    }
}

/// `30s:100` holds a rate, `30s:100-500` goes evenly from one to the other.
pub fn stage(text: &str) -> Result<Stage, String> {
    let wrong = || format!("{text:?} is no stage; write TIME:RATE or TIME:FROM-TO, as in 30s:100");
    let (time, rates) = text.split_once(':').ok_or_else(wrong)?;
    let duration = duration::parse(time)?;
    if duration.is_zero() {
        return Err(format!("{text:?} lasts no time"));
    }
    let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
    let (from_rps, to_rps) = number(from).zip(number(to)).ok_or_else(wrong)?;
    Ok(Stage { duration, from_rps, to_rps })
}

/// The same as it is written.
pub fn written(stage: &Stage) -> String {
    let Stage { duration, from_rps, to_rps } = stage;
    let to = if from_rps == to_rps { String::new() } else { format!("-{to_rps}") };
    format!("{}s:{from_rps}{to}", duration.as_secs_f64())
}

fn number(text: &str) -> Option<f64> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000.0),
        None => (text, 1.0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| plain)? * scale;
    (number < 1e9).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        for (text, rps) in [("100", 100.0), ("2.5", 2.5), ("20k", 20_000.0), ("0.1", 0.1)] {
            assert_eq!(rate(text), Ok(rps), "{text}");
        }
        for text in ["", "0", "-1", "k", "1e3", "inf", "nan", "10/s", "9999999k"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn stages_hold_or_change_a_rate() {
        let thirty = Duration::from_secs(30);
        assert_eq!(stage("30s:100"), Ok(Stage::steady(thirty, 100.0)));
        let ramp = Stage { duration: thirty, from_rps: 0.0, to_rps: 2_000.0 };
        assert_eq!(stage("30s:0-2k"), Ok(ramp));
        assert_eq!(written(&ramp), "30s:0-2000");
        for text in ["30s:100", "0.5s:2.5-7"] {
            assert_eq!(written(&stage(text).expect(text)), text);
        }
        for text in ["", "30s", "30s:", ":5", "0s:5", "30s:5-", "30s:-5", "30:5:6", "x:5"] {
            assert!(stage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_and_a_rate_make_a_duration() {
        let written = Written {
            rate_rps: Some(100.0),
            stages: &[],
            spread: Spread::Constant,
            seed: 1,
            duration: Duration::from_secs(10),
            requests: Some(50),
        };
        let pace = written.pace().unwrap();
        assert_eq!(pace.stages, [Stage::steady(Duration::from_millis(500), 100.0)]);
        assert!(Written { rate_rps: None, ..written }.pace().is_none());
    }
}
