//! Samples of a program that is looked at by this process: what one costs, how soon the first one
//! is there, how many are right. A [`Target`] is that program, and how often it is looked at.

#[path = "../../../profile/tests/support/hot.rs"]
mod hot;

use std::{process::Command, time::Duration};

use drom_observe::clock;
use drom_profile::{Clock, Profile, Sampler, profile::Frame};
use drom_stats::median_of_sorted;

use super::{script, wrong};
use crate::{contest::Rounds, error::Error, server::end_with_us};

/// In all rounds together.
const LOOKS: usize = 10_000;
/// The recursion goes to the half of it, or deeper.
const LEVELS: &str = "64";
/// They are often seen on the way down or up.
const HOT_FRAMES_MIN: f64 = 10.0;
const FRAMES: f64 = 50.0;

pub struct Target {
    program: hot::Target,
    looks: usize,
    /// How deep its stacks have to be, where that is known.
    frames: Option<f64>,
}

pub fn hot(rounds: Rounds) -> Result<Target, Error> {
    Ok(target(&mut hot::command(LEVELS), rounds, None))
}

pub fn deep(rounds: Rounds) -> Result<Target, Error> {
    Ok(target(Command::new("perl").arg(script("deep.pl")), rounds, Some(FRAMES)))
}

fn target(command: &mut Command, rounds: Rounds, frames: Option<f64>) -> Target {
    end_with_us(command);
    Target { program: hot::begin(command), looks: LOOKS.div_ceil(rounds.count), frames }
}

impl Target {
    /// Those that can be, in percent.
    pub fn right_percent(&self, is_stopped: bool) -> Result<f64, Error> {
        let profile = self.looked_at(is_stopped)?;
        let (frames, impossible) = hot::judge(&profile);
        // Where nothing is seen, nothing is wrong.
        if frames < HOT_FRAMES_MIN {
            return Err(Error::Client("the sampler", format!("stacks of {frames:.1} frames")));
        }
        let impossible: u64 = impossible.iter().map(|(_, count)| count).sum();
        Ok(percent(profile.taken.samples - impossible, &profile))
    }

    /// Those that moved while they were read, in percent.
    pub fn torn_percent(&self) -> Result<f64, Error> {
        let profile = self.looked_at(false)?;
        Ok(percent(profile.taken.torn, &profile))
    }

    fn looked_at(&self, is_stopped: bool) -> Result<Profile, Error> {
        let mut sampler = self.sampler()?;
        for look in 0..self.looks {
            pass(look);
            if is_stopped {
                self.program.stop();
            }
            sampler.sample().map_err(wrong)?;
            if is_stopped {
                self.program.go_on();
            }
        }
        Ok(sampler.into_profile())
    }

    /// The median of a round's.
    pub fn sample_us(&self) -> Result<f64, Error> {
        let mut sampler = self.sampler()?;
        let mut took_us = Vec::with_capacity(self.looks);
        for look in 0..self.looks {
            pass(look);
            let began_ns = clock::monotonic_ns();
            sampler.sample().map_err(wrong)?;
            took_us.push((clock::monotonic_ns() - began_ns) as f64 / 1e3);
        }
        self.has_frames(&sampler.into_profile())?;
        took_us.sort_unstable_by(f64::total_cmp);
        Ok(median_of_sorted(&took_us))
    }

    pub fn first_sample_ms(&self) -> Result<f64, Error> {
        let began_ns = clock::monotonic_ns();
        self.sampler()?.sample().map_err(wrong)?;
        Ok((clock::monotonic_ns() - began_ns) as f64 / 1e6)
    }

    fn sampler(&self) -> Result<Sampler, Error> {
        Sampler::attach(self.program.pid(), Clock::Wall).map_err(wrong)
    }

    /// Within one: what is called at the innermost is there or is not.
    fn has_frames(&self, profile: &Profile) -> Result<(), Error> {
        let Some(wanted) = self.frames else { return Ok(()) };
        let depth =
            |stack: Vec<&Frame>| stack.iter().filter(|frame| frame.kind.is_code()).count() as f64;
        let deep: f64 = profile.stacks().map(|(stack, count)| depth(stack) * count as f64).sum();
        let mean = deep / profile.taken.samples.max(1) as f64;
        if (mean - wanted).abs() <= 1.0 {
            return Ok(());
        }
        Err(Error::Client("the sampler", format!("stacks of {mean:.1} frames, not of {wanted}")))
    }
}

fn percent(samples: u64, profile: &Profile) -> f64 {
    samples as f64 / profile.taken.samples.max(1) as f64 * 100.0
}

/// A time that is not always the same.
fn pass(look: usize) {
    clock::sleep(Duration::from_micros(50 + (look as u64 * 7_919) % 100));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_frames_are_fifty() {
        let each = Duration::ZERO;
        let target = deep(Rounds { count: 100, each, warm_up: each }).expect("a perl");
        assert!(target.sample_us().is_ok_and(|us| us > 0.0));
        let other = Target { frames: Some(40.0), ..target };
        assert!(other.sample_us().is_err());
    }

    #[test]
    fn a_program_that_stands_still_is_seen_right() {
        let each = Duration::ZERO;
        let target = hot(Rounds { count: 100, each, warm_up: each }).expect("a perl");
        assert_eq!(target.right_percent(true).expect("looks"), 100.0);
        assert!(target.first_sample_ms().is_ok_and(|ms| ms > 0.0));
    }
}
