//! A contest for people: Benchmark's line of each, how long each takes, how they stand to each
//! other as Benchmark's `cmpthese` has it, and what is to be known of them.

use drom_contest::{CONFIDENCE, CONFIDENCE_OF_ALL, LEAST, Pace, Ratio, Standing, growth};
use drom_report::format::{number_of, three};

use super::{
    Clock,
    told::{Candidate, Kind, Told},
};

/// Inputs of a candidate that are shown, the slowest ones.
const INPUTS: usize = 3;
/// An input that takes so many times as long as the middle one is worth a word.
const SLOW: f64 = 2.0;
/// So much of an input is shown.
const INPUT_WIDTH: usize = 40;

pub fn render(told: &Told) -> String {
    if told.standing.processes() == 0 {
        return "Stopped before anything was measured.\n".to_owned();
    }
    let mut out = heading(told) + "\n";
    if !told.has_inputs() {
        out += &(lines(told) + "\n");
    }
    out += &aligned(&times(told));
    if told.candidates.len() > 1 {
        out += "\n";
        out += &aligned(&table(told));
        out += &legend(told);
    }
    if let Kind::Perl { inputs: Some((_, lines, by_input)), .. } = &told.kind {
        out += "\n";
        out += &aligned(&slow_inputs(told, lines, by_input));
    }
    let notes = notes(told);
    if !notes.is_empty() {
        out += "\n";
        notes.iter().for_each(|note| out += &format!("{note}\n"));
    }
    out
}

/// What is to be known before a number is believed.
pub fn notes(told: &Told) -> Vec<String> {
    let mut notes: Vec<String> = (0..told.candidates.len()).flat_map(|at| of(told, at)).collect();
    if told.is_interrupted {
        notes.push("Stopped before its end: what was measured until then.".to_owned());
    }
    notes
}

fn of(told: &Told, at: usize) -> Vec<String> {
    let Candidate { name, growths, .. } = &told.candidates[at];
    let mut notes = Vec::new();
    let pace = told.standing.pace(at);
    if pace.is_some_and(|pace| pace.is_nothing) {
        notes.push(format!(
            "{name}: cannot be told from an empty loop: perl has folded it to a constant, or it is \
             too short to be measured"
        ));
    }
    if let Some(share) = pace.and_then(|pace| pace.drift) {
        let word = if share > 0.0 { "slower" } else { "faster" };
        notes.push(format!("{name}: got {:.0} % {word} from first to last", 100.0 * share.abs()));
    }
    if let Some(grown) = growth(growths) {
        let bytes = three(grown.centre);
        notes.push(format!("{name}: leaves some {bytes} bytes behind with each iteration"));
    }
    notes
}

fn heading(told: &Told) -> String {
    let clock = match told.clock {
        Clock::Cpu => "CPU time",
        Clock::Wall => "wall time",
    };
    match &told.kind {
        Kind::Perl { path, version, batch, inputs } => {
            let given = inputs.as_ref().map_or(String::new(), |(path, lines, _)| {
                format!(" with each of {} of {}", number_of(lines.len(), "line"), path.display())
            });
            format!(
                "{} {version}; {}, in each {} of {}{given}\n{clock}, less the loop around it\n",
                path.display(),
                processes(told.standing.processes()),
                number_of(told.rounds as usize, "round"),
                time(batch.as_nanos() as f64),
            )
        }
        Kind::Commands => format!(
            "{} of each command, in turn; {clock}\n",
            number_of(told.rounds as usize, "run")
        ),
    }
}

fn processes(count: usize) -> String {
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}

/// As Benchmark's `timestr` has it, of all that was timed; with inputs, of which each has as much
/// time as any other, that would be no rate of anything.
fn lines(told: &Told) -> String {
    let width = told.candidates.iter().map(|one| width_of(&one.name)).max().unwrap_or(0).max(10);
    let line = |(at, one)| line(one, told.standing.own_share(at), width);
    told.candidates.iter().enumerate().map(line).collect()
}

/// As Benchmark does it, without the loop.
fn line(one: &Candidate, own_share: f64, width: usize) -> String {
    let Candidate { name, iterations, used, .. } = one;
    let seconds = |ns: f64| ns * own_share / 1e9;
    let [wall, user, system] = [used.wall_ns, used.user_ns, used.system_ns].map(seconds);
    let cpu = user + system;
    let rate = if cpu > 0.0 { *iterations as f64 / cpu } else { 0.0 };
    let pad = " ".repeat(width.saturating_sub(width_of(name)));
    format!(
        "{pad}{name}: {wall:2.2} wallclock secs \
         ({user:5.2} usr + {system:5.2} sys = {cpu:5.2} CPU) @ {rate:.2}/s (n={iterations})\n"
    )
}

fn times(told: &Told) -> Vec<Vec<String>> {
    let confidence = format!("{:.0} % interval", 100.0 * CONFIDENCE);
    let head = ["", "each", &confidence, "rate", "spread"].map(str::to_owned).to_vec();
    let row = |(at, one): (usize, &Candidate)| match told.standing.pace(at) {
        Some(pace) if !pace.is_nothing => vec![
            one.name.clone(),
            time(pace.ns.centre),
            format!("{} to {}", time(pace.ns.interval.low), time(pace.ns.interval.high)),
            rate(1e9 / pace.ns.centre),
            format!("{:.1} %", 100.0 * pace.spread),
        ],
        Some(_) => vec![one.name.clone(), "nothing".to_owned()],
        None => vec![one.name.clone(), "not known".to_owned()],
    };
    [head].into_iter().chain(told.candidates.iter().enumerate().map(row)).collect()
}

/// The slowest first, and what each row is faster than each column by.
fn table(told: &Told) -> Vec<Vec<String>> {
    let ratios = told.standing.ratios(1);
    let paces: Vec<Option<Pace>> =
        (0..told.candidates.len()).map(|at| told.standing.pace(at)).collect();
    let ns = |at: usize| match paces[at] {
        Some(pace) if !pace.is_nothing => pace.ns.centre,
        _ => 0.0,
    };
    let mut order: Vec<usize> = (0..told.candidates.len()).collect();
    order.sort_by(|a, b| ns(*b).total_cmp(&ns(*a)));
    let cell = |row: usize, column: usize| match &ratios[row][column] {
        _ if row == column => "--".to_owned(),
        None => "-".to_owned(),
        Some(ratio) => percent(ratio),
    };
    let name = |at: &usize| told.candidates[*at].name.clone();
    let mut rows = vec![vec![String::new(), "Rate".to_owned()]];
    rows[0].extend(order.iter().map(name));
    for row in &order {
        let each = ns(*row);
        let rate = if each > 0.0 { rate(1e9 / each) } else { "-".to_owned() };
        let mut cells = vec![name(row), rate];
        cells.extend(order.iter().map(|column| cell(*row, *column)));
        rows.push(cells);
    }
    rows
}

fn legend(told: &Told) -> String {
    let least = 100.0 * LEAST;
    let mut out = format!(
        "  how much faster the row is than the column; intervals of {:.0} % for the whole table\n",
        100.0 * CONFIDENCE_OF_ALL
    );
    if told.standing.ratios(1).iter().flatten().flatten().any(|ratio| !ratio.is_different) {
        out += &format!("  ~  no difference of more than {least} % is shown\n");
    }
    out
}

/// The row is so much faster than the column; `~` where no difference is shown.
pub fn percent(ratio: &Ratio) -> String {
    let faster = |times_as_long: f64| 100.0 * (1.0 / times_as_long - 1.0);
    let interval = ratio.estimate.interval;
    let (low, high) = (signed(faster(interval.high)), signed(faster(interval.low)));
    match ratio.is_different {
        true => format!("{}% [{low}, {high}]", signed(faster(ratio.estimate.centre))),
        false => format!("~ [{low}, {high}]"),
    }
}

/// No more digits than mean something, and no minus before nothing.
fn signed(percent: f64) -> String {
    let text =
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") };
    if text == "-0.0" { "+0.0".to_owned() } else { text }
}

/// Of each candidate the inputs that take longest, beside the middle one.
fn slow_inputs(told: &Told, lines: &[String], by_input: &[Standing]) -> Vec<Vec<String>> {
    let head = ["slowest inputs", "line", "each", "beside the middle one", "input"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (at, one) in told.candidates.iter().enumerate() {
        let each = |standing: &Standing| standing.pace(at).map_or(0.0, |pace| pace.ns.centre);
        let mut order: Vec<(usize, f64)> = by_input.iter().map(each).enumerate().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let middle = order.get(order.len() / 2).map_or(0.0, |middle| middle.1);
        for (shown, (line, ns)) in order.iter().take(INPUTS).enumerate() {
            let times = ns / middle;
            if shown > 0 && times < SLOW {
                break;
            }
            let name = if shown == 0 { one.name.clone() } else { String::new() };
            let number = (line + 1).to_string();
            let beside = if middle > 0.0 { format!("{times:.1}\u{d7}") } else { "-".to_owned() };
            rows.push(vec![name, number, time(*ns), beside, shortened(&lines[*line])]);
        }
    }
    rows
}

fn shortened(input: &str) -> String {
    let plain = drom_report::format::plain(input);
    match plain.chars().count() <= INPUT_WIDTH {
        true => plain,
        false => plain.chars().take(INPUT_WIDTH - 1).chain(['\u{2026}']).collect(),
    }
}

/// Names to the left, all else to the right but the last of a table of inputs.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let widths: Vec<usize> =
        (0..columns).map(|at| cells(at).map(|cell| width_of(cell)).max().unwrap_or(0)).collect();
    let is_left = |at: usize| at == 0 || rows[0].get(at).is_some_and(|head| head == "input");
    let cell = |(at, cell): (usize, &String)| {
        let pad = " ".repeat(widths[at].saturating_sub(width_of(cell)));
        if is_left(at) { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
    };
    let line = |row: &Vec<String>| {
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

pub fn time(ns: f64) -> String {
    match ns.abs() {
        size if size < 1e3 => format!("{} ns", three(ns)),
        size if size < 1e6 => format!("{} us", three(ns / 1e3)),
        size if size < 1e9 => format!("{} ms", three(ns / 1e6)),
        _ => format!("{} s", three(ns / 1e9)),
    }
}

fn rate(per_s: f64) -> String {
    match per_s {
        r if r >= 1e6 => format!("{}M/s", three(r / 1e6)),
        r if r >= 1e3 => format!("{}k/s", three(r / 1e3)),
        r => format!("{}/s", three(r)),
    }
}

#[cfg(test)]
mod tests {
    use drom_stats::{Estimate, Interval};

    use super::*;

    #[test]
    fn what_is_not_shown_to_differ_is_a_tilde() {
        let ratio = |low: f64, centre: f64, high: f64, is_different| Ratio {
            estimate: Estimate { centre, interval: Interval { low, high } },
            is_different,
        };
        assert_eq!(percent(&ratio(0.49, 0.5, 0.51, true)), "+100% [+96, +104]");
        assert_eq!(percent(&ratio(1.99, 2.0, 2.01, true)), "-50% [-50, -50]");
        assert_eq!(percent(&ratio(0.999, 1.0, 1.002, false)), "~ [-0.2, +0.1]");
        assert_eq!(signed(-0.04), "+0.0");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [vec!["", "each"], vec!["long", "1 us"], vec!["a", "10.5 us"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        assert_eq!(aligned(&rows), "         each\nlong     1 us\na     10.5 us\n");
    }

    #[test]
    fn times_have_their_unit() {
        assert_eq!([time(12.34), time(1_234.0), time(2e9)], ["12.3 ns", "1.23 us", "2.00 s"]);
    }
}
