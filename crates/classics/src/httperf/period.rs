//! `--period`: times between connections or sessions that are not all the same. Pure.

use drom_stats::Rng;

use super::{Options, illegal};
use crate::{Refusal, number::general};

/// How the seconds from one to the next are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Period {
    /// Evenly from a range.
    Uniform { from_s: f64, to_s: f64 },
    /// As of a Poisson process.
    Exponential { mean_s: f64 },
}

/// The mean rate, and what makes it uneven: `d0.1` or `0.1`, `u0.1,0.3`, `e0.1`.
pub(super) fn read(value: &str) -> Result<(f64, Option<Period>), Refusal> {
    let wrong = || illegal("interarrival time", value);
    let number =
        |text: &str| text.parse::<f64>().ok().filter(|s| (0.0..=1e6).contains(s)).ok_or_else(wrong);
    let rate = |mean_s: f64| if mean_s > 0.0 { 1.0 / mean_s } else { 0.0 };
    match value.bytes().next() {
        Some(b'u' | b'U') => {
            let (from, to) = value[1..].split_once(',').ok_or_else(wrong)?;
            let (from_s, to_s) = (number(from)?, number(to)?);
            if to_s < from_s {
                return Err(wrong());
            }
            Ok((rate((from_s + to_s) / 2.0), Some(Period::Uniform { from_s, to_s })))
        }
        Some(b'e' | b'E') => {
            let mean_s = number(&value[1..])?;
            Ok((rate(mean_s), Some(Period::Exponential { mean_s })))
        }
        _ => number(value.trim_start_matches(['d', 'D'])).map(|mean_s| (rate(mean_s), None)),
    }
}

/// As it is repeated.
pub(super) fn echo(options: &Options) -> Option<String> {
    match options.period.filter(|_| options.rate > 0.0) {
        None if options.rate > 0.0 => Some(format!("rate={}", general(options.rate))),
        None => None,
        Some(Period::Uniform { from_s, to_s }) => {
            Some(format!("period=u{},{}", general(from_s), general(to_s)))
        }
        Some(Period::Exponential { mean_s }) => Some(format!("period=e{}", general(mean_s))),
    }
}

impl Period {
    /// Nanoseconds from the start to each of so many begins: for one client always the same.
    #[must_use]
    pub fn starts_ns(self, count: u64, client: u32) -> Vec<u64> {
        let (mut rng, mut at_s) = (Rng::new(u64::from(client)), 0.0);
        let mut starts = Vec::new();
        for _ in 0..count {
            starts.push((at_s * 1e9) as u64);
            at_s += self.draw(&mut rng);
        }
        starts
    }

    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Uniform { from_s, to_s } => from_s + (to_s - from_s) * rng.unit(),
            Self::Exponential { mean_s } => -(1.0 - rng.unit()).ln() * mean_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read() {
        assert_eq!(read("0.5"), Ok((2.0, None)));
        assert_eq!(read("d0"), Ok((0.0, None)));
        let uniform = Period::Uniform { from_s: 1.0, to_s: 3.0 };
        assert_eq!(read("u1,3"), Ok((0.5, Some(uniform))));
        assert_eq!(read("e0.25"), Ok((4.0, Some(Period::Exponential { mean_s: 0.25 }))));
        for wrong in ["", "u1", "u3,1", "e", "v0.1,1", "-1", "x", "inf"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn starts_are_as_they_were_drawn_and_the_same_again() {
        let uniform = Period::Uniform { from_s: 0.1, to_s: 0.3 };
        let starts = uniform.starts_ns(1_000, 0);
        assert_eq!((starts.len(), starts[0]), (1_000, 0));
        let gaps = |starts: &[u64]| -> Vec<u64> {
            starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        assert!(gaps(&starts).iter().all(|gap| (100_000_000 - 1..=300_000_000).contains(gap)));
        assert_eq!(starts, uniform.starts_ns(1_000, 0));
        assert_ne!(starts, uniform.starts_ns(1_000, 1));
        let last = *Period::Exponential { mean_s: 0.1 }.starts_ns(10_000, 0).last().expect("some");
        assert!((950e9..1_050e9).contains(&(last as f64)), "{last}");
    }
}
