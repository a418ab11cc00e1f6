//! What all processes of a contest showed: how long each candidate takes, and how they stand to
//! each other. A process's ratio is the median of its rounds', in each of which both had the same
//! machine in the same moment; Student's t over the processes makes its interval. Those of a table
//! hold together (Bonferroni), so that `~` and the interval never disagree. Pure.

use drom_stats::{Estimate, Paired, median_of_sorted, sd, trend};

/// Of how long a candidate takes.
pub const CONFIDENCE: f64 = 0.95;
/// Of all ratios of a table together.
pub const CONFIDENCE_OF_ALL: f64 = 0.99;
/// Less than this share is no difference: where in a process a candidate lies, and who ran before
/// it, makes that much in all processes alike.
pub const LEAST: f64 = 0.005;
/// What takes no longer than this part of the bare loop more than that is nothing.
const NOTHING: f64 = 0.02;
/// What may be that and was found to be this many times as much is something all the same.
const NOTHING_MOST: f64 = 10.0;
/// A drift of the processes as this: by so much all in all, no chance in a thousand.
const DRIFT_SHARE: f64 = 0.05;
const DRIFT_CHANCE: f64 = 0.001;

/// The processes so far.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What of each candidate is the loop's: the place of the bare loop that is like its own.
    bare: Vec<usize>,
    /// Nanoseconds an iteration, by process, then by candidate; bare loops behind them.
    processes: Vec<Vec<f64>>,
    /// Logarithms of the ratios of each pair, `[a][b]` with b < a, by process. Not a number where a
    /// process saw no time in one of them.
    logs: Vec<Vec<Vec<f64>>>,
}

/// How long an iteration takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Nanoseconds, without the loop.
    pub ns: Estimate,
    /// It cannot be told from an empty loop: too short, or optimised away.
    pub is_nothing: bool,
    /// By this share it got slower (or faster) from the first process to the last.
    pub drift: Option<f64>,
    /// Standard deviation of the processes, as a share of their mean.
    pub spread: f64,
}

/// How many times as long the first takes as the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub estimate: Estimate,
    /// By more than [`LEAST`], with a confidence that is that of the whole table.
    pub is_different: bool,
}

impl Standing {
    /// Candidate `c` has the bare loop `bare[c]`, counted behind the candidates.
    #[must_use]
    pub fn new(bare: Vec<usize>) -> Self {
        let logs = (0..bare.len()).map(|a| vec![Vec::new(); a]).collect();
        Self { bare, processes: Vec::new(), logs }
    }

    /// What a process showed: nanoseconds an iteration, by candidate, then by round.
    pub fn take(&mut self, times: &[Vec<f64>]) {
        let medians: Vec<f64> = times.iter().map(|times| median(times.clone())).collect();
        let net = |at: usize| {
            let bare_ns = medians[self.bare_of(at)];
            times[at].iter().map(move |ns| ns - bare_ns)
        };
        let logs =
            |a: usize, b: usize| median(net(a).zip(net(b)).map(|(a, b)| (a / b).ln()).collect());
        let found: Vec<Vec<f64>> =
            (0..self.bare.len()).map(|a| (0..a).map(|b| logs(a, b)).collect()).collect();
        for (all, one) in self.logs.iter_mut().flatten().zip(found.into_iter().flatten()) {
            all.push(one);
        }
        self.processes.push(medians);
    }

    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// `None` below two processes.
    #[must_use]
    pub fn pace(&self, candidate: usize) -> Option<Pace> {
        let net = self.net(candidate);
        let ns = Paired::new(&net)?.t_interval(CONFIDENCE);
        let bare = self.column(self.bare_of(candidate));
        let floor = NOTHING * bare.iter().sum::<f64>() / bare.len() as f64;
        // A time that is only not known well is not nothing.
        let is_nothing = ns.interval.low <= floor && ns.centre <= NOTHING_MOST * floor;
        let total = |slope: f64| slope * (net.len() - 1) as f64 / ns.centre.max(floor);
        let drift =
            trend(&net).filter(|trend| trend.p < DRIFT_CHANCE).map(|trend| total(trend.slope));
        let drift = drift.filter(|share| share.abs() > DRIFT_SHARE && !is_nothing);
        let spread = sd(&net) / ns.centre.max(f64::MIN_POSITIVE);
        Some(Pace { ns, is_nothing, drift, spread })
    }

    /// Of each candidate to each other one, `[row][column]`; `None` on the diagonal, and where one
    /// of them is nothing: what is left of it is chance, and so would a ratio to it be. The
    /// confidence is that of so many tables of this size together.
    #[must_use]
    pub fn ratios(&self, tables: usize) -> Vec<Vec<Option<Ratio>>> {
        let count = self.bare.len();
        let asked = (tables * count * count.saturating_sub(1) / 2).max(1);
        let confidence = 1.0 - (1.0 - CONFIDENCE_OF_ALL) / asked as f64;
        let mut table = vec![vec![None; count]; count];
        let nothing: Vec<bool> =
            (0..count).map(|at| self.pace(at).is_some_and(|pace| pace.is_nothing)).collect();
        let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
        for (a, b) in pairs.filter(|&(a, b)| !nothing[a] && !nothing[b]) {
            let Some(paired) = Paired::new(&self.logs[a][b]) else { continue };
            let log = paired.t_interval(confidence);
            if log.centre.is_nan() {
                continue;
            }
            let least = LEAST.ln_1p();
            let is_different = log.interval.low > least || log.interval.high < -least;
            table[a][b] = Some(Ratio { estimate: log.exp(), is_different });
            table[b][a] = Some(Ratio { estimate: negated(log).exp(), is_different });
        }
        table
    }

    /// Of all the time of a candidate's batches the part that is not the loop's.
    #[must_use]
    pub fn own_share(&self, candidate: usize) -> f64 {
        let gross: f64 = self.column(candidate).iter().sum();
        let net: f64 = self.net(candidate).iter().sum();
        if gross > 0.0 { (net / gross).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Nanoseconds an iteration in each process, without the loop.
    #[must_use]
    pub fn times(&self, candidate: usize) -> Vec<f64> {
        self.net(candidate)
    }

    /// Less the loop, in each process its own.
    fn net(&self, candidate: usize) -> Vec<f64> {
        let bare = self.bare_of(candidate);
        self.processes.iter().map(|times| times[candidate] - times[bare]).collect()
    }

    fn column(&self, at: usize) -> Vec<f64> {
        self.processes.iter().map(|times| times[at]).collect()
    }

    fn bare_of(&self, candidate: usize) -> usize {
        self.bare.len() + self.bare[candidate]
    }
}

/// Not a number where half of them are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { median_of_sorted(&values) }
}

fn negated(estimate: Estimate) -> Estimate {
    let Estimate { centre, interval } = estimate;
    let interval = drom_stats::Interval { low: -interval.high, high: -interval.low };
    Estimate { centre: -centre, interval }
}

#[cfg(test)]
mod tests {
    use drom_stats::Rng;

    use super::*;

    /// Processes in which each candidate takes so long, give or take `noise` for where it lies,
    /// beside a loop of 50 ns; the machine as a whole is now fast and now slow.
    fn standing(each_ns: &[f64], processes: usize, noise: f64, seed: u64) -> Standing {
        let mut rng = Rng::new(seed);
        let mut standing = Standing::new(vec![0; each_ns.len()]);
        for _ in 0..processes {
            let machine = 1.0 + 0.2 * rng.unit();
            let mut times: Vec<f64> = each_ns
                .iter()
                .map(|ns| machine * (50.0 + ns * (1.0 + noise * rng.normal())))
                .collect();
            times.push(machine * 50.0);
            let rounds: Vec<Vec<f64>> = times.into_iter().map(|ns| vec![ns; 3]).collect();
            standing.take(&rounds);
        }
        standing
    }

    #[test]
    fn a_ratio_is_found_though_the_machine_changes() {
        let standing = standing(&[1_000.0, 2_000.0], 12, 0.01, 1);
        let ratio = standing.ratios(1)[1][0].expect("both take time");
        assert!(ratio.is_different && (ratio.estimate.centre - 2.0).abs() < 0.03, "{ratio:?}");
        let inverse = standing.ratios(1)[0][1].expect("both take time").estimate;
        assert!((inverse.centre * ratio.estimate.centre - 1.0).abs() < 1e-9);
        assert!(inverse.interval.low < inverse.centre && inverse.centre < inverse.interval.high);
        assert_eq!(standing.ratios(1)[0][0], None);
        let pace = standing.pace(0).expect("twelve processes");
        assert!((pace.ns.centre / 1_100.0 - 1.0).abs() < 0.05 && !pace.is_nothing, "{pace:?}");
    }

    #[test]
    fn the_same_is_seldom_called_different_and_two_per_cent_mostly() {
        // As processes differ that put their candidates into the same places, and into others
        // (docs/decisions/009).
        let (alike, scattered) = (0.012, 0.006);
        let different = |ns: &[f64], noise, seed| {
            let table = standing(ns, 16, noise, seed).ratios(1);
            table.iter().flatten().flatten().any(|ratio| ratio.is_different)
        };
        let (same, planted, three) = (0..400).fold((0, 0, 0), |(same, planted, three), seed| {
            (
                same + u32::from(different(&[1e3, 1e3], alike, seed)),
                planted + u32::from(different(&[1e3, 1.02e3], scattered, seed)),
                three + u32::from(different(&[1e3, 1e3, 1e3], alike, seed)),
            )
        });
        println!("of 400: same {same}, of three {three}, two per cent {planted}");
        assert!(same <= 12 && three <= 12, "{same} {three}");
        assert!(planted >= 340, "{planted}");
    }

    /// Each second round is disturbed, for both alike, and some for one of them alone.
    #[test]
    fn what_meets_both_in_a_round_is_gone_from_their_ratio() {
        let mut rng = Rng::new(9);
        let mut standing = Standing::new(vec![0, 0]);
        for _ in 0..6 {
            let mut times = vec![Vec::new(); 3];
            for round in 0..101 {
                let machine = if round % 2 == 0 { 1.0 } else { 1.0 + rng.unit() };
                let alone = if round % 10 == 3 { 3.0 } else { 1.0 };
                let each = [1_050.0 * machine * alone, 1_071.0 * machine, 50.0];
                times.iter_mut().zip(each).for_each(|(times, ns)| times.push(ns));
            }
            standing.take(&times);
        }
        let ratio = standing.ratios(1)[1][0].expect("both take time");
        assert!((ratio.estimate.centre - 1.021).abs() < 0.001, "{ratio:?}");
        assert!(ratio.is_different);
    }

    #[test]
    fn what_takes_no_time_has_no_ratio_and_says_so() {
        let standing = standing(&[0.0, 1_000.0], 12, 0.01, 3);
        assert!(standing.pace(0).expect("processes").is_nothing);
        assert_eq!(standing.ratios(1)[0][1], None);
        assert_eq!(Standing::new(vec![0]).pace(0), None, "no process");
        // A tenth of a nanosecond more than the loop, by chance, in each process.
        let mut chance = Standing::new(vec![0, 0]);
        (0..4).for_each(|at| chance.take(&[vec![50.1], vec![1_000.0 + f64::from(at)], vec![50.0]]));
        assert!(chance.pace(0).expect("processes").is_nothing);
        assert_eq!(chance.ratios(1), vec![vec![None; 2]; 2]);
    }

    #[test]
    fn code_that_gets_slower_is_seen_to() {
        let mut standing = Standing::new(vec![0]);
        (0..12).for_each(|at| standing.take(&[vec![150.0 + 3.0 * f64::from(at)], vec![50.0]]));
        let drift = standing.pace(0).expect("processes").drift.expect("a third");
        assert!((0.2..0.4).contains(&drift), "{drift}");
        let steady = self::standing(&[1e3], 12, 0.01, 5).pace(0).expect("processes");
        assert_eq!(steady.drift, None);
    }
}
