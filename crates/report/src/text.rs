//! The terminal: one aligned table per group, then the checks that failed and what they mean.

use std::cmp::Ordering;

use drom_store::{Manifest, Run};

use crate::{
    Client, Findings, GroupFinding, NotEvaluated, Role, Row, Verdict,
    catalogue::check,
    format::{ascii, interval, markdown as escaped, number_of, plain, rate, three, time, two},
    svg::short,
};

/// Colours, or none for a pipe; lines of any length where there is no width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colours: bool,
    pub width: Option<usize>,
    /// For a locale without UTF-8.
    pub ascii: bool,
}

impl Style {
    /// For a file, a pipe or a page.
    pub const PLAIN: Self = Self { colours: false, width: None, ascii: false };
}

#[must_use]
pub fn text(run: &Run, findings: &Findings, style: Style) -> String {
    let manifest = &run.manifest;
    let title = folded(&manifest.title, style);
    let title: Vec<String> = title.lines().map(|line| bold(line, style)).collect();
    let mut out = format!("{}\n{}\n", title.join("\n"), folded(&subtitle(run), style));
    for line in warnings(run, findings) {
        out += &format!("{}\n", paint(&folded(&format!("! {line}"), style), "33", style));
    }
    let listed = |lines: Vec<String>| -> String {
        let folded = |line: &String| folded(&format!("  {line}"), style) + "\n";
        lines.iter().map(folded).collect()
    };
    for group in &findings.groups {
        let (heading, name) = (folded(&heading(group, manifest), style), plain(&group.name));
        out += &format!("\n{}\n", heading.replacen(&name, &bold(&name, style), 1));
        out += &table(group, style);
        out += &part("\n", &listed(undecided(group)));
    }
    out += &part("\nChecks that failed\n", &listed(legend(findings)));
    if let Some(line) = not_evaluated(&findings.not_evaluated) {
        out += &format!("\n{}\n", folded(&line, style));
    }
    if style.ascii { ascii(&out) } else { out }
}

/// The same tables for a page in Markdown.
#[must_use]
pub fn markdown(run: &Run, findings: &Findings) -> String {
    let mut out = format!("# {}\n\n{}\n", escaped(&run.manifest.title), escaped(&subtitle(run)));
    for line in warnings(run, findings) {
        out += &format!("\n**{}**\n", escaped(&line));
    }
    let listed = |lines: Vec<String>| -> String {
        lines.iter().map(|line| format!("- {}\n", escaped(line))).collect()
    };
    for group in &findings.groups {
        out += &format!("\n## {}\n\n", escaped(&heading(group, &run.manifest)));
        let cells = group.rows.iter().map(|row| cells(group, row).map(|cell| escaped(&cell)));
        out += &format!("| {} |\n|---|--:|--:|---|--:|--:|---|\n", HEAD.join(" | "));
        cells.for_each(|cells| out += &format!("| {} |\n", cells.join(" | ")));
        out += &part("\n", &listed(undecided(group)));
    }
    out += &part("\n## Checks that failed\n\n", &listed(legend(findings)));
    if let Some(line) = not_evaluated(&findings.not_evaluated) {
        out += &format!("\n{}\n", escaped(&line));
    }
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
        Some(end) if end.failed => format!(", failed after {}", time(end.duration_s)),
        Some(end) => format!(" in {}", time(end.duration_s)),
        None => ", cut off".to_owned(),
    };
    let rounds =
        if load.rounds == 1 { String::new() } else { format!(" x {} rounds", load.rounds) };
    format!(
        "{} \u{b7} {}{ended} \u{b7} {}{} \u{b7} slices of {}{rounds}, {} \
            \u{b7} {} \u{b7} seed {}",
        drom_store::utc(m.started_unix_s),
        blocks(run.blocks.len()),
        connections(m),
        if load.keepalive { ", keep-alive" } else { "" },
        time(load.slice_s),
        if m.mode == "fresh" { "one server at a time" } else { "alternating" },
        m.placement,
        m.seed
    )
}

/// `8 connections`, `1, 4 connections`: what the groups ran with.
fn connections(m: &Manifest) -> String {
    let of_group = |told: u32| if told == 0 { m.load.connections } else { told };
    let mut numbers: Vec<u32> = Vec::new();
    for number in m.groups.iter().map(|group| of_group(group.connections)) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match &numbers[..] {
        [] => number_of(m.load.connections as usize, "connection"),
        [only] => number_of(*only as usize, "connection"),
        _ => format!("{} connections", words.join(", ")),
    }
}

/// What a reader must know before the first number.
#[must_use]
pub fn warnings(run: &Run, findings: &Findings) -> Vec<String> {
    let mut lines: Vec<String> =
        findings.doubtful.iter().map(|why| format!("DOUBTFUL RUN (AA): {why}")).collect();
    lines.extend(findings.wrong.iter().map(|who| format!("WRONG ANSWERS (L4): {who}")));
    lines.extend(findings.silent.iter().map(|who| format!("NO ANSWER (L11): {who}")));
    lines.extend(findings.starved.iter().map(|who| format!("STARVED CONNECTIONS (L3): {who}")));
    lines.extend(findings.dropped.iter().map(|what| format!("DROPPED BLOCKS (F1): {what}")));
    let flags = run.manifest.flags.iter();
    lines.extend(flags.map(|flag| format!("{}: {}", flag.code, flag.detail)));
    let skipped = run.manifest.skipped.iter();
    lines.extend(skipped.map(|s| format!("{} skipped: {}", s.variant, s.reason)));
    lines.extend(ending(run));
    lines
}

/// How the run ended, when it did not end in order, and what that means for its numbers.
fn ending(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    match &run.end {
        Some(end) if end.interrupted => {
            lines.push("stopped: only finished blocks count".to_owned());
        }
        Some(end) if end.failed => {
            lines.push(format!("FAILED: the run ended early: {}", end.reason));
        }
        None => lines.push("this run was cut off: only finished blocks count".to_owned()),
        Some(_) => {}
    }
    if run.torn {
        let torn = "TORN: the last block was cut off in the middle of writing; it does not count";
        lines.push(torn.to_owned());
    }
    lines
}

fn heading(group: &GroupFinding, manifest: &Manifest) -> String {
    let floor = group.noise_floor.map_or_else(String::new, |floor| {
        format!(", noise floor \u{b1}{} % (A/A)", three(100.0 * floor))
    });
    format!(
        "{}: {} against {}, smallest effect of interest {} %{floor}",
        group.name,
        blocks(group.blocks),
        group.baseline,
        short(100.0 * manifest.effect)
    )
}

/// One table, or several below each other where the terminal is too narrow for one.
fn table(group: &GroupFinding, style: Style) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(group.rows.iter().map(|row| cells(group, row).map(|cell| plain(&cell))));
    if style.ascii {
        lines.iter_mut().flatten().for_each(|cell| *cell = ascii(cell));
    }
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let tables = packed(&widths, style.width.unwrap_or(usize::MAX));
    let tables = tables.iter().map(|shown| some_columns(&lines, &widths, shown, style));
    tables.collect::<Vec<_>>().join("\n")
}

/// Which columns stand in which table: as many as fit, the first one in each.
fn packed(widths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let first = widths[0] + 2;
    let (mut tables, mut used) = (vec![vec![0]], first);
    for (column, width) in widths.iter().enumerate().skip(1) {
        if used + width + 2 > most && used > first {
            tables.push(vec![0]);
            used = first;
        }
        let table = tables.last_mut().expect("there is a first one");
        table.push(column);
        used += width + 2;
    }
    tables
}

fn some_columns(lines: &[[String; 7]], widths: &[usize], shown: &[usize], style: Style) -> String {
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells = shown.iter().map(|&column| {
            let cell = &line[column];
            let gap = " ".repeat(widths[column] - cell.chars().count());
            let right = matches!(column, 1 | 2 | 4 | 5);
            let padded = if right { format!("{gap}{cell}") } else { format!("{cell}{gap}") };
            if index > 0 { tint(column, cell, &padded, style) } else { padded }
        });
        let joined = cells.collect::<Vec<_>>().join("  ");
        out += &format!("  {}\n", joined.trim_end());
        if index == 0 {
            let rule = shown.iter().map(|&at| "\u{2500}".repeat(widths[at])).collect::<Vec<_>>();
            out += &format!("  {}\n", rule.join("\u{2500}\u{2500}"));
        }
    }
    out
}

fn cells(group: &GroupFinding, row: &Row) -> [String; 7] {
    let checks: Vec<String> = row.checks.iter().map(check_word).collect();
    [
        row.variant.clone(),
        rate_words(row),
        ratio_words(group, row),
        short_verdict(row),
        row.cpu_us_per_request.map_or_else(|| "-".to_owned(), |cpu| three(cpu.value)),
        row.worker_mb.map_or_else(|| "-".to_owned(), three),
        if checks.is_empty() { "ok".to_owned() } else { checks.join(" ") },
    ]
}

/// What a slice without an answer may mean.
pub const HANGS_OR_SLOW: &str = "it hangs, or the slice is too short for it";

/// What would decide the open ones.
fn undecided(group: &GroupFinding) -> Vec<String> {
    let hint = |row: &Row| {
        Some(match row.verdict {
            Some(Verdict::NoClaim { because }) => format!("no claim: {}, {because}", row.variant),
            Some(verdict @ Verdict::NoAnswer { .. }) => {
                format!("no claim: {}, {verdict}; {HANGS_OR_SLOW}", row.variant)
            }
            _ => format!("undecided: {}, {}", row.variant, hint(row)?),
        })
    };
    group.rows.iter().filter_map(hint).collect()
}

/// Lines with their head, or nothing at all.
fn part(head: &str, lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("{head}{lines}") }
}

/// What a run's own words must not do to the terminal they do not do from here on.
fn folded(text: &str, style: Style) -> String {
    let text = plain(text);
    style.width.map_or_else(|| text.clone(), |width| fold(&text, width))
}

/// Lines of at most this width, broken between words; what follows is indented.
#[must_use]
pub fn fold(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    let room = width.saturating_sub(indent);
    let lines = broken(text, room, room.saturating_sub(2));
    " ".repeat(indent) + &lines.join(&format!("\n{}", " ".repeat(indent + 2)))
}

/// The words of a text in lines: the first of at most so many columns, and the others. A word
/// that is longer has a line of its own. Words may be others': they command no terminal.
#[must_use]
pub fn broken(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().map(plain) {
        let room = if lines.len() == 1 { first } else { others };
        let last = lines.last_mut().expect("there is a first one");
        if last.is_empty() {
            last.push_str(&word);
        } else if last.chars().count() + 1 + word.chars().count() <= room {
            last.push(' ');
            last.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

fn check_word(check: &crate::CheckCount) -> String {
    if check.count == 1 {
        check.code.clone()
    } else {
        format!("{}\u{b7}{}", check.code, check.count)
    }
}

/// The ratio of a row; `≥` or `≤` where the client held one side back more than the other.
#[must_use]
pub fn ratio_words(group: &GroupFinding, row: &Row) -> String {
    let Some(ratio) = row.ratio else { return String::new() };
    let bound = match held_back(group, row) {
        Ordering::Greater => "\u{2265} ",
        Ordering::Less => "\u{2264} ",
        Ordering::Equal => "",
    };
    format!("{bound}{}", interval(ratio))
}

/// Which side of a ratio the client held back: `Greater` for the variant, so that the true ratio is
/// the one shown or greater.
#[must_use]
pub fn held_back(group: &GroupFinding, row: &Row) -> Ordering {
    let baseline = group.rows.iter().find(|row| row.role == Role::Baseline);
    let compared = baseline.map(|baseline| row.client.cmp(&baseline.client));
    compared.filter(|_| row.role == Role::Variant).unwrap_or(Ordering::Equal)
}

/// How much longer would decide it.
#[must_use]
pub fn hint(row: &Row) -> Option<String> {
    match row.verdict? {
        Verdict::Inconclusive { more_blocks: Some(more), more_s: Some(s) }
            if row.role == Role::Variant =>
        {
            Some(format!("about {} would decide it ({})", more_blocks(more), time(s)))
        }
        _ => None,
    }
}

fn more_blocks(number: usize) -> String {
    // Two digits are all that a guess bears.
    format!("{} more block{}", two(number), if number == 1 { "" } else { "s" })
}

/// For a table: the reason stands below it.
fn short_verdict(row: &Row) -> String {
    match row.verdict {
        Some(verdict @ (Verdict::NoClaim { .. } | Verdict::NoAnswer { .. }))
            if row.role == Role::Variant =>
        {
            verdict.word().to_owned()
        }
        _ => verdict_words(row),
    }
}

/// The verdict in words, the roles of baseline and control included.
#[must_use]
pub fn verdict_words(row: &Row) -> String {
    match (row.role, &row.verdict) {
        (Role::Baseline, _) => "baseline".to_owned(),
        (Role::Control, Some(verdict)) => format!("A/A: {}", verdict.word()),
        (_, Some(verdict)) => verdict.to_string(),
        (Role::Control, None) => format!("A/A: not decided ({})", blocks(row.blocks.len())),
        (_, None) => format!("too few blocks ({})", row.blocks.len()),
    }
}

/// `1 block`, `3 blocks`.
#[must_use]
pub fn blocks(number: usize) -> String {
    number_of(number, "block")
}

/// `31,850`, `≥ 31,850`; `-` without a single good answer.
#[must_use]
pub fn rate_words(row: &Row) -> String {
    if row.rps.value <= 0.0 {
        return "-".to_owned();
    }
    format!("{}{}", if row.client > Client::Free { "\u{2265} " } else { "" }, rate(row.rps.value))
}

fn legend(findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    let robust = findings.groups.iter().flat_map(|g| g.rows.iter().map(move |row| (g, row)));
    for (group, row) in robust {
        if let Some(estimate) = row.robust_ratio {
            let (words, group, who) = (interval(estimate), &group.name, &row.variant);
            lines.push(format!("heavy tail: {group} {who}: Hodges-Lehmann gives {words}"));
        }
    }
    for failed in &findings.checks {
        let Some(check) = check(&failed.code) else { continue };
        let (code, name, says) = (check.code, check.name, check.says);
        lines.push(format!("{code} {name}: {says} (e.g. {})", failed.detail));
    }
    lines
}

/// One line: a check that has not failed has not been passed for that.
fn not_evaluated(checks: &[NotEvaluated]) -> Option<String> {
    let words = |known: &NotEvaluated| {
        let name = check(&known.code).map_or("", |check| check.name);
        format!("{} {name}: {}", known.code, known.why)
    };
    let all: Vec<String> = checks.iter().map(words).collect();
    (!all.is_empty()).then(|| format!("Not evaluated: {}", all.join("; ")))
}

fn tint(column: usize, cell: &str, padded: &str, style: Style) -> String {
    let colour = match (column, cell) {
        (3, "faster") => "32",
        (3, "slower") => "31",
        (3, text) if text.starts_with("no ") => "1;31",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_lines_command_no_terminal() {
        assert_eq!(broken("a \u{1b}[31mred\tb", 4, 4), ["a", "\\u{1b}[31mred", "b"]);
        assert_eq!(broken("one two three", 7, 5), ["one two", "three"]);
    }
}
