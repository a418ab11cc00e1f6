//! `drom load`: its flags, and the glue from them to a plan, from an outcome to a report.
//!
//! How to load is `drom-load`'s business; how a result looks is in the files beside this one.

mod checks;
pub(super) mod count;
mod csv;
pub(super) mod duration;
mod export;
mod html;
mod interrupt;
mod json;
mod kernel;
mod metrics;
mod output;
mod pace;
mod progress;
pub(super) mod request;
mod self_test;
mod series;
mod steps;
pub(super) mod text;
mod told;
pub(super) mod transport;
pub(super) mod users;
mod view;

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{Error, Outcome, Plan, Stage, Stop, Target};

use crate::{exit::Exit, say};
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
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What to load: a URL as http://127.0.0.1:8080/hello, a scenario (shop.toml), a HTTP archive
    /// (shop.har)
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "self_test"])]
    url: Option<String>,
    /// Connections, each with one request at a time; the users of a scenario
    #[arg(short, long, default_value = "10", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true)]
    connections: u32,
    /// Stop after exactly so many requests; of a scenario: rounds
    #[arg(short = 'n', long, value_parser = count::parse::<u64>, value_name = "N")]
    #[arg(conflicts_with = "duration", allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Stop after so long, e.g. 500ms, 10s, 2m [default: 10s]
    #[arg(short, long, value_parser = duration::parse, value_name = "TIME")]
    duration: Option<Duration>,
    /// Client threads; each has its share of the connections
    #[arg(short, long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true)]
    threads: u32,
    /// Begin so many requests a second, over the connections as far as they are free; e.g. 500, 20k
    #[arg(long, value_parser = pace::rate, value_name = "RPS", conflicts_with = "stages")]
    #[arg(allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Rates one after the other: 30s:100,2m:500 holds them, 1m:100-500 goes from one to the other
    #[arg(long, value_parser = pace::stage, value_name = "TIME:RPS,...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["duration", "requests"])]
    stages: Vec<Stage>,
    /// Measure this machine's ceiling against a built-in server that does nothing
    #[arg(long, conflicts_with_all = ["url", "requests", "rate", "stages", "warmup", "threshold"])]
    self_test: bool,
    /// How requests of a rate lie in time
    #[arg(long, value_enum, default_value = "constant", value_name = "HOW")]
    arrivals: pace::Spread,
    /// For the random arrivals of an earlier run once more
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    users: users::Users,
    #[command(flatten)]
    request: request::Request,
    #[command(flatten)]
    transport: transport::Transport,
    /// Pipeline: write so many requests on a connection, and the next when all are answered
    #[arg(long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, conflicts_with = "no_keepalive")]
    pipeline: u32,
    /// Requests under way on an HTTP/2 connection at once
    #[arg(long, default_value = "1", value_parser = count::parse::<u32>, value_name = "N")]
    #[arg(allow_hyphen_values = true, requires = "http2", conflicts_with = "pipeline")]
    streams: u32,
    /// Longest wait for a whole answer, connect included
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    timeout: Duration,
    /// Load so long before measuring; what ends in it is counted apart
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "TIME")]
    warmup: Duration,
    #[command(flatten)]
    output: output::Output,
    #[command(flatten)]
    export: export::Flags,
}

impl Args {
    /// What is loaded, as it was written.
    fn what(&self) -> &str {
        let list = self.users.urls.as_ref().and_then(|path| path.to_str());
        self.url.as_deref().or(list).unwrap_or_default()
    }
}

const AFTER_HELP: &str = "\
Examples:
  drom load http://127.0.0.1:8080/                  10 connections for 10 s
  drom load http://127.0.0.1:8080/ -c 32 -n 100000  exactly 100000 requests over 32 connections
  drom load http://127.0.0.1:8080/ --warmup 1s --json
  drom load http://127.0.0.1:8080/ -c 200 --rate 500      500 a second over at most 200 connections
  drom load http://127.0.0.1:8080/ -c 200 --stages 30s:0-500,2m:500 --arrivals poisson
  drom load http://127.0.0.1:8080/form --data 'name=Ann'
  drom load shop.toml -c 50 -d 1m                         50 users of a scenario
  drom load shop.toml -c 500 --rate 20 -d 1m              20 users come each second
  drom load http://127.0.0.1:8080 --urls list.txt         the URLs of a list in turn
  drom load http://127.0.0.1:8080 --replay access.log --speed 2
  drom load http://127.0.0.1:8080/ --threshold 'p99<250ms' --threshold 'failed<0.1%'
  drom load --self-test -c 32                       what this machine can send at most

Exit status: 0 measured; 1 could not be measured (no server, or no answer at all); 2 wrong flags or
URL; 3 measured, but the client was the limit; 6 measured, but another self-check failed; 9
measured, and a threshold was not met; 130 stopped by Ctrl-C, what was measured so far is printed.
Every figure is defined in docs/load.md.";

pub fn run(args: &Args) -> Exit {
    if args.self_test {
        return self_test::run(&args.self_test());
    }
    match measure(args) {
        Ok((plan, outcome)) => report(args, &plan, &outcome),
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

fn plan(args: &Args) -> Result<Plan, Failure> {
    let url = args.url.as_deref();
    let Some(mut cast) = args.users.cast(url)? else {
        let target = args.transport.target(url.unwrap_or_default())?;
        let plan = args.request.apply(around(args, target))?;
        return Ok(args.transport.close(plan));
    };
    args.request.apply_to(&mut cast.scenario)?;
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
    let exit = exit(&told);
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
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    format!(
        "not one complete answer came: {failed} requests failed{kinds}, {waiting} were still \
         waiting at the end"
    )
}

fn exit(told: &Told<'_>) -> Exit {
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
