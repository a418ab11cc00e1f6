//! The terminal: one aligned table per group, then the checks that failed and what they mean.

use drom_store::{Manifest, Run};

use crate::{
    Estimate, Findings, GroupFinding, Role, Row,
    catalogue::check,
    format::{rate, ratio, three, time},
};

/// Colours, or none for a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colours: bool,
}

#[must_use]
pub fn text(run: &Run, findings: &Findings, style: Style) -> String {
    let manifest = &run.manifest;
    let mut out = format!("{}\n{}\n", bold(&manifest.title, style), subtitle(run));
    for line in warnings(run, findings) {
        out += &format!("{}\n", paint(&format!("! {line}"), "33", style));
    }
    for group in &findings.groups {
        out += &format!("\n{}\n", heading(group, manifest, style));
        out += &table(group, style);
    }
    out += &legend(findings);
    out
}

/// The same tables for a page in Markdown.
#[must_use]
pub fn markdown(run: &Run, findings: &Findings) -> String {
    let mut out = format!("# {}\n\n{}\n", run.manifest.title, subtitle(run));
    for line in warnings(run, findings) {
        out += &format!("\n**{line}**\n");
    }
    for group in &findings.groups {
        out += &format!("\n## {}\n\n", heading(group, &run.manifest, Style { colours: false }));
        let cells = group.rows.iter().map(cells);
        out += &format!("| {} |\n|---|--:|--:|---|--:|--:|---|\n", HEAD.join(" | "));
        cells.for_each(|cells| out += &format!("| {} |\n", cells.join(" | ")));
    }
    out += &legend(findings).replace("\n  ", "\n- ");
    out
}

const HEAD: [&str; 7] = [
    "variant",
    "req/s",
    "ratio (95 % interval)",
    "verdict",
    "CPU \u{b5}s/req",
    "MB/worker",
    "checks",
];

/// One line: when, how long, how many blocks, in which way.
#[must_use]
pub fn subtitle(run: &Run) -> String {
    let m = &run.manifest;
    let load = &m.load;
    let ended = match &run.end {
        Some(end) if end.interrupted => format!(", stopped after {}", time(end.duration_s)),
        Some(end) => format!(" in {}", time(end.duration_s)),
        None => ", cut off".to_owned(),
    };
    let rounds =
        if load.rounds == 1 { String::new() } else { format!(" x {} rounds", load.rounds) };
    format!(
        "{} \u{b7} {} blocks{ended} \u{b7} {} connections{} \u{b7} slices of {}{rounds}, {} \
            \u{b7} {} \u{b7} seed {}",
        drom_store::utc(m.started_unix_s),
        run.blocks.len(),
        load.connections,
        if load.keepalive { ", keep-alive" } else { "" },
        time(load.slice_s),
        if m.mode == "fresh" { "one server at a time" } else { "alternating" },
        m.placement,
        m.seed
    )
}

/// What a reader must know before the first number.
#[must_use]
pub fn warnings(run: &Run, findings: &Findings) -> Vec<String> {
    let mut lines: Vec<String> =
        findings.doubtful.iter().map(|why| format!("DOUBTFUL RUN (AA): {why}")).collect();
    let flags = run.manifest.flags.iter();
    lines.extend(flags.map(|flag| format!("{}: {}", flag.code, flag.detail)));
    let skipped = run.manifest.skipped.iter();
    lines.extend(skipped.map(|s| format!("{} skipped: {}", s.variant, s.reason)));
    match &run.end {
        Some(end) if end.interrupted => {
            lines.push("stopped: only finished blocks count".to_owned())
        }
        None => lines.push("this run was cut off: only finished blocks count".to_owned()),
        Some(_) => {}
    }
    lines
}

fn heading(group: &GroupFinding, manifest: &Manifest, style: Style) -> String {
    let floor = group.noise_floor.map_or_else(String::new, |floor| {
        format!(", noise floor \u{b1}{} % (A/A)", three(100.0 * floor))
    });
    format!(
        "{}: {} blocks against {}, smallest effect of interest {} %{floor}",
        bold(&group.name, style),
        group.blocks,
        group.baseline,
        three(100.0 * manifest.effect)
    )
}

fn table(group: &GroupFinding, style: Style) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(group.rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let gap = " ".repeat(widths[column] - cell.chars().count());
            let right = matches!(column, 1 | 2 | 4 | 5);
            let padded = if right { format!("{gap}{cell}") } else { format!("{cell}{gap}") };
            if index > 0 { tint(column, cell, &padded, style) } else { padded }
        });
        let joined = cells.collect::<Vec<_>>().join("  ");
        out += &format!("  {}\n", joined.trim_end());
        if index == 0 {
            let rule = widths.iter().map(|w| "\u{2500}".repeat(*w)).collect::<Vec<_>>();
            out += &format!("  {}\n", rule.join("\u{2500}\u{2500}"));
        }
    }
    out
}

fn cells(row: &Row) -> [String; 7] {
    let checks: Vec<String> = row.checks.iter().map(check_word).collect();
    [
        row.variant.clone(),
        rate_words(row),
        row.ratio.map_or_else(String::new, interval),
        verdict_words(row),
        row.cpu_us_per_request.map_or_else(|| "-".to_owned(), |cpu| three(cpu.value)),
        row.worker_mb.map_or_else(|| "-".to_owned(), three),
        if checks.is_empty() { "ok".to_owned() } else { checks.join(" ") },
    ]
}

fn check_word(check: &crate::CheckCount) -> String {
    if check.count == 1 {
        check.code.clone()
    } else {
        format!("{}\u{b7}{}", check.code, check.count)
    }
}

/// `3.21× (3.10 to 3.33)`.
#[must_use]
pub fn interval(estimate: Estimate) -> String {
    let bare = |value: f64| ratio(value).replace('\u{d7}', "");
    format!("{} ({} to {})", ratio(estimate.value), bare(estimate.low), bare(estimate.high))
}

/// The verdict in words, the roles of baseline and control included.
#[must_use]
pub fn verdict_words(row: &Row) -> String {
    match (row.role, &row.verdict) {
        (Role::Baseline, _) => "baseline".to_owned(),
        (Role::Control, Some(verdict)) => format!("A/A: {}", verdict.word()),
        (_, Some(verdict)) => verdict.to_string(),
        // Such a variant has no rate, so that its blocks do not count either.
        (_, None) if row.checks.iter().any(|check| check.code == "L4") => {
            "no claim: wrong answers".to_owned()
        }
        (_, None) => format!("too few blocks ({})", row.blocks.len()),
    }
}

/// `31,850`, `≥ 31,850`; `-` without a single good answer.
#[must_use]
pub fn rate_words(row: &Row) -> String {
    if row.rps.value <= 0.0 {
        return "-".to_owned();
    }
    format!("{}{}", if row.at_least { "\u{2265} " } else { "" }, rate(row.rps.value))
}

fn legend(findings: &Findings) -> String {
    let mut out = String::new();
    let robust = findings.groups.iter().flat_map(|g| g.rows.iter().map(move |row| (g, row)));
    for (group, row) in robust {
        if let Some(estimate) = row.robust_ratio {
            let words = interval(estimate);
            out += &format!(
                "\n  heavy tail: {} {}: Hodges-Lehmann gives {words}",
                group.name, row.variant
            );
        }
    }
    for failed in &findings.checks {
        let Some(check) = check(&failed.code) else { continue };
        out +=
            &format!("\n  {} {}: {} (e.g. {})", check.code, check.name, check.says, failed.detail);
    }
    if out.is_empty() { out } else { format!("\nChecks that failed{}\n", out) }
}

fn tint(column: usize, cell: &str, padded: &str, style: Style) -> String {
    let colour = match (column, cell) {
        (3, "faster") => "32",
        (3, "slower") => "31",
        (3, "equivalent") => "36",
        (3, text) if text.starts_with("inconclusive") => "33",
        (3, "baseline") | (6, "ok") => "2",
        (3, text) if text.starts_with("A/A") => "2",
        (6, _) => "33",
        _ => return padded.to_owned(),
    };
    paint(padded, colour, style)
}

fn bold(text: &str, style: Style) -> String {
    paint(text, "1", style)
}

fn paint(text: &str, code: &str, style: Style) -> String {
    if style.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}
