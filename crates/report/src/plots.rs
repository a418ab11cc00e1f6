//! The four plots of the page: forest of ratios, throughput bars, response-time curves, timeline.

use drom_store::{Block, Run, Slice};

use crate::{
    GroupFinding, Role, Row, Verdict,
    format::{rate, time},
    svg::{LogAxis, Svg, escape, short},
    text::{rate_words, ratio_words, verdict_words},
};

/// Ratios against the baseline on a log axis, with the band of ±effect around 1.
#[must_use]
pub fn forest(group: &GroupFinding, effect: f64) -> String {
    let rows: Vec<&Row> = group.rows.iter().filter(|row| row.role != Role::Baseline).collect();
    let ends = rows.iter().filter_map(|row| row.ratio).flat_map(|r| [r.low, r.high]);
    let band = [1.0 / (1.0 + effect), 1.0 + effect];
    let Some(axis) = LogAxis::around(ends.chain(band), 1.15) else { return String::new() };
    let ticks = axis.ticks(7);
    let mut out = String::from("<div class=\"plot\">");
    for row in rows {
        let value = if row.ratio.is_some() { ratio_words(group, row) } else { "-".to_owned() };
        let svg = forest_strip(row, &axis, &ticks, band);
        out += &strip(
            &row.variant,
            &svg,
            &value,
            &format!("{} {}", verdict_class(row), role_class(row)),
        );
    }
    out += &tick_row(&ticks, |value| format!("{}\u{d7}", plain(value)));
    out + "</div>"
}

fn forest_strip(row: &Row, axis: &LogAxis, ticks: &[(f64, f64)], band: [f64; 2]) -> String {
    let mut svg = Svg::new(30.0);
    svg.rect("band", (axis.share(band[0]), axis.share(band[1])), (0.0, 1.0), "");
    ticks.iter().for_each(|(_, x)| svg.line("grid", (*x, 0.0), (*x, 1.0)));
    svg.line("one", (axis.share(1.0), 0.0), (axis.share(1.0), 1.0));
    for ratio in row.blocks.iter().filter_map(|point| point.ratio) {
        svg.dot("faint", (axis.share(ratio), 0.78));
    }
    if let Some(r) = row.ratio {
        svg.line("whisker", (axis.share(r.low), 0.4), (axis.share(r.high), 0.4));
        svg.dot("mark", (axis.share(r.value), 0.4));
    }
    svg.finish(&format!("{}: {}", row.variant, verdict_words(row)))
}

/// Rates from zero, each with its interval.
#[must_use]
pub fn bars(group: &GroupFinding) -> String {
    let top =
        group.rows.iter().map(|row| row.rps.high.min(2.0 * row.rps.value)).fold(0.0, f64::max);
    if top <= 0.0 {
        return String::new();
    }
    let mut out = String::from("<div class=\"plot\">");
    for (row, colour) in group.rows.iter().zip(colours_of(group)) {
        let share = |value: f64| (value / (1.05 * top)).clamp(0.0, 1.0);
        let mut svg = Svg::new(30.0);
        svg.rect(&format!("bar {colour}"), (0.0, share(row.rps.value)), (0.2, 0.8), "");
        svg.line("whisker", (share(row.rps.low), 0.5), (share(row.rps.high), 0.5));
        let value = if row.rps.value > 0.0 {
            format!("{} req/s", rate_words(row))
        } else {
            "no good answer".to_owned()
        };
        out += &strip(&row.variant, &svg.finish(&row.variant), &value, role_class(row));
    }
    out + "</div>"
}

/// Response time over the share of answers, in nines; both axes logarithmic.
#[must_use]
pub fn curves(group: &GroupFinding) -> String {
    let points = || group.rows.iter().flat_map(|row| &row.curve);
    let Some(axis) = LogAxis::around(points().map(|p| p.ms), 2.0) else { return String::new() };
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let most = points().map(|p| nines(p.quantile)).fold(1.0, f64::max);
    let mut svg = Svg::new(300.0);
    for (_, share) in axis.ticks(6) {
        svg.line("grid", (0.0, 1.0 - share), (1.0, 1.0 - share));
    }
    let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
    let shown = quantiles.iter().filter(|q| nines(**q) <= most + 1e-9);
    shown.clone().for_each(|q| svg.line("grid", (nines(*q) / most, 0.0), (nines(*q) / most, 1.0)));
    for (row, colour) in group.rows.iter().zip(colours_of(group)) {
        let path: Vec<(f64, f64)> =
            row.curve.iter().map(|p| (nines(p.quantile) / most, 1.0 - axis.share(p.ms))).collect();
        let control = if row.role == Role::Control { " dashed" } else { "" };
        svg.polyline(&format!("curve {colour}{control}"), &path);
    }
    let left: String = axis
        .ticks(6)
        .into_iter()
        .map(|(value, share)| {
            format!("<span style=\"bottom:{}%\">{}</span>", short(100.0 * share), tick_ms(value))
        })
        .collect();
    let below: String = shown
        .map(|q| {
            let name =
                if *q == 0.0 { "fastest".to_owned() } else { format!("{} %", short_percent(*q)) };
            format!("<span style=\"left:{}%\">{name}</span>", short(100.0 * nines(*q) / most))
        })
        .collect();
    format!(
        "<div class=\"curves\"><div class=\"left\">{left}</div><div class=\"canvas\">{}</div>\
         <div class=\"below\">{below}</div></div>{}",
        svg.finish("response times"),
        keys(group)
    )
}

/// Every slice of every block where it lay in time, one line per variant.
#[must_use]
pub fn timeline(run: &Run) -> String {
    let end = run.blocks.iter().map(|block| block.end_s).fold(0.0, f64::max);
    if end <= 0.0 {
        return String::new();
    }
    let mut out = String::from("<div class=\"plot timeline\">");
    for group in &run.manifest.groups {
        let controls = group.variants.iter().map(|variant| variant.is_control);
        for (variant, colour) in group.variants.iter().zip(colours(controls)) {
            let svg = timeline_strip(run, &group.name, &variant.name, &colour, end);
            let name = format!("{} \u{b7} {}", group.name, variant.name);
            out += &strip(&name, &svg.finish(&name), "", "");
        }
    }
    let ticks: Vec<(f64, f64)> =
        (0..=4).map(|n| f64::from(n) / 4.0).map(|x| (x * end, x)).collect();
    out += &tick_row(&ticks, time);
    out + "</div>"
}

fn timeline_strip(run: &Run, group: &str, variant: &str, colour: &str, end: f64) -> Svg {
    let mut svg = Svg::new(18.0);
    for block in run.blocks.iter().filter(|block| block.group == group) {
        svg.rect("block", (block.begin_s / end, block.end_s / end), (0.0, 1.0), "");
        for slice in block.slices.iter().filter(|s| s.variant == variant) {
            let right = (slice.begin_s + slice.duration_s) / end;
            let class = slice_class(slice, colour);
            let title = slice_title(block, slice);
            svg.rect(&class, (slice.begin_s / end, right), (0.12, 0.88), &title);
        }
    }
    for dropped in run.dropped.iter().filter(|dropped| dropped.group == group) {
        let whose = if dropped.variant == variant { "dropped blamed" } else { "dropped" };
        let title = format!("dropped: {}: {}", dropped.variant, dropped.reason);
        svg.rect(whose, (dropped.begin_s / end, dropped.end_s / end), (0.0, 1.0), &title);
    }
    svg
}

fn slice_class(slice: &Slice, colour: &str) -> String {
    let flagged = if slice.flags.is_empty() { "" } else { " flagged" };
    let unused = if slice.used { "" } else { " unused" };
    format!("slice {colour}{flagged}{unused}")
}

fn colours_of(group: &GroupFinding) -> Vec<String> {
    colours(group.rows.iter().map(|row| row.role == Role::Control))
}

/// One class a row: the control has the same colour in every group, the others go by their place.
fn colours(controls: impl Iterator<Item = bool>) -> Vec<String> {
    let mut place = 0..;
    let one = |is_control: bool| match (is_control, place.clone().next()) {
        (false, Some(at)) => {
            place.next();
            format!("v{}", at % 8)
        }
        _ => "vc".to_owned(),
    };
    controls.map(one).collect()
}

fn slice_title(block: &Block, slice: &Slice) -> String {
    let rps = rate(slice.ok as f64 / slice.duration_s.max(1e-9));
    let mut title = format!("{} block {}: {rps} req/s", slice.variant, block.index + 1);
    for flag in &slice.flags {
        title += &format!("; {}: {}", flag.code, flag.detail);
    }
    title
}

/// Name, drawing, value: one row that keeps its words readable on a telephone.
fn strip(name: &str, svg: &str, value: &str, class: &str) -> String {
    format!(
        "<div class=\"strip {class}\"><span class=\"name\">{}</span><div \
            class=\"canvas\">{svg}</div>\
         <span class=\"value\">{}</span></div>",
        escape(name),
        escape(value)
    )
}

/// Where there is little room the ticks that stand too near to another go, but never the one at 1.
fn tick_row(ticks: &[(f64, f64)], words: fn(f64) -> String) -> String {
    let kept = ticks_with_room(ticks);
    let span = |(index, (value, share)): (usize, &(f64, f64))| {
        let minor = if kept.contains(&index) { "" } else { " class=\"minor\"" };
        let (left, words) = (short(100.0 * share), escape(&words(*value)));
        format!("<span{minor} style=\"left:{left}%\">{words}</span>")
    };
    let spans: String = ticks.iter().enumerate().map(span).collect();
    format!(
        "<div class=\"strip axis\"><span class=\"name\"></span><div class=\"ticks\">{spans}</div>\
         <span class=\"value\"></span></div>"
    )
}

/// A label's share of a telephone's width.
const ROOM: f64 = 0.14;

/// From the tick at 1 outwards, each as far as it needs from the last one.
fn ticks_with_room(ticks: &[(f64, f64)]) -> Vec<usize> {
    let first = ticks.iter().position(|(value, _)| (value - 1.0).abs() < 1e-9).unwrap_or(0);
    let mut kept = vec![first];
    let mut walk = |indexes: &mut dyn Iterator<Item = usize>| {
        let mut last = ticks.get(first).map_or(0.0, |tick| tick.1);
        for index in indexes {
            if (ticks[index].1 - last).abs() >= ROOM {
                last = ticks[index].1;
                kept.push(index);
            }
        }
    };
    walk(&mut (first + 1..ticks.len()));
    walk(&mut (0..first.min(ticks.len())).rev());
    kept
}

fn keys(group: &GroupFinding) -> String {
    let key = |(row, colour): (&Row, String)| {
        format!("<span class=\"key {colour}\">{}</span>", escape(&row.variant))
    };
    let keys: String = group.rows.iter().zip(colours_of(group)).map(key).collect();
    format!("<p class=\"keys\">{keys}</p>")
}

/// The class that colours a verdict.
#[must_use]
pub fn verdict_class(row: &Row) -> &'static str {
    match (row.role, row.verdict) {
        (Role::Baseline, _) => "is-baseline",
        (Role::Control, Some(Verdict::Faster | Verdict::Slower)) => "is-slower",
        (Role::Control, _) => "is-baseline",
        (_, Some(Verdict::Faster)) => "is-faster",
        (_, Some(Verdict::Slower)) => "is-slower",
        (_, Some(Verdict::Equivalent)) => "is-equivalent",
        (_, Some(Verdict::NoClaim { .. } | Verdict::NoAnswer { .. })) => "is-none",
        _ => "is-open",
    }
}

fn role_class(row: &Row) -> &'static str {
    if row.role == Role::Control { "control" } else { "" }
}

fn short_percent(quantile: f64) -> String {
    // 99.99 has four digits that matter.
    short(100.0 * quantile)
}

/// `10 ms`, `200 \u{b5}s`.
fn tick_ms(value: f64) -> String {
    match value {
        v if v >= 999.5 => format!("{} s", plain(v / 1e3)),
        v if v >= 0.9995 => format!("{} ms", plain(v)),
        v => format!("{} \u{b5}s", plain(1e3 * v)),
    }
}

/// A tick's value without the zeros that mean nothing.
fn plain(value: f64) -> String {
    let decimals = (3 - value.abs().log10().floor().clamp(-9.0, 3.0) as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_digits_that_mean_nothing() {
        let words = [(2_000.0, "2 s"), (10.0, "10 ms"), (1.0, "1 ms"), (0.2, "200 \u{b5}s")];
        words.iter().for_each(|(value, text)| assert_eq!(tick_ms(*value), *text));
    }

    #[test]
    fn the_tick_at_one_stays_where_there_is_little_room() {
        let ticks = [(0.1, 0.1), (0.8, 0.85), (0.9, 0.93), (1.0, 0.95), (1.2, 1.0)];
        let row = tick_row(&ticks, plain);
        assert_eq!(row.matches("class=\"minor\"").count(), 3, "{row}");
        assert!(row.contains("<span class=\"minor\" style=\"left:93%\">0.9</span>"), "{row}");
        assert!(row.contains("<span style=\"left:95%\">1</span>"), "{row}");
        let even = [0.6, 0.8, 1.0, 1.2].map(|value| (value, value - 0.5));
        assert!(!tick_row(&even, plain).contains("minor"), "four have room");
    }

    #[test]
    fn the_control_has_one_colour_wherever_it_stands() {
        let of = |controls: &[bool]| colours(controls.iter().copied()).join(" ");
        assert_eq!(of(&[false, false, true]), "v0 v1 vc");
        assert_eq!(of(&[false, true, false, false]), "v0 vc v1 v2");
    }

    #[test]
    fn ticks_far_below_one_stay_apart() {
        let ticks = [(0.000_05, "0.00005"), (2.0e-4, "0.0002"), (1.0, "1"), (1.05, "1.05")];
        ticks.iter().for_each(|(value, text)| assert_eq!(plain(*value), *text));
        assert_eq!(
            (plain(20.0), plain(1_000.0), plain(20_000.0)),
            ("20".into(), "1000".into(), "20000".into())
        );
    }
}
