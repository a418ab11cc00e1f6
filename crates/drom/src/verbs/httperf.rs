//! `drom httperf`, or the program when its name is that: from httperf's command line to a run of
//! the engine, from its records to httperf's report.
//!
//! What its words and figures are is `drom-classics`' business.

use std::{ffi::OsString, net::IpAddr, process::ExitCode, time::Duration};

use drom_classics::{
    Refusal,
    httperf::{self, Asked, Cpu, Figures, Options},
};
use drom_load::{Outcome, Pace, Plan, Stop, Target};

use super::classic;

/// httperf's command line and report, on this engine (see drom httperf --help)
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// As httperf takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub words: Vec<OsString>,
}

const TOOL: &str = "httperf";
const STATUS_FAILED: u8 = 1;
/// At once, with a rate and without --max-connections.
const CONNECTIONS_MAX: u64 = 1_000;

pub fn run(words: Vec<OsString>) -> ExitCode {
    let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let version = concat!("httperf-0.9.0's command line in drom ", env!("CARGO_PKG_VERSION"), "\n");
    classic::exit(match httperf::parse(&words) {
        Ok(Asked::Run(options)) => load(&options),
        Ok(Asked::Help) => classic::print(TOOL, httperf::USAGE),
        Ok(Asked::Version) => classic::print(TOOL, version),
        Err(refusal) => Err(refusal),
    })
}

fn load(options: &Options) -> Result<u8, Refusal> {
    if let Some(what) = missing(options) {
        return Err(refused(&format!("{what} is not built yet")));
    }
    let request = httperf::request(options);
    let plan = plan(options, request.clone())?;
    classic::print(TOOL, &httperf::echo(options))?;
    let before = cpu();
    let outcome = drom_load::run(&plan, super::load::watch_interrupts(), &mut |_| {});
    let outcome = outcome.map_err(|error| refused(&error.to_string()))?;
    let after = cpu();
    let used =
        Cpu { user_s: after.user_s - before.user_s, system_s: after.system_s - before.system_s };
    let (records, bytes) = (&outcome.records, request.len() as u64);
    let figures = Figures::of(options, records, bytes, burst(&outcome), used);
    classic::print(TOOL, &httperf::report(&figures))?;
    if options.native {
        let url = format!("http://{}:{}{}", options.server, options.port, options.uri);
        classic::print(TOOL, &format!("\n{}", super::load::native(&url, &plan, &outcome)))?;
    }
    Ok(0)
}

fn refused(what: &str) -> Refusal {
    Refusal::new(STATUS_FAILED, format!("{TOOL}: {what}\n"))
}

/// What the engine cannot do yet.
fn missing(options: &Options) -> Option<String> {
    if let Some(name) = options.missing.first() {
        return Some(format!("--{name}"));
    }
    let both = options.rate > 0.0 && options.num_calls > 1;
    both.then(|| "--rate with --num-calls above 1".to_owned())
}

fn plan(options: &Options, request: Vec<u8>) -> Result<Plan, Refusal> {
    let (conns, calls) = (options.num_conns, options.num_calls);
    if conns == 0 || calls == 0 {
        return Err(refused("at least one connection with one call is needed"));
    }
    let found = Target::resolve(&format!("http://{}:{}/", options.server, options.port));
    let target = found.map_err(|error| refused(&error.to_string()))?;
    // With a rate each connection carries one call; without, they come one after the other.
    let keepalive = calls > 1;
    let pace = (options.rate > 0.0).then(|| {
        let lasts = Duration::from_secs_f64((conns as f64 - 0.5) / options.rate);
        Pace::steady(options.rate, lasts)
    });
    let most = options.max_connections.map_or(conns.min(CONNECTIONS_MAX), u64::from);
    Ok(Plan {
        connections: if pace.is_some() { most as u32 } else { 1 },
        stop: match &pace {
            Some(pace) => Stop::After(pace.duration()),
            None => Stop::Requests(conns.saturating_mul(calls)),
        },
        pace,
        keepalive,
        answers_per_connection: keepalive.then_some(calls),
        method: options.method.clone().unwrap_or_else(|| "GET".to_owned()),
        timeout: options.timeout(),
        records_max: usize::MAX,
        raw_request: Some(request),
        sources: source(options)?.into_iter().collect(),
        buffer_bytes: Some((options.send_buffer, options.recv_buffer)),
        ..Plan::get(Target { path: options.uri.clone(), ..target })
    })
}

fn source(options: &Options) -> Result<Option<IpAddr>, Refusal> {
    let Some(address) = &options.myaddr else { return Ok(None) };
    let what = || refused(&format!("--myaddr {address}: one address is built, no name or range"));
    address.parse().map(Some).map_err(|_| what())
}

/// The most connections that began together.
fn burst(outcome: &Outcome) -> u64 {
    outcome.open.as_ref().map_or(0, |open| open.burst_max)
}

/// What this process has used so far.
fn cpu() -> Cpu {
    // SAFETY: an all-zero rusage is a valid one, and it lives through the call that fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Cpu { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
}
