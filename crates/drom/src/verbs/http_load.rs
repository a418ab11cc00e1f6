//! `drom http_load`, or the program when its name is that: from http_load's command line to a run
//! of the engine, from its records to http_load's report.
//!
//! What its words and figures are is `drom-classics`' business.

use std::{ffi::OsString, net::IpAddr, path::Path, process::ExitCode, sync::Arc, time::Duration};

use drom_classics::{
    Refusal,
    http_load::{self, Asked, End, Figures, Options, Start, Url},
};
use drom_load::{Arrivals, Outcome, Pace, Plan, Raw, Scene, Stage, Stop, Target, Trust, Version};
use drom_scenario::{Scenario, UrlOrder};

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
/// And so many of each of them to each server of a list.
const PLACES_MAX: usize = 100_000;
/// Behind the last start of those that are planned one by one.
const LAST: Duration = Duration::from_millis(1);
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
    let plan = plan(options, &urls)?;
    let outcome = measure(options, &plan)?;
    say::part(http_load::complaints(options, &urls, &outcome.records));
    let stopped_s = outcome.interrupted.then_some(outcome.duration.as_secs_f64());
    let figures = Figures::of(options, &outcome.records, stopped_s);
    classic::print(TOOL, &http_load::report(&figures))?;
    if options.native {
        let what = if urls.len() > 1 { &options.url_file } else { &urls[0].full };
        classic::print(TOOL, &format!("\n{}", super::load::native(what, &plan, &outcome)))?;
    }
    Ok(0)
}

fn read(file: &str) -> Result<String, Refusal> {
    let failed = |what: String| Refusal::new(STATUS_FAILED, format!("{file}{what}\n"));
    let bytes =
        std::fs::read(file).map_err(|error| failed(format!(": {}", classic::said(&error))))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(format!(":{line}: a byte that is no UTF-8; write it as %XX"))
    })
}

fn refused(what: String) -> Refusal {
    Refusal::new(STATUS_FAILED, format!("{TOOL}: {what}\n"))
}

fn plan(options: &Options, urls: &[Url]) -> Result<Plan, Refusal> {
    let scene = if urls.len() > 1 { Some(scene(options, urls)?) } else { None };
    let target = target(options, urls[0].tls, (&urls[0].host, urls[0].port))?;
    let (connections, pace, stop) = load_of(options)?;
    let servers = scene.as_ref().map_or(1, |scene| scene.targets.len());
    let most = if pace.is_some() { PLACES_MAX / servers } else { usize::MAX };
    let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
    Ok(Plan {
        connections: connections.min(most),
        pace,
        stop,
        keepalive: false,
        version: Version::Http10,
        trust: Trust { insecure: true, suites: suites(options), ..Trust::default() },
        timeout: options.timeout,
        throttle: options.throttle_bps.map(|bps| bps as u64),
        sums_bodies: options.checksum,
        records_max: usize::MAX,
        raw_request: Some(http_load::request(options, &urls[0])),
        scene,
        sources: sources(options)?,
        ..Plan::get(Target { path: urls[0].path.clone(), ..target })
    })
}

/// Those that `-cipher` names; for other words the choice stays free, which is said.
fn suites(options: &Options) -> Option<Vec<String>> {
    let word = options.cipher.as_deref()?;
    let (found, others) = drom_classics::suites(word);
    others.iter().for_each(|word| say::part(http_load::cipher_note(word)));
    (!found.is_empty()).then_some(found)
}

/// Where fetches from there go.
fn target(options: &Options, tls: bool, place: (&str, u16)) -> Result<Target, Refusal> {
    let proxy = options.proxy.as_ref().map(|(host, port)| (&**host, *port));
    let (host, port) = proxy.filter(|_| !tls).unwrap_or(place);
    let host = &*drom_classics::host_in_url(host);
    let url = format!("http{}://{host}:{port}/", if tls { "s" } else { "" });
    let found = match proxy.filter(|_| tls) {
        Some(proxy) => classic::through(proxy, &url, drom_classics::tunnel(host, port, "")),
        None => Target::resolve(&url),
    };
    found.map_err(|error| refused(error.to_string()))
}

/// Several URLs: each fetch takes one at random, whatever was taken before.
fn scene(options: &Options, urls: &[Url]) -> Result<Scene, Refusal> {
    let (list, file) = (http_load::list(urls), Path::new(&options.url_file));
    let scenario = Scenario::of_urls(list.as_bytes(), file, None, UrlOrder::Random);
    let scenario = scenario.map_err(|error| refused(error.to_string()))?;
    let origins = scenario.origins().iter();
    let targets = origins.map(|origin| target(options, origin.secure, (&origin.host, origin.port)));
    let requests = urls.iter().map(|url| http_load::request(options, url));
    Ok(Scene {
        targets: targets.collect::<Result<_, _>>()?,
        scenario: Arc::new(scenario),
        seed: drom_observe::clock::monotonic_ns(),
        finishes_rounds: true,
        is_test: false,
        connects_for_rounds: false,
        on_close: drom_load::OnClose::default(),
        raw: Some(Raw::singly(requests.collect())),
    })
}

/// How many connections, when fetches start, and until when.
fn load_of(options: &Options) -> Result<(u32, Option<Pace>, Stop), Refusal> {
    let until = match options.end {
        End::Seconds(seconds) => Stop::After(Duration::from_secs(seconds)),
        End::Fetches(fetches) => Stop::Requests(fetches),
    };
    let (connections, interval_ms) = match (options.start, options.interval_ms()) {
        (Start::Parallel(connections), _) => return Ok((connections, None, until)),
        (_, interval_ms) => (CONNECTIONS_MAX as u32, interval_ms.unwrap_or(1)),
    };
    let (arrivals, lasts) = arrivals(options, until, interval_ms)?;
    let stages = vec![Stage::steady(lasts, 1_000.0 / interval_ms as f64)];
    Ok((connections, Some(Pace { arrivals, stages }), Stop::After(lasts)))
}

fn arrivals(
    options: &Options,
    until: Stop,
    interval_ms: u64,
) -> Result<(Arrivals, Duration), Refusal> {
    let even = match until {
        Stop::After(duration) => duration,
        Stop::Requests(fetches) => Duration::from_millis(interval_ms.saturating_mul(fetches)),
    };
    if !options.jitter {
        return Ok((Arrivals::Constant, even));
    }
    let starts_ns = options.jittered_ns(drom_observe::clock::monotonic_ns())?;
    let last_ns = starts_ns.last().copied().unwrap_or(0);
    let lasts = match until {
        Stop::After(duration) => duration,
        Stop::Requests(_) => Duration::from_nanos(last_ns) + LAST,
    };
    Ok((Arrivals::Recorded(starts_ns.into()), lasts))
}

/// The addresses of a file, one a line.
fn sources(options: &Options) -> Result<Vec<IpAddr>, Refusal> {
    let Some(file) = &options.sip else { return Ok(Vec::new()) };
    let text = read(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let address =
        |line: &str| line.parse().map_err(|_| refused(format!("{file}: {line} is no address")));
    let found = lines.map(address).collect::<Result<Vec<IpAddr>, _>>()?;
    if found.is_empty() { Err(refused(format!("no address in {file}"))) } else { Ok(found) }
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
