//! What a plan will take and how precise it will be, before anything is started: cells and time
//! from the plan, the expected half-width from the blocks of its earlier runs. Pure.

use drom_stats::half_width_after;
use drom_store::{Block, Manifest};

use crate::{
    analyse::differences,
    plan::{Group, Plan},
};

/// The plan, foretold.
#[derive(Clone, Debug)]
pub struct Preview {
    pub cells: usize,
    pub blocks: (usize, usize),
    /// With the fewest and with the most blocks; the budget may end it between the two.
    pub duration_s: (f64, f64),
    pub budget_s: f64,
    pub groups: Vec<GroupPreview>,
}

#[derive(Clone, Debug)]
pub struct GroupPreview {
    pub name: String,
    pub contestants: usize,
    /// Blocks of earlier runs under the same load that the spread is known from.
    pub earlier_blocks: usize,
    /// Of the widest ratio's 95 % interval, with the fewest and the most blocks: a ratio minus one.
    pub half_width: Option<(f64, f64)>,
}

/// What a server's start and end take where no run has told.
const START_GUESS_S: f64 = 0.5;
/// Preflight: other load, answers, the client's ceiling.
const PREFLIGHT_GUESS_S: f64 = 2.0;

/// Foretells `plan` from its earlier runs.
#[must_use]
pub fn preview(plan: &Plan, earlier: &[(Manifest, Vec<Block>)]) -> Preview {
    let alike: Vec<&(Manifest, Vec<Block>)> =
        earlier.iter().filter(|(manifest, _)| is_alike(plan, manifest)).collect();
    let blocks = (plan.blocks.min, plan.blocks.max);
    let block_s: f64 = plan.groups.iter().map(|group| block_s(plan, group, &alike)).sum();
    let whole = |blocks: usize| PREFLIGHT_GUESS_S + blocks as f64 * block_s;
    Preview {
        cells: plan.groups.iter().map(|group| group.contestants.len()).sum(),
        blocks,
        duration_s: (whole(blocks.0), whole(blocks.1)),
        budget_s: plan.budget_s,
        groups: plan.groups.iter().map(|group| of_group(group, blocks, &alike)).collect(),
    }
}

/// Slices of another length, or another mode, spread otherwise.
fn is_alike(plan: &Plan, manifest: &Manifest) -> bool {
    let (own, told) = (&plan.load, &manifest.load);
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
    manifest.mode == plan.mode.word()
        && same(own.slice.as_secs_f64(), told.slice_s)
        && same(own.warmup.as_secs_f64(), told.warmup_s)
        && (own.connections, own.threads, own.rounds, own.keepalive)
            == (told.connections, told.threads, told.rounds, told.keepalive)
}

fn of_group(
    group: &Group,
    blocks: (usize, usize),
    earlier: &[&(Manifest, Vec<Block>)],
) -> GroupPreview {
    let spreads = group.contestants.iter().filter_map(|who| pooled_sd(group, &who.name, earlier));
    let widest = spreads.max_by(|a, b| a.0.total_cmp(&b.0));
    let half = |sd: f64| (half_width_after(blocks.0, sd), half_width_after(blocks.1, sd));
    GroupPreview {
        name: group.name.clone(),
        contestants: group.contestants.len(),
        earlier_blocks: widest.map_or(0, |(_, blocks)| blocks),
        half_width: widest.map(|(sd, _)| half(sd)).map(|(a, b)| (a.exp() - 1.0, b.exp() - 1.0)),
    }
}

/// Spread of a variant's differences inside the runs, and of how many blocks.
fn pooled_sd(
    group: &Group,
    variant: &str,
    earlier: &[&(Manifest, Vec<Block>)],
) -> Option<(f64, usize)> {
    let (mut squares, mut freedom, mut blocks) = (0.0, 0, 0);
    for (manifest, run) in earlier {
        let Some(told) = manifest.groups.iter().find(|told| told.name == group.name) else {
            continue;
        };
        let d = differences(run, told, variant);
        if told.baseline == group.baseline && d.len() >= 2 {
            let freed = d.len() - 1;
            squares += drom_stats::sd(&d).powi(2) * freed as f64;
            (freedom, blocks) = (freedom + freed, blocks + d.len());
        }
    }
    (freedom > 0).then(|| ((squares / freedom as f64).sqrt(), blocks))
}

fn block_s(plan: &Plan, group: &Group, earlier: &[&(Manifest, Vec<Block>)]) -> f64 {
    let of_group = |run: &'_ &(Manifest, Vec<Block>)| {
        let blocks = run.1.iter().filter(|block| block.group == group.name);
        blocks.map(|block| block.end_s - block.begin_s).collect::<Vec<f64>>()
    };
    let known: Vec<f64> = earlier.iter().flat_map(of_group).collect();
    if !known.is_empty() {
        return drom_stats::mean(&known);
    }
    let slice_s = 1.1 * plan.load.slice.as_secs_f64();
    let loads_s = plan.load.warmup.as_secs_f64() + f64::from(plan.load.rounds) * slice_s;
    group.contestants.len() as f64 * (loads_s + START_GUESS_S)
}
