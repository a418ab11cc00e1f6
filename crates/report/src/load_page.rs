//! The page of one load run: verdict and figures, what happened over time, how latency is spread.
//! In the look of the page of a comparison; no network. The same run, the same bytes.

use crate::{
    format::{ms, three, time},
    html::{items, opening},
    svg::{LogAxis, Svg, escape, linear_ticks, short},
};

const MORE_STYLE: &str = include_str!("page/load.css");
/// More fields to point at would make the page heavy.
const HITS_MAX: usize = 900;

/// What the page shows, in the order it does.
#[derive(Clone, Debug, Default)]
pub struct LoadPage {
    /// Method and URL.
    pub title: String,
    pub subtitle: Vec<String>,
    /// What is to be said of the run as a whole.
    pub verdicts: Vec<(Tone, String)>,
    /// Name and value of the most important figures; in red where they are bad.
    pub figures: Vec<(&'static str, String, bool)>,
    /// Expression, value, whether it is met.
    pub thresholds: Vec<(String, String, bool)>,
    pub seconds: Vec<PageSecond>,
    /// How long the window was, where answers came after it.
    pub window_s: Option<f64>,
    /// Name, and points of quantile and milliseconds.
    pub curves: Vec<(&'static str, Vec<(f64, f64)>)>,
    /// The names of the columns, then the rows: a name, its figures, what it is.
    pub times_head: Vec<&'static str>,
    pub times: Vec<(&'static str, Vec<String>, &'static str)>,
    /// What users of a scenario did; none without users.
    pub users: Option<PageUsers>,
    /// Status or error, how many, whether it is a bad one.
    pub answers: Vec<(String, String, bool)>,
    pub checks: Vec<(Tone, &'static str, String)>,
}

/// Rounds in words, a row for each step, and the checks that failed: how often, and which.
#[derive(Clone, Debug, Default)]
pub struct PageUsers {
    pub rounds: String,
    pub steps_head: Vec<&'static str>,
    /// Figures as the head has them, the last one a name; whether some of its requests failed.
    pub steps: Vec<(Vec<String>, bool)>,
    pub failures: Vec<(String, String)>,
}

/// A second of the run.
#[derive(Clone, Debug, Default)]
pub struct PageSecond {
    pub start_s: f64,
    pub length_s: f64,
    pub rate_rps: f64,
    pub failed_rps: f64,
    /// p50, p90, p99, maximum; none without an answer.
    pub latency_ms: Option<[f64; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Warning,
    /// Nobody can tell.
    Unknown,
    Bad,
}

#[must_use]
pub fn load_page(page: &LoadPage) -> String {
    let title = escape(&page.title);
    format!(
        "{}<header><h1><span class=\"what\">{title}</span></h1><p class=\"sub\">{}</p></header>\n\
         <section>{}{}{}</section>\n{}{}{}{}{}</main></body></html>\n",
        opening(&title, MORE_STYLE),
        items(page.subtitle.iter().map(String::as_str)),
        verdicts(page),
        figures(page),
        thresholds(page),
        over_time(page),
        page.users.as_ref().map(users).unwrap_or_default(),
        spread(page),
        answers(page),
        checks(page),
    )
}

fn verdicts(page: &LoadPage) -> String {
    let say = |(tone, words): &(Tone, String)| {
        let class = match tone {
            Tone::Good => "is-faster",
            Tone::Warning | Tone::Unknown => "is-open",
            Tone::Bad => "is-slower",
        };
        format!("<span class=\"say {class}\">{}</span>", escape(words))
    };
    format!("<p class=\"lead\">{}</p>", page.verdicts.iter().map(say).collect::<String>())
}

fn figures(page: &LoadPage) -> String {
    let one = |(name, value, is_bad): &(&str, String, bool)| {
        let class = if *is_bad { " class=\"bad\"" } else { "" };
        format!("<div{class}><dt>{name}</dt><dd>{}</dd></div>", escape(value))
    };
    format!("<dl class=\"figures\">{}</dl>", page.figures.iter().map(one).collect::<String>())
}

fn thresholds(page: &LoadPage) -> String {
    if page.thresholds.is_empty() {
        return String::new();
    }
    let row = |(expression, value, met): &(String, String, bool)| {
        let (class, word) = if *met { ("is-met", "met") } else { ("is-missed", "not met") };
        format!(
            "<tr><td class=\"goal {class}\">{word}</td><td><code>{}</code></td>\
             <td class=\"n\">{}</td></tr>",
            escape(expression),
            escape(value)
        )
    };
    let rows: String = page.thresholds.iter().map(row).collect();
    format!("<h3>Thresholds</h3><table class=\"inner\"><tbody>{rows}</tbody></table>")
}

fn over_time(page: &LoadPage) -> String {
    let Some(last) = page.seconds.last() else { return String::new() };
    let end_s = last.start_s + last.length_s;
    if end_s <= 0.0 {
        return String::new();
    }
    let plot = Plot { seconds: &page.seconds, window_s: page.window_s, end_s };
    format!(
        "<section><h2>Over time</h2>{}<h3>Answers a second</h3>{}\n<h3>Latency</h3>\
         <p class=\"note\">Of the answers that came in each second, on a logarithmic \
         scale.</p>{}\n<h3>Failed requests a second</h3>{}</section>\n",
        plot.after_note(),
        plot.rate(),
        plot.latency(),
        plot.failed()
    )
}

/// The charts over time.
struct Plot<'a> {
    seconds: &'a [PageSecond],
    window_s: Option<f64>,
    end_s: f64,
}

/// Each with its colour. Of a quick second's few answers the p99 is the longest: through its dashes
/// the line below is seen.
const LATENCIES: [(&str, &str); 4] =
    [("p50", "v2"), ("p90", "v0"), ("p99", "v1 dash"), ("max", "v3")];

impl Plot<'_> {
    fn rate(&self) -> String {
        let long = self.long();
        let top = 1.08 * long.iter().map(|second| second.rate_rps).fold(0.0, f64::max);
        if top <= 0.0 {
            return "<p class=\"note\">No answer came.</p>".to_owned();
        }
        let (mut svg, left) = self.linear(top, 280.0);
        let share = |second: &PageSecond| 1.0 - second.rate_rps / top;
        svg.polyline("curve thick v0", &self.steps(&long, share));
        self.hits(&mut svg);
        chart("tall", &left, &self.below(), &svg.finish("answers a second over time"), "")
    }

    fn latency(&self) -> String {
        let all = self.seconds.iter().filter_map(|second| second.latency_ms).flatten();
        let Some(axis) = LogAxis::around(all, 4.0) else {
            return "<p class=\"note\">No answer came.</p>".to_owned();
        };
        let (mut svg, left) = self.logarithmic(&axis);
        let mut keys = String::new();
        for (at, (name, colour)) in LATENCIES.iter().enumerate().rev() {
            for run in self.long().split(|second| second.latency_ms.is_none()) {
                let share =
                    |s: &PageSecond| 1.0 - axis.share(s.latency_ms.map_or(0.0, |ms| ms[at]));
                svg.polyline(&format!("curve {colour}"), &self.steps(run, share));
            }
            keys.insert_str(0, &format!("<span class=\"key {colour}\">{name}</span>"));
        }
        self.hits(&mut svg);
        chart("tall", &left, &self.below(), &svg.finish("latency over time"), &keys)
    }

    fn failed(&self) -> String {
        let top = 1.08 * self.seconds.iter().map(|second| second.failed_rps).fold(0.0, f64::max);
        if top <= 0.0 {
            return "<p class=\"note\">None failed.</p>".to_owned();
        }
        let (mut svg, left) = self.linear(top, 150.0);
        for second in self.seconds {
            let (from, to) = (second.start_s, second.start_s + second.length_s);
            let top = 1.0 - second.failed_rps / top;
            svg.rect("bar failed", (from / self.end_s, to / self.end_s), (top, 1.0), "");
        }
        self.hits(&mut svg);
        chart("low", &left, &self.below(), &svg.finish("failed requests a second"), "")
    }

    /// The short rest at the end of a run has no rate worth a line.
    fn long(&self) -> Vec<&PageSecond> {
        let longest = self.seconds.iter().map(|second| second.length_s).fold(0.0, f64::max);
        self.seconds.iter().filter(|second| second.length_s >= 0.25 * longest).collect()
    }

    /// A second is a level, not a point.
    fn steps(
        &self,
        seconds: &[&PageSecond],
        share: impl Fn(&PageSecond) -> f64,
    ) -> Vec<(f64, f64)> {
        let ends = seconds.iter().flat_map(|second| {
            let (from, y) = (second.start_s, share(second));
            [(from / self.end_s, y), ((from + second.length_s) / self.end_s, y)]
        });
        ends.collect()
    }

    /// Fields that say the figures of a second to whoever points at it.
    fn hits(&self, svg: &mut Svg) {
        for second in self.seconds.iter().take(HITS_MAX) {
            let (from, to) = (second.start_s, second.start_s + second.length_s);
            let mut title = format!("second {}: {}/s", short(from), three(second.rate_rps));
            for ((name, _), value) in LATENCIES.iter().zip(second.latency_ms.iter().flatten()) {
                title += &format!(", {name} {}", ms(*value));
            }
            if second.failed_rps > 0.0 {
                title += &format!(", {}/s failed", three(second.failed_rps));
            }
            svg.rect("hit", (from / self.end_s, to / self.end_s), (0.0, 1.0), &title);
        }
    }

    fn linear(&self, top: f64, height: f64) -> (Svg, Vec<(f64, String)>) {
        let mut svg = self.canvas(height);
        let ticks = linear_ticks(0.0, top, 5).into_iter();
        let left = ticks.map(|value| (value / top, tick(value, top))).collect::<Vec<_>>();
        left.iter().for_each(|(y, _)| svg.line("grid", (0.0, 1.0 - y), (1.0, 1.0 - y)));
        (svg, left)
    }

    fn logarithmic(&self, axis: &LogAxis) -> (Svg, Vec<(f64, String)>) {
        let mut svg = self.canvas(280.0);
        let left: Vec<_> =
            axis.ticks(6).into_iter().map(|(value, share)| (share, tick_ms(value))).collect();
        left.iter().for_each(|(y, _)| svg.line("grid", (0.0, 1.0 - y), (1.0, 1.0 - y)));
        (svg, left)
    }

    fn canvas(&self, height: f64) -> Svg {
        let mut svg = Svg::new(height);
        if let Some(window_s) = self.after_s() {
            svg.rect("after", (window_s / self.end_s, 1.0), (0.0, 1.0), "");
        }
        self.below().iter().for_each(|(x, _)| svg.line("grid", (*x, 0.0), (*x, 1.0)));
        svg
    }

    /// From when on no request was planned any more; `None` where nothing came then.
    fn after_s(&self) -> Option<f64> {
        self.window_s.filter(|window_s| *window_s < self.end_s)
    }

    fn after_note(&self) -> String {
        let note = |window_s| {
            format!(
                "<p class=\"note\"><span class=\"key after\">after the window</span> of {}: no \
                 request was planned any more, late answers still came.</p>",
                time(window_s)
            )
        };
        self.after_s().map(note).unwrap_or_default()
    }

    fn below(&self) -> Vec<(f64, String)> {
        let ticks = linear_ticks(0.0, self.end_s, 8).into_iter();
        let words = |s: f64| if s < 60.0 { format!("{} s", short(s)) } else { time(s) };
        ticks.map(|value| (value / self.end_s, words(value))).collect()
    }
}

fn users(users: &PageUsers) -> String {
    let cell = |(at, text): (usize, &String)| match at + 1 == users.steps_head.len() {
        true => format!("<td>{}</td>", escape(text)),
        false => format!("<td class=\"n\">{}</td>", escape(text)),
    };
    let row = |(cells, is_bad): &(Vec<String>, bool)| {
        let class = if *is_bad { " class=\"is-missed\"" } else { "" };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr{class}>{cells}</tr>")
    };
    let heads = users.steps_head.iter().enumerate().map(|(at, name)| {
        let class = if at + 1 == users.steps_head.len() { "" } else { " class=\"n\"" };
        format!("<th{class}>{name}</th>")
    });
    let (heads, rows): (String, String) = (heads.collect(), users.steps.iter().map(row).collect());
    let failure = |(times, what): &(String, String)| {
        let (times, what) = (escape(times), escape(what));
        format!("<tr><td class=\"state is-missed\">{times}</td><td>{what}</td></tr>")
    };
    let failures: String = users.failures.iter().map(failure).collect();
    let failures = match failures.is_empty() {
        true => String::new(),
        false => format!(
            "<h3>Checks that failed</h3><div class=\"scroll\"><table class=\"wide\"><tbody>\
             {failures}</tbody></table></div>"
        ),
    };
    format!(
        "<section><h2>Steps</h2><p class=\"note\">{}</p><div class=\"scroll\">\
         <table class=\"wide\"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>\
         {failures}</section>\n",
        escape(&users.rounds)
    )
}

fn spread(page: &LoadPage) -> String {
    let mut out = String::from("<section><h2>How latency is spread</h2>");
    out += &percentile_curve(&page.curves);
    let head: String =
        page.times_head.iter().map(|name| format!("<th class=\"n\">{name}</th>")).collect();
    let row = |(name, figures, note): &(&str, Vec<String>, &str)| {
        let cells: String =
            figures.iter().map(|value| format!("<td class=\"n\">{}</td>", escape(value))).collect();
        format!("<tr><td>{name}</td>{cells}<td class=\"dim\">{}</td></tr>", escape(note))
    };
    let rows: String = page.times.iter().map(row).collect();
    out + &format!(
        "<div class=\"scroll\"><table class=\"times wide\"><thead><tr><th></th>{head}<th></th>\
         </tr></thead><tbody>{rows}</tbody></table></div></section>\n"
    )
}

/// Over the share of answers, in nines, as HdrHistogram's plots have it.
fn percentile_curve(curves: &[(&str, Vec<(f64, f64)>)]) -> String {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let Some(axis) = LogAxis::around(points().map(|(_, ms)| *ms), 4.0) else {
        return "<p class=\"note\">No answer came.</p>".to_owned();
    };
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let most = points().map(|(quantile, _)| nines(*quantile)).fold(0.3, f64::max);
    let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];
    let shown = quantiles.into_iter().filter(|quantile| nines(*quantile) <= most + 1e-9);
    let below: Vec<(f64, String)> =
        shown.map(|quantile| (nines(quantile) / most, percent(quantile))).collect();
    let left: Vec<(f64, String)> =
        axis.ticks(6).into_iter().map(|(value, share)| (share, tick_ms(value))).collect();
    let mut svg = Svg::new(280.0);
    left.iter().for_each(|(y, _)| svg.line("grid", (0.0, 1.0 - y), (1.0, 1.0 - y)));
    below.iter().for_each(|(x, _)| svg.line("grid", (*x, 0.0), (*x, 1.0)));
    let mut keys = String::new();
    for (at, (name, points)) in curves.iter().enumerate() {
        // The first byte is mostly the whole answer, and both the latency.
        let colour = format!("v{at}{}", ["", " dash", " dot"].get(at).unwrap_or(&""));
        let path: Vec<(f64, f64)> =
            points.iter().map(|(q, ms)| (nines(*q) / most, 1.0 - axis.share(*ms))).collect();
        svg.polyline(&format!("curve {colour}"), &path);
        keys += &format!("<span class=\"key {colour}\">{name}</span>");
    }
    let note = "<p class=\"note\">The share of answers that came within a time; each step to the \
                right has ten times fewer answers beyond it.</p>";
    note.to_owned() + &chart("tall", &left, &below, &svg.finish("latency by percentile"), &keys)
}

fn answers(page: &LoadPage) -> String {
    let row = |(name, count, is_bad): &(String, String, bool)| {
        let class = if *is_bad { "is-missed" } else { "" };
        let (name, count) = (escape(name), escape(count));
        format!("<tr><td class=\"state {class}\">{name}</td><td class=\"n\">{count}</td></tr>")
    };
    let rows: String = page.answers.iter().map(row).collect();
    format!(
        "<section><h2>Requests</h2><table class=\"inner\"><tbody>{rows}</tbody></table></section>\n"
    )
}

fn checks(page: &LoadPage) -> String {
    let row = |(tone, name, evidence): &(Tone, &str, String)| {
        let (class, word) = match tone {
            Tone::Good => ("is-met", "ok"),
            Tone::Warning => ("is-warned", "warning"),
            Tone::Unknown => ("is-warned", "not known"),
            Tone::Bad => ("is-missed", "failed"),
        };
        let evidence = escape(evidence);
        format!(
            "<tr><td class=\"state {class}\">{word}</td><td>{name}</td><td>{evidence}</td></tr>"
        )
    };
    let rows: String = page.checks.iter().map(row).collect();
    format!(
        "<section><h2>Checks</h2><p class=\"note\">What the run looks at in itself.</p>\
         <table class=\"wide\"><tbody>{rows}</tbody></table></section>\n"
    )
}

/// A canvas with words at its left and below, each with its share of the way.
fn chart(
    size: &str,
    left: &[(f64, String)],
    below: &[(f64, String)],
    svg: &str,
    keys: &str,
) -> String {
    let label = |side: &str, class: &str, (share, words): &(f64, String)| {
        format!("<span{class} style=\"{side}:{}%\">{}</span>", short(100.0 * share), escape(words))
    };
    let lefts: String = left.iter().map(|at| label("bottom", "", at)).collect();
    let class = |at: usize, share: f64| match at {
        _ if share > 0.96 => " class=\"end\"",
        at if at % 2 == 1 && below.len() > 5 => " class=\"minor\"",
        _ => "",
    };
    let belows: String =
        below.iter().enumerate().map(|(at, tick)| label("left", class(at, tick.0), tick)).collect();
    let keys =
        if keys.is_empty() { String::new() } else { format!("<p class=\"keys\">{keys}</p>") };
    format!(
        "<div class=\"chart {size}\"><div class=\"left\">{lefts}</div>\
         <div class=\"canvas\">{svg}</div><div class=\"below\">{belows}</div></div>{keys}"
    )
}

/// As few digits as a round value needs, in the unit of the highest.
fn tick(value: f64, top: f64) -> String {
    match top {
        _ if value == 0.0 => "0".to_owned(),
        top if top >= 1e6 => format!("{} M", short(value / 1e6)),
        top if top >= 1e4 => format!("{} k", short(value / 1e3)),
        _ => short(value),
    }
}

fn tick_ms(value: f64) -> String {
    match value {
        v if v >= 1_000.0 => format!("{} s", short(v / 1e3)),
        v if v >= 1.0 => format!("{} ms", short(v)),
        v => format!("{} \u{b5}s", short(v * 1e3)),
    }
}

/// Nothing for the left edge: there is no room for it beside 50 %.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", 100.0 * share);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if share > 0.0 { format!("{text} %") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(start_s: f64, latency_ms: Option<[f64; 4]>) -> PageSecond {
        PageSecond { start_s, length_s: 1.0, rate_rps: 10.0, failed_rps: 0.0, latency_ms }
    }

    #[test]
    fn a_second_without_an_answer_is_a_gap() {
        let some = Some([1.0, 2.0, 3.0, 4.0]);
        let seconds = [second(0.0, some), second(1.0, None), second(2.0, some)];
        let page = LoadPage { seconds: seconds.to_vec(), ..LoadPage::default() };
        let html = load_page(&page);
        let runs = html.matches("class=\"curve v1 dash\"").count();
        assert_eq!(runs, 2, "{html}");
        assert!(html.contains("<title>second 2: 10.0/s, p50 1.00 ms"), "{html}");
    }

    #[test]
    fn what_came_after_the_window_is_shaded_and_said() {
        let seconds = vec![second(0.0, None), second(1.0, None)];
        let of = |window_s| {
            let page = LoadPage { seconds: seconds.clone(), window_s, ..LoadPage::default() };
            load_page(&page)
        };
        let html = of(Some(1.0));
        assert!(html.contains("<rect class=\"after\" x=\"500\""), "{html}");
        assert!(html.contains("after the window</span> of 1.0 s"), "{html}");
        assert!([None, Some(2.0)].into_iter().all(|window| !of(window).contains("class=\"after")));
    }

    #[test]
    fn nothing_measured_is_a_page_too() {
        let html = load_page(&LoadPage { title: "GET <x>".into(), ..LoadPage::default() });
        assert!(html.contains("<h1><span class=\"what\">GET &lt;x&gt;") && !html.contains("NaN"));
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([0.0, 2_500.0, 5_000.0].map(|value| tick(value, 5e3)), ["0", "2500", "5000"]);
        assert_eq!([0.0, 5_000.0, 2e4].map(|value| tick(value, 2e4)), ["0", "5 k", "20 k"]);
        assert_eq!([tick_ms(0.02), tick_ms(5.0), tick_ms(1e4)], ["20 \u{b5}s", "5 ms", "10 s"]);
        assert_eq!([percent(0.5), percent(0.9999)], ["50 %", "99.99 %"]);
    }
}
