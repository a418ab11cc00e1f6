//! `drom top`: what is happening on this machine, in its processes, and in every worker of Drom's
//! servers. As a view on a terminal, as text once, or as JSON.

mod choose;
mod collect;
mod figures;
mod keys;
mod lines;
mod live;
mod mask;
mod model;
mod page;
mod screen;
mod text;

use std::{io::IsTerminal, sync::atomic::Ordering::Relaxed, time::Duration};

use drom_observe::clock;
use regex::Regex;

use super::{
    load::{duration, watch_interrupts},
    report::terminal_size,
};
use crate::{
    exit::{self, Exit},
    say,
};
use choose::{Choice, Sort};
use collect::{Collector, Wish};
use lines::Line;

/// See what is happening: the machine, its processes, and every worker of Drom's servers
///
/// Of a worker it tells the request it runs, for whom, for how long, and the line of Perl it is on
/// right now. It only reads: nothing is stopped, loaded into, or asked to answer.
#[derive(clap::Args)]
#[command(after_help = exit::help("top", AFTER_HELP))]
pub struct Args {
    /// Print it once, as text
    #[arg(long)]
    once: bool,
    /// Print JSON: an object and a line for each refresh; with --once a single one
    #[arg(long)]
    json: bool,
    /// Time between refreshes
    #[arg(short = 'n', long, default_value = "2s", value_parser = interval, value_name = "TIME")]
    interval: Duration,
    /// The column to sort by, figures from the largest
    #[arg(long, value_enum, default_value = "cpu", value_name = "COLUMN")]
    sort: Sort,
    /// Only processes whose command, name, user or number matches
    #[arg(long, value_parser = filter, value_name = "REGEX")]
    filter: Option<Regex>,
    /// Children below their parents
    #[arg(long)]
    tree: bool,
    /// Rows of the table of processes [default: 20 of text, all of JSON]
    #[arg(long, value_name = "N", conflicts_with = "pid")]
    rows: Option<usize>,
    /// The page of one process: memory, libraries, files, limits, names of variables
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["sort", "filter", "tree"])]
    pid: Option<i32>,
}

const AFTER_HELP: &str = "\
Keys of the view: arrows choose, Enter opens the page of a process, Esc goes back, s sorts,
t shows the tree, / filters, Tab hides servers, h helps, q ends.

Examples:
  drom top                                  a view that refreshes itself
  drom top --once --sort pss --rows 10      the largest ten by their share of memory
  drom top --once --filter '^perl' --tree   perls, and who started them
  drom top --once --pid 4711                one process taken apart
  drom top --json -n 10s >> top.jsonl       a line of JSON every ten seconds";

/// Figures of time need two readings.
const BETWEEN: Duration = Duration::from_millis(250);
const ROWS: usize = 20;
/// Where no terminal says how wide it is.
const WIDTH: usize = 100;

struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: Exit::Failed }
    }
}

pub fn run(args: &Args) -> Exit {
    let done = match (args.once || args.json, args.pid) {
        (false, _) => watched(args),
        (true, Some(pid)) => one_page(args, pid),
        (true, None) => printed(args),
    };
    done.unwrap_or_else(|failure| {
        say::line(format!("drom top: {}", failure.message));
        failure.exit
    })
}

fn watched(args: &Args) -> Result<Exit, Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let message = "standard input and output are no terminal: use --once or --json".to_owned();
        return Err(Failure { message, exit: Exit::Usage });
    }
    live::run(args)
}

fn collector() -> Result<Collector, Failure> {
    Collector::new().map_err(|error| Failure::new(format!("/proc cannot be read: {error}")))
}

/// Again and again until Ctrl-C, or once.
fn printed(args: &Args) -> Result<Exit, Failure> {
    let stop = watch_interrupts();
    let (mut collector, choice) = (collector()?, args.choice());
    let mut pause = BETWEEN;
    loop {
        if !sleep_until_stopped(pause, stop) {
            return Ok(Exit::Interrupted);
        }
        let rows = args.rows.unwrap_or(if args.json { usize::MAX } else { ROWS });
        let wish = Wish { choice: &choice, rows: (0, rows), is_single: args.once };
        let mut snapshot = collector.take(wish);
        snapshot.processes = choice.of(snapshot.processes);
        let text = match args.json {
            false => text::whole(&snapshot, &choice, rows, width()),
            true => {
                snapshot.processes.truncate(rows);
                json(&snapshot)
            }
        };
        if !tell(args, &text)? || args.once {
            return Ok(Exit::Done);
        }
        pause = args.interval;
    }
}

fn one_page(args: &Args, pid: i32) -> Result<Exit, Failure> {
    let stop = watch_interrupts();
    let mut collector = collector()?;
    let mut pause = BETWEEN;
    loop {
        if !sleep_until_stopped(pause, stop) {
            return Ok(Exit::Interrupted);
        }
        let nobody = || Failure::new(format!("there is no process {pid}"));
        let page = collector.page(pid).ok_or_else(nobody)?;
        let text = match args.json {
            true => json(&page),
            false => plain(&page::lines(&page, width())),
        };
        if !tell(args, &text)? || args.once {
            return Ok(Exit::Done);
        }
        pause = args.interval;
    }
}

fn plain(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text") + "\n"
}

/// Whether anybody still reads.
fn tell(args: &Args, text: &str) -> Result<bool, Failure> {
    let is_plain = !args.json && !say::has_utf8();
    let text = if is_plain { lines::in_ascii(text) } else { text.to_owned() };
    let failed = |error| Failure::new(format!("cannot write to standard output: {error}"));
    say::is_heard(&text).map_err(failed)
}

/// Whether the time has passed.
fn sleep_until_stopped(pause: Duration, stop: &std::sync::atomic::AtomicBool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let until = clock::now() + pause;
    while !stop.load(Relaxed) {
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return true;
        }
        clock::sleep(left.min(STEP));
    }
    false
}

/// What a shell says counts, so that output can be shaped without a terminal.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || terminal_size(libc::STDOUT_FILENO).map(|(columns, _)| columns);
    said.filter(|columns| *columns > 0).or_else(of_terminal).unwrap_or(WIDTH)
}

impl Args {
    fn choice(&self) -> Choice {
        Choice { sort: self.sort, filter: self.filter.clone(), is_tree: self.tree }
    }
}

fn filter(text: &str) -> Result<Regex, String> {
    let of = |error: regex::Error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or("it is no regular expression");
        last.trim_start_matches("error: ").to_owned()
    };
    Regex::new(text).map_err(of)
}

fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    let time = duration::parse(text)?;
    let is_usable = time >= least && time <= Duration::from_secs(86_400);
    is_usable.then_some(time).ok_or_else(|| "from 100ms to a day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_filters_are_read() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert!(["0", "1ms", "2d", "x", "25h"].iter().all(|text| interval(text).is_err()));
        assert!(filter("^perl").is_ok());
        assert!(filter("(").is_err_and(|words| words.contains("unclosed group")));
    }
}
