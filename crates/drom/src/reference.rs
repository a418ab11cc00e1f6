//! What the catalogues of flags, figures, checks and statuses say, in tables: the manual and the
//! reference pages in docs/ are made of them. Pure.

use drom_load::{
    ErrorKind,
    metric::{self, ExportKind, METRICS, Metric, STATISTICS},
    threshold,
};

use crate::{
    exit,
    verbs::load::{checks::CHECKS, series::SINGLE},
};

/// A table. Words between backticks are code.
pub struct Table {
    pub title: &'static str,
    /// Of each column; the first one is what a row is called.
    pub heads: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

/// What is to be said of a verb beside its flags.
pub fn tables(verb: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    if verb == "load" {
        tables = vec![figures(), statistics(), errors(), checks(), thresholds(), line(), series()];
        tables.push(exports());
    }
    tables.push(statuses(verb));
    tables
}

fn figures() -> Table {
    let row = |metric: &Metric| {
        let Metric { key, shown, unit, doc, more, .. } = *metric;
        let key = if key.is_empty() { "-".to_owned() } else { code(key) };
        vec![key, or_dash(shown), unit.name().to_owned(), sentences(&[doc, more])]
    };
    Table {
        title: "Figures",
        heads: &["JSON", "report", "unit", "what it is"],
        rows: METRICS.iter().map(row).collect(),
    }
}

fn statistics() -> Table {
    let row = |(name, doc): &(&str, &str)| vec![code(name), (*doc).to_owned()];
    Table {
        title: "Members of a histogram",
        heads: &["JSON", "what it is"],
        rows: STATISTICS.iter().map(row).collect(),
    }
}

fn errors() -> Table {
    let row = |kind: ErrorKind| vec![code(kind.name()), sentences(&[kind.in_words(), kind.more()])];
    Table {
        title: "Kinds of errors",
        heads: &["error", "what it is"],
        rows: ErrorKind::ALL.into_iter().map(row).collect(),
    }
}

fn checks() -> Table {
    let rows = CHECKS.iter().map(|entry| {
        let words = [entry.doc, entry.fails, entry.consequence(), entry.advice];
        [vec![code(entry.name)], words.map(str::to_owned).to_vec()].concat()
    });
    Table {
        title: "Checks",
        heads: &["check", "looks whether", "fails when", "then", "what to do"],
        rows: rows.collect(),
    }
}

fn thresholds() -> Table {
    let statistics = "mean, max, any percentile";
    let row = |metric: &Metric| {
        let name = match metric.name {
            threshold::FIRST => format!("`p99`, `mean`, `max`; `latency.p99` ({statistics})"),
            name if metric.is_histogram() => format!("`{name}.p99` ({statistics})"),
            name => code(name),
        };
        vec![name, metric.limit_units().to_owned(), metric.doc.to_owned()]
    };
    Table {
        title: "Metrics of thresholds",
        heads: &["metric", "limit in", "what it is"],
        rows: metric::limits().map(row).collect(),
    }
}

/// What the line of `--csv` has besides the figures: lists as columns.
fn line() -> Table {
    let list = |names: Vec<String>| names.iter().map(|name| code(name)).collect::<Vec<_>>();
    let statuses = list((1..=5).map(|class| format!("status_{class}xx")).collect());
    let kinds = list(ErrorKind::ALL.map(|kind| format!("errors_{}", kind.name())).to_vec());
    let checks = list(CHECKS.iter().map(|entry| format!("check_{}", entry.name)).collect());
    let row = |names: Vec<String>, doc: &str| vec![names.join(", "), doc.to_owned()];
    let met = "`true` or `false`: whether this `--threshold` was met; a column for each, in the \
               order of the command line";
    Table {
        title: "Columns of the line",
        heads: &["column", "what it is"],
        rows: vec![
            row(statuses, "complete answers with such a status; 0 without one"),
            row(kinds, "requests that ended with such an error, see above; 0 without one"),
            row(
                checks,
                "state of the check: `ok`, `warning`, `unknown`, `failed`; empty where the run has \
                 nothing to look at",
            ),
            row(vec![code("met EXPRESSION")], met),
        ],
    }
}

fn series() -> Table {
    let mut rows: Vec<Vec<String>> =
        SINGLE.iter().map(|(name, doc)| vec![code(name), (*doc).to_owned()]).collect();
    let latencies = STATISTICS.map(|(name, _)| format!("`latency_{name}_us`")).join(", ");
    rows.push(vec![latencies, "latencies; empty without an answer".to_owned()]);
    let kinds = ErrorKind::ALL.map(|kind| format!("`errors_{}`", kind.name())).join(", ");
    rows.push(vec![kinds, "errors by kind".to_owned()]);
    Table { title: "Columns of the series", heads: &["column", "what it is"], rows }
}

fn exports() -> Table {
    let row = |metric: &Metric| {
        let exported = metric.exported?;
        let kind = match exported.kind {
            ExportKind::Counter => "counter",
            ExportKind::CounterByKind => "counter, with the label `kind`",
            ExportKind::Gauge => "gauge",
            ExportKind::Histogram => "histogram, in seconds",
        };
        let names = [code(&exported.prometheus()), code(exported.name), kind.to_owned()];
        Some([names.to_vec(), vec![code(metric.key), metric.doc.to_owned()]].concat())
    };
    Table {
        title: "Exported figures",
        heads: &["Prometheus", "OpenTelemetry", "type", "JSON", "what it is"],
        rows: METRICS.iter().filter_map(row).collect(),
    }
}

fn statuses(verb: &str) -> Table {
    let row = |(status, words): (u8, &str)| vec![status.to_string(), words.to_owned()];
    Table {
        title: "Exit status",
        heads: &["status", "meaning"],
        rows: exit::of_verb(verb).into_iter().map(row).collect(),
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn sentences(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(". ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    const BEGIN: &str = "<!-- written from the catalogue: DROM_REWRITE_DOCS=1 cargo test -p drom \
                         --bin drom reference -->\n";
    const END: &str = "<!-- end of what is written from the catalogue -->\n";

    fn markdown(table: &Table) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let heads = table.heads.iter().map(|head| (*head).to_owned()).collect();
        let rule = "|---".repeat(table.heads.len()) + "|\n";
        let rows: String = table.rows.iter().cloned().map(line).collect();
        format!("### {}\n\n{}{rule}{rows}\n", table.title, line(heads))
    }

    /// A table of flags for each section of the help.
    fn flags(verb: &str) -> String {
        let mut tree = cli::tree();
        tree.build();
        let verb = tree.find_subcommand(verb).expect("a verb");
        let mut sections: Vec<(&str, Vec<&clap::Arg>)> = Vec::new();
        for arg in verb.get_arguments().filter(|arg| arg.get_id() != "help") {
            let title = arg.get_help_heading().unwrap_or("What to load");
            match sections.iter_mut().find(|(known, _)| *known == title) {
                Some((_, flags)) => flags.push(arg),
                None => sections.push((title, vec![arg])),
            }
        }
        let mut out = String::new();
        for (title, flags) in sections {
            out += &format!("### {title}\n\n| flag | meaning | default |\n|---|---|---|\n");
            flags.iter().for_each(|flag| out += &flag_row(flag));
            out.push('\n');
        }
        out
    }

    fn flag_row(flag: &clap::Arg) -> String {
        let value = match flag.get_action().takes_values() {
            true => flag.get_value_names().map(|names| names[0].as_str()),
            false => None,
        };
        let short = flag.get_short().map(|letter| format!("-{letter}"));
        let long = flag.get_long().map(|name| format!("--{name}"));
        let value = value.unwrap_or_default();
        let mut names: Vec<String> = short.into_iter().chain(long).collect();
        if names.is_empty() {
            names.push(String::new());
        }
        let names = names.iter().map(|name| code(format!("{name} {value}").trim()));
        let help = flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
        let help = help.unwrap_or_default();
        let paragraphs = help.split("\n\n").map(|part| part.trim_end_matches('.'));
        let mut meaning = paragraphs.collect::<Vec<_>>().join(". ").replace('\n', " ");
        for value in flag.get_possible_values().iter().filter(|value| value.get_help().is_some()) {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            meaning += &format!("; `{}`: {}", value.get_name(), lower(&help));
        }
        let default = match flag.get_action().takes_values() {
            true => flag.get_default_values().first(),
            false => None,
        };
        let default = default.map_or_else(String::new, |value| code(&value.to_string_lossy()));
        let meaning = meaning.replace('|', "\\|");
        format!("| {} | {meaning} | {default} |\n", names.collect::<Vec<_>>().join(", "))
    }

    fn lower(text: &str) -> String {
        let mut letters = text.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        format!("{}{}", String::from_iter(first), letters.as_str())
    }

    /// Holds what stands between the marks of a page against `text`, or puts it there.
    fn compare(page: &str, text: &str) {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let stored = std::fs::read_to_string(&path).expect("the page is there");
        let marks = "the page has the two marks";
        let (before, rest) = stored.split_once(BEGIN).expect(marks);
        let (_, after) = rest.split_once(END).expect(marks);
        let wanted = format!("{before}{BEGIN}\n{text}{END}{after}");
        if std::env::var_os("DROM_REWRITE_DOCS").is_some() {
            std::fs::write(&path, &wanted).expect("the page can be written");
            return;
        }
        assert!(
            stored == wanted,
            "docs/{page} is out of step with the catalogue; rewrite it with \
             DROM_REWRITE_DOCS=1 cargo test -p drom --bin drom reference"
        );
    }

    #[test]
    fn the_reference_of_load_is_in_step() {
        let tables: String = tables("load").iter().map(markdown).collect();
        compare("load.md", &(flags("load") + &tables));
    }

    #[test]
    fn the_page_of_statuses_is_in_step() {
        let mut text = String::from("| status | meaning |\n|---|---|\n");
        for exit::Entry { exit, doc, verbs } in &exit::EXITS {
            let own: String =
                verbs.iter().map(|(verb, words)| format!(" `drom {verb}`: {words}.")).collect();
            text += &format!("| {} | {doc}.{own} |\n", *exit as u8);
        }
        compare("exit-status.md", &(text + "\n"));
    }

    #[test]
    fn rows_have_as_many_cells_as_there_are_columns() {
        for table in tables("load") {
            assert!(table.rows.iter().all(|row| row.len() == table.heads.len()), "{}", table.title);
            assert!(!table.rows.is_empty(), "{}", table.title);
        }
    }
}
