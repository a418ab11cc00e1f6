//! What was run and what it showed: the same for text and for every file.

use std::{path::PathBuf, time::Duration};

use drom_contest::Standing;

use super::{Clock, perl::Ran};

pub struct Told {
    pub kind: Kind,
    pub clock: Clock,
    pub seed: u64,
    /// In each process; of commands, all.
    pub rounds: u32,
    pub candidates: Vec<Candidate>,
    pub standing: Standing,
    pub is_interrupted: bool,
}

pub enum Kind {
    Perl {
        path: PathBuf,
        /// As `$^V` has it.
        version: String,
        batch: Duration,
        /// The file, its lines, and how the candidates stand on each of them.
        inputs: Option<(PathBuf, Vec<String>, Vec<Standing>)>,
    },
    Commands,
}

pub struct Candidate {
    pub name: String,
    /// All that was timed of it.
    pub iterations: u64,
    pub used: Ran,
    /// Bytes by which each process grew, an iteration.
    pub growths: Vec<f64>,
}

impl Candidate {
    pub fn new(name: &str) -> Self {
        let (iterations, used, growths) = (0, Ran::default(), Vec::new());
        Self { name: name.to_owned(), iterations, used, growths }
    }
}

impl Told {
    pub fn has_inputs(&self) -> bool {
        matches!(&self.kind, Kind::Perl { inputs: Some(_), .. })
    }

    /// A round of commands.
    pub fn take(&mut self, round: &[Ran]) {
        let clock = self.clock;
        let mut times: Vec<Vec<f64>> = round.iter().map(|ran| vec![clock.of(ran)]).collect();
        times.push(vec![0.0]);
        self.standing.take(&times);
        self.rounds += 1;
        for (candidate, ran) in self.candidates.iter_mut().zip(round) {
            candidate.iterations += 1;
            candidate.used.add(*ran);
        }
    }
}

impl Clock {
    pub fn of(self, ran: &Ran) -> f64 {
        match self {
            Self::Cpu => ran.cpu_ns,
            Self::Wall => ran.wall_ns,
        }
    }
}
