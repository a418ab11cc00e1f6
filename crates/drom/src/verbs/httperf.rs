//! `drom httperf`, or the program when its name is that: from httperf's command line to a run of
//! the engine, from its records to httperf's report.
//!
//! What its words and figures are is `drom-classics`' business.

use std::{ffi::OsString, net::IpAddr, path::Path, process::ExitCode, sync::Arc, time::Duration};

use drom_classics::{
    Refusal,
    httperf::{self, Asked, Calls, Cpu, Figures, Options},
};
use drom_load::{
    Arrivals, OnClose, Outcome, Pace, Plan, Raw, Scene, Stage, Stop, Target, Trust, Version,
};
use drom_observe::usage::Usage;
use drom_scenario::Scenario;

use super::classic;
use crate::say;

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

/// Behind the last begin of those that are planned one by one.
const LAST: Duration = Duration::from_millis(1);

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
    let calls = calls(options)?;
    let plan = plan(options, &calls)?;
    classic::print(TOOL, &httperf::echo(options))?;
    let (outcome, cpu) = measure(options, &plan)?;
    print_requests(options, &calls.requests, &outcome)?;
    let figures = Figures::of(options, &outcome.records, &calls, burst(&outcome), cpu);
    classic::print(TOOL, &httperf::report(&figures))?;
    if options.native {
        let url = format!("{}{}", root(options), options.uri.trim_start_matches('/'));
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
    // The first call of a session's burst is alone, so that two are one after the other.
    let is_alone = options.burst_length <= if options.wsess.is_some() { 2 } else { 1 };
    let has_list = options.wset.is_some() || options.wlog.is_some();
    (has_list && !is_alone).then(|| "--burst-length with a list of URIs".to_owned())
}

fn calls(options: &Options) -> Result<Calls, Refusal> {
    let uris = options.wlog.as_ref().map(|wlog| read(&wlog.file)).transpose()?;
    if let (Some(wlog), Some("")) = (&options.wlog, uris.as_deref().map(|u| u.trim_matches('\0'))) {
        return Err(refused(&format!("no URI in {}", wlog.file)));
    }
    let sessions = options.wsesslog.as_ref().map(|log| {
        read(&log.file).and_then(|text| httperf::sessions(&text, &log.file, log.think_s))
    });
    let sessions = sessions.transpose()?.unwrap_or_default();
    Ok(Calls::of(options, uris.as_deref().unwrap_or_default(), &sessions))
}

fn read(file: &str) -> Result<String, Refusal> {
    let text = std::fs::read_to_string(file);
    text.map_err(|error| refused(&format!("can't open {file}: {}", classic::said(&error))))
}

fn plan(options: &Options, calls: &Calls) -> Result<Plan, Refusal> {
    let (rounds, per_round) = (calls.rounds, calls.length_max());
    if rounds == 0 || per_round == 0 {
        return Err(refused("at least one connection with one call is needed"));
    }
    let found = Target::resolve(&root(options));
    let target = found.map_err(|error| refused(&error.to_string()))?;
    let has_scene = !calls.scenario.is_empty();
    let scene = has_scene.then(|| scene(options, calls, &target)).transpose()?;
    let keepalive = per_round > 1;
    let pace = pace(options, rounds);
    let most = options.max_connections.filter(|_| !options.is_sessions());
    let most = most.map_or(rounds.min(CONNECTIONS_MAX), u64::from);
    let in_bursts = if scene.is_none() { u64::from(options.burst_length) } else { 1 };
    Ok(Plan {
        connections: if pace.is_some() { most as u32 } else { 1 },
        depth: in_bursts.clamp(1, per_round) as u32,
        stop: match (&pace, &scene) {
            (Some(pace), _) => Stop::After(pace.duration()),
            (None, Some(_)) => Stop::Requests(rounds),
            (None, None) => Stop::Requests(rounds.saturating_mul(per_round)),
        },
        pace,
        scene,
        keepalive,
        version: if options.http_version == (1, 0) { Version::Http10 } else { Version::Http11 },
        answers_per_connection: (keepalive && !has_scene).then_some(per_round),
        method: options.method.clone().unwrap_or_else(|| "GET".to_owned()),
        trust: trust(options)?,
        timeout: options.timeout(),
        records_max: usize::MAX,
        counts_refusals: true,
        raw_request: Some(httperf::request(options)),
        sources: source(options)?.into_iter().collect(),
        buffer_bytes: Some((options.send_buffer, options.recv_buffer)),
        ..Plan::get(Target { path: options.uri.clone(), ..target })
    })
}

fn root(options: &Options) -> String {
    let scheme = if options.ssl { "https" } else { "http" };
    format!("{scheme}://{}:{}/", options.host(), options.port)
}

/// httperf believes any certificate.
fn trust(options: &Options) -> Result<Trust, Refusal> {
    let files = match (&options.ssl_certificate, &options.ssl_key) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err(refused("--ssl-certificate and --ssl-key go together")),
    };
    Ok(Trust { insecure: true, client_files: files, suites: suites(options)?, ..Trust::default() })
}

/// Those that `--ssl-ciphers` names.
fn suites(options: &Options) -> Result<Option<Vec<String>>, Refusal> {
    let Some(list) = options.ssl_ciphers.as_deref().filter(|_| options.ssl) else {
        return Ok(None);
    };
    let (found, others) = drom_classics::suites(list);
    if found.is_empty() {
        return Err(refused(&format!("--ssl-ciphers={list}: none is spoken here")));
    }
    let said = |word: &&str| say::line(format!("{TOOL}: --ssl-ciphers: no {word}, it is left out"));
    others.iter().for_each(said);
    Ok(Some(found))
}

/// When connections or sessions begin.
fn pace(options: &Options, rounds: u64) -> Option<Pace> {
    if options.rate <= 0.0 {
        return None;
    }
    let Some(period) = options.period else {
        let lasts = Duration::from_secs_f64(rounds as f64 / options.rate);
        return Some(Pace::steady(options.rate, lasts));
    };
    let starts_ns = period.starts_ns(rounds, options.client.0);
    let lasts = Duration::from_nanos(starts_ns.last().copied().unwrap_or(0)) + LAST;
    let stages = vec![Stage::steady(lasts, options.rate)];
    Some(Pace { arrivals: Arrivals::Recorded(starts_ns.into()), stages })
}

/// httperf writes the next call into a connection that the server has closed, which is a connreset.
/// A connection's other calls are not made then, a session's are on another one.
fn on_close(options: &Options) -> OnClose {
    match (options.is_sessions(), options.http_version) {
        (false, _) => OnClose::Fail,
        (true, (1, 0)) => OnClose::Reconnect,
        (true, _) => OnClose::Repeat,
    }
}

fn scene(options: &Options, calls: &Calls, target: &Target) -> Result<Scene, Refusal> {
    let rows = calls.rows();
    let file = |_: &Path| Ok(rows.clone().into_bytes());
    let scenario = Scenario::parse(&calls.scenario, Path::new(TOOL), &[], &file);
    let scenario = scenario.map_err(|error| refused(&error.to_string()))?;
    Ok(Scene {
        scenario: Arc::new(scenario),
        targets: vec![target.clone()],
        seed: 1,
        finishes_rounds: true,
        is_test: false,
        connects_for_rounds: true,
        on_close: on_close(options),
        raw: Some(Raw { requests: calls.requests.clone(), bursts: calls.bursts.clone() }),
    })
}

fn measure(options: &Options, plan: &Plan) -> Result<(Outcome, Cpu), Refusal> {
    let stop = super::load::watch_interrupts();
    if let Some(seconds) = options.runtime.filter(|seconds| (0.0..1e7).contains(seconds)) {
        classic::stop_after(Duration::from_secs_f64(seconds), stop);
    }
    let before = cpu();
    let outcome = drom_load::run(plan, stop, &mut |_| {});
    let outcome = outcome.map_err(|error| refused(&error.to_string()))?;
    let after = cpu();
    let used =
        Cpu { user_s: after.user_s - before.user_s, system_s: after.system_s - before.system_s };
    Ok((outcome, used))
}

/// Those that were sent, in the order of their begins.
fn print_requests(
    options: &Options,
    requests: &[Vec<u8>],
    outcome: &Outcome,
) -> Result<(), Refusal> {
    let Some(part) = options.print_request else { return Ok(()) };
    let sent = outcome.records.iter().filter(|record| record.exchange.ready_ns > 0);
    let mut sent: Vec<(u64, u32)> =
        sent.map(|record| (record.exchange.written_ns, record.exchange.row)).collect();
    sent.sort_unstable();
    let rows = sent.iter().filter_map(|(_, row)| requests.get(*row as usize));
    let rows: Vec<&[u8]> = rows.map(|request| &request[..]).collect();
    classic::print(TOOL, &httperf::printed(part, &rows)).map(drop)
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
    let Usage { user_s, system_s, .. } = Usage::own();
    Cpu { user_s, system_s }
}
