//! `drom profile`: where a Perl program spends its time, seen from outside it.

mod page;

use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, SystemTime},
};

use drom_observe::clock;
use drom_profile::{Ended, Error, Profile, Sampler, Watch, callgrind, pprof, speedscope, text};

use super::load::{duration, output::cannot_write, watch_interrupts};
use crate::{
    exit::{self, Exit},
    say,
};

/// See where a Perl program spends its time, without changing it
///
/// Looks at the program's memory from outside, at random moments: nothing is loaded into it, and it
/// is not stopped. A program that is started here keeps its input, output and exit status.
#[derive(clap::Args)]
#[command(after_help = exit::help("profile", AFTER_HELP))]
pub struct Args {
    /// A Perl script and its arguments; the perl is the one in PATH
    #[arg(value_name = "SCRIPT", required_unless_present = "pid", conflicts_with = "pid")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    script: Vec<String>,
    /// A process that runs already
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// End after so long [default: when the process ends]
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    duration: Option<Duration>,
    /// Looks a second, at random moments; up to 10000
    #[arg(long, default_value = "100", value_parser = rate, value_name = "HZ")]
    rate: f64,
    /// The time that samples are of: all that passes, or what a CPU spends on the program
    #[arg(long, value_enum, default_value = "wall", value_name = "CLOCK")]
    clock: Clock,
    /// What is written: a table, a page with a flame graph, a line a stack, or another tool's file
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write it here; `-`, or no file: standard error for a script, standard output for --pid
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of the table
    #[arg(short = 'O', long, default_value_t = text::ROWS, value_name = "N")]
    rows: usize,
    /// As text: who called whom, in place of the table
    #[arg(short = 'T', long)]
    tree: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Clock {
    Wall,
    Cpu,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Html,
    Collapsed,
    Speedscope,
    Callgrind,
    Pprof,
}

const AFTER_HELP: &str = "\
Examples:
  drom profile script.pl --its --arguments          the script's own output and status pass through
  drom profile --pid 4711 -d 10s                    a program that runs already
  drom profile --format html -o profile.html script.pl
  drom profile --format collapsed -o out.folded script.pl && flamegraph.pl out.folded > out.svg";

/// A new perl needs a moment until it has an interpreter.
const START_STEP: Duration = Duration::from_millis(1);
const STARTS_MAX: u32 = 500;

struct Failure {
    message: String,
    exit: Exit,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { message: error.to_string(), exit: Exit::Failed }
    }
}

pub fn run(args: &Args) -> ExitCode {
    let done = usable(args).and_then(|()| match args.pid {
        Some(pid) => attached(args, pid),
        None => started(args),
    });
    done.unwrap_or_else(|failure| {
        say::line(format!("drom profile: {}", failure.message));
        failure.exit.into()
    })
}

/// Before anything is started.
fn usable(args: &Args) -> Result<(), Failure> {
    let is_for_people = args.output.is_none() && matches!(args.format, Format::Pprof);
    let message = "--format pprof is no text: -o FILE says where it goes".to_owned();
    if is_for_people { Err(Failure { message, exit: Exit::Usage }) } else { Ok(()) }
}

fn attached(args: &Args, pid: i32) -> Result<ExitCode, Failure> {
    let stop = watch_interrupts();
    let base = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let mut steps = 0..STARTS_MAX;
    let mut sampler = attach(pid, args.clock, |error| {
        let begins = matches!(error, Error::NoInterpreter { .. });
        begins && steps.next().is_some() && !stop.load(Relaxed)
    })?;
    let ended = watch(args).run(&mut sampler, stop)?;
    tell(args, sampler.profile(), &base)?;
    Ok(if ended == Ended::Stopped { Exit::Interrupted } else { Exit::Done }.into())
}

fn started(args: &Args) -> Result<ExitCode, Failure> {
    let stop = watch_interrupts();
    let mut command = Command::new("perl");
    let mut child = command.args(&args.script).spawn().map_err(|error| Failure {
        message: format!("perl cannot be started: {error}; is it in PATH?"),
        exit: Exit::Failed,
    })?;
    let pid = i32::try_from(child.id()).expect("a process number");
    let mut over = false;
    let attached = attach(pid, args.clock, |error| {
        over = !matches!(child.try_wait(), Ok(None));
        !over && matches!(error, Error::NoInterpreter { .. } | Error::NoPerl { .. })
    });
    let mut profile = Profile::default();
    let watched = attached.and_then(|mut sampler| {
        let ended = watch(args).run(&mut sampler, stop);
        profile = sampler.into_profile();
        ended.map(drop)
    });
    // Whatever becomes of the profile, the program goes on to its end; one that was over before it
    // could be looked at has an empty one.
    if let Some(error) = watched.err().filter(|_| !over) {
        say::line(format!("drom profile: {error}"));
    }
    let status = wait(&mut child)?;
    tell(args, &profile, &env::current_dir().unwrap_or_default())?;
    Ok(passed_on(status))
}

/// As soon as there is an interpreter, while whoever asks has hope in spite of the error.
fn attach(pid: i32, clock: Clock, mut hope: impl FnMut(&Error) -> bool) -> Result<Sampler, Error> {
    let of = match clock {
        Clock::Wall => drom_profile::Clock::Wall,
        Clock::Cpu => drom_profile::Clock::Cpu,
    };
    loop {
        match Sampler::attach(pid, of) {
            Err(error) if hope(&error) => clock::sleep(START_STEP),
            attached => return attached,
        }
    }
}

fn watch(args: &Args) -> Watch {
    Watch { rate_hz: args.rate, duration: args.duration, seed: clock::monotonic_ns() }
}

fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    child.wait().map_err(|error| Failure {
        message: format!("the program cannot be waited for: {error}"),
        exit: Exit::Failed,
    })
}

/// As a shell has it.
fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// `base` is where the program's relative names begin.
fn tell(args: &Args, profile: &Profile, base: &Path) -> Result<(), Failure> {
    let report = match args.format {
        Format::Text if args.tree => text::tree(profile).into_bytes(),
        Format::Text => text::table(profile, args.rows).into_bytes(),
        Format::Html => page::page(profile, &name(args), base).into_bytes(),
        Format::Collapsed => text::collapsed(profile, false).into_bytes(),
        Format::Speedscope => speedscope(profile, &name(args)).into_bytes(),
        Format::Callgrind => callgrind(profile, &name(args)).into_bytes(),
        Format::Pprof => pprof(profile, &name(args), SystemTime::now()),
    };
    let failed = |message| Failure { message, exit: Exit::Failed };
    match &args.output {
        Some(path) if path.as_os_str() != "-" => {
            fs::write(path, report).map_err(|error| failed(cannot_write(path, &error)))
        }
        None if args.pid.is_none() => {
            say::part(String::from_utf8_lossy(&report));
            Ok(())
        }
        _ => {
            say::bytes(&report).map_err(|error| failed(format!("cannot print the result: {error}")))
        }
    }
}

/// Of what was watched.
fn name(args: &Args) -> String {
    args.pid.map_or_else(|| args.script.join(" "), |pid| format!("process {pid}"))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.1..=10_000.0).contains(rate));
    rate.ok_or_else(|| "looks a second are a number from 0.1 to 10000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        assert_eq!((rate("100"), rate("0.5")), (Ok(100.0), Ok(0.5)));
        assert!(["", "0", "-1", "x", "20000", "NaN"].iter().all(|text| rate(text).is_err()));
    }
}
