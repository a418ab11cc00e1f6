//! `drom ab`, or the program when its name is `ab`: from ab's command line to a run of the engine,
//! from its records to ab's report, files and exit status.
//!
//! What ab's words and figures are is `drom-classics`' business; here is what touches the world.

use std::{
    ffi::OsString,
    net::{IpAddr, ToSocketAddrs},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_classics::{
    Refusal,
    ab::{self, Asked, Figures, Options},
};
use drom_load::{Address, Error, ErrorKind, Outcome, Plan, Record, Stop, Target, Trust, Version};

use super::classic::{self, code_of, said};
use crate::say;

/// ApacheBench's command line and report, on this engine (see drom ab --help)
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// As ab takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub words: Vec<OsString>,
}

/// What ab's exit status is when the wait for an answer ends a run: APR's code, cut to a byte.
const STATUS_TIMEOUT: u8 = (70_007 % 256) as u8;
/// The same of a name that cannot be resolved.
const STATUS_UNRESOLVED: u8 = (670_002 % 256) as u8;
const STATUS_INTERRUPTED: u8 = 1;
const STATUS_FAILED: u8 = 1;

pub fn run(words: Vec<OsString>) -> ExitCode {
    let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let ended = match ab::parse(&words) {
        Ok(Asked::Run(options)) => load(&options),
        Ok(Asked::Version { html }) => classic::print("ab", &ab::banner(html)),
        Ok(Asked::Help) => classic::print("ab", &(ab::HELP.to_owned() + &ab::usage())),
        Err(refusal) => Err(refusal),
    };
    classic::exit(ended)
}

fn load(options: &Options) -> Result<u8, Refusal> {
    let trust = trust(options)?;
    let request = ab::request(options, &body(options)?);
    let html = options.html.is_some();
    classic::print("ab", &ab::banner(html))?;
    if !html {
        classic::print("ab", &ab::benchmarking(options))?;
    }
    let plan = Plan { trust, ..plan(options, request.clone())? };
    let (outcome, is_interrupted) = measure(options, &plan)?;
    let log = ab::log(options, &request, &outcome);
    classic::print("ab", &log)?;
    let figures = Figures::of(options, &outcome, request.len() as u64);
    told_of_end(options, &outcome)?;
    finish(options, &figures, is_interrupted)?;
    if options.native {
        let url = &options.url.full;
        classic::print("ab", &format!("\n{}", super::load::native(url, &plan, &outcome)))?;
    }
    Ok(if is_interrupted { STATUS_INTERRUPTED } else { 0 })
}

fn body(options: &Options) -> Result<Vec<u8>, Refusal> {
    let Some(file) = &options.body else { return Ok(Vec::new()) };
    std::fs::read(file).map_err(|error| {
        let why = said(&error);
        let what = format!("ab: Could not open POST data file ({file}): {why}\n");
        Refusal::new(STATUS_FAILED, what)
    })
}

/// ab believes any certificate, and takes no session up again.
fn trust(options: &Options) -> Result<Trust, Refusal> {
    let tls = &options.tls;
    let refused = |what: String| Err(Refusal::new(STATUS_FAILED, format!("ab: {what}\n")));
    let version = match tls.protocol.as_deref().map(ab::version) {
        Some(Err(word)) => return refused(format!("-f {word}: TLS 1.2 and 1.3 are built")),
        Some(Ok(version)) => version,
        None => None,
    };
    let list = tls.ciphers.as_deref().filter(|_| options.url.tls);
    let named = list.map(ab::suites);
    if let Some((found, others)) = &named {
        if found.is_empty() {
            let what =
                format!("error setting cipher list [{}]: none is spoken here", others.join(":"));
            return refused(what);
        }
        others.iter().for_each(|word| say::line(format!("ab: -Z {word}: not spoken, left out")));
    }
    let files = tls.certificate.as_ref().map(|file| (file.into(), file.into()));
    Ok(Trust {
        insecure: true,
        client_files: files,
        no_sni: tls.no_sni,
        only: version,
        suites: named.map(|(found, _)| found),
        ..Trust::default()
    })
}

fn plan(options: &Options, request: Vec<u8>) -> Result<Plan, Refusal> {
    let url = &options.url;
    let target = target(options).map_err(|error| refusal(options, &error))?;
    Ok(Plan {
        connections: options.concurrency,
        stop: Stop::Requests(options.requests),
        method: options.method.clone(),
        keepalive: options.keepalive,
        version: Version::Http10,
        keeps_when_told: true,
        timeout: options.timeout,
        counts_refusals: options.goes_on,
        records_max: usize::try_from(options.requests).unwrap_or(usize::MAX),
        raw_request: Some(request),
        ends_with: Some(ab::ends_run(options.goes_on)),
        sources: source(options, &target)?.into_iter().collect(),
        buffer_bytes: options.buffer_bytes.map(|bytes| (bytes, bytes)),
        ..Plan::get(Target { path: url.path.clone(), ..target })
    })
}

fn target(options: &Options) -> Result<Target, Error> {
    let url = &options.url;
    let proxy = options.proxy.as_ref().map(|(host, port)| (&**host, *port));
    let (host, port) = proxy.filter(|_| !url.tls).unwrap_or((&url.host, url.port));
    let full = format!("http{}://{host}:{port}/", if url.tls { "s" } else { "" });
    match proxy.filter(|_| url.tls) {
        Some(proxy) => classic::through(proxy, &full, ab::tunnel(options)),
        None => Target::resolve(&full),
    }
}

fn source(options: &Options, target: &Target) -> Result<Option<IpAddr>, Refusal> {
    let Some(name) = &options.bind else { return Ok(None) };
    let is_v4 = matches!(&target.address, Address::Tcp(address) if address.is_ipv4());
    let wanted = |ip: &IpAddr| ip.is_ipv4() == is_v4;
    let found = (&**name, 0).to_socket_addrs().ok();
    let source = found.and_then(|mut all| all.find(|address| wanted(&address.ip())));
    let what = || format!("ab: -B {name}: that is no address of ours to bind to\n");
    source.map(|s| Some(s.ip())).ok_or_else(|| Refusal::new(STATUS_UNRESOLVED, what()))
}

/// The outcome, and whether Ctrl-C ended the run: the end of `-t` comes by the same way.
fn measure(options: &Options, plan: &Plan) -> Result<(Outcome, bool), Refusal> {
    static TIME_IS_UP: AtomicBool = AtomicBool::new(false);
    let stop = super::load::watch_interrupts();
    if let Some(limit) = options.limit {
        stop_after(limit, stop, &TIME_IS_UP);
    }
    let mut progress = Progress { every: options.heartbeat, told: 0 };
    let outcome = drom_load::run(plan, stop, &mut |now| progress.tell(now.requests));
    let outcome = outcome.map_err(|error| refusal(options, &error))?;
    progress.tell(outcome.sent - outcome.in_flight);
    Ok((outcome, stop.load(Relaxed) && !TIME_IS_UP.load(Relaxed)))
}

fn stop_after(limit: Duration, stop: &'static AtomicBool, is_up: &'static AtomicBool) {
    std::thread::spawn(move || {
        drom_observe::clock::sleep(limit);
        is_up.store(!stop.load(Relaxed), Relaxed);
        stop.store(true, Relaxed);
    });
}

/// "Completed 100 requests": told once a second, all that are due.
struct Progress {
    every: Option<u64>,
    told: u64,
}

impl Progress {
    fn tell(&mut self, requests: u64) {
        let Some(every) = self.every else { return };
        while self.told + every <= requests {
            self.told += every;
            say::part(ab::progress_line(self.told));
        }
    }
}

/// Nothing but the reason is told of a run that an error ended.
fn told_of_end(options: &Options, outcome: &Outcome) -> Result<(), Refusal> {
    let ends = ab::ends_run(options.goes_on);
    let Some(last) = outcome.records.iter().rev().find(|record| ends(record)) else {
        return Ok(());
    };
    let (status, why) = end_of(last);
    let is_done = |record: &&Record| !ends(record) && record.error != Some(ErrorKind::Connect);
    let done = outcome.records.iter().filter(is_done).count();
    if done > 0 {
        classic::print("ab", &format!("Total of {done} requests completed\n"))?;
    }
    Err(Refusal::new(status, format!("{why}\n")))
}

fn end_of(record: &Record) -> (u8, String) {
    match record.os_error {
        Some(code) if record.error != Some(ErrorKind::Timeout) => broken("apr_socket_recv", code),
        _ => {
            let what = "apr_pollset_poll: The timeout specified has expired (70007)";
            (STATUS_TIMEOUT, what.to_owned())
        }
    }
}

/// As APR says it: the call, the system's words, its number; the status is the number.
fn broken(call: &str, code: i32) -> (u8, String) {
    let words = said(&std::io::Error::from_raw_os_error(code));
    (code as u8, format!("{call}: {words} ({code})"))
}

fn refusal(options: &Options, error: &Error) -> Refusal {
    let (status, what) = match (error, code_of(error)) {
        (Error::Resolve { host, .. }, _) => {
            let why = "Name or service not known (670002)";
            (STATUS_UNRESOLVED, format!("apr_sockaddr_info_get() for {host}: {why}"))
        }
        (_, Some(libc::EADDRNOTAVAIL)) if options.bind.is_some() => {
            broken("bind", libc::EADDRNOTAVAIL)
        }
        (_, Some(code)) => broken("apr_socket_recv", code),
        _ => (STATUS_FAILED, format!("ab: {error}")),
    };
    Refusal::new(status, format!("{what}\n"))
}

/// The report and the files.
fn finish(options: &Options, figures: &Figures, is_interrupted: bool) -> Result<(), Refusal> {
    if !is_interrupted {
        match options.heartbeat {
            Some(_) => say::part(format!("Finished {} requests\n", figures.done)),
            None => drop(classic::print("ab", "..done\n")?),
        }
    }
    if options.html.is_some() {
        return classic::print("ab", &ab::html_report(options, figures)).map(drop);
    }
    classic::print("ab", &ab::text_report(options, figures))?;
    if figures.done == 0 {
        return Ok(());
    }
    if let Some(file) = &options.csv {
        write("CSV", file, &ab::percentile_csv(figures))?;
    }
    if let Some(file) = &options.gnuplot {
        write("gnuplot", file, &ab::gnuplot(figures, classic::wall_clock()))?;
    }
    Ok(())
}

fn write(kind: &str, file: &str, text: &str) -> Result<(), Refusal> {
    std::fs::write(file, text).map_err(|error| {
        let why = said(&error);
        Refusal::new(STATUS_FAILED, format!("Cannot open {kind} output file: {why}\n"))
    })
}
