//! Whether the plan's warm-up was long enough: the first slice must be as fast as the later ones
//! (W1), and the rate over the steps of the slices, at the median of the blocks, must be settled
//! from its first step on (W2). Both look at the first attempt at each slice: one that is measured
//! again finds a server that the first attempt has warmed. Pure.

use drom_report::{NotEvaluated, format::time};
use drom_stats::{Paired, mean, median_of_sorted, mser5};
use drom_store::{Block, Group, Manifest, Slice};

use crate::{
    analyse::{of_group, rps},
    plan::{BLOCKS_MIN, settle_s},
};

/// Steps with fewer answers on average are too lumpy to be judged.
const ANSWERS_A_STEP: f64 = 10.0;
/// Where to look comes from the same blocks, so the test is a strict one.
const ALPHA: f64 = 0.0001;

/// How much slower the first slice of a start is, in words, when it is.
pub fn cold(blocks: &[&Block], variant: &str) -> Option<String> {
    let first_against_later = |block: &&Block| {
        let slices = first_attempts(block, variant);
        let (first, later): (Vec<&Slice>, Vec<&Slice>) = slices.iter().partition(|s| s.round == 0);
        Some((rps(&first)? / rps(&later)?).ln())
    };
    let d: Vec<f64> = blocks.iter().filter_map(first_against_later).collect();
    let paired = Paired::new(&d).filter(|_| d.len() >= BLOCKS_MIN)?;
    let slower = paired.mean() < -0.03 && paired.p_different() < 0.01;
    slower.then(|| format!("first slice {:+.1} %", 100.0 * (paired.mean().exp() - 1.0)))
}

/// Which of W1 and W2 could not be evaluated, and why; nothing where nothing was measured.
pub fn not_evaluated(manifest: &Manifest, blocks: &[Block]) -> Vec<NotEvaluated> {
    let rounds = (manifest.load.rounds < 2 && !blocks.is_empty())
        .then(|| "needs two rounds a block".to_owned());
    let of = |group: &Group| {
        let own = of_group(blocks, &group.name);
        let variants = group.variants.iter().filter(|_| !own.is_empty());
        variants.filter_map(|v| unsettled_unknown(&own, &v.name)).collect::<Vec<String>>()
    };
    let mut unknown: Vec<String> = manifest.groups.iter().flat_map(of).collect();
    unknown.dedup();
    let others = match unknown.len() {
        0 | 1 => String::new(),
        n => format!(" (and so for {} more)", n - 1),
    };
    let steps = unknown.first().map(|why| why.clone() + &others);
    let told =
        |code: &str, why: Option<String>| Some(NotEvaluated { code: code.to_owned(), why: why? });
    [told("W1", rounds), told("W2", steps)].into_iter().flatten().collect()
}

/// Why nothing can be said about where a variant's rate settles.
fn unsettled_unknown(blocks: &[&Block], variant: &str) -> Option<String> {
    if blocks.len() < BLOCKS_MIN {
        return Some(format!("needs {BLOCKS_MIN} blocks"));
    }
    let slices: Vec<&Slice> = blocks.iter().flat_map(|b| first_attempts(b, variant)).collect();
    let steps: usize = slices.iter().map(|slice| slice.pace.len()).sum();
    if steps == 0 {
        return Some("not recorded in this run".to_owned());
    }
    let judged = blocks.iter().filter(|block| series(block, variant).is_some()).count();
    (judged < BLOCKS_MIN).then(|| {
        format!(
            "`{variant}` had {ANSWERS_A_STEP} answers in a fiftieth of a slice in {judged} of {} \
             blocks, and {BLOCKS_MIN} such blocks are needed: take longer slices",
            blocks.len()
        )
    })
}

/// What the warm-up left: the first attempt at each slice of a block, in their order. One that took
/// a page that varies for wrong answers has no rate to tell.
fn first_attempts<'b>(block: &'b Block, variant: &str) -> Vec<&'b Slice> {
    let has_rate = |slice: &Slice| slice.used || slice.flags.iter().all(|flag| flag.code != "L4");
    let own = |slice: &&Slice| slice.variant == variant && has_rate(slice);
    let mut slices: Vec<&Slice> = block.slices.iter().filter(own).collect();
    slices.sort_by_key(|slice| (slice.round, slice.attempt));
    slices.dedup_by_key(|slice| slice.round);
    slices
}

/// In words how long the warm-up should be, when it was too short for this variant.
pub fn too_short(manifest: &Manifest, blocks: &[&Block], variant: &str) -> Option<String> {
    let series: Vec<Vec<f64>> = blocks.iter().filter_map(|block| series(block, variant)).collect();
    let steps = series.first()?.len();
    if series.len() < BLOCKS_MIN || series.iter().any(|series| series.len() != steps) {
        return None;
    }
    // A block in which the machine stood still must not say where the others settled.
    let typical: Vec<f64> =
        (0..steps).map(|step| median(series.iter().map(|series| series[step]))).collect();
    let settled = mser5(&typical).filter(|settled| settled.from > 0)?;
    let (before, after) = typical.split_at(settled.from);
    let gap = mean(before) / mean(after) - 1.0;
    let cost = mean(&typical) / mean(after) - 1.0;
    let of_block = |series: &Vec<f64>| {
        let (before, after) = series.split_at(settled.from);
        (mean(before) / mean(after)).ln()
    };
    let d: Vec<f64> = series.iter().map(of_block).filter(|d| d.is_finite()).collect();
    let shown = Paired::new(&d).is_some_and(|d| d.p_different() < ALPHA);
    if !shown || cost.abs() < 0.5 * manifest.effect {
        return None;
    }
    let direction = if gap < 0.0 { "slower" } else { "faster" };
    let (from_s, wanted) = until(manifest, settled.from, steps);
    let wanted = if settled.or_later { format!("more than {wanted}") } else { wanted };
    Some(format!(
        "the first {} after the warm-up of {} were {:.1} % {direction} and moved the rate by \
         {:+.1} %; a warm-up of {wanted} would leave them out",
        time(from_s),
        time(manifest.load.warmup_s),
        100.0 * gap.abs(),
        100.0 * cost,
    ))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    median_of_sorted(&values)
}

/// The rates of the first attempts at a block's slices one after the other, as shares of their
/// mean.
fn series(block: &Block, variant: &str) -> Option<Vec<f64>> {
    let slices = first_attempts(block, variant);
    let rates: Vec<f64> = slices.iter().flat_map(|slice| slice.pace.iter().copied()).collect();
    let answers: u64 = slices.iter().map(|slice| slice.ok).sum();
    if rates.is_empty() || (answers as f64) < ANSWERS_A_STEP * rates.len() as f64 {
        return None;
    }
    let whole = mean(&rates);
    (whole > 0.0).then(|| rates.iter().map(|rate| rate / whole).collect())
}

/// Seconds of load that the first `from` steps are, and the warm-up that would hold them all, in
/// words: each slice begins with its settling.
fn until(manifest: &Manifest, from: usize, steps: usize) -> (f64, String) {
    let load = &manifest.load;
    let rounds = f64::from(load.rounds.max(1));
    let measured_s = from as f64 / steps as f64 * rounds * load.slice_s;
    let begun = (measured_s / load.slice_s).ceil().max(1.0);
    let wanted_s = load.warmup_s + measured_s + begun * settle_s(load.slice_s);
    (measured_s, time((10.0 * wanted_s - 1e-6).ceil() / 10.0))
}
