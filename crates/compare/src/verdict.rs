//! From the blocks' differences to a verdict: Holm over the variants of a group, equivalence before
//! difference, and no claim where wrong answers, missing or starved connections, or the client
//! itself stand between the numbers and the servers. Pure; knows no blocks, only their differences.

use drom_report::{Client, Role, Row, Verdict};
use drom_stats::{Paired, blocks_needed_at, half_width_at, holm};
use drom_store::Manifest;

use crate::plan::BLOCKS_MIN;

/// What the plan fixed before the run.
pub struct Rules {
    /// Smallest effect of interest, in log units.
    margin: f64,
    pilot_blocks: usize,
    /// What a block takes, for the estimate of how much longer.
    block_s: f64,
}

impl Rules {
    pub fn of(manifest: &Manifest, block_s: f64) -> Self {
        Self { margin: (1.0 + manifest.effect).ln(), pilot_blocks: manifest.pilot_blocks, block_s }
    }
}

const ALPHA: f64 = 0.05;

/// Gives every row its verdict; `d` has the differences of each row, `silent` its blocks without an
/// answer. The A/A pair stands alone at
/// its own 5 %.
pub fn decide(rows: &mut [Row], d: &[Vec<f64>], silent: &[usize], rules: &Rules) {
    let paired = |d| Paired::new(d).map(|p| p.after_pilot(rules.pilot_blocks));
    let paired: Vec<Option<Paired<'_>>> =
        d.iter().map(|d| paired(d).filter(|_| d.len() >= BLOCKS_MIN)).collect();
    let base_silent = rows.iter().zip(silent).any(|(r, n)| r.role == Role::Baseline && *n > 0);
    let family = family(rows, &paired);
    let open = family.iter().flatten().filter(|p| **p >= ALPHA).count();
    for (at, row) in rows.iter_mut().enumerate() {
        let Some(paired) = &paired[at] else { continue };
        row.p_holm = family[at];
        let p = family[at].unwrap_or_else(|| paired.p_different());
        // The next one of the family to be shown must pass Holm's level for those still open.
        let tests = if family[at].is_some() { open.max(1) } else { 1 };
        row.verdict = Some(verdict(paired, d[at].len(), p, ALPHA / tests as f64, rules));
    }
    let baseline = rows.iter().find(|row| row.role == Role::Baseline).cloned();
    if let Some(baseline) = baseline {
        for (row, silent) in rows.iter_mut().zip(silent) {
            withhold(row, &baseline, (*silent, base_silent));
        }
    }
}

/// Holm's p of every variant that has blocks enough.
fn family(rows: &[Row], paired: &[Option<Paired<'_>>]) -> Vec<Option<f64>> {
    let is_member = |at: &usize| rows[*at].role == Role::Variant && paired[*at].is_some();
    let members: Vec<usize> = (0..rows.len()).filter(is_member).collect();
    let p: Vec<f64> =
        members.iter().filter_map(|at| Some(paired[*at].as_ref()?.p_different())).collect();
    let mut family = vec![None; rows.len()];
    for (at, p) in members.into_iter().zip(holm(&p)) {
        family[at] = Some(p);
    }
    family
}

fn verdict(paired: &Paired<'_>, blocks: usize, p: f64, alpha: f64, rules: &Rules) -> Verdict {
    if paired.equivalent_within(rules.margin) {
        return Verdict::Equivalent;
    }
    if p < ALPHA {
        return if paired.mean() > 0.0 { Verdict::Faster } else { Verdict::Slower };
    }
    let more = more_blocks(paired, blocks, alpha, rules.margin);
    Verdict::Inconclusive { more_blocks: Some(more), more_s: Some(more as f64 * rules.block_s) }
}

/// Until the half-width at `alpha` is below what separates the mean from zero or from the margin,
/// whichever decides sooner.
fn more_blocks(paired: &Paired<'_>, blocks: usize, alpha: f64, margin: f64) -> usize {
    let sd = paired.sd();
    let target = (0.8 * paired.mean().abs()).max(0.8 * (margin - paired.mean().abs()));
    let total = blocks_needed_at(alpha, blocks, sd, target.max(0.2 * margin)).min(10_000);
    let mut more = total.saturating_sub(blocks).max(1);
    while more > 1 && half_width_at(alpha, blocks + more - 1, sd) <= target {
        more -= 1;
    }
    more
}

/// Takes a verdict back that the numbers cannot bear.
fn withhold(row: &mut Row, baseline: &Row, (silent, base_silent): (usize, bool)) {
    let failed = |row: &Row, code: &str| row.checks.iter().any(|check| check.code == code);
    let because = if row.role == Role::Baseline {
        None
    } else if failed(row, "L4") {
        Some("wrong answers")
    } else if failed(baseline, "L4") {
        Some("the baseline answered wrongly")
    } else if silent > 0 {
        row.verdict = Some(Verdict::NoAnswer { blocks: silent, of: row.blocks.len() });
        return;
    } else if base_silent {
        Some("the baseline did not answer in every block")
    } else if failed(row, "L5") || failed(baseline, "L5") {
        Some("missing connections")
    } else if row.is_starved() || baseline.is_starved() {
        Some("starved connections")
    } else if row.role == Role::Variant && row.verdict.is_some_and(|v| hides(v, row, baseline)) {
        Some("the client was the limit")
    } else {
        None
    };
    if let Some(because) = because {
        row.verdict = Some(Verdict::NoClaim { because });
    }
}

/// A client near its limit pulls every ratio towards 1 and so leaves signs alone; who was slowed
/// down more may be faster than shown. Two rates that are the client's own say nothing.
fn hides(verdict: Verdict, variant: &Row, baseline: &Row) -> bool {
    let (own, other) = (variant.client, baseline.client);
    let both_at_limit = own == Client::Limit && other == Client::Limit;
    match verdict {
        Verdict::Equivalent => own.max(other) > Client::Free,
        Verdict::Faster => other > own || both_at_limit,
        Verdict::Slower => own > other || both_at_limit,
        Verdict::Inconclusive { .. } => both_at_limit,
        Verdict::NoAnswer { .. } | Verdict::NoClaim { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_held_back_more_may_be_faster_than_shown() {
        let open = Verdict::Inconclusive { more_blocks: None, more_s: None };
        let hidden = |verdict, own, other| hides(verdict, &row(own), &row(other));
        use Client::{Free, Limit, Near};
        assert!(!hidden(Verdict::Slower, Free, Limit) && hidden(Verdict::Faster, Free, Limit));
        assert!(hidden(Verdict::Slower, Limit, Near) && !hidden(Verdict::Faster, Limit, Near));
        assert!(!hidden(Verdict::Slower, Near, Near) && hidden(Verdict::Equivalent, Near, Free));
        assert!(hidden(Verdict::Faster, Limit, Limit) && hidden(open, Limit, Limit));
        assert!(!hidden(Verdict::Equivalent, Free, Free) && !hidden(open, Near, Limit));
    }

    #[test]
    fn the_hint_reckons_with_the_whole_family() {
        let d = vec![0.03, 0.10, -0.02, 0.08, 0.01, 0.06, -0.01, 0.07];
        let rules = Rules { margin: 0.02, pilot_blocks: 8, block_s: 1.0 };
        let hint = |variants: usize| {
            let mut rows = vec![row(Client::Free); variants + 1];
            rows[0].role = Role::Baseline;
            let differences: Vec<Vec<f64>> =
                (0..=variants).map(|at| if at == 0 { Vec::new() } else { d.clone() }).collect();
            decide(&mut rows, &differences, &vec![0; variants + 1], &rules);
            match rows[1].verdict {
                Some(Verdict::Inconclusive { more_blocks: Some(more), .. }) => more,
                other => panic!("{other:?}"),
            }
        };
        let spread = drom_stats::sd(&d);
        let mean = d.iter().sum::<f64>() / 8.0;
        for variants in [2, 4, 8] {
            let level = ALPHA / variants as f64;
            assert!(half_width_at(level, 8 + hint(variants), spread) <= mean, "{variants}");
        }
        assert!(hint(8) > hint(4) && hint(4) > hint(2));
    }

    fn row(client: Client) -> Row {
        let nothing = drom_report::Estimate { value: 0.0, low: 0.0, high: 0.0 };
        Row {
            variant: String::new(),
            role: Role::Variant,
            path: String::new(),
            rps: nothing,
            client,
            ratio: None,
            robust_ratio: None,
            p_holm: None,
            verdict: None,
            cpu_us_per_request: None,
            cpu_ratio: None,
            worker_mb: None,
            tree_mb: None,
            workers: None,
            ready_ms: None,
            response: Vec::new(),
            curve: Vec::new(),
            checks: Vec::new(),
            blocks: Vec::new(),
        }
    }
}
