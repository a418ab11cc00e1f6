//! Judges what was stored: blocks -> paired log ratios -> intervals and verdicts. Pure; the same
//! blocks always give the same findings. The unit is the block, never the request.

use std::collections::BTreeMap;

use drom_report::{
    BlockPoint, CheckCount, Client, CurvePoint, Estimate, Findings, GroupFinding, Response, Role,
    Row, Verdict, format::time,
};
use drom_stats::{
    Latency, Paired, QuantileRatio, confidence_sequence, mean, quantile_ratio, trend, two_modes,
};
use drom_store::{Block, Dropped, Group, Manifest, Run, Slice, Variant};

use crate::{
    checks,
    plan::BLOCKS_MIN,
    verdict::{Rules, decide},
    warmup,
};

/// Everything, response times from the stored histograms included.
#[must_use]
pub fn analyse(run: &Run) -> Findings {
    let mut findings = judge(&run.manifest, &run.blocks, &run.dropped);
    for (finding, group) in findings.groups.iter_mut().zip(&run.manifest.groups) {
        let blocks = of_group(&run.blocks, &group.name);
        let base = merged_by_block(run, &blocks, &group.baseline);
        for row in &mut finding.rows {
            let own = merged_by_block(run, &blocks, &row.variant);
            let all_answer = [&group.baseline, &row.variant].map(|who| silent_blocks(&blocks, who));
            row.response = responses(&own, &base, row.role, all_answer == [0, 0]);
            row.curve = curve(&own);
        }
    }
    findings
}

/// Throughput, CPU, memory, checks and verdicts; no histogram is read.
#[must_use]
pub fn judge(manifest: &Manifest, blocks: &[Block], dropped: &[Dropped]) -> Findings {
    let mut groups: Vec<GroupFinding> =
        manifest.groups.iter().map(|group| judge_group(manifest, group, blocks)).collect();
    groups.iter_mut().for_each(|group| count_dropped(group, dropped));
    let all = groups.iter().flat_map(|g| g.rows.iter().flat_map(named_checks));
    let mut checks: BTreeMap<String, CheckCount> = BTreeMap::new();
    for check in all.chain(manifest.flags.iter().map(count_of)) {
        let entry = checks.entry(check.code.clone());
        entry.and_modify(|known| known.count += check.count).or_insert(check);
    }
    let doubtful = groups.iter().filter_map(doubt).collect();
    let wrong = groups.iter().flat_map(wrong_answers).collect();
    let silent = groups.iter().flat_map(|group| silent_words(group, manifest)).collect();
    let starved = groups.iter().flat_map(|group| starved_words(group, manifest)).collect();
    let dropped = groups.iter().flat_map(dropped_words).collect();
    Findings {
        checks: checks.into_values().collect(),
        not_evaluated: warmup::not_evaluated(manifest, blocks),
        doubtful,
        wrong,
        silent,
        starved,
        dropped,
        groups,
    }
}

/// A ratio that is safe to look at after every block.
#[derive(Clone, Debug)]
pub struct SoFar {
    pub variant: String,
    pub ratio: Estimate,
}

/// What the finished blocks of a group say so far, for watching: confidence sequences.
#[must_use]
pub fn so_far(blocks: &[Block], group: &Group) -> Vec<SoFar> {
    let own = of_group(blocks, &group.name);
    let ratio = |variant: &Variant| {
        let d = differences(blocks, group, &variant.name);
        let quiet = [&group.baseline, &variant.name].map(|who| silent_blocks(&own, who));
        let enough = d.len() >= BLOCKS_MIN && quiet == [0, 0];
        let found = confidence_sequence(&d, 0.05).filter(|_| enough)?;
        Some(SoFar { variant: variant.name.clone(), ratio: told(found) })
    };
    group.variants.iter().filter(|variant| !variant.is_control).filter_map(ratio).collect()
}

/// d_b = ln(variant / baseline) of the throughput, one per block that has both.
#[must_use]
pub fn differences(blocks: &[Block], group: &Group, variant: &str) -> Vec<f64> {
    differences_of(&of_group(blocks, &group.name), group, variant)
}

fn differences_of(blocks: &[&Block], group: &Group, variant: &str) -> Vec<f64> {
    if variant == group.baseline {
        return Vec::new();
    }
    ln_ratios(blocks, &group.baseline, variant, rps)
}

fn judge_group(manifest: &Manifest, group: &Group, blocks: &[Block]) -> GroupFinding {
    let own = of_group(blocks, &group.name);
    let mut rows: Vec<Row> =
        group.variants.iter().map(|variant| row(manifest, group, variant, &own)).collect();
    let d: Vec<Vec<f64>> = rows.iter().map(|r| differences_of(&own, group, &r.variant)).collect();
    let mean_block_s = mean_cost_s(&own);
    let silent: Vec<usize> = rows.iter().map(|row| silent_blocks(&own, &row.variant)).collect();
    decide(&mut rows, &d, &silent, &Rules::of(manifest, mean_block_s));
    let control = rows.iter().find(|row| row.role == Role::Control);
    let noise_floor = control
        .and_then(|row| row.ratio)
        .map(|ratio| ((ratio.high / ratio.low).ln() / 2.0).exp() - 1.0);
    GroupFinding {
        name: group.name.clone(),
        baseline: group.baseline.clone(),
        blocks: own.len(),
        noise_floor,
        rows,
    }
}

fn row(manifest: &Manifest, group: &Group, variant: &Variant, blocks: &[&Block]) -> Row {
    let name = &variant.name;
    let is_baseline = *name == group.baseline;
    let role = match (variant.is_control, is_baseline) {
        (true, _) => Role::Control,
        (false, true) => Role::Baseline,
        (false, false) => Role::Variant,
    };
    let ratios = |metric: Metric| {
        if is_baseline { Vec::new() } else { ln_ratios(blocks, &group.baseline, name, metric) }
    };
    let throughput = ratios(rps);
    let paired = Paired::new(&throughput).map(|p| p.after_pilot(manifest.pilot_blocks));
    // Ratios of the blocks that were answered would be those of a better server.
    let all_answer = [&group.baseline, name].iter().all(|who| silent_blocks(blocks, who) == 0);
    let enough = throughput.len() >= BLOCKS_MIN && all_answer;
    let heavy = paired.as_ref().filter(|p| enough && p.heavy_tailed(0.95));
    let slices = used_slices(blocks, name);
    let mut checks = slice_checks(blocks, name);
    checks.extend(block_checks(manifest, blocks, name, &throughput));
    Row {
        variant: name.clone(),
        role,
        path: variant.path.clone(),
        rps: mean_rate(&per_block(blocks, name, rate)),
        client: client(&slices),
        ratio: paired.as_ref().filter(|_| enough).map(|p| told(p.t_interval(0.95))),
        robust_ratio: heavy.and_then(|p| Some(told(p.hodges_lehmann(0.95)?.estimate))),
        p_holm: None,
        verdict: None,
        cpu_us_per_request: cpu_a_request(blocks, name),
        cpu_ratio: (ratios(cpu_us).len() >= BLOCKS_MIN && all_answer)
            .then(|| geometric(&ratios(cpu_us).iter().map(|d| d.exp()).collect::<Vec<_>>()))
            .flatten(),
        worker_mb: average(slices.iter().map(|s| s.worker_pss_bytes as f64 / 1e6)),
        tree_mb: average(slices.iter().map(|s| s.tree_pss_bytes as f64 / 1e6)),
        workers: slices.iter().map(|s| s.workers).max().filter(|&n| n > 0),
        ready_ms: ready_ms(blocks, name),
        response: Vec::new(),
        curve: Vec::new(),
        checks,
        blocks: block_points(blocks, &group.baseline, name),
    }
}

fn client(slices: &[&Slice]) -> Client {
    let with = |codes: &[&str]| {
        let has = |slice: &&&Slice| slice.flags.iter().any(|f| codes.contains(&f.code.as_str()));
        slices.iter().filter(has).count()
    };
    Client::of(with(&["C1"]), with(&["C1", "L2"]), slices.len())
}

fn doubt(group: &GroupFinding) -> Option<String> {
    let control = group.rows.iter().find(|row| row.role == Role::Control)?;
    let different = matches!(control.verdict, Some(Verdict::Faster | Verdict::Slower));
    let ratio = control.ratio.filter(|_| different)?;
    Some(format!(
        "{}: the baseline differs from itself by {:+.1} % ({:+.1} to {:+.1})",
        group.name,
        100.0 * (ratio.value - 1.0),
        100.0 * (ratio.low - 1.0),
        100.0 * (ratio.high - 1.0)
    ))
}

/// Who answered wrongly, in words; the A/A pair is the baseline.
fn wrong_answers(group: &GroupFinding) -> Vec<String> {
    let say = |row: &Row| {
        let check = row.checks.iter().find(|check| check.code == "L4")?;
        let slices = if check.count == 1 { "1 slice" } else { &format!("{} slices", check.count) };
        let (variant, path) = (&row.variant, &row.path);
        Some(format!("{}: `{variant}` ({path}) in {slices}: {}", group.name, check.detail))
    };
    group.rows.iter().filter_map(say).collect()
}

/// Who did not answer at all in some slice, in words.
fn silent_words(group: &GroupFinding, manifest: &Manifest) -> Vec<String> {
    let slice = time(manifest.load.slice_s);
    let say = |row: &Row| {
        let silent = row.blocks.iter().filter(|point| point.silent).count();
        let (variant, path, of) = (&row.variant, &row.path, row.blocks.len());
        (silent > 0).then(|| {
            format!(
                "{}: `{variant}` ({path}): no answer in {silent} of {of} blocks: it hangs, or the \
                 slice of {slice} is too short for it",
                group.name
            )
        })
    };
    group.rows.iter().filter_map(say).collect()
}

/// Whose connections starved in most blocks, in words.
fn starved_words(group: &GroupFinding, manifest: &Manifest) -> Vec<String> {
    let told = manifest.groups.iter().find(|told| told.name == group.name);
    let asked = told.map(|told| told.connections).filter(|n| *n > 0);
    let asked = asked.unwrap_or(manifest.load.connections);
    let say = |row: &Row| {
        let never = row.blocks.iter().map(|point| point.never_answered).max().unwrap_or(0);
        let (name, variant, path) = (&group.name, &row.variant, &row.path);
        let (starved, of) = (row.starved_blocks(), row.blocks.len());
        format!(
            "{name}: `{variant}` ({path}): {never} of {asked} connections were never answered in \
             {starved} of {of} blocks, while the others were: no claim"
        )
    };
    group.rows.iter().filter(|row| row.is_starved()).map(say).collect()
}

/// The checks of a row, with its name before the figures.
fn named_checks(row: &Row) -> impl Iterator<Item = CheckCount> {
    let named = |check: &CheckCount| format!("{}: {}", row.variant, check.detail);
    row.checks.iter().map(move |check| CheckCount { detail: named(check), ..check.clone() })
}

/// Blocks that do not count stand in the row of whose server failed.
fn count_dropped(group: &mut GroupFinding, dropped: &[Dropped]) {
    for row in &mut group.rows {
        let own = |d: &&Dropped| d.group == group.name && d.variant == row.variant;
        let own: Vec<&Dropped> = dropped.iter().filter(own).collect();
        let Some(first) = own.first() else { continue };
        let (code, detail) = (DROPPED.to_owned(), one_line(&first.reason));
        row.checks.push(CheckCount { code, count: own.len(), detail });
    }
}

const DROPPED: &str = "F1";

/// What a server wrote stands behind its end, one line after the other.
fn one_line(reason: &str) -> String {
    let mut lines = reason.lines().map(str::trim);
    let first = lines.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = lines.collect();
    if rest.is_empty() { first } else { format!("{first} {}", rest.join(" / ")) }
}

fn dropped_words(group: &GroupFinding) -> Vec<String> {
    let say = |row: &Row| {
        let check = row.checks.iter().find(|check| check.code == DROPPED)?;
        let blocks = if check.count == 1 { "1 block" } else { &format!("{} blocks", check.count) };
        let (group, variant, detail) = (&group.name, &row.variant, &check.detail);
        Some(format!("{group}: {blocks} dropped because of `{variant}`: {detail}"))
    };
    group.rows.iter().filter_map(say).collect()
}

type Metric = fn(&[&Slice]) -> Option<f64>;

/// Of a block; 0 without a good answer.
fn rate(slices: &[&Slice]) -> Option<f64> {
    let seconds: f64 = slices.iter().map(|s| s.duration_s).sum();
    let ok: u64 = slices.iter().map(|s| s.ok).sum();
    (seconds > 0.0).then(|| ok as f64 / seconds)
}

/// The rate for ratios and their logarithms, which know no zero.
pub fn rps(slices: &[&Slice]) -> Option<f64> {
    rate(slices).filter(|rate| *rate > 0.0)
}

fn is_silent(slices: &[&Slice]) -> bool {
    slices.iter().any(|slice| checks::is_silent(slice.ok, slice.failed))
}

/// Blocks with a slice in which no request ended.
fn silent_blocks(blocks: &[&Block], variant: &str) -> usize {
    blocks.iter().filter(|block| is_silent(&slices_of(block, variant))).count()
}

fn cpu_us(slices: &[&Slice]) -> Option<f64> {
    let cpu_s: f64 = slices.iter().map(|s| s.server_cpu_s).sum();
    let answered: u64 = slices.iter().map(|s| s.ok + s.failed).sum();
    (cpu_s > 0.0 && answered > 0).then(|| 1e6 * cpu_s / answered as f64)
}

pub fn of_group<'b>(blocks: &'b [Block], group: &str) -> Vec<&'b Block> {
    blocks.iter().filter(|block| block.group == group).collect()
}

fn slices_of<'b>(block: &'b Block, variant: &str) -> Vec<&'b Slice> {
    block.slices.iter().filter(|s| s.used && s.variant == variant).collect()
}

fn used_slices<'b>(blocks: &[&'b Block], variant: &str) -> Vec<&'b Slice> {
    blocks.iter().flat_map(|block| slices_of(block, variant)).collect()
}

fn per_block(blocks: &[&Block], variant: &str, metric: Metric) -> Vec<f64> {
    blocks.iter().filter_map(|block| metric(&slices_of(block, variant))).collect()
}

fn ln_ratios(blocks: &[&Block], baseline: &str, variant: &str, metric: Metric) -> Vec<f64> {
    let both = |block: &&Block| {
        let base = metric(&slices_of(block, baseline))?;
        Some((metric(&slices_of(block, variant))? / base).ln())
    };
    blocks.iter().filter_map(both).collect()
}

/// Geometric, and plain where a block has no good answer at all: that block is a result too.
fn mean_rate(rates: &[f64]) -> Estimate {
    if rates.iter().all(|rate| *rate > 0.0) {
        return geometric(rates).unwrap_or(NOTHING);
    }
    let plain = Paired::new(rates).map(|paired| paired.t_interval(0.95));
    plain.map_or(NOTHING, |found| Estimate {
        value: found.centre,
        low: found.interval.low.max(0.0),
        high: found.interval.high,
    })
}

/// Where a block has no answer, its CPU time belongs to the others' answers.
fn cpu_a_request(blocks: &[&Block], variant: &str) -> Option<Estimate> {
    if silent_blocks(blocks, variant) == 0 {
        return geometric(&per_block(blocks, variant, cpu_us));
    }
    let value = cpu_us(&used_slices(blocks, variant))?;
    Some(Estimate { value, low: value, high: value })
}

/// One block has a value but no spread.
fn geometric(values: &[f64]) -> Option<Estimate> {
    if let [only] = values {
        return Some(Estimate { value: *only, low: *only, high: *only });
    }
    let ln: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    Paired::new(&ln).map(|paired| told(paired.t_interval(0.95)))
}

fn told(ln: drom_stats::Estimate) -> Estimate {
    let ratio = ln.exp();
    Estimate { value: ratio.centre, low: ratio.interval.low, high: ratio.interval.high }
}

const NOTHING: Estimate = Estimate { value: 0.0, low: 0.0, high: 0.0 };

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|v| *v > 0.0).collect();
    (!values.is_empty()).then(|| mean(&values))
}

fn ready_ms(blocks: &[&Block], variant: &str) -> Option<f64> {
    let starts = blocks.iter().flat_map(|block| &block.starts);
    average(starts.filter(|start| start.variant == variant).map(|start| 1e3 * start.ready_s))
}

fn mean_cost_s(blocks: &[&Block]) -> f64 {
    average(blocks.iter().map(|block| block.end_s - block.begin_s)).unwrap_or(0.0)
}

fn block_points(blocks: &[&Block], baseline: &str, variant: &str) -> Vec<BlockPoint> {
    let point = |block: &&Block| {
        let slices = slices_of(block, variant);
        let own = rate(&slices)?;
        let base = rps(&slices_of(block, baseline));
        Some(BlockPoint {
            block: block.index,
            begin_s: slices.first()?.begin_s,
            rps: own,
            ratio: base.map(|base| own / base).filter(|ratio| *ratio > 0.0),
            silent: is_silent(&slices),
            never_answered: slices.iter().map(|slice| slice.never_answered).max().unwrap_or(0),
            cpu_us_per_request: cpu_us(&slices),
            slices: slices.iter().map(|s| s.id.clone()).collect(),
        })
    };
    blocks.iter().filter_map(point).collect()
}

/// One count per code, over the slices that were used.
fn slice_checks(blocks: &[&Block], variant: &str) -> Vec<CheckCount> {
    let mut counts: Vec<CheckCount> = Vec::new();
    for flag in used_slices(blocks, variant).iter().flat_map(|slice| &slice.flags) {
        match counts.iter_mut().find(|known| known.code == flag.code) {
            Some(known) => known.count += 1,
            None => counts.push(count_of(flag)),
        }
    }
    counts
}

fn count_of(flag: &drom_store::Flag) -> CheckCount {
    CheckCount { code: flag.code.clone(), count: 1, detail: flag.detail.clone() }
}

/// What only shows across blocks.
fn block_checks(
    manifest: &Manifest,
    blocks: &[&Block],
    variant: &str,
    d: &[f64],
) -> Vec<CheckCount> {
    let one = |code: &str, detail: String| CheckCount { code: code.to_owned(), count: 1, detail };
    let varying = used_slices(blocks, variant);
    let varying: Vec<&str> = varying.iter().map(|slice| slice.checked.as_str()).collect();
    let varies = varies(&varying).map(|(count, detail)| CheckCount { count, ..one("V1", detail) });
    let cold = warmup::cold(blocks, variant).map(|detail| one("W1", detail));
    let short = warmup::too_short(manifest, blocks, variant).map(|detail| one("W2", detail));
    let drift = trend(d).filter(|t| t.p < 0.001).map(|t| {
        let percent = 100.0 * (t.slope.exp() - 1.0);
        one("D1", format!("{percent:+.2} % per block (von Neumann {:.2})", t.von_neumann))
    });
    let modes = two_modes(d).map(|m| {
        let (low, high) = (m.low.exp(), m.high.exp());
        one("D2", format!("ratio {low:.3} or {high:.3} ({:.0} % upper)", 100.0 * m.share_high))
    });
    [varies, cold, short, drift, modes].into_iter().flatten().collect()
}

/// In how many slices not the whole body was checked, and what instead.
fn varies(checked: &[&str]) -> Option<(usize, String)> {
    let count = |what: &str| checked.iter().filter(|checked| **checked == what).count();
    let (length, status) = (count("length"), count("status"));
    let what = if status > 0 { "status and framing" } else { "status, framing and length" };
    (length + status > 0).then(|| (length + status, format!("checked by {what} only")))
}

fn merged_by_block(run: &Run, blocks: &[&Block], variant: &str) -> Vec<Option<Latency>> {
    let merge = |block: &&Block| {
        let slices = slices_of(block, variant);
        let mut merged = Latency::default();
        slices.iter().for_each(|slice| merged.merge(run.latency(slice)));
        (merged.count() > 0).then_some(merged)
    };
    blocks.iter().map(merge).collect()
}

fn whole(by_block: &[Option<Latency>]) -> Latency {
    let mut all = Latency::default();
    by_block.iter().flatten().for_each(|latency| all.merge(latency));
    all
}

fn responses(
    own: &[Option<Latency>],
    base: &[Option<Latency>],
    role: Role,
    claim: bool,
) -> Vec<Response> {
    let all = whole(own);
    if all.count() == 0 {
        return Vec::new();
    }
    let pairs: Vec<(Latency, Latency)> =
        own.iter().zip(base).filter_map(|(a, b)| Some((a.clone()?, b.clone()?))).collect();
    let response = |quantile: f64| {
        let ms = all.quantile_ns(quantile) as f64 * 1e-6;
        let (ratio, needs) = match quantile_ratio(&pairs, quantile) {
            QuantileRatio::NeedsRequests { per_block } => (None, Some(per_block)),
            QuantileRatio::Known(_) if role == Role::Baseline || !claim => (None, None),
            QuantileRatio::Known(e) => {
                let interval = e.interval;
                (Some(Estimate { value: e.centre, low: interval.low, high: interval.high }), None)
            }
        };
        Response { quantile, ms, ratio, needs_requests_per_block: needs }
    };
    [0.5, 0.9, 0.99].map(response).to_vec()
}

/// The response-time curve at steps that are even in "nines", as far as 10 answers lie beyond.
fn curve(own: &[Option<Latency>]) -> Vec<CurvePoint> {
    let all = whole(own);
    let count = all.count() as f64;
    (0..=60)
        .map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 15.0))
        .filter(|quantile| count * (1.0 - quantile) >= 10.0)
        .map(|quantile| CurvePoint { quantile, ms: all.quantile_ns(quantile) as f64 * 1e-6 })
        .collect()
}
