//! The result for people: aligned, three significant digits, units that fit, colour on a terminal.
//!
//! Pure but for `Paint::for_stdout`. Definitions of the figures are in docs/load.md.

use std::{io::IsTerminal, iter};

use drom_load::{Arrivals, Latency, OpenTally, Outcome, Pace, Plan, Scene, Version};
use drom_report::format::{bytes, significant};

use super::{
    checks::{Check, State},
    steps,
    told::{Goal, Told},
};

/// Whether to colour.
#[derive(Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// <https://no-color.org>: any non-empty `NO_COLOR` turns colours off.
    pub fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(!refused && std::io::stdout().is_terminal())
    }

    /// No colours.
    pub fn none() -> Self {
        Self(false)
    }

    fn dress(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.dress("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.dress("2", text)
    }

    /// A judgement of one thing.
    pub fn verdict(self, is_good: bool) -> String {
        self.state(if is_good { State::Ok } else { State::Failed })
    }

    /// What was not judged because something before it went wrong.
    pub fn skipped(self) -> String {
        self.dress_state(State::Warning, "skip")
    }

    fn state(self, state: State) -> String {
        let word = match state {
            State::Ok => "ok  ",
            State::Warning => "warn",
            State::Unknown => "?   ",
            State::Failed => "FAIL",
        };
        self.dress_state(state, word)
    }

    /// A word in the colour of a state.
    pub fn dress_state(self, state: State, word: &str) -> String {
        let code = match state {
            State::Ok => "32",
            State::Warning | State::Unknown => "33",
            State::Failed => "1;31",
        };
        self.dress(code, word)
    }
}

/// On a terminal of `width` columns the words of a check go on below each other.
pub fn render(told: &Told<'_>, paint: Paint, width: Option<usize>) -> String {
    let Told { plan, outcome, .. } = *told;
    let mut lines = heading(told.url, plan, outcome, paint, width);
    if nothing(outcome) {
        lines.push(row(paint, "Rate", "nothing was measured"));
        return lines.iter().map(|line| format!("{}\n", line.trim_end())).collect();
    }
    let blocks = [
        rates(plan, outcome, paint, width),
        scene(plan, outcome, paint, width),
        latencies(plan, outcome, paint, width),
        answers(outcome, paint),
        goals(&told.goals, paint),
        checks(&told.checks, paint, width),
    ];
    for block in blocks.into_iter().filter(|block| !block.is_empty()) {
        lines.push(String::new());
        lines.extend(block);
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn goals(goals: &[Goal], paint: Paint) -> Vec<String> {
    let widest = goals.iter().map(|goal| goal.threshold.expression.len()).max().unwrap_or(0);
    let line = |(at, goal): (usize, &Goal)| {
        let state = if goal.judged.met { State::Ok } else { State::Failed };
        let title = if at == 0 { "Thresholds" } else { "" };
        let expression = &goal.threshold.expression;
        row(
            paint,
            title,
            &format!("{} {expression:<widest$}  {}", paint.state(state), goal.value()),
        )
    };
    goals.iter().enumerate().map(line).collect()
}

fn checks(checks: &[Check], paint: Paint, width: Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, check) in checks.iter().enumerate() {
        let title = if at == 0 { "Checks" } else { "" };
        let mut name = format!("{} {:<CHECK_WIDTH$} ", paint.state(check.state), check.name);
        for line in evidence(&check.evidence, width) {
            lines.push(row(paint, if name.is_empty() { "" } else { title }, &(name + &line)));
            name = String::new();
        }
        let width = width.or(Some(PIPE_WIDTH));
        for line in check.advice.iter().flat_map(|advice| under(advice, width)) {
            lines.push(row(paint, "", &paint.dim(&line)));
        }
    }
    lines
}

const TITLE_WIDTH: usize = 12;
const FIGURE_COLUMNS: usize = 10;
/// Where there is no terminal.
const PIPE_WIDTH: usize = 100;
const CHECK_WIDTH: usize = 12;
/// Columns before the words of a check: title, state, name.
const EVIDENCE_AT: usize = TITLE_WIDTH + 5 + CHECK_WIDTH + 1;
/// Fewer columns are too few for words.
const WORDS_MIN: usize = 20;

/// The first line goes behind the check's name, the others under it; on a narrow terminal all do.
fn evidence(text: &str, width: Option<usize>) -> Vec<String> {
    let mut lines = under(text, width.or(Some(PIPE_WIDTH)));
    if words_at(width) < EVIDENCE_AT {
        lines.insert(0, String::new());
    } else if let Some(first) = lines.first_mut() {
        first.drain(..EVIDENCE_AT - TITLE_WIDTH);
    }
    lines
}

/// Columns before the words of a check: behind its name there is room for some, or they go below.
fn words_at(width: Option<usize>) -> usize {
    let is_narrow = width.is_some_and(|width| width < EVIDENCE_AT + WORDS_MIN);
    if is_narrow { TITLE_WIDTH + 2 } else { EVIDENCE_AT }
}

/// All lines go under the words of a check.
fn under(text: &str, width: Option<usize>) -> Vec<String> {
    let at = words_at(width);
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(at).max(WORDS_MIN));
    let mut lines = drom_report::broken(text, room, room);
    let indent = " ".repeat(at - TITLE_WIDTH);
    lines.iter_mut().for_each(|line| line.insert_str(0, &indent));
    lines
}

/// A line with its title.
pub fn row(paint: Paint, title: &str, text: &str) -> String {
    paint.bold(&format!("{title:<TITLE_WIDTH$}")) + text
}

fn heading(
    url: &str,
    plan: &Plan,
    outcome: &Outcome,
    paint: Paint,
    width: Option<usize>,
) -> Vec<String> {
    let clients = format!("{}; {}", clients(plan, outcome), engine(outcome));
    let (title, what) = target(url, plan);
    let mut titled = vec![(title, what + &on_this_machine(outcome)), ("Load", clients)];
    titled.extend(plan.pace.as_ref().map(|pace| ("Arrivals", arrivals(pace))));
    titled.push(("Window", window(plan, outcome)));
    titled.iter().flat_map(|(title, text)| broken(paint, title, text, width)).collect()
}

/// A figure with its title and what it is, which goes on below itself.
fn figure(paint: Paint, title: &str, text: &str, width: Option<usize>) -> Vec<String> {
    let Some((at, _)) = text.char_indices().nth(FIGURE_COLUMNS) else {
        return vec![row(paint, title, text)];
    };
    let (figure, words) = text.split_at(at);
    let inner = width.map(|width| width.saturating_sub(FIGURE_COLUMNS + 1));
    let lines = broken(Paint::none(), "", words, inner).into_iter();
    let lines = lines.map(|line| line[TITLE_WIDTH..].to_owned()).enumerate();
    let whole = |(at, words): (usize, String)| match at {
        0 => row(paint, title, &(figure.to_owned() + " " + &words)),
        _ => row(paint, "", &(" ".repeat(FIGURE_COLUMNS + 1) + &words)),
    };
    lines.map(whole).collect()
}

/// A line with its title, which goes on below itself where the terminal is narrow.
pub fn broken(paint: Paint, title: &str, text: &str, width: Option<usize>) -> Vec<String> {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(TITLE_WIDTH).max(20));
    let lines = drom_report::broken(text, room, room);
    let titles = [title].into_iter().chain(std::iter::repeat(""));
    lines.iter().zip(titles).map(|(line, title)| row(paint, title, line)).collect()
}

/// Packets that no network has are worth a word.
fn on_this_machine(outcome: &Outcome) -> String {
    let limits = outcome.limits.as_ref().filter(|limits| limits.is_local);
    let mtu = limits.and_then(|limits| limits.mtu);
    mtu.map_or_else(String::new, |mtu| format!(" (on this machine, MTU {})", count(u64::from(mtu))))
}

/// What is loaded, with its title.
pub fn target(url: &str, plan: &Plan) -> (&'static str, String) {
    match &plan.scene {
        None => ("Target", format!("{} {url}", plan.method)),
        Some(scene) => ("Scenario", scenario(url, scene)),
    }
}

/// How large it is, and what repeats it.
fn scenario(url: &str, scene: &Scene) -> String {
    let (flows, steps) = (scene.scenario.flows().len(), scene.scenario.steps().len());
    let ways =
        if flows > 1 { format!("{}, ", number_of(flows as u64, "way")) } else { String::new() };
    let steps = number_of(steps as u64, "step");
    let name = scenario_name(url, scene);
    format!("{name}: {ways}{steps} on {}; seed {}", servers(scene), scene.seed)
}

/// What it calls itself, and its file.
pub fn scenario_name(url: &str, scene: &Scene) -> String {
    let name = &scene.scenario.name;
    let is_own = !scene.scenario.is_list && !url.contains(&**name);
    if is_own { format!("{name} ({url})") } else { url.to_owned() }
}

pub fn servers(scene: &Scene) -> String {
    match &scene.targets[..] {
        [one] => one.host.clone(),
        all => number_of(all.len() as u64, "server"),
    }
}

/// What was done, for how long: the page's line below the title.
pub fn heading_items(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let pace = plan.pace.as_ref().map(arrivals);
    let mut items = vec![window(plan, outcome), clients(plan, outcome)];
    items.extend(pace.into_iter().chain([engine(outcome)]));
    items
}

fn engine(outcome: &Outcome) -> String {
    let fallback = outcome.fallback.as_ref().map(|why| format!(", for {why}"));
    format!("{}{}", outcome.engine, fallback.unwrap_or_default())
}

fn window(plan: &Plan, outcome: &Outcome) -> String {
    let length = time_us(outcome.duration.as_secs_f64() * 1e6);
    let warmup = match outcome.warmup_requests {
        _ if plan.warmup.is_zero() => "no warm-up".to_owned(),
        requests => {
            let length = time_us(plan.warmup.as_secs_f64() * 1e6);
            format!("after {length} of warm-up ({} requests)", count(requests))
        }
    };
    let stopped = if outcome.interrupted { ", stopped early" } else { "" };
    match count(outcome.warmup_requests) {
        requests if nothing(outcome) => {
            format!("none: stopped in the warm-up ({requests} requests)")
        }
        _ => format!("{length}{stopped}, {warmup}"),
    }
}

fn clients(plan: &Plan, outcome: &Outcome) -> String {
    let used = plan.connections_used();
    let mut connections = who(plan, used);
    if used < plan.connections {
        let each = if plan.scene.is_some() { "round" } else { "request" };
        connections += &format!(" (of {}: one {each} each)", count(u64::from(plan.connections)));
    }
    let threads = number_of(outcome.thread_cpu.len() as u64, "thread");
    let reuse = match (plan.keepalive, plan.depth) {
        (false, _) => "a connection for each request".to_owned(),
        (true, 1) => "keep-alive".to_owned(),
        (true, depth) if plan.version == Version::Http2 => match outcome.streams_max {
            None => format!("{depth} streams each"),
            Some(fewer) => format!("{fewer} streams each (of {depth}: the server allows no more)"),
        },
        (true, depth) => format!("keep-alive, {depth} requests pipelined"),
    };
    let answers = plan.answers_per_connection.filter(|_| plan.keepalive);
    let worn = answers.map(|answers| format!(", {} a connection", number_of(answers, "answer")));
    let slow = plan.throttle.map(|rate| format!(", each reads {}/s", bytes(rate as f64)));
    let limits = worn.unwrap_or_default() + &slow.unwrap_or_default();
    format!("{connections}, {threads}, {reuse}{limits}")
}

/// Who asks on so many connections: of a scenario users, one on each stream.
pub fn who(plan: &Plan, connections: u32) -> String {
    let (connections, streams) = (u64::from(connections), plan.depth as u64);
    let on = number_of(connections, "connection");
    match plan.scene.is_some() {
        false => on,
        true if streams == 1 => number_of(connections, "user"),
        true => format!("{} on {on}", number_of(connections * streams, "user")),
    }
}

fn arrivals(pace: &Pace) -> String {
    let rate = |stage: &drom_load::Stage| {
        let (from, to) = (si_count(stage.from_rps), si_count(stage.to_rps));
        if from == to { format!("{from}/s") } else { format!("{from} to {to}/s") }
    };
    let stages = pace.stages.iter().map(|stage| match pace.stages.len() {
        1 => rate(stage),
        _ => format!("{} for {}", rate(stage), time_us(stage.duration.as_secs_f64() * 1e6)),
    });
    let stages: Vec<String> = stages.collect();
    let how = match &pace.arrivals {
        Arrivals::Constant => "constant".to_owned(),
        Arrivals::Poisson { seed } | Arrivals::PoissonOf { seed, .. } => {
            format!("Poisson, seed {seed}")
        }
        Arrivals::Recorded(times) => {
            return format!("{} recorded, {} on average", count(times.len() as u64), stages[0]);
        }
    };
    format!("{}; {how}", stages.join(", then "))
}

/// Stopped before the window opened.
fn nothing(outcome: &Outcome) -> bool {
    outcome.interrupted && outcome.duration.is_zero()
}

fn rates(plan: &Plan, outcome: &Outcome, paint: Paint, width: Option<usize>) -> Vec<String> {
    let rate = paint.bold(&format!("{:>10} answers/s", si_count(outcome.rate_rps())));
    let per_second = outcome.read_per_s();
    let cpu = outcome.cpu_us_per_request();
    let mut lines = vec![row(paint, "Rate", &rate)];
    if let Some(open) = &outcome.open {
        lines.extend(figure(paint, "Planned", &planned(plan, outcome, open), width));
        if let Some(text) = drain(outcome, open) {
            lines.extend(figure(paint, "Drain", &text, width));
        }
    }
    let read = bytes(outcome.bytes_read as f64);
    lines.push(row(paint, "Read", &format!("{:>10}/s  {read} in all", bytes(per_second))));
    if outcome.ok + outcome.failed > 0 {
        let text = format!("{:>10} of CPU a request", time_us(cpu));
        lines.push(row(paint, "Client", &text));
    }
    lines.extend(again(outcome).map(|text| row(paint, "Connects", &text)));
    lines
}

fn again(outcome: &Outcome) -> Option<String> {
    let resent = match outcome.resent {
        0 => String::new(),
        requests => format!(", {} sent again", number_of(requests, "request")),
    };
    let is_any = outcome.reconnects > 0 || outcome.resent > 0;
    is_any.then(|| format!("{:>10} again{resent}", count(outcome.reconnects)))
}

/// Rounds, steps, and the checks that failed.
fn scene(plan: &Plan, outcome: &Outcome, paint: Paint, width: Option<usize>) -> Vec<String> {
    let Some((scene, tally)) = steps::both(plan, outcome) else { return Vec::new() };
    let mut lines = figure(paint, "Rounds", &steps::rounds(outcome, tally), width);
    lines.push(row(paint, "", &paint.dim(&step(&steps::COLUMNS.map(str::to_owned), width)[0])));
    for (at, told) in steps::rows(scene, tally).iter().enumerate() {
        let titles = iter::once(if at == 0 { "Steps" } else { "" }).chain(iter::repeat(""));
        let told = step(told, width);
        lines.extend(told.iter().zip(titles).map(|(line, title)| row(paint, title, line)));
    }
    if let Some(feeder) = steps::exhausted(scene, tally) {
        let text = format!("the rows of {feeder} were all taken (once)");
        lines.push(row(paint, "Ended", &text));
    }
    if tally.checks.cookies_refused > 0 {
        let refused = count(tally.checks.cookies_refused);
        lines.push(row(
            paint,
            "Cookies",
            &format!("{refused:>10} refused (for another host, say)"),
        ));
    }
    for (at, (failed, of, what)) in steps::failures(scene, tally).iter().enumerate() {
        let title = if at == 0 { "Not as told" } else { "" };
        let text = format!("{:>FIGURE_COLUMNS$} of {}  {what}", count(*failed), count(*of));
        let mut told = figure(paint, title, &text, width);
        if let Some(first) = told.first_mut() {
            let number = &text[..FIGURE_COLUMNS];
            *first = first.replacen(number, &paint.dress("31", number), 1);
        }
        lines.extend(told);
    }
    lines
}

/// A line of the table of steps; where there is no room for its name that stands below, and on a
/// narrow terminal the maximum is left out.
fn step(columns: &[String; 6], width: Option<usize>) -> Vec<String> {
    let [figures @ .., name] = columns;
    let written = figures.iter().map(|figure| format!("{figure:>FIGURE_COLUMNS$}"));
    let taken = TITLE_WIDTH + FIGURE_COLUMNS * figures.len() + 2;
    let Some(width) = width.filter(|width| taken + name.chars().count() > *width) else {
        return vec![written.collect::<String>() + "  " + name];
    };
    let has_max = TITLE_WIDTH + FIGURE_COLUMNS * figures.len() <= width;
    let shown = if has_max { figures.len() } else { figures.len() - 1 };
    let room = width.saturating_sub(TITLE_WIDTH + 2);
    let names = drom_report::broken(name, room, room);
    let names = names.iter().map(|name| format!("  {name}"));
    [written.take(shown).collect()].into_iter().chain(names).collect()
}

/// The times of requests, a line each: what is waited for first, then its parts. A narrow terminal
/// has fewer figures, and what they are below them.
fn latencies(plan: &Plan, outcome: &Outcome, paint: Paint, width: Option<usize>) -> Vec<String> {
    if outcome.latency.count() == 0 {
        return vec![row(paint, "Latency", "no answer")];
    }
    let columns = columns(width);
    let heads: String =
        columns.iter().map(|at| format!("{:>FIGURE_WIDTH$}", FIGURES[*at].0)).collect();
    let mut lines = vec![row(paint, "", &paint.dim(&heads))];
    let taken = TITLE_WIDTH + FIGURE_WIDTH * columns.len() + 2;
    let known = times(outcome).into_iter().filter(|(_, latency, _)| latency.count() > 0);
    for (title, latency, note) in known {
        let figures = figures(latency, &columns);
        if width.is_none_or(|width| taken + note.len() <= width) {
            lines.push(row(paint, title, &format!("{figures}  {}", paint.dim(note))));
        } else {
            lines.push(row(paint, title, &figures));
            lines.extend(broken(paint, "", note, width).iter().map(|line| paint.dim(line)));
        }
    }
    if let Some(lookup) = plan.target.lookup {
        let text = format!("{:>10}", time_us(lookup.as_secs_f64() * 1e6));
        lines.push(row(paint, "Lookup", &format!("{text}  {}", paint.dim("of the name, once"))));
    }
    lines
}

/// Each kind of time with its name and where it counts from.
pub fn times(outcome: &Outcome) -> Vec<(&'static str, &Latency, &'static str)> {
    let from = if outcome.open.is_some() { "from the planned time" } else { "from the write" };
    let mut times = vec![("Latency", &outcome.latency, from)];
    if let Some(open) = &outcome.open {
        times.push(("Service", &open.service, "from the write"));
        times.push(("Lag", &open.lag, "planned time to write, where a connection was free"));
    }
    times.extend([
        ("First byte", &outcome.first_byte, ""),
        ("Transfer", &outcome.transfer, ""),
        ("Connect", &outcome.connect, if outcome.tls.count() > 0 { "TCP" } else { "" }),
        ("TLS", &outcome.tls, "handshake"),
        ("Whole", &outcome.whole, "connect to last byte"),
        ("Error after", &outcome.error_latency, "of requests without an answer"),
    ]);
    times
}

/// In nanoseconds.
type FigureOf = fn(&Latency) -> f64;

/// The figures of a time, and what they are.
const FIGURES: [(&str, FigureOf); 6] = [
    ("mean", Latency::mean_ns),
    ("p50", |latency| latency.quantile_ns(0.5) as f64),
    ("p90", |latency| latency.quantile_ns(0.9) as f64),
    ("p99", |latency| latency.quantile_ns(0.99) as f64),
    ("p99.9", |latency| latency.quantile_ns(0.999) as f64),
    ("max", |latency| latency.max_ns() as f64),
];
const FIGURE_WIDTH: usize = 10;
/// As large a part of the answers may come after the window of an open loop unsaid.
const DRAIN_PART: u64 = 100;
/// Which of them go first where there is no room.
const LEAST_WANTED: [usize; 4] = [4, 2, 0, 5];

/// Those that there is room for; two there always are.
fn columns(width: Option<usize>) -> Vec<usize> {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(TITLE_WIDTH) / FIGURE_WIDTH);
    let left_out = FIGURES.len().saturating_sub(room).min(LEAST_WANTED.len());
    (0..FIGURES.len()).filter(|at| !LEAST_WANTED[..left_out].contains(at)).collect()
}

fn figures(latency: &Latency, columns: &[usize]) -> String {
    let figure = |at: &usize| format!("{:>FIGURE_WIDTH$}", time_us(FIGURES[*at].1(latency) / 1e3));
    columns.iter().map(figure).collect()
}

/// The part of the window that has planned times: rounds that go on to their ends make it longer.
pub fn planned_s(plan: &Plan, outcome: &Outcome) -> f64 {
    let planned = plan.pace.as_ref().map_or(outcome.duration, Pace::duration);
    outcome.duration.min(planned).as_secs_f64()
}

/// What an open loop wanted, and what did not come to it.
fn planned(plan: &Plan, outcome: &Outcome, open: &OpenTally) -> String {
    let all = open.planned(outcome.begun());
    let what = if outcome.scene.is_some() { "rounds" } else { "requests" };
    let seconds = planned_s(plan, outcome);
    let rate = if seconds > 0.0 { all as f64 / seconds } else { 0.0 };
    let mut text = format!("{:>10} {what}/s", si_count(rate));
    if open.unsent > 0 {
        let why = match outcome.interrupted {
            true => "when it was stopped",
            false => "no connection was free",
        };
        text += &format!(", {} unsent: {why}", count(open.unsent));
    }
    if open.queued > 0 {
        text += &format!(", {} waited for a connection", count(open.queued));
    }
    if open.carried > 0 {
        text += &format!(", {} from the warm-up besides", count(open.carried));
    }
    if open.burst_max > 1 {
        text += &format!(", at most {} at once", count(open.burst_max));
    }
    text
}

/// More came after the window than the end of what was under way.
pub fn is_drain_told(outcome: &Outcome, open: &OpenTally) -> bool {
    open.drained * DRAIN_PART > outcome.answers()
}

fn drain(outcome: &Outcome, open: &OpenTally) -> Option<String> {
    let length = time_us(outcome.drain.as_secs_f64() * 1e6);
    let after = count(open.drained);
    is_drain_told(outcome, open).then(|| {
        format!("{length:>10} until the last answer: {after} came after the window, in no rate")
    })
}

fn answers(outcome: &Outcome, paint: Paint) -> Vec<String> {
    let ended = (outcome.ok + outcome.failed).max(1);
    let names = outcome.errors.keys().map(|kind| kind.name().len());
    let width = names.max().unwrap_or(0).max("at the end".len());
    let digits = 24_usize.saturating_sub(width).max(7);
    let line = |name: &str, number: u64, bad: bool| {
        let share = 100.0 * number as f64 / ended as f64;
        let name = format!("{name:<width$}");
        let name = if bad { paint.dress("31", &name) } else { name };
        format!("{name} {:>digits$} {share:>8.2} %", count(number))
    };
    let statuses = outcome.status.iter().map(|(code, n)| line(&code.to_string(), *n, *code >= 400));
    let errors = outcome.errors.iter().map(|(kind, n)| line(kind.name(), *n, true));
    let mut lines: Vec<String> = Vec::new();
    for (title, found) in [("Status", statuses.collect::<Vec<_>>()), ("Errors", errors.collect())] {
        for (at, text) in found.iter().enumerate() {
            lines.push(row(paint, if at == 0 { title } else { "" }, text));
        }
    }
    lines.push(row(
        paint,
        "In flight",
        &format!("{:<width$} {:>digits$}", "at the end", count(outcome.in_flight)),
    ));
    lines
}

pub fn number_of(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// 1234567 as 1,234,567.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate: whole from 100 on, three significant digits below.
pub fn si_count(rate: f64) -> String {
    if rate >= 100.0 { count(rate.round() as u64) } else { significant(rate) }
}

/// Microseconds in the unit that fits.
pub fn time_us(us: f64) -> String {
    match us {
        0.0 => "0 \u{b5}s".to_owned(),
        _ if us < 999.5 => format!("{} \u{b5}s", significant(us)),
        _ if us < 999_500.0 => format!("{} ms", significant(us / 1e3)),
        _ => format!("{} s", significant(us / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_has_fewer_figures() {
        let names = |width| columns(width).iter().map(|at| FIGURES[*at].0).collect::<Vec<_>>();
        assert_eq!(names(None), ["mean", "p50", "p90", "p99", "p99.9", "max"]);
        assert_eq!(names(Some(72)).len(), 6);
        assert_eq!(names(Some(60)), ["mean", "p50", "p99", "max"]);
        assert_eq!(names(Some(5)), ["p50", "p99"]);
    }

    #[test]
    fn users_are_as_many_as_there_are_streams() {
        let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let text = "[[step]]\nurl = 'http://127.0.0.1:1/'\n";
        let scenario = drom_scenario::Scenario::parse(text, "a.toml".as_ref(), &[], &no_file);
        let plan = Plan::get(drom_load::Target::at(([127, 0, 0, 1], 1).into(), "/"));
        let scene = Scene {
            scenario: std::sync::Arc::new(scenario.expect("a scenario")),
            targets: Vec::new(),
            seed: 1,
            finishes_rounds: false,
            is_test: false,
            connects_for_rounds: false,
            on_close: drom_load::OnClose::default(),
            raw: None,
        };
        let with =
            |scene: &Option<Scene>, depth| Plan { scene: scene.clone(), depth, ..plan.clone() };
        assert_eq!(who(&with(&None, 4), 8), "8 connections");
        let scene = Some(scene);
        assert_eq!(who(&with(&scene, 1), 1), "1 user");
        assert_eq!(who(&with(&scene, 4), 8), "32 users on 8 connections");
    }

    #[test]
    fn a_long_check_goes_on_under_its_words() {
        let text = "1.2 % of the machine's CPU time taken by the hypervisor";
        let lines = evidence(text, Some(80));
        assert_eq!(lines.len(), 2, "{lines:?}");
        let widths = lines.iter().enumerate().map(|(at, line)| match at {
            0 => EVIDENCE_AT + line.len(),
            _ => TITLE_WIDTH + line.len(),
        });
        assert!(widths.max() <= Some(80) && lines[1].starts_with(&" ".repeat(18)), "{lines:?}");
        assert_eq!(evidence(text, None), [text]);
    }

    #[test]
    fn checks_fit_a_narrow_terminal() {
        let check = Check {
            name: "listen_queue",
            state: State::Failed,
            evidence: "so it was found ".repeat(9),
            advice: Some("give more connections (-c) or a lower rate"),
        };
        for width in 40..=60 {
            let lines = checks(std::slice::from_ref(&check), Paint(false), Some(width));
            let widest = lines.iter().map(|line| line.trim_end().len()).max();
            assert!(widest <= Some(width), "{width}: {lines:?}");
            assert_eq!(lines[0].ends_with(' '), width < 50, "{width}: {lines:?}");
        }
    }

    #[test]
    fn checks_are_wrapped_where_there_is_no_terminal_too() {
        let advice = "word ".repeat(40);
        let evidence = "as it is ".repeat(20).trim_end().to_owned();
        let words = |text: &str| text.split_whitespace().count();
        let check = Check {
            name: "client",
            state: State::Failed,
            evidence: evidence.clone(),
            advice: Some(Box::leak(advice.into_boxed_str())),
        };
        let lines = checks(&[check], Paint(false), None);
        assert_eq!(words(&lines.concat()), 3 + 60 + 40, "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= 100), "{lines:?}");
    }

    #[test]
    fn figures_have_sensible_digits_and_units() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1234567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(time_us(3.456), "3.46 \u{b5}s");
        assert_eq!(time_us(99.96), "100 \u{b5}s");
        assert_eq!(time_us(999.6), "1.00 ms");
        assert_eq!(time_us(12_340.0), "12.3 ms");
        assert_eq!(time_us(10_000_000.0), "10.0 s");
        assert_eq!(si_count(118_400.4), "118,400");
        assert_eq!(si_count(9.5), "9.50");
    }
}
