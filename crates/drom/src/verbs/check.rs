//! `drom check`: a scenario as a test. Runs it, says which checks hold; the engine and the checks
//! are those of a load.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use drom_load::{Outcome, Plan, Stop};
use drom_scenario::{Judged, UrlOrder, bail_out, junit, tap};

use super::load::{
    Failure, count, duration,
    output::{cannot_write, openable},
    request::Request,
    steps,
    text::{Paint, number_of, time_us},
    transport::Transport,
    users,
};
use crate::{
    exit::{self, Exit},
    say,
};

/// Run a scenario as a test.
///
/// Every way through the scenario is gone once, by one user, and every answer is held against the
/// checks of its step; the same checks are valid under load.
#[derive(clap::Args)]
#[command(after_help = exit::help("check", EXAMPLES) + MORE)]
#[command(mut_arg("order", |order| order.hide(true)))]
pub struct Args {
    /// A scenario (shop.toml), a HTTP archive (shop.har), or the base of --urls or --replay
    #[arg(value_name = "SCENARIO", required_unless_present = "urls")]
    what: Option<String>,
    /// Go every way so many times
    #[arg(long, default_value = "1", value_parser = count::parse::<u64>, value_name = "N")]
    #[arg(allow_hyphen_values = true)]
    #[arg(help_heading = "Test")]
    times: u64,
    /// Longest wait for a whole answer, connect included
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    #[arg(help_heading = "Test")]
    timeout: Duration,
    /// Print the Test Anything Protocol (TAP 13)
    #[arg(long)]
    #[arg(help_heading = "Result")]
    tap: bool,
    /// Write JUnit XML; - is stdout, in place of the text
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = "Result")]
    junit: Option<PathBuf>,
    /// Of the text only what failed
    #[arg(short, long)]
    #[arg(help_heading = "Result")]
    quiet: bool,
    /// What is random about the users of an earlier run once more
    #[arg(long, value_name = "N")]
    #[arg(help_heading = "Test")]
    seed: Option<u64>,
    #[command(flatten)]
    users: users::Users,
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    transport: Transport,
}

const EXAMPLES: &str = "\
Examples:
  drom check shop.toml                       every way once
  prove --exec 'drom check --tap' shop.toml
  drom check shop.toml --junit report.xml --var base=http://127.0.0.1:8080
  drom check http://127.0.0.1:8080 --urls list.txt";

const MORE: &str = "\n\nScenarios and their checks are described in docs/scenario.md.";

pub fn run(args: &Args) -> Exit {
    let done = measure(args).and_then(|(plan, outcome)| report(args, &plan, &outcome));
    done.unwrap_or_else(|Failure { message, exit }| {
        say::line(format!("drom check: {message}"));
        if exit != Exit::Usage {
            give_up(args, &message);
        }
        exit
    })
}

/// Who reads the forms for programs is told, too, that there was no test. What cannot be written
/// then is not worth another word.
fn give_up(args: &Args, message: &str) {
    let (name, judged) = (args.what.as_deref().unwrap_or_default(), [Judged::given_up(message)]);
    let _ = tell_programs(args, name, &judged, || bail_out(message));
}

/// The file, and what standard output is for, where that is a program.
fn tell_programs(
    args: &Args,
    name: &str,
    judged: &[Judged],
    tap: impl FnOnce() -> String,
) -> Result<bool, Failure> {
    if let Some(path) = args.junit_file() {
        let written = fs::write(path, junit(name, judged));
        written.map_err(|error| failed(cannot_write(path, &error)))?;
    }
    let said = match &args.junit {
        Some(path) if path.as_os_str() == "-" => say::result(&junit(name, judged)),
        _ if args.tap => say::result(&tap()),
        _ => return Ok(false),
    };
    said.map(|()| true).map_err(cannot_print)
}

fn cannot_print(error: std::io::Error) -> Failure {
    failed(format!("cannot print the result: {error}"))
}

impl Args {
    fn junit_file(&self) -> Option<&Path> {
        self.junit.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

fn measure(args: &Args) -> Result<(Plan, Outcome), Failure> {
    let usage = |message| Failure { message, exit: Exit::Usage };
    if args.users.has_order() {
        let message = "every URL is asked as often as --times says; --order is for drom load";
        return Err(usage(message.to_owned()));
    }
    let plan = plan(args)?;
    if let Some(path) = args.junit_file() {
        openable(path).map_err(|error| usage(cannot_write(path, &error)))?;
    }
    let outcome = drom_load::run(&plan, super::load::watch_interrupts(), &mut |_| {})?;
    Ok((plan, outcome))
}

/// One user, who goes every way in its turn; of a list or a log every line.
fn plan(args: &Args) -> Result<Plan, Failure> {
    let cast = args.users.cast(args.what.as_deref(), &args.request, UrlOrder::Each)?;
    let Some(mut cast) = cast else {
        let what = args.what.as_deref().unwrap_or_default();
        let message = format!("{what:?} is no scenario; drom load loads a URL");
        return Err(Failure { message, exit: Exit::Usage });
    };
    cast.times_ns = None;
    let (flows, rows) = (cast.scenario.flows().len(), cast.rows());
    let rounds = args.times.saturating_mul((flows * rows) as u64);
    let targets = cast.targets(&args.transport)?;
    let plan = args.transport.apply(Plan {
        connections: 1,
        stop: Stop::Requests(rounds),
        timeout: args.timeout,
        ..Plan::get(targets[0].clone())
    });
    let seed = args.seed.unwrap_or_else(drom_observe::clock::monotonic_ns);
    let part = users::Part { seed, rounds: Some(rounds), duration: None };
    let mut plan = cast.plan(plan, targets, &part);
    plan.scene.iter_mut().for_each(|scene| scene.is_test = true);
    args.transport.check_files(&plan)?;
    Ok(plan)
}

fn report(args: &Args, plan: &Plan, outcome: &Outcome) -> Result<Exit, Failure> {
    let mut judged = outcome.scene.as_ref().map_or_else(Vec::new, |tally| tally.judged.clone());
    if outcome.interrupted {
        judged.push(Judged::cut());
    }
    let judged = &judged[..];
    let name = plan.scene.as_ref().map_or("", |scene| &scene.scenario.name);
    if !tell_programs(args, name, judged, || tap(judged))? {
        let words = text(judged, args.quiet, Paint::for_stdout());
        say::words(&words).map_err(cannot_print)?;
    }
    if let Some(words) = ended_early(plan, outcome) {
        say::line(format!("drom check: {words}"));
    }
    if judged.is_empty() {
        return Err(failed(
            "nothing was asked: no step of the scenario sends a request".to_owned(),
        ));
    }
    let is_good = judged.iter().all(is_good);
    Ok(match (outcome.interrupted, is_good) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::Missed,
    })
}

/// That there were fewer rounds than were asked for.
fn ended_early(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let (scene, tally) = steps::both(plan, outcome)?;
    let feeder = steps::exhausted(scene, tally)?;
    let Stop::Requests(wanted) = plan.stop else { return None };
    let done = tally.rounds.done;
    (done < wanted).then(|| {
        format!("{done} of {wanted} rounds: then the rows of {feeder} were all taken (`once`)")
    })
}

/// A line for each answer, and below it what is not as it should be.
fn text(judged: &[Judged], quiet: bool, paint: Paint) -> String {
    let mut out = String::new();
    for step in judged.iter().filter(|step| !quiet || !is_good(step)) {
        let took = step.took_ns.map_or_else(|| "-".to_owned(), |ns| time_us(ns as f64 / 1e3));
        let name = drom_report::format::plain(&step.step);
        let (verdict, why) = match &step.skipped {
            Some(why) => (paint.skipped(), format!(": {}", drom_report::format::plain(why))),
            None => (paint.verdict(is_good(step)), String::new()),
        };
        put(&mut out, format_args!("{verdict} {took:>10}  {name}{why}\n"));
        for (check, found) in wrong(step) {
            put(&mut out, format_args!("{:18}{check}: {found}\n", ""));
        }
    }
    let (checks, failed) = counts(judged);
    let skipped = judged.iter().filter(|step| step.skipped.is_some()).count();
    let missing = judged.iter().filter(|step| step.error.is_some()).count();
    let answers = judged.len() - missing - skipped;
    let besides = |count: usize, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let missing = besides(missing, "missing") + &besides(skipped, "skipped");
    let (answers, checks) = (number_of(answers as u64, "answer"), number_of(checks, "check"));
    put(&mut out, format_args!("{answers}{missing}; {checks}, {failed} failed\n"));
    out
}

/// What is wrong with it, and what was there instead.
fn wrong(step: &Judged) -> impl Iterator<Item = (String, String)> {
    let plain = |text: &str| drom_report::format::plain(text);
    let error = step.error.iter().map(move |error| ("no answer".to_owned(), plain(error)));
    let failed = step.checks.iter().filter_map(|check| Some((check, check.found.as_ref()?)));
    error.chain(failed.map(move |(check, found)| (plain(&check.name), plain(found))))
}

/// All checks, and those that failed.
fn counts(judged: &[Judged]) -> (u64, u64) {
    let checks = judged.iter().flat_map(|step| &step.checks);
    let failed = checks.clone().filter(|check| check.found.is_some());
    (checks.count() as u64, failed.count() as u64)
}

fn is_good(step: &Judged) -> bool {
    step.error.is_none()
        && step.skipped.is_none()
        && step.checks.iter().all(|check| check.found.is_none())
}

fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("a string takes all");
}

fn failed(message: String) -> Failure {
    Failure { message, exit: Exit::Failed }
}
