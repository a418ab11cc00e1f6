//! `drom compare`: flags, progress on stderr, Ctrl-C; the work is in the rooms below.

mod interrupt;
mod preview;

use std::{
    env,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use drom_compare::{Error, Plan, Progress, RealWorld, Sink};
use drom_report::{Findings, Role, Row, Verdict, format};
use drom_stats::Latency;
use drom_store::{Block, Dropped, End, Group, Manifest, Run, Writer};

use self::interrupt::STOP;
use crate::{
    exit::{self, Exit},
    say,
    verbs::report::columns,
};

/// Compare web servers: start them, interleave them, print ratios with intervals.
///
/// A plan names the variants, how to start them and what to ask them. Every run is kept in a folder
/// (`runs/`, or $DROM_RUNS) that `drom report` lists and renders again.
#[derive(clap::Args)]
#[command(after_help = exit::help("compare", EXAMPLES) + PRECEDENCE)]
pub struct Args {
    /// The experiment.
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// The smallest honest run: six blocks of short slices.
    #[arg(long)]
    #[arg(help_heading = "Measurement")]
    quick: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    #[arg(help_heading = "Result")]
    json: bool,
    /// Keep the run in this folder.
    #[arg(long, value_name = "DIR")]
    #[arg(help_heading = "Result")]
    out: Option<PathBuf>,
    /// Order of the slices, for a repetition; the default is a new one.
    #[arg(long)]
    #[arg(help_heading = "Measurement")]
    seed: Option<u64>,
    /// Exit with 4 when a variant is slower than the baseline, 5 when that is not decided.
    #[arg(long)]
    #[arg(help_heading = "Result")]
    gate: bool,
    /// Only say what the plan would take and how precise it would be, from earlier runs of it.
    #[arg(long, conflicts_with_all = ["out", "gate"])]
    #[arg(help_heading = "Measurement")]
    preview: bool,
    /// Say every slice, also when stderr is no terminal.
    #[arg(long, short)]
    #[arg(help_heading = "Result")]
    verbose: bool,
}

const EXAMPLES: &str = "Examples:
  drom compare examples/ladder/ladder.toml           the price of each execution model
  drom compare --quick --json plan.toml | jq .findings
  drom compare --preview plan.toml                   how long, how precise, nothing is started
  drom compare --gate plan.toml || echo not as fast";

const PRECEDENCE: &str = "\nOf several 130, 1, 7, 8 and 6 come first, in this order.";

pub fn run(args: Args) -> Exit {
    match compare(&args) {
        Ok(exit) => exit,
        // Whatever a server's start or the load says of its end: the reason is Ctrl-C.
        Err(_) if STOP.load(Ordering::Relaxed) => {
            say::line("drom compare: stopped");
            Exit::Interrupted
        }
        Err(failure) => {
            say::line(format!("drom compare: {failure}"));
            exit_of_error(&failure.error)
        }
    }
}

fn compare(args: &Args) -> Result<Exit, Failure> {
    let drom = env::current_exe().unwrap_or_else(|_| PathBuf::from("drom"));
    let plan = Plan::read(&args.plan, &drom)?;
    plan.check_here(&args.plan)?;
    let plan = if args.quick { plan.quick() } else { plan };
    let preview = preview::of(&plan, &drom_store::root());
    let foretold = preview::lines(&preview);
    if args.preview {
        let said = if args.json {
            say::result(&preview::json(&plan, &preview))
        } else {
            say::words(&foretold)
        };
        said.map_err(unwritable)?;
        return Ok(Exit::Done);
    }
    let seed = args.seed.or(plan.seed).unwrap_or_else(drom_observe::clock::monotonic_ns);
    let _made = match &args.out {
        Some(folder) => Writer::check_own(folder)?,
        None => Writer::check(&drom_store::root())?,
    };
    interrupt::on_interrupt();
    let mut sink = Terminal::new(args);
    sink.lasting(foretold.trim_end());
    let measured = {
        let mut world = RealWorld::new(&plan.load, plan.placement);
        let tool = concat!("drom ", env!("CARGO_PKG_VERSION"));
        drom_compare::run(&plan, seed, tool, &mut world, &mut sink, &STOP)
    };
    sink.clear();
    let Some(writer) = sink.writer.take() else {
        measured?;
        say::line("drom compare: stopped before the first block; no run was kept");
        return Ok(Exit::Interrupted);
    };
    let folder = writer.folder().to_owned();
    let end = end_of(&measured, &sink.blocks);
    let kept = writer.end(&end);
    let mut run = Run::open(&folder)?;
    // Also where there was no room to write it down.
    run.end = Some(end.clone());
    let findings = drom_compare::analyse(&run);
    let printed = print(args, &run, &findings);
    if let Some(error) = measured.err().or(kept.map(drop).or(printed).err()) {
        let error = Box::new(error);
        return Err(Failure { error, kept: Some((folder, run.blocks.len())) });
    }
    if end.failed {
        say::line(format!("drom compare: {}; what was measured before is above", end.reason));
        return Ok(Exit::Failed);
    }
    Ok(if end.interrupted { Exit::Interrupted } else { exit_of(args, &findings) })
}

/// Why there is no result, or not all of it, and what is there all the same.
struct Failure {
    error: Box<Error>,
    /// The run's folder and its finished blocks.
    kept: Option<(PathBuf, usize)>,
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: Box::new(error.into()), kept: None }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.error)?;
        let Some((folder, blocks)) = &self.kept else { return Ok(()) };
        let (blocks, folder) = (format::number_of(*blocks, "finished block"), folder.display());
        write!(f, "\n{blocks} kept in {folder}; `drom report {folder}` shows them again")
    }
}

/// How a run ended, also one that something else than its servers ended.
fn end_of(measured: &Result<End, Error>, blocks: &[Block]) -> End {
    let error = match measured {
        Ok(end) => return end.clone(),
        Err(error) => error,
    };
    let interrupted = STOP.load(Ordering::Relaxed);
    let duration_s = blocks.last().map_or(0.0, |block| block.end_s);
    End { interrupted, failed: !interrupted, duration_s, reason: error.to_string() }
}

fn print(args: &Args, run: &Run, findings: &Findings) -> Result<(), Error> {
    let page = run.folder.join("report.html");
    let written = write_page(&page, &drom_report::html(run, findings));
    if args.json {
        out(&drom_report::json(run, findings))?;
    } else {
        out(&drom_report::text(run, findings, crate::verbs::report::style()))?;
        let report = match &written {
            Ok(()) => format!("report  {}\n", page.display()),
            Err(_) => String::new(),
        };
        out(&format!("\nrun     {}\n{report}", run.folder.display()))?;
    }
    Ok(written?)
}

/// Whole or not at all.
fn write_page(page: &Path, html: &str) -> Result<(), drom_store::Error> {
    std::fs::write(page, html).map_err(|source| {
        // Half a page helps nobody, and cannot be kept from lying there otherwise.
        let _ = std::fs::remove_file(page);
        drom_store::Error::Write { path: page.to_owned(), source }
    })
}

/// A reader that went away (`| head`) is no error.
pub fn out(text: &str) -> Result<(), drom_store::Error> {
    say::result(text).map_err(unwritable)
}

pub fn unwritable(source: std::io::Error) -> drom_store::Error {
    drom_store::Error::Write { path: "standard output".into(), source }
}

fn exit_of_error(error: &Error) -> Exit {
    match error {
        Error::Answer { .. } | Error::DifferentAnswers { .. } => Exit::WrongAnswers,
        error if error.is_usage() => Exit::Usage,
        _ => Exit::Failed,
    }
}

fn exit_of(args: &Args, findings: &Findings) -> Exit {
    let variants =
        || findings.groups.iter().flat_map(|g| &g.rows).filter(|row| row.role == Role::Variant);
    if !findings.wrong.is_empty() {
        return Exit::WrongAnswers;
    }
    if !findings.silent.is_empty() {
        return Exit::NoAnswer;
    }
    if !findings.doubtful.is_empty() || !findings.dropped.is_empty() {
        return Exit::Doubtful;
    }
    if !args.gate {
        return Exit::Done;
    }
    if variants().any(|row| row.verdict == Some(Verdict::Slower)) {
        return Exit::Worse;
    }
    let open = |row: &Row| !matches!(row.verdict, Some(Verdict::Faster | Verdict::Equivalent));
    if variants().any(open) { Exit::Inconclusive } else { Exit::Done }
}

/// Keeps the run on disk and tells the person who waits.
struct Terminal<'a> {
    args: &'a Args,
    writer: Option<Writer>,
    is_terminal: bool,
    groups: Vec<Group>,
    blocks: Vec<Block>,
}

impl<'a> Terminal<'a> {
    fn new(args: &'a Args) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { args, writer: None, is_terminal, groups: Vec::new(), blocks: Vec::new() }
    }

    /// On a terminal one line is written over and over.
    fn passing(&self, line: &str) {
        if self.is_terminal {
            // A line that wraps could not be wiped again.
            let most = columns(libc::STDERR_FILENO).unwrap_or(80) - 1;
            let line: String = format::plain(line).chars().take(most).collect();
            say::part(format!("\r\u{1b}[K{line}"));
        } else if self.args.verbose {
            say::line(line);
        }
    }

    fn lasting(&self, line: &str) {
        self.clear();
        let width = columns(libc::STDERR_FILENO).filter(|_| self.is_terminal);
        for line in line.lines() {
            say::line(width.map_or_else(|| line.to_owned(), |w| drom_report::fold(line, w)));
        }
    }

    /// Ratios that may be watched while they come: no verdict, and nothing ends because of them.
    fn show_so_far(&self, group: &str) {
        let Some(group) = self.groups.iter().find(|told| told.name == group) else { return };
        if !self.is_terminal && !self.args.verbose {
            return;
        }
        for so_far in drom_compare::so_far(&self.blocks, group) {
            let (variant, ratio) = (&so_far.variant, format::interval(so_far.ratio));
            self.lasting(&format!("  so far, safe to watch: {variant} {ratio}"));
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            say::part("\r\u{1b}[K");
        }
    }
}

impl Sink for Terminal<'_> {
    fn begin(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let writer = match &self.args.out {
            Some(folder) => Writer::create(folder, manifest)?,
            None => Writer::create_in(Path::new(&drom_store::root()), manifest)?,
        };
        self.writer = Some(writer);
        self.groups.clone_from(&manifest.groups);
        let ceiling = manifest.client_ceiling_rps.map_or_else(String::new, |rps| {
            format!("; this client reaches {} req/s against nothing", format::rate(rps))
        });
        self.lasting(&format!("{}: placement {}{ceiling}", manifest.title, manifest.placement));
        for flag in &manifest.flags {
            self.lasting(&format!("! {}: {}", flag.code, flag.detail));
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, latencies: &[Latency]) -> Result<(), Error> {
        let writer = self.writer.as_mut().expect("begin comes before the first block");
        writer.block(block, latencies)?;
        self.blocks.push(block.clone());
        Ok(())
    }

    fn dropped(&mut self, dropped: &Dropped) -> Result<(), Error> {
        let writer = self.writer.as_mut().expect("begin comes before the first block");
        Ok(writer.dropped(dropped)?)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if STOP.load(Ordering::Relaxed) {
            return;
        }
        match progress {
            Progress::Preflight { what } => self.lasting(&format!("preflight: {what}")),
            Progress::Skipped { variant, reason } => {
                self.lasting(&format!("skipped: {variant} ({reason})"));
            }
            Progress::Slice { group, block, of, variant, rps, flags } => {
                let codes: Vec<&str> = flags.iter().map(|flag| flag.code.as_str()).collect();
                let (rate, codes) = (format::rate(*rps), codes.join(" "));
                self.passing(&format!(
                    "{group} block {block}/{of}  {variant}: {rate} req/s {codes}"
                ));
            }
            Progress::Block { group, block, of, elapsed_s } => {
                let elapsed = format::time(*elapsed_s);
                self.lasting(&format!("{group}: block {block} of {of} done ({elapsed})"));
                self.show_so_far(group);
            }
            Progress::Dropped { dropped, of } => {
                let Dropped { group, variant, reason, .. } = dropped;
                let block = dropped.block + 1;
                self.lasting(&format!(
                    "{group}: block {block} of {of} dropped: `{variant}`: {reason}"
                ));
            }
            Progress::Planned { group, blocks, wanted } => {
                // A quick run ends here, and its table says how many blocks are missing.
                if !self.args.quick {
                    self.lasting(&planned(group, *blocks, *wanted));
                }
            }
        }
    }
}

/// A noisy machine can ask for thousands of blocks: the plan ends first, and that is the news.
fn planned(group: &str, blocks: usize, wanted: usize) -> String {
    if wanted <= blocks {
        return format!("{group}: {blocks} blocks will do, by the pilot's spread");
    }
    format!(
        "{group}: this machine is too noisy for the plan's effect; up to {blocks} blocks within \
         the budget, and the intervals say what they bear"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noisy_pilot_names_no_number_that_nobody_will_run() {
        assert!(planned("hello", 12, 12).contains("12 blocks will do"));
        let noisy = planned("hello", 20, 9_436);
        assert!(noisy.contains("up to 20 blocks") && !noisy.contains("9"), "{noisy}");
    }
}
