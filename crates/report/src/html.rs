//! One page, no network: verdicts first, then the plots, then everything they come from. Every
//! number in a table opens the blocks and slices that it was computed from. Deterministic: the same
//! run, the same bytes.

use std::cmp::Ordering;

use drom_store::{Block, Run, Slice};

use crate::{
    CheckCount, Estimate, Findings, GroupFinding, Role, Row, Verdict,
    catalogue::{CHECKS, Check, check},
    format::{interval, ms, number_of, rate, ratio, three, time},
    plots::{bars, curves, forest, timeline, verdict_class},
    svg::{escape, short},
    text::{held_back, hint, rate_words, ratio_words, subtitle, verdict_words, warnings},
};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

#[must_use]
pub fn html(run: &Run, findings: &Findings) -> String {
    let title = escape(&run.manifest.title);
    let groups: String =
        findings.groups.iter().map(|group| section(group, run.manifest.effect)).collect();
    format!(
        "{}<header><h1>{title}</h1><p class=\"sub\">{}</p>{}</header>\n{groups}{}{}{}{}\n\
         </main><script>{SCRIPT}</script></body></html>\n",
        opening(&title, ""),
        subtitle_items(run),
        notices(run, findings),
        when_section(run),
        checks_section(findings),
        machine_section(run),
        slices_section(run),
    )
}

/// Every page up to its header; `title` is escaped already.
pub fn opening(title: &str, more_style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>{STYLE}{more_style}</style></head><body><main>\n"
    )
}

/// An item breaks only as a whole.
pub fn items<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(|item| format!("<span>{}</span>", escape(item))).collect();
    items.join("\u{b7} ")
}

fn subtitle_items(run: &Run) -> String {
    items(subtitle(run).split(" \u{b7} "))
}

fn notices(run: &Run, findings: &Findings) -> String {
    let notice = |line: String| format!("<p class=\"notice\">{}</p>", escape(&line));
    warnings(run, findings).into_iter().map(notice).collect()
}

fn section(group: &GroupFinding, effect: f64) -> String {
    let floor = group.noise_floor.map_or_else(String::new, |floor| {
        format!(" The same server against itself: \u{b1}{} %.", three(100.0 * floor))
    });
    let rows: String = group.rows.iter().map(|row| table_row(group, row)).collect();
    format!(
        "<section><h2>{name}</h2><p class=\"lead\">{}</p>\n\
         <h3>How much faster than {base}</h3>\
         <p class=\"note\">Ratio of throughput with its 95 % interval; right of the line is \
         faster. Faint dots \
         are single blocks; the band is \u{b1}{effect} %, the smallest effect of \
         interest.{floor}</p>{}\n\
         <h3>Throughput</h3><p class=\"note\">The machine's ups and downs from block to block are \
         in these \
         intervals; pairing takes them out of the ratios above.</p>{}\n\
         <div class=\"scroll\"><table class=\"main\"><thead><tr><th>variant</th>\
         <th class=\"n\">req/s</th>\
         <th class=\"n\">ratio (95 %)</th><th>verdict</th><th class=\"n\">CPU \u{b5}s/req</th>\
         <th class=\"n\">MB/worker</th><th class=\"n\">p50</th><th class=\"n\">p99</th>\
         <th class=\"n\">start</th>\
         <th>checks</th></tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"note\">Open a row to see the blocks and slices that its numbers come \
         from. MB is PSS; a pale p50 or p99 had too few answers in a block for a ratio; start is \
         until the first good answer.</p>\n\
         <h3>Response time in this closed loop</h3>\
         <p class=\"note\">A saturated server with N connections answers after N / rate on \
         average, whatever \
         it does: compare the shapes, not the levels. To the right: the share of answers that came \
         within that \
         time.</p>{}</section>\n",
        headline(group),
        forest(group, effect),
        bars(group),
        curves(group),
        name = escape(&group.name),
        base = escape(&group.baseline),
        effect = short(100.0 * effect),
    )
}

/// The finding in words.
fn headline(group: &GroupFinding) -> String {
    let say = |row: &Row| {
        let words = match (row.verdict, row.ratio) {
            (Some(Verdict::Faster | Verdict::Slower), Some(r)) => {
                format!("is {}<b>{}</b> as fast", bound(group, row), ratio(r.value))
            }
            (Some(Verdict::Equivalent), _) => "is <b>equivalent</b>".to_owned(),
            (Some(verdict @ Verdict::NoAnswer { .. }), _) => format!("<b>no claim</b> ({verdict})"),
            (Some(Verdict::NoClaim { because }), _) => format!("<b>no claim</b> ({because})"),
            (Some(_), _) => "is <b>undecided</b>".to_owned(),
            (None, _) => escape(&format!("has {}", verdict_words(row))),
        };
        let name = escape(&row.variant);
        format!("<span class=\"say {}\">{name} {words}</span>", verdict_class(row))
    };
    let variants = group.rows.iter().filter(|row| row.role == Role::Variant);
    let said: Vec<String> = variants.map(say).collect();
    format!("Against {}: {}", escape(&group.baseline), said.join(" "))
}

fn bound(group: &GroupFinding, row: &Row) -> &'static str {
    match held_back(group, row) {
        Ordering::Greater => "at least ",
        Ordering::Less => "at most ",
        Ordering::Equal => "",
    }
}

fn table_row(group: &GroupFinding, row: &Row) -> String {
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three);
    let response = |quantile: f64| {
        let found = row.response.iter().find(|r| (r.quantile - quantile).abs() < 1e-9);
        found.map_or_else(
            || "-".to_owned(),
            |r| match (r.ratio, r.needs_requests_per_block) {
                (Some(ratio), _) => {
                    format!("<span title=\"{}\">{}</span>", interval(ratio), ms(r.ms))
                }
                (None, Some(n)) => format!(
                    "<span class=\"dim\" title=\"a ratio needs {n} answers per block\">{}</span>",
                    ms(r.ms)
                ),
                (None, None) => ms(r.ms),
            },
        )
    };
    let name = escape(&row.variant);
    format!(
        "<tr class=\"row {class}\" tabindex=\"0\"><td><span \
            class=\"open\">\u{25b8}</span>{name}</td>\
         <td class=\"n\" data-is=\"req/s\">{}</td><td class=\"n\" data-is=\"ratio\">{}</td>\
         <td data-is=\"verdict\"><span class=\"verdict\">{}</span></td>\
         <td class=\"n\" data-is=\"CPU \u{b5}s/req\">{}</td>\
         <td class=\"n\" data-is=\"MB/worker\">{}</td><td class=\"n\" data-is=\"p50\">{}</td>\
         <td class=\"n\" data-is=\"p99\">{}</td><td class=\"n\" data-is=\"start\">{}</td>\
         <td data-is=\"checks\">{}</td></tr>\
         <tr class=\"more\" hidden><td colspan=\"10\">{}</td></tr>",
        rate_words(row),
        ratio_cell(group, row),
        verdict_cell(row),
        cell(row.cpu_us_per_request.map(|cpu| cpu.value)),
        cell(row.worker_mb),
        response(0.5),
        response(0.99),
        row.ready_ms.map_or_else(|| "-".to_owned(), ms),
        checks_cell(&row.checks),
        details(group, row),
        class = verdict_class(row),
    )
}

/// Ratio and interval each stay whole where there is no room for both in a line.
fn ratio_cell(group: &GroupFinding, row: &Row) -> String {
    let words = ratio_words(group, row);
    let parts = words.split_once(" (").map(|(ratio, interval)| (ratio, format!("({interval}")));
    parts.map_or_else(String::new, |(ratio, interval)| {
        format!("<span class=\"whole\">{ratio}</span> <span class=\"whole\">{interval}</span>")
    })
}

fn verdict_cell(row: &Row) -> String {
    let hint = hint(row).map_or_else(String::new, |hint| format!(" title=\"{hint}\""));
    format!("<span{hint}>{}</span>", escape(&verdict_words(row)))
}

fn checks_cell(checks: &[CheckCount]) -> String {
    if checks.is_empty() {
        return "<span class=\"ok\">ok</span>".to_owned();
    }
    let one = |failed: &CheckCount| {
        let says = check(&failed.code).map_or("", |check| check.says);
        let title = escape(&format!("{says}: {} ({} times)", failed.detail, failed.count));
        format!("<a class=\"code\" href=\"#check-{0}\" title=\"{title}\">{0}</a>", failed.code)
    };
    checks.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Logarithms know no zero: where a block has none, its rate counts in the plain mean.
fn mean_words(row: &Row, range: String) -> String {
    let blocks = number_of(row.blocks.len(), "block");
    match row.blocks.iter().filter(|point| point.rps <= 0.0).count() {
        0 => format!("geometric mean of {blocks}: {range} req/s"),
        none => format!("mean of {blocks}, {none} of them at 0: {range} req/s"),
    }
}

/// Where a row's numbers come from.
fn details(group: &GroupFinding, row: &Row) -> String {
    let range = |e: Estimate| format!("{} ({} to {})", three(e.value), three(e.low), three(e.high));
    let mut facts = vec![
        format!("asked for <code>{}</code>", escape(&row.path)),
        mean_words(row, range(row.rps)),
    ];
    facts.extend(
        row.cpu_us_per_request.map(|cpu| format!("server CPU per request: {} \u{b5}s", range(cpu))),
    );
    facts.extend(
        row.cpu_ratio.map(|r| format!("CPU against {}: {}", escape(&group.baseline), interval(r))),
    );
    facts.extend(row.robust_ratio.map(|r| format!("heavy tail; Hodges-Lehmann: {}", interval(r))));
    facts.extend(
        row.p_holm.map(|p| {
            format!("p (Holm): {}", if p < 1e-4 { "< 0.0001".to_owned() } else { three(p) })
        }),
    );
    facts.extend(row.tree_mb.map(|mb| {
        let workers =
            row.workers.map_or_else(String::new, |n| format!(", {}", number_of(n, "worker")));
        format!("all processes: {} MB PSS{workers}", three(mb))
    }));
    facts.extend(hint(row).map(|hint| format!("undecided: {hint}")));
    let facts: String = facts.iter().map(|fact| format!("<li>{fact}</li>")).collect();
    let blocks: String = row
        .blocks
        .iter()
        .map(|point| {
            let slices: Vec<String> =
                point.slices.iter().map(|id| format!("<a href=\"#{id}\">{id}</a>")).collect();
            format!(
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td>{}</td></tr>",
                point.block + 1,
                rate(point.rps),
                point.ratio.map_or_else(|| "-".to_owned(), ratio),
                point.cpu_us_per_request.map_or_else(|| "-".to_owned(), three),
                slices.join(" ")
            )
        })
        .collect();
    format!(
        "<ul>{facts}</ul><table \
            class=\"inner\"><thead><tr><th>block</th><th>req/s</th><th>ratio</th>\
         <th>CPU \u{b5}s</th><th>slices</th></tr></thead><tbody>{blocks}</tbody></table>"
    )
}

fn when_section(run: &Run) -> String {
    let ended =
        run.end.as_ref().map_or_else(|| "The run was cut off".to_owned(), |end| end.reason.clone());
    format!(
        "<section><h2>When</h2><p class=\"note\">Every slice where it lay in time; a shaded field \
            is one block of \
         fresh servers, a ringed slice failed a check, a pale one was measured again, an outlined \
         field was dropped. It ended because: {}.\
         </p>{}{}</section>\n",
        escape(&ended),
        timeline(run),
        dropped_blocks(run)
    )
}

/// Each block that does not count, with what its server wrote last.
fn dropped_blocks(run: &Run) -> String {
    let one = |dropped: &drom_store::Dropped| {
        format!(
            "<details><summary>{} \u{b7} block {} dropped <span>{} to {}, the server of {} \
             failed</span></summary><pre>{}</pre></details>",
            escape(&dropped.group),
            dropped.block + 1,
            time(dropped.begin_s),
            time(dropped.end_s),
            escape(&dropped.variant),
            escape(&dropped.reason)
        )
    };
    run.dropped.iter().map(one).collect()
}

fn checks_section(findings: &Findings) -> String {
    let entry = |check: &Check| {
        let (class, count) = check_state(findings, check.code);
        format!(
            "<details class=\"check {class}\" id=\"check-{code}\"><summary><b>{code}</b> {} \
             <span>{count}</span></summary><p>{}. {}</p></details>",
            check.name,
            escape(check.says),
            escape(check.story),
            code = check.code
        )
    };
    let (bad, good): (Vec<_>, Vec<_>) =
        CHECKS.iter().partition(|c| check_state(findings, c.code).0 == "failed");
    let all: String = bad.into_iter().chain(good).map(entry).collect();
    format!("<section><h2>Checks</h2><div class=\"checks\">{all}</div></section>\n")
}

/// Class and words: a check that nothing was measured for has not been passed.
fn check_state(findings: &Findings, code: &str) -> (&'static str, String) {
    if let Some(known) = findings.checks.iter().find(|check| check.code == code) {
        return ("failed", format!("{} \u{d7}: {}", known.count, escape(&known.detail)));
    }
    let controls = || findings.groups.iter().flat_map(|g| &g.rows).filter(|r| is_control(r));
    let undecided = controls().filter(|row| !row.verdict.is_some_and(is_decided)).count();
    let most = findings.groups.iter().map(|group| group.blocks).max().unwrap_or(0);
    let open = |why: String| ("undecided", why);
    match code {
        "AA" if !findings.doubtful.is_empty() => ("failed", "failed".to_owned()),
        "AA" if undecided > 0 => open(format!(
            "not decided in {undecided} of {}",
            number_of(controls().count(), "group")
        )),
        "P1" => ("passed", "passed".to_owned()),
        _ if most == 0 => open("not measured: no finished block".to_owned()),
        "D1" if most < TREND_BLOCKS => open(format!("needs {TREND_BLOCKS} blocks")),
        "D2" if most < MODES_BLOCKS => open(format!("needs {MODES_BLOCKS} blocks")),
        _ => findings
            .not_evaluated
            .iter()
            .find(|known| known.code == code)
            .map_or(("passed", "passed".to_owned()), |known| {
                open(format!("not evaluated: {}", known.why))
            }),
    }
}

/// Kendall's test cannot reach 0.1 % with fewer.
const TREND_BLOCKS: usize = 7;
const MODES_BLOCKS: usize = 15;

fn is_control(row: &Row) -> bool {
    row.role == Role::Control
}

/// An A/A pair that came out neither different nor equivalent has still not differed.
fn is_decided(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::NoClaim { .. } | Verdict::NoAnswer { .. })
}

fn machine_section(run: &Run) -> String {
    let m = &run.manifest;
    let mut facts: Vec<(String, String)> =
        m.machine.iter().map(|fact| (fact.name.clone(), fact.value.clone())).collect();
    facts.push(("placement".to_owned(), m.placement.clone()));
    let ceiling = m.client_ceiling_rps.map(|rps| format!("{} req/s", rate(rps)));
    facts.extend(ceiling.map(|rate| ("client ceiling (null server)".to_owned(), rate)));
    facts.push(("time budget".to_owned(), time(m.budget_s)));
    facts.push(("tool".to_owned(), m.tool.clone()));
    let facts: String = facts
        .iter()
        .map(|(name, value)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value))
        })
        .collect();
    let command = |group: &drom_store::Group, variant: &drom_store::Variant| {
        let answer = variant.answer.as_ref().map_or_else(
            || "answer varies".to_owned(),
            |a| {
                format!(
                    "{} {}, {} bytes, XXH64 {:016x}",
                    a.status, a.content_type, a.length, a.hash
                )
            },
        );
        format!(
            "<tr><td>{}</td><td>{}</td><td><code>{}</code></td><td><code>{}</code></td>\
             <td>{}</td></tr>",
            escape(&group.name),
            escape(&variant.name),
            escape(&variant.path),
            escape(&variant.command),
            escape(&answer)
        )
    };
    let commands: String = m
        .groups
        .iter()
        .flat_map(|group| group.variants.iter().map(move |variant| command(group, variant)))
        .collect();
    format!(
        "<section><h2>Machine and plan</h2><dl>{facts}</dl>\
         <details><summary>What was started and what it answered</summary><div \
         class=\"scroll\"><table>\
         <thead><tr><th>group</th><th>variant</th><th>request</th>\
         <th>command</th><th>answer</th></tr></thead>\
         <tbody>{commands}</tbody></table></div></details>\
         <details><summary>The plan</summary><pre>{}</pre></details></section>\n",
        escape(&m.plan_toml)
    )
}

fn slices_section(run: &Run) -> String {
    let blocks: String = run.blocks.iter().map(|block| block_details(run, block)).collect();
    format!(
        "<section><h2>Every slice</h2><p class=\"note\">What all of the above was computed from. \
            The histograms \
         of the slices are in the run's folder, in HdrHistogram's format.</p>{blocks}</section>"
    )
}

fn block_details(run: &Run, block: &Block) -> String {
    let rows: String = block.slices.iter().map(|slice| slice_row(run, slice)).collect();
    format!(
        "<details class=\"blocks\"><summary>{} \u{b7} block {} <span>{} to {}, {}, {}\
            </span></summary>\
         <div \
         class=\"scroll\"><table><thead><tr><th>slice</th><th>variant</th><th>at</th><th>req/s</th>\
         <th>ok</th><th>failed</th><th>mean</th><th>p50</th><th>p99</th><th>server \
         CPU</th><th>client CPU</th>\
         <th>memory</th><th>flags</th></tr></thead><tbody>{rows}</tbody></table></div></details>",
        escape(&block.group),
        block.index + 1,
        time(block.begin_s),
        time(block.end_s),
        number_of(block.starts.len(), "start"),
        number_of(block.slices.len(), "slice")
    )
}

fn slice_row(run: &Run, slice: &Slice) -> String {
    let flag = |f: &drom_store::Flag| {
        format!("<span class=\"code\">{}</span> {}", f.code, escape(&f.detail))
    };
    let mut flags: Vec<String> = slice.flags.iter().map(flag).collect();
    if !slice.used {
        flags.push("measured again".to_owned());
    }
    let share = |cpu_s: f64| format!("{:.0} %", 100.0 * cpu_s / slice.duration_s.max(1e-9));
    format!(
        "<tr id=\"{id}\"><td>{id}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td \
         class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} \
         MB</td><td>{}</td></tr>",
        escape(&slice.variant),
        time(slice.begin_s),
        rate(slice.ok as f64 / slice.duration_s.max(1e-9)),
        slice.ok,
        slice.failed,
        ms(slice.mean_ns * 1e-6),
        ms(run.latency(slice).quantile_ns(0.5) as f64 * 1e-6),
        ms(slice.p99_ns as f64 * 1e-6),
        share(slice.server_cpu_s),
        share(slice.client_cpu_s.iter().sum()),
        three(slice.tree_pss_bytes as f64 / 1e6),
        flags.join("; "),
        id = slice.id
    )
}
