//! The page of a profile: a flame graph, the subs that took the time, and the lines of source with
//! theirs. In the look of the other pages; no network. The same profile, the same bytes.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    format::number_of,
    html::{items, opening},
    svg::{escape, short},
};

const MORE_STYLE: &str = include_str!("page/profile.css");
const SCRIPT: &str = include_str!("page/flame.js");

/// What the page shows, in the order it does.
#[derive(Clone, Debug, Default)]
pub struct ProfilePage {
    pub title: String,
    pub subtitle: Vec<String>,
    /// What makes it doubtful.
    pub notices: Vec<String>,
    pub samples: u64,
    /// Seconds that a sample stands for.
    pub each_s: f64,
    pub nodes: Vec<FlameNode>,
    /// The largest own share first; so many more are not here.
    pub subs: Vec<PageSub>,
    pub more_subs: usize,
    pub sources: Vec<PageSource>,
}

/// In the order of a walk, outermost frames at depth 0.
#[derive(Clone, Debug)]
pub struct FlameNode {
    pub depth: usize,
    pub name: String,
    pub place: String,
    pub colour: Colour,
    pub own: u64,
    pub total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    Perl,
    Xs,
    Op,
    Eval,
    Boundary,
}

#[derive(Clone, Debug)]
pub struct PageSub {
    pub name: String,
    pub own: u64,
    pub total: u64,
    /// Where they were counted.
    pub calls: Option<u64>,
}

/// Lines of a file that are worth a look, in parts.
#[derive(Clone, Debug)]
pub struct PageSource {
    pub file: String,
    pub own: u64,
    pub parts: Vec<Vec<PageLine>>,
}

#[derive(Clone, Debug)]
pub struct PageLine {
    pub number: u32,
    pub text: String,
    pub own: u64,
    pub total: u64,
    /// Where they were counted.
    pub runs: Option<u64>,
}

const COLOURS: [(Colour, &str, &str); 5] = [
    (Colour::Perl, "perl", "Perl, a hue for each package"),
    (Colour::Xs, "xs", "XS, in C"),
    (Colour::Op, "op", "an operator"),
    (Colour::Eval, "eval", "eval, require"),
    (Colour::Boundary, "boundary", "called by perl itself"),
];

#[must_use]
pub fn profile_page(page: &ProfilePage) -> String {
    let title = escape(&page.title);
    let notice = |text: &String| format!("<p class=\"notice\">{}</p>", escape(text));
    let notices: String = page.notices.iter().map(notice).collect();
    format!(
        "{}<header><h1><span class=\"what\">{title}</span></h1><p class=\"sub\">{}</p>{notices}\
         </header>\n{}{}{}</main></body></html>\n",
        opening(&title, MORE_STYLE),
        items(page.subtitle.iter().map(String::as_str)),
        flame(page),
        subs(page),
        sources(page),
    )
}

/// What the script draws from: names once, then four numbers a node.
#[derive(Serialize)]
struct Flame<'p> {
    samples: u64,
    each_s: f64,
    names: Vec<(&'p str, &'p str, Colour)>,
    nodes: Vec<u64>,
}

fn flame(page: &ProfilePage) -> String {
    if page.nodes.is_empty() {
        return "<section><h2>Flame graph</h2><p class=\"note\">Nothing was seen.</p></section>\n"
            .to_owned();
    }
    let (mut names, mut nodes) = (Vec::new(), Vec::new());
    let mut known: HashMap<(&str, &str, Colour), u64> = HashMap::new();
    for node in &page.nodes {
        let name = (&*node.name, &*node.place, node.colour);
        let number = *known.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() as u64 - 1
        });
        nodes.extend([node.depth as u64, number, node.own, node.total]);
    }
    let flame = Flame { samples: page.samples, each_s: page.each_s, names, nodes };
    let data = serde_json::to_string(&flame).expect("numbers and strings have a JSON form");
    let keys: String = COLOURS
        .iter()
        .filter(|(colour, ..)| page.nodes.iter().any(|node| node.colour == *colour))
        .map(|(_, class, words)| format!("<span class=\"key {class}\">{words}</span>"))
        .collect();
    format!(
        "<section><h2>Flame graph</h2><p class=\"note\">What was called is below what called it, \
         as wide as its share of the samples; order from left to right means nothing. Click a box \
         to look closer, again the one above it to go back.</p>\
         <p class=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"find a sub\" \
         aria-label=\"find a sub\"><button id=\"all\" type=\"button\">show all</button>\
         <output id=\"found\"></output></p><p id=\"pointed\" class=\"note\">&nbsp;</p>\
         <div id=\"flame\" role=\"img\" aria-label=\"flame graph\"></div>\
         <noscript><p class=\"note\">Drawn by a script; the table below has the same \
         samples.</p></noscript><p class=\"keys\">{keys}</p>\
         <script type=\"application/json\" id=\"flame-data\">{}</script>\
         <script>{SCRIPT}</script></section>\n",
        data.replace("</", "<\\/"),
    )
}

fn subs(page: &ProfilePage) -> String {
    let has_calls = page.subs.iter().any(|sub| sub.calls.is_some());
    let head = if has_calls { "<th class=\"n\">calls</th>" } else { "" };
    let row = |sub: &PageSub| {
        let share = page.share(sub.own);
        let calls =
            sub.calls.map_or_else(String::new, |calls| format!("<td class=\"n\">{calls}</td>"));
        format!(
            "<tr><td class=\"n\">{}</td><td class=\"gauge\"><i style=\"width:{}%\"></i></td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td>{calls}<td>{}</td></tr>",
            percent(share),
            short(100.0 * share),
            seconds(sub.own as f64 * page.each_s),
            seconds(sub.total as f64 * page.each_s),
            escape(&sub.name)
        )
    };
    let rows: String = page.subs.iter().map(row).collect();
    let more = match page.more_subs {
        0 => String::new(),
        more => format!("<p class=\"note\">And {} with less.</p>", number_of(more, "sub")),
    };
    format!(
        "<section><h2>Subs</h2><p class=\"note\">Own: what it did itself, its operators with it. \
         With callees: the time until it returned; recursion counts once.</p>\
         <div class=\"scroll\"><table class=\"wide\"><thead><tr><th class=\"n\">own</th><th></th>\
         <th class=\"n\">own, s</th><th class=\"n\">with callees, s</th>{head}<th>sub</th></tr>\
         </thead><tbody>{rows}</tbody></table></div>{more}</section>\n"
    )
}

fn sources(page: &ProfilePage) -> String {
    if page.sources.is_empty() {
        return String::new();
    }
    let files: String =
        page.sources.iter().enumerate().map(|(at, s)| source(page, at, s)).collect();
    format!(
        "<section><h2>Lines</h2><p class=\"note\">Where the samples were, and some lines around \
         them.</p>{files}</section>\n"
    )
}

fn source(page: &ProfilePage, at: usize, source: &PageSource) -> String {
    let open = if at == 0 { " open" } else { "" };
    let cell = |count: u64| match count {
        0 => String::new(),
        count => percent(page.share(count)),
    };
    let has_runs = source.parts.iter().flatten().any(|line| line.runs.is_some());
    let head = if has_runs { "<th class=\"n\">runs</th>" } else { "" };
    let runs = |runs: Option<u64>| match (has_runs, runs) {
        (false, _) => String::new(),
        (true, None) => "<td></td>".to_owned(),
        (true, Some(runs)) => format!("<td class=\"n\">{runs}</td>"),
    };
    let row = |line: &PageLine| {
        let heat = page.share(line.own).sqrt();
        format!(
            "<tr style=\"--heat:{}%\"><td class=\"n\">{}</td><td class=\"n\">{}</td>{}\
             <td class=\"n dim\">{}</td><td><code>{}</code></td></tr>",
            short(70.0 * heat),
            cell(line.own),
            cell(line.total),
            runs(line.runs),
            line.number,
            escape(&line.text)
        )
    };
    let part = |lines: &Vec<PageLine>| {
        format!("<tbody>{}</tbody>", lines.iter().map(row).collect::<String>())
    };
    let parts: String = source.parts.iter().map(part).collect();
    format!(
        "<details{open}><summary><b>{}</b><span>{}</span></summary><div class=\"scroll\">\
         <table class=\"source\"><thead><tr><th class=\"n\">own</th><th class=\"n\">with callees\
         </th>{head}<th class=\"n\">line</th><th></th></tr></thead>{parts}</table></div></details>",
        escape(&source.file),
        percent(page.share(source.own)),
    )
}

impl ProfilePage {
    fn share(&self, count: u64) -> f64 {
        count as f64 / self.samples.max(1) as f64
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn seconds(value: f64) -> String {
    if value > 0.0 { format!("{value:.3}") } else { "0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> ProfilePage {
        let node = |depth, name: &str, colour, own, total| FlameNode {
            depth,
            name: name.to_owned(),
            place: "a.pl".to_owned(),
            colour,
            own,
            total,
        };
        let line = |number, own| PageLine {
            number,
            text: "1 < 2;".to_owned(),
            own,
            total: own,
            runs: None,
        };
        ProfilePage {
            title: "a </script>.pl".to_owned(),
            samples: 10,
            each_s: 0.01,
            nodes: vec![
                node(0, "main", Colour::Perl, 2, 10),
                node(1, "</script>", Colour::Xs, 8, 8),
            ],
            subs: vec![PageSub { name: "main".to_owned(), own: 2, total: 10, calls: None }],
            more_subs: 3,
            sources: vec![PageSource {
                file: "a.pl".to_owned(),
                own: 10,
                parts: vec![vec![line(1, 0), line(2, 9)]],
            }],
            ..ProfilePage::default()
        }
    }

    #[test]
    fn names_are_there_once_and_end_no_script() {
        let html = profile_page(&some());
        assert_eq!(html.matches("</script>").count(), 2, "{html}");
        assert!(html.contains(r#"["<\/script>","a.pl","xs"]"#), "{html}");
        assert!(html.contains(r#""nodes":[0,0,2,10,1,1,8,8]"#), "{html}");
    }

    #[test]
    fn shares_and_lines_are_told() {
        let html = profile_page(&some());
        assert!(html.contains("20.0 %") && html.contains("And 3 subs with less"), "{html}");
        assert!(html.contains("90.0 %</td>") && html.contains("1 &lt; 2;"), "{html}");
        assert!(html.contains("an XS") || html.contains("XS, in C"), "{html}");
        assert!(!html.contains("called by perl itself"), "only what is there has a key: {html}");
    }

    #[test]
    fn nothing_seen_is_a_page_too() {
        let html = profile_page(&ProfilePage::default());
        assert!(html.contains("Nothing was seen") && !html.contains("NaN"), "{html}");
    }
}
