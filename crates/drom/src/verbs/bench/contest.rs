//! Pieces of Perl against each other: one perl after the other, in each of them all candidates in
//! turn, with each of the inputs if there are some.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use drom_contest::{Heat, Sizing, Standing, Turn};
use drom_observe::clock::monotonic_ns;

use super::{
    Args, Clock,
    perl::{Ran, Runner, Start},
    told::{Candidate, Kind, Told},
};

/// Rounds of a process; with many inputs fewer, for each of them is in each round.
const ROUNDS: u32 = 200;
const ROUNDS_MIN: u32 = 8;
/// So many batches of a candidate alone show whether it leaves memory behind.
const GROWTH_BATCHES: u32 = 20;
/// Each of them is timed for itself in each round.
const INPUTS_MAX: usize = 1_000;
/// Half of a multiplicative hash's: seeds of processes one after the other are far apart.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

pub fn run(args: &Args, stop: &'static AtomicBool) -> Result<Told, String> {
    let seed = args.seed.unwrap_or_else(monotonic_ns);
    let start = Start {
        perl: &args.perl,
        file: args.file.as_deref(),
        codes: &args.code,
        inputs: args.inputs.as_ref(),
        stop,
    };
    let lines = args.inputs.as_deref().map_or(Ok(Vec::new()), lines_of)?;
    let mut contest: Option<Contest<'_>> = None;
    for at in 0..u64::from(args.processes) {
        let seed = seed.wrapping_add(at.wrapping_mul(SEED_STEP));
        let done = Runner::start(&start, seed).and_then(|mut runner| {
            let contest = contest.get_or_insert_with(|| Contest::new(args, &runner));
            contest.process(&mut runner, seed, stop)
        });
        match done {
            Err(_) if stop.load(Relaxed) => break,
            Err(why) => return Err(why),
            Ok(()) if stop.load(Relaxed) => break,
            Ok(()) => {}
        }
    }
    let is_interrupted = stop.load(Relaxed);
    let contest = contest.ok_or("stopped before anything was measured")?;
    Ok(contest.told(seed, lines, is_interrupted))
}

/// Of the inputs, to be told by; the perls read them for themselves.
fn lines_of(path: &Path) -> Result<Vec<String>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.len() {
        1..=INPUTS_MAX => Ok(lines),
        0 => Err(format!("{} is empty: each line is an input", path.display())),
        many => Err(format!("{} has {many} lines; {INPUTS_MAX} inputs at most", path.display())),
    }
}

struct Contest<'a> {
    args: &'a Args,
    clock: Clock,
    version: String,
    candidates: Vec<Candidate>,
    inputs: usize,
    rounds: u32,
    sizes: Vec<Sizing>,
    overall: Standing,
    by_input: Vec<Standing>,
}

impl<'a> Contest<'a> {
    fn new(args: &'a Args, runner: &Runner) -> Self {
        let inputs = runner.inputs();
        let loops = runner.names().len() * inputs + super::perl::BARE;
        let fewer = ROUNDS / u32::try_from(inputs).unwrap_or(u32::MAX);
        let batch_ns = args.batch.as_nanos() as f64;
        let by_input = if args.inputs.is_some() { inputs } else { 0 };
        Self {
            args,
            clock: args.clock.unwrap_or(Clock::Cpu),
            version: runner.version().to_owned(),
            candidates: runner.names().iter().map(|name| Candidate::new(name)).collect(),
            inputs,
            rounds: args.rounds.unwrap_or(fewer.max(ROUNDS_MIN)),
            sizes: vec![Sizing::new(batch_ns); loops],
            overall: Standing::new(runner.bare().to_vec()),
            by_input: vec![Standing::new(runner.bare().to_vec()); by_input],
        }
    }

    /// Counts only if it comes to its end.
    fn process(&mut self, runner: &mut Runner, seed: u64, stop: &AtomicBool) -> Result<(), String> {
        let mut heat = Heat::new(self.sizes.clone(), self.rounds as usize, seed);
        let mut used = vec![(0, Ran::default()); self.candidates.len()];
        loop {
            let turns = heat.turns();
            if turns.is_empty() {
                break;
            }
            if stop.load(Relaxed) {
                return Ok(());
            }
            for (turn, ran) in turns.iter().zip(runner.run(&turns)?) {
                let is_counted = heat.take(*turn, self.clock.of(&ran));
                if let Some(used) =
                    used.get_mut(turn.candidate / self.inputs).filter(|_| is_counted)
                {
                    used.0 += turn.iterations;
                    used.1.add(ran);
                }
            }
        }
        self.sizes = heat.sizes().to_vec();
        let growths = self.growths(runner)?;
        self.take(heat.times());
        for ((candidate, (iterations, ran)), bytes) in
            self.candidates.iter_mut().zip(used).zip(growths)
        {
            candidate.iterations += iterations;
            candidate.used.add(ran);
            candidate.growths.push(bytes);
        }
        Ok(())
    }

    fn take(&mut self, times: &[Vec<f64>]) {
        let (all, bare) = times.split_at(self.candidates.len() * self.inputs);
        let mut overall: Vec<Vec<f64>> = all.chunks(self.inputs).map(mean_of_each_round).collect();
        overall.extend_from_slice(bare);
        self.overall.take(&overall);
        for (at, standing) in self.by_input.iter_mut().enumerate() {
            let mut of_input: Vec<Vec<f64>> =
                all.iter().skip(at).step_by(self.inputs).cloned().collect();
            of_input.extend_from_slice(bare);
            standing.take(&of_input);
        }
    }

    /// Bytes an iteration, by candidate.
    fn growths(&self, runner: &mut Runner) -> Result<Vec<f64>, String> {
        let batches = (GROWTH_BATCHES / u32::try_from(self.inputs).unwrap_or(u32::MAX)).max(1);
        let mut growths = Vec::new();
        for candidate in 0..self.candidates.len() {
            let (mut bytes, mut iterations) = (0.0, 0);
            for at in candidate * self.inputs..(candidate + 1) * self.inputs {
                let turn = Turn { candidate: at, iterations: self.sizes[at].iterations() };
                bytes += runner.grown(turn, batches)?;
                iterations += turn.iterations * u64::from(batches);
            }
            growths.push(bytes / iterations as f64);
        }
        Ok(growths)
    }

    fn told(self, seed: u64, lines: Vec<String>, is_interrupted: bool) -> Told {
        let kind = Kind::Perl {
            path: self.args.perl.clone(),
            version: self.version,
            batch: self.args.batch,
            inputs: self.args.inputs.clone().map(|path| (path, lines, self.by_input)),
        };
        Told {
            kind,
            clock: self.clock,
            seed,
            rounds: self.rounds,
            candidates: self.candidates,
            standing: self.overall,
            is_interrupted,
        }
    }
}

/// Of a candidate's times with each input.
fn mean_of_each_round(of_inputs: &[Vec<f64>]) -> Vec<f64> {
    let rounds = of_inputs.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |round: usize| {
        of_inputs.iter().map(|times| times[round]).sum::<f64>() / of_inputs.len() as f64
    };
    (0..rounds).map(mean).collect()
}
