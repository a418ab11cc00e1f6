//! The same program counted and sampled, by the command: do both say where its time goes?

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    process::{Command, Stdio},
    sync::Arc,
};

use drom_profile::{Profile, profile::Kind};

use super::{script, tail};
use crate::{
    error::Error,
    server::{Ground, end_with_us},
};

/// So many conversions in a process.
const TIMES: &str = "10";
/// For thousands of samples in seconds: chance is half a point then.
const RATE_HZ: &str = "5000";
const TOP: usize = 10;

/// In points.
pub fn largest_difference(ground: &Ground) -> Result<f64, Error> {
    let exact = shares(&profile(ground, &["--exact"])?);
    let sampled = shares(&profile(ground, &["--rate", RATE_HZ])?);
    Ok(difference(&exact, &sampled))
}

type Name = (Arc<str>, Kind);

/// Of the time that subs have for themselves, in percent, the largest first.
fn shares(profile: &Profile) -> Vec<(Name, f64)> {
    let shares = profile.shares();
    let all: u64 = shares.iter().map(|share| share.exclusive).sum();
    let part = |of: u64| of as f64 / all.max(1) as f64 * 100.0;
    shares.into_iter().map(|share| ((share.name, share.kind), part(share.exclusive))).collect()
}

/// Of the first ten of either.
fn difference(a: &[(Name, f64)], b: &[(Name, f64)]) -> f64 {
    let names: BTreeSet<&Name> =
        [a, b].iter().flat_map(|of| of.iter().take(TOP)).map(name).collect();
    let [a, b] =
        [a, b].map(|of| of.iter().map(|(n, share)| (n, *share)).collect::<HashMap<_, _>>());
    let share = |of: &HashMap<&Name, f64>, name| of.get(name).copied().unwrap_or(0.0);
    names.into_iter().map(|name| (share(&a, name) - share(&b, name)).abs()).fold(0.0, f64::max)
}

fn name((name, _): &(Name, f64)) -> &Name {
    name
}

fn profile(ground: &Ground, how: &[&str]) -> Result<Profile, Error> {
    let (output, log) = (ground.path("profile.json"), ground.path("profile.log"));
    let file = fs::File::create(&log).map_err(|error| Error::File(log.clone(), error))?;
    let mut command = Command::new(&ground.drom);
    command.arg("profile").args(how).args(["--format", "json", "-o"]).arg(&output);
    command.arg(script("work.pl")).args(["pod", TIMES]).env("PERL_HASH_SEED", "0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    end_with_us(&mut command);
    let start = |error| Error::Start("drom profile".to_owned(), error);
    if !command.status().map_err(start)?.success() {
        return Err(Error::Client("drom profile", tail(&log)));
    }
    let text = fs::read_to_string(&output).map_err(|error| Error::File(output, error))?;
    let read = drom_profile::read(text.as_bytes());
    read.map(|(profile, _)| profile)
        .map_err(|error| Error::Client("drom profile", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &[(&str, f64)]) -> Vec<(Name, f64)> {
        shares.iter().map(|(name, share)| ((Arc::from(*name), Kind::Sub), *share)).collect()
    }

    #[test]
    fn one_that_only_one_side_has_counts_as_a_whole() {
        let (a, b) = (of(&[("a", 60.0), ("b", 40.0)]), of(&[("a", 61.0), ("b", 39.0)]));
        assert!((difference(&a, &b) - 1.0).abs() < 1e-9);
        assert!((difference(&a, &of(&[("a", 60.0), ("c", 40.0)])) - 40.0).abs() < 1e-9);
    }

    #[test]
    fn the_eleventh_of_both_does_not_count() {
        let mut a: Vec<(String, f64)> = (0..10).map(|n| (format!("sub{n}"), 9.0)).collect();
        a.push(("rest".to_owned(), 8.0));
        let mut b = a.clone();
        b[10].1 = 1.0;
        let [a, b] = [&a, &b].map(|of_side| {
            let borrowed: Vec<(&str, f64)> =
                of_side.iter().map(|(name, share)| (name.as_str(), *share)).collect();
            of(&borrowed)
        });
        assert!(difference(&a, &b) < 1e-9);
    }
}
