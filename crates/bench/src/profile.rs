//! The rows of `drom profile` and `drom memory`: each [`Profile`] is a figure of theirs, measured
//! with the crate that both verbs are made of, or with the command itself. What the rows are stands
//! in `table/profile.rs`.

mod cost;
mod heap;
mod looks;
mod shares;
mod slabs;
mod worker;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use drom_stats::Rng;

use crate::{
    contest::{Outcome, Rounds, repeat},
    error::Error,
    server::{Ground, bench_folder},
    table::Profile,
};

pub fn hold(
    figure: Profile,
    ground: &Ground,
    rounds: Rounds,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    match figure {
        Profile::Cost { work, by } => cost::measure(work, by, ground, rounds, rng),
        Profile::RightStacks { is_stopped } => {
            let hot = looks::hot(rounds)?;
            repeat(rounds, |_| hot.right_percent(is_stopped))
        }
        Profile::TornStacks => {
            let hot = looks::hot(rounds)?;
            repeat(rounds, |_| hot.torn_percent())
        }
        Profile::Sample { moves } => {
            let target = if moves { looks::hot(rounds)? } else { looks::deep(rounds)? };
            repeat(rounds, |_| target.sample_us())
        }
        Profile::FirstSample => {
            let hot = looks::hot(rounds)?;
            repeat(rounds, |_| hot.first_sample_ms())
        }
        Profile::Shares => repeat(rounds, |_| shares::largest_difference(ground)),
        Profile::CodeSize(sizer) => {
            let subs = slabs::Subs::make(sizer, ground)?;
            repeat(rounds, |_| subs.largest_error_percent())
        }
        Profile::Pause => {
            let heap = heap::Large::grow(ground)?;
            repeat(rounds, |_| heap.look().map(|look| look.pause_ms))
        }
        Profile::Analysis => {
            let heap = heap::Large::grow(ground)?;
            repeat(rounds, |_| heap.look().map(|look| look.analysis_ms))
        }
    }
}

/// Perl, with one of the programs of `bench/profile`.
fn script(name: &str) -> PathBuf {
    bench_folder().join("profile").join(name)
}

/// What the library says is wrong.
fn wrong(error: drom_profile::Error) -> Error {
    Error::Client("drom", error.to_string())
}

/// Modules that perl does not find are not installed.
fn has_module(file: &str) -> bool {
    let look = "my $file = shift; exit !grep { -e \"$_/$file\" } @INC";
    let looked = Command::new("perl").args(["-e", look, file]).status();
    looked.is_ok_and(|status| status.success())
}

/// The last of what was written there.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_where_perl_looks() {
        assert!(has_module("Time/HiRes.pm") && !has_module("No/Such/Module.pm"));
    }
}
