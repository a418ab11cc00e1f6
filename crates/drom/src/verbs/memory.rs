//! `drom memory`: what memory processes take, whose it is, and how it grows; what is inside a perl
//! (`heap.rs`). Looked at from outside.

mod growth;
mod heap;
mod heap_json;
mod heap_text;
mod held;
mod json;
mod look;
mod requests;
mod table;
mod text;
mod watch;

use std::{
    fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitCode, ExitStatus},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::{
    Footprint, Segments,
    usage::{self, Usage},
};

use super::{
    load::{duration, output::cannot_write, watch_interrupts},
    profile::passed_on,
};
use crate::{
    exit::{self, Exit},
    say,
};
use growth::Growth;
use look::Look;
use requests::{PerRequest, Requests};
use watch::{End, Watch};

/// See what memory a process takes, what of it is shared, and whether it grows
///
/// RSS is what of a process is in memory, PSS the same with shared pages divided among those that
/// have them, USS what it alone has. Sharing since a fork (copy-on-write) is seen. A script that is
/// started here keeps its input, output and exit status.
#[derive(clap::Args)]
#[command(after_help = exit::help("memory", EXAMPLES))]
#[command(group(clap::ArgGroup::new("inside").args(["heap", "module"]).multiple(true)))]
pub struct Args {
    /// A Perl script and its arguments; the perl is the one in PATH
    #[arg(value_name = "SCRIPT", required_unless_present_any = ["pid", "module"])]
    #[arg(conflicts_with_all = ["pid", "module"])]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    script: Vec<String>,
    /// A process that runs already
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// What is inside the perl: packages, subs, variables, lost values; of a script at its end
    #[arg(long, conflicts_with_all = ["tree", "segments", "libraries", "interval"])]
    heap: bool,
    /// The same of a perl that has loaded this module and nothing else
    #[arg(short = 'M', long, value_name = "NAME", conflicts_with_all = ["pid", "duration", "tree"])]
    #[arg(conflicts_with_all = ["segments", "libraries", "interval"])]
    module: Option<String>,
    /// Only this package (with --heap or --module)
    #[arg(long, value_name = "NAME", requires = "inside")]
    package: Option<String>,
    /// This sub, by line and operator (with --heap or --module)
    #[arg(long, value_name = "NAME", requires = "inside", conflicts_with = "package")]
    sub: Option<String>,
    /// The value at this address of the perl, as `HASH(0x55d0c8a1e2b8)` has it (with --heap)
    #[arg(long, value_name = "ADDRESS", value_parser = heap::address)]
    #[arg(requires = "heap", conflicts_with_all = ["package", "sub", "duration", "script"])]
    value: Option<u64>,
    /// Rows of each table (with --heap or --module)
    #[arg(short = 'O', long, default_value = "12", value_name = "N")]
    rows: usize,
    /// All that descend from it, too: a line each, and their sum
    #[arg(short, long)]
    tree: bool,
    /// What it is for: heap, stack, text and data of the program and its libraries, files
    #[arg(short, long, conflicts_with = "script")]
    segments: bool,
    /// The program, each library and each other file that is mapped
    #[arg(short, long, conflicts_with = "script")]
    libraries: bool,
    /// Watch it grow for so long
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    #[arg(conflicts_with = "script")]
    duration: Option<Duration>,
    /// Between two looks [default: 1s, of a script 10ms]; without -d as long as the process lives
    #[arg(short, long, value_parser = interval, value_name = "TIME")]
    interval: Option<Duration>,
    /// Print the result as JSON, all sizes in bytes
    #[arg(long)]
    json: bool,
    /// Write it here; `-`, or no file: standard output (standard error for a script)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  drom memory --pid 4711                          one process
  drom memory --pid 4711 --tree                   a server and its workers, what they share
  drom memory --pid 4711 --tree --segments        what it is for
  drom memory --pid 4711 -d 1min --interval 1s    whether it grows
  drom memory --pid 4711 --heap                   what is inside a perl: packages, subs, variables
  drom memory --pid 4711 --heap -d 1min           which variables came to hold more
  drom memory --pid 4711 --heap --sub Shop::add   a sub by line and operator
  drom memory --module CGI                        what a module costs
  drom memory script.pl --its --arguments         the most that a script takes";

const INTERVAL: Duration = Duration::from_secs(1);
const SCRIPT_INTERVAL: Duration = Duration::from_millis(10);
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// What a copy of this process touches besides before it is another program.
const COPY_MARGIN: u64 = 1 << 20;

/// What there is to tell.
pub struct Told {
    pub name: String,
    pub is_script: bool,
    pub is_tree: bool,
    /// The last one; of a script the one that saw the most.
    pub look: Option<Look>,
    pub segments: Option<Segments>,
    pub growth: Option<Growth>,
    /// Of workers of a Drom server.
    pub per_request: Option<PerRequest>,
    /// The largest RSS of a script by the kernel's own count, which misses no moment.
    pub kernel_peak_bytes: Option<u64>,
}

pub fn run(args: &Args) -> ExitCode {
    let done = match args.pid {
        _ if args.heap || args.module.is_some() => heap::run(args),
        Some(pid) => attached(args, pid).map(ExitCode::from),
        None => started(args),
    };
    done.unwrap_or_else(|why| {
        say::line(format!("drom memory: {why}"));
        Exit::Failed.into()
    })
}

fn attached(args: &Args, pid: i32) -> Result<Exit, String> {
    let words = |error: drom_observe::FootprintError| error.to_string();
    let mut look = Look::at(pid, args.tree).map_err(words)?;
    let (mut growth, mut per_request, mut exit) = (None, None, Exit::Done);
    if args.duration.is_some() || args.interval.is_some() {
        let (mut grown, requests) = (Growth::default(), Requests::of(pid));
        let every = args.interval.unwrap_or(INTERVAL);
        let watch = Watch { every, duration: args.duration, is_new: false };
        let ended = watch.run(
            || Look::at(pid, args.tree),
            |seen| grown.take(seen),
            || false,
            watch_interrupts(),
        );
        exit = if ended.map_err(words)? == End::Stopped { Exit::Interrupted } else { Exit::Done };
        look = grown.last().cloned().unwrap_or(look);
        per_request = requests.and_then(|requests| requests.since(&grown));
        growth = Some(grown);
    }
    let segments = (args.segments || args.libraries).then(|| look.segments());
    let told = Told {
        look: Some(look),
        segments,
        growth,
        per_request,
        ..told(args, format!("process {pid}"))
    };
    write(args, &told)?;
    Ok(exit)
}

fn started(args: &Args) -> Result<ExitCode, String> {
    let stop = watch_interrupts();
    let child = spawn(&args.script)?;
    let (growth, ended) = watched(args, &child, stop);
    let (status, used) = match ended {
        Some(ended) => ended,
        None => usage::wait(child.id())
            .map_err(|error| format!("the program cannot be waited for: {error}"))?,
    };
    let look = growth.most().cloned();
    let kernel_peak_bytes = kernel_peak(used);
    let growth = Some(growth);
    let told = Told { look, growth, kernel_peak_bytes, ..told(args, args.script.join(" ")) };
    write(args, &told)?;
    Ok(passed_on(status))
}

/// Whatever becomes of looking, the script goes on to its end.
fn watched(args: &Args, child: &Child, stop: &AtomicBool) -> (Growth, Option<(ExitStatus, Usage)>) {
    let pid = i32::try_from(child.id()).expect("a process number");
    let (mut growth, mut ended) = (Growth::default(), None);
    let every = args.interval.unwrap_or(SCRIPT_INTERVAL);
    let watch = Watch { every, duration: None, is_new: true };
    let look = || Look::at(pid, args.tree);
    let is_over = || {
        ended = usage::try_wait(child.id()).unwrap_or(None);
        ended.is_some()
    };
    let done = watch.run(look, |seen| growth.take(seen), is_over, stop);
    if let Err(error) = done {
        say::line(format!("drom memory: {error}"));
    }
    (growth, ended)
}

/// By a fork that copies: of a child that borrows this process's memory until it is another
/// program, the kernel would count that memory as the child's.
fn spawn(script: &[String]) -> Result<Child, String> {
    let mut perl = Command::new("perl");
    perl.args(script);
    // SAFETY: nothing is done between fork and exec; that there is something to do makes it a fork.
    unsafe { perl.pre_exec(|| Ok(())) };
    perl.spawn().map_err(|error| format!("perl cannot be started: {error}; is it in PATH?"))
}

/// Of the script or the largest of its children that have ended; `None` where it may be that of the
/// copy of this process that became the script.
fn kernel_peak(used: Usage) -> Option<u64> {
    let own = Footprint::of(std::process::id().cast_signed()).ok()?.pages.anonymous_bytes;
    Some(used.peak_rss_bytes).filter(|peak| *peak > own + COPY_MARGIN)
}

fn told(args: &Args, name: String) -> Told {
    Told {
        name,
        is_script: args.pid.is_none(),
        is_tree: args.tree,
        look: None,
        segments: None,
        growth: None,
        per_request: None,
        kernel_peak_bytes: None,
    }
}

fn write(args: &Args, told: &Told) -> Result<(), String> {
    let wants = text::Wants { segments: args.segments, libraries: args.libraries };
    write_report(args, |width| match args.json {
        true => json::render(told, wants),
        false => text::render(told, wants, width),
    })
}

/// Where it was asked for; `render` is told how wide that is.
fn write_report(args: &Args, render: impl Fn(Option<usize>) -> String) -> Result<(), String> {
    let file = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    // A script has standard output for itself.
    let is_aside = !args.script.is_empty() && args.output.is_none();
    let report = render(if file.is_some() { None } else { table::width(is_aside) });
    match file {
        Some(path) => fs::write(path, &report).map_err(|error| cannot_write(path, &error)),
        None if is_aside => {
            say::part(&report);
            Ok(())
        }
        None if args.json => say::result(&report).map_err(cannot_print),
        None => say::words(&report).map_err(cannot_print),
    }
}

fn cannot_print(error: std::io::Error) -> String {
    format!("cannot print the result: {error}")
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time >= INTERVAL_MIN { Ok(time) } else { Err("looks are 1ms apart at least".to_owned()) }
}

/// Ctrl-C was said.
fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Relaxed)
}
