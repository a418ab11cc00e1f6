//! `drom http_load`, or the program when its name is that: from http_load's command line to a run
//! of the engine, from its records to http_load's report.
//!
//! What its words and figures are is `drom-classics`' business.

use std::{ffi::OsString, net::IpAddr, process::ExitCode, time::Duration};

use drom_classics::{
    Refusal,
    http_load::{self, Asked, End, Figures, Options, Start, Url},
};
use drom_load::{Arrivals, Outcome, Pace, Plan, Stage, Stop, Target};

use super::classic;
use crate::say;

/// http_load's command line and report, on this engine (see drom http_load --help)
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// As http_load takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub words: Vec<OsString>,
}

const TOOL: &str = "http_load";
const STATUS_FAILED: u8 = 1;
/// At once, with a rate. http_load had as many as select(2) could watch.
const CONNECTIONS_MAX: u64 = 1_000;
/// Between two lines of `-verbose`.
const PROGRESS_EVERY: Duration = Duration::from_secs(60);

pub fn run(words: Vec<OsString>) -> ExitCode {
    let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    classic::exit(match http_load::parse(&words) {
        Ok(Asked::Run(options)) => load(&options),
        Ok(Asked::Help) => classic::print(TOOL, http_load::USAGE),
        Err(refusal) => Err(refusal),
    })
}

fn load(options: &Options) -> Result<u8, Refusal> {
    let urls = http_load::urls(&options.url_file, &read(&options.url_file)?)?;
    let url = &urls[0];
    if let Some(what) = missing(options, &urls) {
        return Err(refused(format!("{what} is not built yet")));
    }
    let plan = plan(options, url)?;
    let outcome = measure(options, &plan)?;
    say::part(http_load::complaints(&url.full, &outcome.records));
    classic::print(TOOL, &http_load::report(&Figures::of(options, &outcome.records)))?;
    if options.native {
        classic::print(TOOL, &format!("\n{}", super::load::native(&url.full, &plan, &outcome)))?;
    }
    Ok(0)
}

fn read(file: &str) -> Result<String, Refusal> {
    let read = std::fs::read_to_string(file);
    read.map_err(|error| {
        Refusal::new(STATUS_FAILED, format!("{file}: {}\n", classic::said(&error)))
    })
}

/// What the engine cannot do yet.
fn missing(options: &Options, urls: &[Url]) -> Option<&'static str> {
    let first = &urls[0];
    if urls.iter().any(|url| url.full != first.full) {
        Some("a file with several URLs")
    } else if first.tls || options.cipher.is_some() {
        Some("https")
    } else if options.throttle_bps.is_some() {
        Some("-throttle")
    } else if options.jitter {
        Some("-jitter")
    } else if options.checksum {
        Some("-checksum")
    } else {
        None
    }
}

fn refused(what: String) -> Refusal {
    Refusal::new(STATUS_FAILED, format!("{TOOL}: {what}\n"))
}

fn plan(options: &Options, url: &Url) -> Result<Plan, Refusal> {
    let (host, port) = match &options.proxy {
        Some((host, port)) => (host, *port),
        None => (&url.host, url.port),
    };
    let found = Target::resolve(&format!("http://{host}:{port}/"));
    let target = found.map_err(|error| refused(error.to_string()))?;
    let (connections, pace, stop) = load_of(options);
    Ok(Plan {
        connections,
        pace,
        stop,
        keepalive: false,
        timeout: options.timeout,
        records_max: usize::MAX,
        raw_request: Some(http_load::request(options, url)),
        sources: source(options)?.into_iter().collect(),
        ..Plan::get(Target { path: url.path.clone(), ..target })
    })
}

/// How many connections, when fetches start, and until when.
fn load_of(options: &Options) -> (u32, Option<Pace>, Stop) {
    let until = match options.end {
        End::Seconds(seconds) => Stop::After(Duration::from_secs(seconds)),
        End::Fetches(fetches) => Stop::Requests(fetches),
    };
    let (connections, interval_ms) = match (options.start, options.interval_ms()) {
        (Start::Parallel(connections), _) => return (connections, None, until),
        (_, interval_ms) => (CONNECTIONS_MAX as u32, interval_ms.unwrap_or(1)),
    };
    let lasts = match until {
        Stop::After(duration) => duration,
        // Half an interval less, so that the last start is surely in it and no other is.
        Stop::Requests(fetches) => Duration::from_micros(interval_ms * (1_000 * fetches - 500)),
    };
    let stages = vec![Stage::steady(lasts, 1_000.0 / interval_ms as f64)];
    (connections, Some(Pace { arrivals: Arrivals::Constant, stages }), Stop::After(lasts))
}

fn source(options: &Options) -> Result<Option<IpAddr>, Refusal> {
    let Some(file) = &options.sip else { return Ok(None) };
    let text = read(file)?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else { return Err(refused(format!("no address in {file}"))) };
    if lines.any(|other| other.trim() != line.trim()) {
        return Err(refused("a -sip file of several addresses is not built yet".to_owned()));
    }
    let address = line.trim().parse();
    address.map(Some).map_err(|_| refused(format!("{file}: {line} is no address")))
}

fn measure(options: &Options, plan: &Plan) -> Result<Outcome, Refusal> {
    let stop = super::load::watch_interrupts();
    let mut due = PROGRESS_EVERY;
    let outcome = drom_load::run(plan, stop, &mut |now| {
        if options.verbose && now.elapsed >= due {
            due += PROGRESS_EVERY;
            let (seconds, done) = (now.elapsed.as_secs(), now.requests);
            say::line(format!("--- {seconds} secs, {done} fetches completed"));
        }
    });
    outcome.map_err(|error| refused(error.to_string()))
}
