//! Twenty [`Subs`], and what each of them takes by two accounts: of whoever is to know it, and of a
//! preloaded allocator that writes down what it gives.

use std::{collections::HashMap, fs, path::PathBuf, process::Command};

use drom_profile::heap::Heap;

use super::{has_module, script, worker::Worker, wrong};
use crate::{
    error::Error,
    server::{Ground, bench_folder},
    table::Sizer,
};

const SUBS: usize = 20;
/// The program asks for so much and a thousand times the sub's number before it makes one.
const MARK_BYTES: u64 = 5_000_000;
const MARK_STEP: u64 = 1_000;

pub struct Subs {
    sizer: Sizer,
    library: PathBuf,
    log: PathBuf,
    errors: PathBuf,
}

impl Subs {
    pub fn make(sizer: Sizer, ground: &Ground) -> Result<Self, Error> {
        if sizer == Sizer::DevelSize && !has_module("Devel/Size.pm") {
            return Err(Error::NotInstalled("Devel::Size"));
        }
        let library = allocator(ground)?;
        let [log, errors] = ["allocator.log", "profile.log"].map(|name| ground.path(name));
        Ok(Self { sizer, library, log, errors })
    }

    /// Of one that takes nothing the error would be infinite.
    pub fn largest_error_percent(&self) -> Result<f64, Error> {
        let mut worker = Worker::start("perl", &mut self.perl(), &self.errors)?;
        let log = fs::read(&self.log).map_err(|error| Error::File(self.log.clone(), error))?;
        let given = given(&log);
        let said = match self.sizer {
            Sizer::Drom => by_drom(worker.pid())?,
            Sizer::DevelSize => by_devel_size(&worker.ask()?),
        };
        if said.len() != SUBS || given.contains(&0) {
            let what = format!("{} of {SUBS} subs; the allocator gave {given:?}", said.len());
            return Err(Error::Client("the sizes of subs", what));
        }
        let error = |(said, given): (&u64, &u64)| (*said as f64 / *given as f64 - 1.0).abs();
        Ok(said.iter().zip(&given).map(error).fold(0.0, f64::max) * 100.0)
    }

    fn perl(&self) -> Command {
        let mut perl = Command::new("perl");
        if self.sizer == Sizer::DevelSize {
            perl.arg("-MDevel::Size");
        }
        perl.arg(script("subs.pl")).env("LD_PRELOAD", &self.library).env("COUNTED", &self.log);
        perl
    }
}

fn allocator(ground: &Ground) -> Result<PathBuf, Error> {
    let library = ground.path("counted.so");
    let source = bench_folder().join("../crates/profile/tests/counted.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    let output = cc.output().map_err(|error| Error::Allocator(error.to_string()))?;
    if output.status.success() {
        return Ok(library);
    }
    Err(Error::Allocator(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Bytes of the code of each sub, in their order.
fn by_drom(pid: i32) -> Result<Vec<u64>, Error> {
    let inventory = Heap::of(pid).map_err(wrong)?.inventory();
    let bytes = |number| {
        let name = format!("Made::sub{number}");
        let sub = inventory.subs.iter().find(|sub| *sub.name == *name);
        sub.map(|sub| sub.code_bytes)
    };
    Ok((1..=SUBS).filter_map(bytes).collect())
}

fn by_devel_size(said: &str) -> Vec<u64> {
    said.split(' ').filter_map(|word| word.parse().ok()).collect()
}

/// Bytes of slabs that were given while each sub was made, and not got back. A record of the log is
/// what happened, where, and how many bytes were asked for.
fn given(log: &[u8]) -> [u64; SUBS] {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
    let mut living = HashMap::new();
    let mut sub = None;
    for record in log.chunks_exact(24) {
        let (what, at, bytes) = (record[0], number(&record[8..16]), number(&record[16..]));
        match what {
            b'f' => drop(living.remove(&at)),
            b'c' if is_slab(bytes) => drop(living.insert(at, (sub, bytes))),
            _ => {
                living.remove(&at);
                sub = mark(bytes).or(sub);
            }
        }
    }
    let mut given = [0; SUBS];
    for (sub, bytes) in living.into_values() {
        if let Some(sum) = sub.and_then(|sub: usize| given.get_mut(sub - 1)) {
            *sum += bytes;
        }
    }
    given
}

/// The number of the sub that is made now; after the last of them it is none's.
fn mark(bytes: u64) -> Option<usize> {
    let number = bytes.checked_sub(MARK_BYTES)? / MARK_STEP;
    usize::try_from(number).ok().filter(|number| (1..=SUBS + 1).contains(number))
}

/// The sizes of slabs that perl makes: twice as many words each time, and their head.
fn is_slab(bytes: u64) -> bool {
    (6..=11).any(|power| bytes == 8 * (1 << power) + 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: u8, at: u64, bytes: u64) -> Vec<u8> {
        [u64::from(what), at, bytes].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn slabs_are_of_the_sub_that_was_made_then() {
        let slab = 8 * 64 + 40;
        let log = [
            record(b'c', 1, slab),
            record(b'm', 2, 5_001_010),
            record(b'c', 3, slab),
            record(b'c', 4, slab),
            record(b'c', 5, 77),
            record(b'f', 4, 0),
            record(b'm', 6, 5_002_010),
            record(b'c', 7, 2 * slab - 40),
            record(b'm', 8, 5_021_010),
            record(b'c', 9, slab),
        ];
        let given = given(&log.concat());
        assert_eq!((given[0], given[1]), (slab, 2 * slab - 40));
        assert!(given[2..].iter().all(|bytes| *bytes == 0));
    }

    #[test]
    fn the_allocator_and_the_snapshot_agree() {
        let ground = Ground::prepare("/bin/true".as_ref()).expect("a folder");
        let subs = Subs::make(Sizer::Drom, &ground).expect("cc");
        assert_eq!(subs.largest_error_percent().expect("twenty subs"), 0.0);
    }

    #[test]
    fn words_of_devel_size_are_numbers() {
        assert_eq!(by_devel_size("10 200 3"), [10, 200, 3]);
        assert!(by_devel_size("Undefined subroutine").is_empty());
    }
}
