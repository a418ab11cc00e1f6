//! `drom load`: its flags, and the glue from them to a plan, from an outcome to a report.
//!
//! How to load is `drom-load`'s business; how a result looks is in the files beside this one.

mod capacity;
pub(crate) mod checks;
pub(super) mod count;
mod csv;
pub(super) mod duration;
mod export;
mod html;
mod interrupt;
mod json;
mod kernel;
mod metrics;
pub(super) mod output;
mod pace;
mod progress;
pub(super) mod request;
mod self_test;
pub(crate) mod series;
pub(super) mod steps;
pub(super) mod text;
mod told;
pub(super) mod transport;
pub(super) mod users;
mod view;

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{Error, Outcome, Plan, Stage, Stop, Target, Threshold, threshold};
use drom_scenario::UrlOrder;

use crate::{
    exit::{self, Exit},
    say,
};
use checks::Check;
use told::Told;

/// Load a web server: a closed loop, or requests at a rate.
///
/// In a closed loop every connection sends its next request when the answer to the last one is
/// complete. With --rate requests begin at their times whatever has become of those before, and
/// latency counts from the planned time. Every answer is in the histogram, every request is
/// accounted for, and the run checks itself: its counts, Little's law, whether the client was the
/// limit.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// What to load: a URL, a scenario (shop.toml), a HTTP archive (shop.har)
    ///
    /// As http://127.0.0.1:8080/hello.
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "self_test"])]
    url: Option<String>,
    /// Connections, each with one request at a time; the users of a scenario
    ///
    /// In a closed loop never more than there are requests (-n). Numbers may end in k or M.
    #[arg(short, long, default_value = "10", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, help_heading = LOAD)]
    connections: u32,
    /// Stop after exactly so many requests; of a scenario: rounds
    #[arg(short = 'n', long, value_parser = count::parse::<u64>, value_name = "N")]
    #[arg(conflicts_with = "duration", allow_hyphen_values = true, help_heading = LOAD)]
    requests: Option<u64>,
    /// Stop after so long, e.g. 500ms, 10s, 2m [default: 10s]
    ///
    /// A bare number is seconds.
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME", help_heading = LOAD)]
    duration: Option<Duration>,
    /// Client threads; each has its share of the connections
    #[arg(short, long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, help_heading = LOAD)]
    threads: u32,
    /// Load so long before measuring; what ends in it is counted apart (with -n whole rounds)
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "TIME")]
    #[arg(help_heading = LOAD)]
    warmup: Duration,
    /// Begin so many requests a second, over connections that are free; e.g. 2.5, 500, 20k
    ///
    /// For --duration, or until -n are planned. Requests begin at their times whatever has become
    /// of those before, and latency counts from those times.
    #[arg(long, value_parser = pace::rate, value_name = "RPS", conflicts_with = "stages")]
    #[arg(allow_hyphen_values = true, help_heading = OPEN)]
    rate: Option<f64>,
    /// Rates one after the other: 30s:100,2m:500 holds them, 1m:100-500 goes from one to the other
    ///
    /// A rate that changes goes evenly. The warm-up has the first one.
    #[arg(long, value_parser = pace::stage, value_name = "TIME:RPS,...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["duration", "requests"], help_heading = OPEN)]
    stages: Vec<Stage>,
    /// Measure this machine's ceiling against a built-in server that does nothing
    #[arg(long, conflicts_with_all = NOT_OF_A_SELF_TEST, help_heading = LOAD)]
    self_test: bool,
    /// How requests of a rate lie in time
    #[arg(long, value_enum, default_value = "constant", value_name = "HOW", help_heading = OPEN)]
    arrivals: pace::Spread,
    /// For the random arrivals of an earlier run once more
    ///
    /// Every report of random arrivals says its seed; without this one the clock gives it.
    #[arg(long, value_name = "N", help_heading = OPEN)]
    seed: Option<u64>,
    #[command(flatten)]
    users: users::Users,
    #[command(flatten)]
    request: request::Request,
    #[command(flatten)]
    transport: transport::Transport,
    /// Pipeline: write so many requests on a connection, and the next when all are answered
    ///
    /// What the server announces not to answer (Connection: close) is written once more elsewhere;
    /// a connection that ends without that fails all its requests.
    #[arg(long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, conflicts_with_all = ["no_keepalive", "http2", "http10"])]
    #[arg(help_heading = transport::HEADING)]
    pipeline: u32,
    /// Requests under way on an HTTP/2 connection at once
    ///
    /// No more than the server allows. A stream that the server refuses (up to 8 times), and what
    /// it announces not to answer (GOAWAY), is asked again, on a new connection that is made at
    /// once while the old one ends; one that is late is given up alone.
    #[arg(long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, requires = "http2", conflicts_with = "pipeline")]
    #[arg(help_heading = transport::HEADING)]
    streams: u32,
    /// Longest wait for a whole answer, connect included
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    #[arg(help_heading = LIMITS)]
    timeout: Duration,
    /// Longest wait for a connection, TLS included
    ///
    /// Counted as connect_timeout.
    #[arg(long, value_parser = duration::parse, value_name = "TIME", help_heading = LIMITS)]
    connect_timeout: Option<Duration>,
    /// Longest wait from the write of a request to the first byte of its answer
    ///
    /// Counted as first_byte_timeout.
    #[arg(long, value_parser = duration::parse, value_name = "TIME", help_heading = LIMITS)]
    first_byte_timeout: Option<Duration>,
    /// Read answers so slowly: bytes a second and connection; e.g. 4200, 64k
    ///
    /// Each connection by itself, in shares of a 50th of a second, each paid for before the next.
    /// The socket's buffer is made as small, so that the server notices. What is written is not
    /// held back.
    #[arg(long, value_parser = count::parse::<u64>, value_name = "BYTES/S")]
    #[arg(help_heading = LIMITS)]
    throttle: Option<u64>,
    /// How client threads hear of their sockets
    ///
    /// epoll has a call for each read and each write, io_uring one call a round for all connections
    /// (Linux 6.1 and up; where it is not allowed, epoll is taken). Reports name the one that ran.
    #[arg(long, value_enum, default_value = "epoll", value_name = "WHICH")]
    #[arg(help_heading = transport::HEADING)]
    engine: Engine,
    #[command(flatten)]
    capacity: capacity::Capacity,
    #[command(flatten)]
    output: output::Output,
    #[command(flatten)]
    export: export::Flags,
}

/// What the self-test has of its own, or nothing of.
const NOT_OF_A_SELF_TEST: [&str; 19] = [
    "url",
    "urls",
    "pipeline",
    "insecure",
    "cacert",
    "data",
    "timeout",
    "requests",
    "rate",
    "stages",
    "warmup",
    "threshold",
    "headers",
    "http2",
    "html",
    "csv",
    "csv_series",
    "hdr",
    "find_capacity",
];

/// Sections of the help.
const LOAD: &str = "Load";
const LIMITS: &str = "Limits";
const OPEN: &str = "Open loop";

impl Args {
    /// What is loaded, as it was written.
    fn what(&self) -> &str {
        let file = self.users.urls.as_ref().or(self.users.replay.as_ref());
        file.and_then(|path| path.to_str()).or(self.url.as_deref()).unwrap_or_default()
    }
}

/// How client threads hear of their sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// A call for each read and each write
    Epoll,
    /// One call a round for all connections; Linux 6.1 and up
    #[value(name = "io_uring", alias = "uring")]
    IoUring,
}

impl From<Engine> for drom_load::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Epoll => Self::Epoll,
            Engine::IoUring => Self::IoUring,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  drom load http://127.0.0.1:8080/                  10 connections for 10 s
  drom load http://127.0.0.1:8080/ -c 32 -n 100000  exactly 100000 requests over 32 connections
  drom load http://127.0.0.1:8080/ --warmup 1s --json
  drom load http://127.0.0.1:8080/ -c 200 --rate 500      500 a second over at most 200 connections
  drom load http://127.0.0.1:8080/ -c 200 --stages 30s:0-500,2m:500 --arrivals poisson
  drom load http://127.0.0.1:8080/form --data 'name=Ann'
  drom load 'http://127.0.0.1:8080/item/{{id}}' --feeder items.csv    its column id, row by row
  drom load shop.toml -c 50 -d 1m                         50 users of a scenario
  drom load shop.toml -c 500 --rate 20 -d 1m              20 users come each second
  drom load http://127.0.0.1:8080 --urls list.txt         the URLs of a list in turn
  drom load http://127.0.0.1:8080 --replay access.log --speed 2
  drom load http://127.0.0.1:8080/ --threshold 'p99<250ms' --threshold 'failed<0.1%'
  drom load http://127.0.0.1:8080/ -c 64 --find-capacity 'p99<50ms,failed<0.1%'
  drom load --self-test -c 32                   what this machine can send at most";

fn after_help() -> String {
    let help = exit::help("load", &format!("{}\n\n{EXAMPLES}", threshold::help()));
    help + "\n\nEvery figure and check is defined in docs/load.md and in the manual, drom-load(1)."
}

pub fn run(args: &Args) -> Exit {
    if args.self_test {
        return self_test::run(&args.self_test());
    }
    let exit = if args.capacity.is_asked() {
        search(args)
    } else {
        measure(args).map(|(plan, outcome)| report(args, &plan, &outcome))
    };
    match exit {
        Ok(exit) => exit,
        Err(Failure { message, exit }) => {
            say::line(format!("drom load: {message}"));
            exit
        }
    }
}

impl Args {
    fn self_test(&self) -> self_test::Wanted {
        self_test::Wanted {
            connections: self.connections,
            threads: self.threads,
            keepalive: !self.transport.no_keepalive,
            duration: self.duration.unwrap_or(Duration::from_secs(4)),
            json: self.output.json,
        }
    }
}

/// Why there is nothing to report.
pub(super) struct Failure {
    pub message: String,
    pub exit: Exit,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::Failed };
        Self { message: error.to_string(), exit }
    }
}

fn measure(args: &Args) -> Result<(Plan, Outcome), Failure> {
    let plan = plan(args)?;
    check_limits(&args.output.threshold, &plan, plan.pace.is_some())?;
    args.output.check().map_err(|message| Failure { message, exit: Exit::Usage })?;
    let export = args.export.begin().map_err(|message| Failure { message, exit: Exit::Usage })?;
    let stop = interrupt::watch();
    let mut progress = progress::Show::new(args.output.progress(), plan.connections_used());
    let outcome = drom_load::run(&plan, stop, &mut |now| {
        progress.show(now);
        export.tell(now);
    });
    progress.clear();
    let outcome = outcome?;
    export.end(&outcome);
    Ok((plan, outcome))
}

fn search(args: &Args) -> Result<Exit, Failure> {
    let usage = |message| Failure { message, exit: Exit::Usage };
    args.output.check().map_err(usage)?;
    let plan = plan(args)?;
    check_limits(args.capacity.conditions(), &plan, true)?;
    let seed = (args.arrivals == pace::Spread::Poisson).then(|| seed(args));
    let told = args.capacity.search(args.what(), &plan, seed, args.output.progress())?;
    match args.output.tell_search(&told) {
        Ok(()) => Ok(told.exit()),
        Err(message) => Err(Failure { message, exit: Exit::Failed }),
    }
}

/// Flags that say nothing about this load.
fn check_flags(args: &Args) -> Result<(), Failure> {
    let has_pace = args.rate.is_some() || !args.stages.is_empty();
    let message = if has_pace && args.users.replay.is_some() {
        "a log is replayed at its own times (--speed); --rate and --stages are for other loads"
    } else if args.arrivals == pace::Spread::Poisson && !has_pace && !args.capacity.is_asked() {
        "--arrivals goes with --rate, --stages or --find-capacity"
    } else {
        return Ok(());
    };
    Err(Failure { message: message.to_owned(), exit: Exit::Usage })
}

/// Limits of what the run will not have.
fn check_limits(limits: &[Threshold], plan: &Plan, is_open: bool) -> Result<(), Failure> {
    let missing =
        |limit: &Threshold| Some((limit.expression.clone(), limit.missing(plan, is_open)?));
    match limits.iter().find_map(missing) {
        None => Ok(()),
        Some((limit, missing)) => Err(Failure {
            message: format!("{limit} cannot be measured in this load: that takes {missing}"),
            exit: Exit::Usage,
        }),
    }
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    check_flags(args)?;
    let plan = planned(args)?;
    args.transport.check_files(&plan)?;
    Ok(plan)
}

fn planned(args: &Args) -> Result<Plan, Failure> {
    let url = args.url.as_deref();
    let Some(cast) = args.users.cast(url, &args.request, UrlOrder::RoundRobin)? else {
        let target = args.transport.target(url.unwrap_or_default())?;
        let plan = args.request.apply(around(args, target))?;
        return Ok(args.transport.close(plan));
    };
    let targets = cast.targets(&args.transport)?;
    let plan = around(args, targets[0].clone());
    let part = users::Part { seed: seed(args), rounds: args.requests, duration: args.duration };
    Ok(cast.plan(plan, targets, &part))
}

/// All but what is asked.
fn around(args: &Args, target: Target) -> Plan {
    let duration = args.duration.unwrap_or(Duration::from_secs(10));
    let pace = pace(args, duration);
    args.transport.apply(Plan {
        connections: args.connections,
        depth: args.pipeline.max(args.streams),
        threads: args.threads,
        stop: match (&pace, args.requests) {
            (Some(pace), _) => Stop::After(pace.duration()),
            (None, Some(requests)) => Stop::Requests(requests),
            (None, None) => Stop::After(duration),
        },
        pace,
        warmup: args.warmup,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        first_byte_timeout: args.first_byte_timeout,
        throttle: args.throttle,
        engine: args.engine.into(),
        ..Plan::get(target)
    })
}

fn seed(args: &Args) -> u64 {
    args.seed.unwrap_or_else(drom_observe::clock::monotonic_ns)
}

fn pace(args: &Args, duration: Duration) -> Option<drom_load::Pace> {
    let written = pace::Written {
        rate_rps: args.rate,
        stages: &args.stages,
        spread: args.arrivals,
        seed: seed(args),
        duration,
        requests: args.requests,
    };
    written.pace()
}

/// The report for people of a run that an old tool's words asked for.
pub fn native(url: &str, plan: &Plan, outcome: &Outcome) -> String {
    let (checks, width) = (checks::all(plan, outcome), super::report::style().width);
    let told = Told { url, plan, outcome, checks, goals: Vec::new() };
    text::render(&told, text::Paint::for_stdout(), width)
}

/// Set by the first Ctrl-C.
pub fn watch_interrupts() -> &'static AtomicBool {
    interrupt::watch()
}

fn report(args: &Args, plan: &Plan, outcome: &Outcome) -> Exit {
    let told = Told {
        url: args.what(),
        plan,
        outcome,
        checks: checks::all(plan, outcome),
        goals: told::goals(&args.output.threshold, outcome),
    };
    if let Err(error) = args.output.tell(&told) {
        say::line(format!("drom load: {error}"));
        return Exit::Failed;
    }
    let exit = end(&told);
    if exit == Exit::Failed {
        say::line(format!("drom load: {}", no_answer(outcome)));
    }
    exit
}

/// Why there is nothing to report.
fn no_answer(outcome: &Outcome) -> String {
    let (failed, waiting) = (outcome.failed, outcome.in_flight);
    let kinds = outcome.errors.iter().map(|(kind, n)| format!("{n} x {}", kind.name()));
    let kinds: Vec<String> = kinds.collect();
    if outcome.sent == 0 && outcome.unwritten() > 0 {
        let unwritten = text::number_of(outcome.unwritten(), "request");
        return format!("nothing was sent: {unwritten} could not be written for a bad value");
    }
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    format!(
        "not one complete answer came: {failed} requests failed{kinds}, {waiting} were still \
         waiting at the end"
    )
}

fn end(told: &Told<'_>) -> Exit {
    let Told { outcome, checks, goals, .. } = told;
    if outcome.interrupted {
        Exit::Interrupted
    } else if outcome.answers() == 0 {
        Exit::Failed
    } else if checks.iter().any(|check| check.spoils() && check.name != checks::CLIENT) {
        Exit::Doubtful
    } else if goals.iter().any(|goal| !goal.judged.met) {
        Exit::Missed
    } else if checks.iter().any(Check::spoils) {
        Exit::ClientLimited
    } else {
        Exit::Done
    }
}
