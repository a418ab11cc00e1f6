//! `drom profile`: where a Perl program spends its time, seen from outside it.

mod exact;
mod form;
mod live;
mod module;
mod native;
mod page;
mod served;
mod stored;
mod switched;

use std::{
    env, fs,
    io::{self, IsTerminal},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use drom_observe::clock;
use drom_profile::{Ended, Error, Family, Profile, Sampler, Watch};

use super::load::{duration, watch_interrupts};
use crate::{
    exit::{self, Exit},
    say,
};
use form::{Form, Watched};
use live::View;
use stored::Stored;

/// See where a Perl program spends its time, without changing it
///
/// Looks at the program's memory from outside, at random moments: nothing is loaded into it, and it
/// is not stopped. A program that is started here keeps its input, output and exit status.
#[derive(clap::Args)]
#[command(after_help = exit::help("profile", AFTER_HELP))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    disable_help_subcommand = true,
    subcommand_help_heading = "Profiles that were kept, and the module"
)]
pub struct Args {
    #[command(subcommand)]
    stored: Option<Stored>,
    /// A Perl script and its arguments; the perl is the one in PATH
    #[arg(value_name = "SCRIPT", required_unless_present_any = ["pid", "url"])]
    #[arg(conflicts_with_all = ["pid", "url"])]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    script: Vec<String>,
    /// A process that runs already
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// A page of a Drom server on this machine: its workers, while it is asked for again and again
    #[arg(long, value_name = "URL", conflicts_with_all = ["pid", "native", "live"])]
    url: Option<String>,
    /// With --url: so many connections ask
    #[arg(short, long, default_value = "1", value_name = "N", value_parser = connections)]
    connections: u32,
    /// End after so long [default: when the process ends]
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    duration: Option<Duration>,
    /// Looks a second, at random moments; up to 10000
    #[arg(long, default_value = "100", value_parser = rate, value_name = "HZ")]
    rate: f64,
    /// Count every call and statement, in place of looking: of a script, or a server's workers
    #[arg(long, conflicts_with_all = ["rate", "clock", "live"])]
    exact: bool,
    /// Functions of compiled code in place of Perl's: which of a server's has the CPU
    #[arg(long, requires = "pid", conflicts_with_all = ["script", "exact", "clock"])]
    native: bool,
    /// With --native: also who called them, as far as the code keeps frame pointers
    #[arg(long, requires = "native")]
    callers: bool,
    /// Stop the program for each look, some 50 us: no stack is one call off
    #[arg(long, conflicts_with = "exact")]
    exact_stacks: bool,
    /// Show on the terminal what runs, each second, until the end
    #[arg(long, requires = "pid", conflicts_with = "native")]
    live: bool,
    /// Look at its child processes too, and at theirs, as far as they are perls (or --native)
    #[arg(short, long, conflicts_with = "exact")]
    follow_forks: bool,
    /// The time that samples are of: all that passes, or what a CPU spends on the program
    #[arg(long, value_enum, default_value = "wall", value_name = "CLOCK")]
    clock: Clock,
    #[command(flatten)]
    form: Form,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Clock {
    Wall,
    Cpu,
}

impl From<Clock> for drom_profile::Clock {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Wall => Self::Wall,
            Clock::Cpu => Self::Cpu,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  drom profile script.pl --its --arguments          the script's own output and status pass through
  drom profile --pid 4711 -d 10s                    a program that runs already
  drom profile --live --pid 4711                    what it does now, each second
  drom profile --follow-forks --pid 4711            a server and its workers
  drom profile --url http://localhost:8080/page -d 5s    what the workers of a server do for a page
  drom profile --exact script.pl                    every call and every statement is counted
  drom profile --exact --pid 4711 -d 10s            in a worker of a Drom server, or in all of them
  drom profile --native --pid 4711 -d 10s           which of a server's own functions has the CPU
  drom profile --native -f --pid 4711 -d 10s        the same of all its workers together
  drom profile --format html -o profile.html script.pl
  drom profile --format json -o before.json script.pl
  drom profile diff before.json after.json          which subs have another share of the time
  drom profile --format collapsed -o out.folded script.pl && flamegraph.pl out.folded > out.svg";

/// A new perl needs a moment until it has an interpreter.
const START_STEP: Duration = Duration::from_millis(1);
const STARTS_MAX: u32 = 500;
const FOLLOW_STEPS: u32 = 20;

struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    fn of(message: impl ToString) -> Self {
        Self { message: message.to_string(), exit: Exit::Failed }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

pub fn run(args: &Args) -> ExitCode {
    let done = args.form.usable().and_then(|()| match (&args.stored, args.pid) {
        (Some(stored), _) => stored.run(),
        (None, None) if args.url.is_some() => {
            let url = args.url.as_deref().unwrap_or_default();
            if args.exact { switched::of_page(args, url) } else { served::run(args, url) }
        }
        (None, Some(pid)) if args.native => native::run(args, pid),
        (None, Some(pid)) if args.exact => switched::of_process(args, pid),
        (None, Some(pid)) => attached(args, pid),
        (None, None) if args.exact => exact::run(args),
        (None, None) => started(args),
    });
    done.unwrap_or_else(|failure| {
        say::line(format!("drom profile: {}", failure.message));
        failure.exit.into()
    })
}

fn attached(args: &Args, pid: i32) -> Result<ExitCode, Failure> {
    if args.live && !io::stderr().is_terminal() {
        let message = "--live is for a terminal, and standard error is none".to_owned();
        return Err(Failure { message, exit: Exit::Usage });
    }
    let stop = watch_interrupts();
    let base = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let mut steps = 0..STARTS_MAX;
    let mut family = attach(pid, args, |error| {
        let begins = matches!(error, Error::NoInterpreter { .. });
        begins && steps.next().is_some() && !stop.load(Relaxed)
    })?;
    let mut view = args.live.then(View::default);
    let ended = watch(args).run(&mut family, stop, |family| {
        if let Some(view) = &mut view {
            view.draw(&name(args), &family.profile());
        }
    });
    if let Some(view) = view {
        view.clear();
    }
    // Why it could be looked at no longer, and all the same what was seen until then.
    let exit = match ended {
        Ok(Ended::Stopped) => Exit::Interrupted,
        Ok(_) => Exit::Done,
        Err(error) => {
            say::line(format!("drom profile: {error}"));
            if matches!(error, Error::Replaced { .. }) { Exit::Done } else { Exit::Failed }
        }
    };
    tell(args, &seen(family), &base)?;
    Ok(exit.into())
}

fn started(args: &Args) -> Result<ExitCode, Failure> {
    let stop = watch_interrupts();
    let mut child = spawn(Command::new("perl").args(&args.script))?;
    let pid = i32::try_from(child.id()).expect("a process number");
    let (mut over, mut steps) = (false, 0..STARTS_MAX);
    let attached = attach(pid, args, |error| {
        over = !matches!(child.try_wait(), Ok(None));
        // Its children are worth more than to wait for it to become a perl.
        let is_worth = !args.follow_forks || steps.next().is_some_and(|step| step < FOLLOW_STEPS);
        let begins = matches!(error, Error::NoInterpreter { .. });
        !over && (begins || matches!(error, Error::NoPerl { .. }) && is_worth)
    });
    let mut profile = Profile::default();
    let watched = attached.and_then(|mut family| {
        let ended = watch(args).run(&mut family, stop, |_| {});
        profile = seen(family);
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
fn attach(pid: i32, args: &Args, mut hope: impl FnMut(&Error) -> bool) -> Result<Family, Error> {
    let of = args.clock.into();
    let sampler = loop {
        match Sampler::attach(pid, of) {
            Err(error) if hope(&error) => clock::sleep(START_STEP),
            Err(Error::NoPerl { pid }) if args.follow_forks => {
                return Family::of_other(pid, of, args.exact_stacks);
            }
            attached => break attached?,
        }
    };
    let sampler = if args.exact_stacks { sampler.with_stops()? } else { sampler };
    let family = Family::of(sampler);
    Ok(if args.follow_forks { family.with_children() } else { family })
}

/// And what could not be.
fn seen(family: Family) -> Profile {
    if let Some(notice) = family.notice() {
        say::line(format!("drom profile: {notice}"));
    }
    family.profile()
}

fn watch(args: &Args) -> Watch {
    Watch { rate_hz: args.rate, duration: args.duration, seed: clock::monotonic_ns() }
}

fn spawn(perl: &mut Command) -> Result<Child, Failure> {
    perl.spawn().map_err(|error| Failure {
        message: format!("perl cannot be started: {error}; is it in PATH?"),
        exit: Exit::Failed,
    })
}

fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    child.wait().map_err(|error| Failure {
        message: format!("the program cannot be waited for: {error}"),
        exit: Exit::Failed,
    })
}

/// As a shell has it.
pub fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A script has standard output for itself.
fn tell(args: &Args, profile: &Profile, base: &Path) -> Result<(), Failure> {
    let watched = Watched { name: &name(args), base };
    if !args.script.is_empty() && args.form.output.is_none() {
        say::part(String::from_utf8_lossy(&args.form.render(profile, &watched)));
        return Ok(());
    }
    args.form.write(profile, &watched)
}

/// Of what was watched.
fn name(args: &Args) -> String {
    let script = || args.url.clone().unwrap_or_else(|| args.script.join(" "));
    args.pid.map_or_else(script, |pid| format!("process {pid}"))
}

fn connections(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "connections are a number from 1 to 10000".to_owned())
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
