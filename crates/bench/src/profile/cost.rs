//! What a profiler costs the program: the CPU time of the same work with and without it, by turns,
//! a piece of work each. The kernel's count of the program itself; a sampler's own time is not in
//! it.

use std::{
    cell::RefCell,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::clock;
use drom_profile::{Clock, Family, Sampler, Watch};
use drom_stats::Rng;

use super::{has_module, script, worker::Worker, wrong};
use crate::{
    contest::{Outcome, Rounds, play},
    error::Error,
    server::Ground,
    table::Profiler,
};

/// Both sides of a row together.
const TIME_MAX: Duration = Duration::from_secs(55);
/// Of the samples that the rate promises; with fewer, less was paid for than is said.
const TAKEN_MIN: f64 = 0.8;

pub fn measure(
    work: &str,
    by: Profiler,
    ground: &Ground,
    rounds: Rounds,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    let bare = start(work, None, ground)?;
    if let Profiler::Sampler { rate_hz } = by {
        return sampled(bare, rate_hz, rounds, rng);
    }
    let (mut bare, mut profiled) = (bare, start(work, Some(by), ground)?);
    let pieces = pieces(rounds, || Ok((bare.work_ms()?, profiled.work_ms()?)))?;
    play(pieces, rng, |_| profiled.work_ms(), |_| bare.work_ms())
}

/// One process is both: what differs from process to process is in neither.
fn sampled(bare: Worker, rate_hz: u32, rounds: Rounds, rng: &mut Rng) -> Result<Outcome, Error> {
    let sampler = Sampler::attach(bare.pid(), Clock::Wall).map_err(wrong)?;
    let family = Family::of(sampler);
    let (rate_hz, seed) = (rate_hz.into(), rng.next_u64());
    let mut watched = Watched { family, rate_hz, seed, watched_ms: 0.0 };
    let worker = RefCell::new(bare);
    let mut profiled = || watched.work_ms(&mut worker.borrow_mut());
    let bare = || worker.borrow_mut().work_ms();
    // Half a hundredth needs more of them.
    let rounds = Rounds { each: rounds.each * 2, ..rounds };
    let pieces = pieces(rounds, || Ok((bare()?, profiled()?)))?;
    let outcome = play(pieces, rng, |_| profiled(), |_| bare())?;
    watched.has_paid()?;
    Ok(outcome)
}

struct Watched {
    family: Family,
    rate_hz: f64,
    seed: u64,
    watched_ms: f64,
}

impl Watched {
    /// Samples are taken from before the work until it is done.
    fn work_ms(&mut self, worker: &mut Worker) -> Result<f64, Error> {
        self.seed = self.seed.wrapping_add(1);
        let watch = Watch { rate_hz: self.rate_hz, duration: None, seed: self.seed };
        let stop = AtomicBool::new(false);
        let began = clock::now();
        let took_ms = std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                let took_ms = worker.work_ms();
                stop.store(true, Relaxed);
                took_ms
            });
            watch.run(&mut self.family, &stop, |_| {}).map_err(wrong)?;
            working.join().map_err(|_| Error::Rounds)?
        });
        self.watched_ms += began.elapsed().as_secs_f64() * 1e3;
        took_ms
    }

    /// As many samples were taken as was said.
    fn has_paid(&mut self) -> Result<(), Error> {
        let taken = self.family.profile().taken;
        let promised = self.watched_ms / 1e3 * self.rate_hz;
        if taken.samples as f64 >= promised * TAKEN_MIN {
            return Ok(());
        }
        let what = format!("{} samples in place of {promised:.0}", taken.samples);
        Err(Error::Client("the sampler", what))
    }
}

/// As many as fit into the time of the rounds, after a first pair that warms up.
fn pieces(
    rounds: Rounds,
    mut pair_ms: impl FnMut() -> Result<(f64, f64), Error>,
) -> Result<Rounds, Error> {
    pair_ms()?;
    let began = clock::now();
    pair_ms()?;
    let time = (rounds.each * 2 * u32::try_from(rounds.count).unwrap_or(u32::MAX)).min(TIME_MAX);
    let fit = time.as_secs_f64() / (clock::now() - began).as_secs_f64();
    Ok(Rounds { count: (fit as usize).max(rounds.count), ..rounds })
}

fn start(work: &str, by: Option<Profiler>, ground: &Ground) -> Result<Worker, Error> {
    let output = ground.path("profile.out");
    let mut command = Command::new("perl");
    let name = match by {
        None | Some(Profiler::Sampler { .. }) => "perl",
        Some(Profiler::Exact) => {
            command = Command::new(&ground.drom);
            command.args(["profile", "--exact", "--format", "json", "-o"]).arg(&output);
            "drom profile"
        }
        Some(Profiler::NytProf) => {
            command.arg("-d:NYTProf").env("NYTPROF", format!("file={}", output.display()));
            installed("Devel/NYTProf.pm", "NYTProf")?
        }
        Some(Profiler::DProf) => {
            command.arg("-d:DProf").env("PERL_DPROF_OUT_FILE_NAME", &output);
            installed("Devel/DProf.pm", "DProf")?
        }
    };
    // The order of a hash's keys is no difference between two processes.
    command.arg(script("work.pl")).arg(work).env("PERL_HASH_SEED", "0");
    Worker::start(name, &mut command, &ground.path("profile.log"))
}

fn installed(file: &str, name: &'static str) -> Result<&'static str, Error> {
    if has_module(file) { Ok(name) } else { Err(Error::NotInstalled(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_works_take_cpu_time() {
        let ground = Ground::prepare("/bin/true".as_ref()).expect("a folder");
        for work in ["fib", "pod"] {
            let mut bare = start(work, None, &ground).expect("a perl");
            assert!(bare.work_ms().is_ok_and(|ms| ms > 1.0), "{work}");
        }
        let none = start("none", None, &ground).err().expect("no such work").to_string();
        assert!(none.contains("there is no such work: none"), "{none}");
    }

    #[test]
    fn pieces_fit_into_the_time() {
        let warm_up = Duration::ZERO;
        let pieces = |count, each| {
            let pair = || {
                clock::sleep(Duration::from_millis(20));
                Ok((1.0, 1.0))
            };
            pieces(Rounds { count, each, warm_up }, pair).expect("pieces").count
        };
        assert_eq!(pieces(4, Duration::ZERO), 4);
        // A pair takes 20 ms or more.
        assert!((2..=200).contains(&pieces(2, Duration::from_secs(1))));
        assert!((8..=2_750).contains(&pieces(8, Duration::from_secs(1_000))));
    }
}
