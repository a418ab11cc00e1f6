//! `drom record`: a proxy in front of a server that writes what passes as a scenario; and the same
//! from files in which others have recorded.

mod import;
mod tape;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_load::Trust;
use drom_observe::clock;
use drom_record::{Error, Filter, Options, Proxy, Seen};
use drom_report::format;
use drom_scenario::{WriteOptions, masked_url};

use self::tape::Tape;
use super::load::{count, watch_interrupts};
use crate::{
    exit::{self, Exit},
    say,
};

/// Write what a browser or a client does as a scenario
///
/// A proxy between the two: use its address where you would use the server's. Ctrl-C ends the
/// recording and writes it.
#[derive(clap::Args)]
#[command(after_help = exit::help("record", AFTER_HELP))]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct Args {
    /// The server to record, e.g. http://127.0.0.1:8080
    #[arg(long, value_name = "URL", group = "source")]
    #[arg(help_heading = "Source")]
    to: Option<String>,
    /// Where the proxy listens; port 0 is any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8888", value_parser = address)]
    #[arg(conflicts_with_all = NOT_PROXIED)]
    #[arg(help_heading = "Source")]
    listen: SocketAddr,
    /// Make a scenario of an HTTP archive (HAR), as browsers save it
    #[arg(long, value_name = "FILE", group = "source")]
    #[arg(help_heading = "Source")]
    from_har: Option<PathBuf>,
    /// Say what a replay of an access log (common or combined) would send
    #[arg(long, value_name = "FILE", group = "source")]
    #[arg(conflicts_with_all = ["output", "mask", "skip_type", "only"])]
    #[arg(help_heading = "Source")]
    from_log: Option<PathBuf>,
    /// Of an archive only requests to this host; with or without a port
    #[arg(long, value_name = "HOST", requires = "from_har")]
    #[arg(conflicts_with_all = ["to", "from_log"])]
    #[arg(help_heading = "Source")]
    host: Option<String>,
    /// Of a log also requests with other methods than GET and HEAD
    #[arg(long, requires = "from_log", conflicts_with_all = ["to", "from_har"])]
    #[arg(help_heading = "Source")]
    all_methods: bool,
    /// Write the scenario here; `-`, or no file, is standard output at the end
    #[arg(short, long, value_name = "FILE")]
    #[arg(help_heading = "Result")]
    output: Option<PathBuf>,
    /// Replace passwords, tokens, cookies and what else looks like a secret by variables
    #[arg(long)]
    #[arg(help_heading = "Result")]
    mask: bool,
    /// Leave answers of these media types out: 'image/*,text/css'
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',')]
    #[arg(help_heading = "Result")]
    skip_type: Vec<String>,
    /// Record only requests whose path begins so; can be repeated
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    #[arg(help_heading = "Result")]
    only: Vec<String>,
    /// End after so many recorded requests
    #[arg(short = 'n', long, value_parser = count::parse::<u64>, value_name = "N")]
    #[arg(allow_hyphen_values = true, requires = "to", conflicts_with_all = NOT_PROXIED)]
    #[arg(help_heading = "Result")]
    requests: Option<u64>,
    /// Pass Host, Origin and Referer on as the client sent them
    #[arg(long, requires = "to", conflicts_with_all = NOT_PROXIED)]
    #[arg(help_heading = "Connections")]
    keep_host: bool,
    /// Longest body of a request, in bytes, that is recorded
    #[arg(long, default_value = "1M", value_parser = count::parse::<u32>, value_name = "BYTES")]
    #[arg(allow_hyphen_values = true)]
    #[arg(help_heading = "Result")]
    max_body: u32,
    /// Take any certificate of the server
    #[arg(long, conflicts_with = "cacert", conflicts_with_all = NOT_PROXIED)]
    #[arg(help_heading = "Connections")]
    insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_PROXIED)]
    #[arg(help_heading = "Connections")]
    cacert: Option<PathBuf>,
    /// No line for each request
    #[arg(short, long)]
    #[arg(help_heading = "Result")]
    quiet: bool,
}

/// Sources beside which flags of the proxy mean nothing.
const NOT_PROXIED: [&str; 2] = ["from_har", "from_log"];

const AFTER_HELP: &str = "\
Examples:
  drom record --to http://127.0.0.1:8080 -o shop.toml      then open http://127.0.0.1:8888
  drom record --to https://shop.example --mask --skip-type 'image/*,text/css,*javascript'
  drom record --from-har shop.har --host shop.example --mask -o shop.toml
  drom record --from-log access.log";

/// A recording with requests that are not in its file yet is written after so long a pause.
const PAUSE: Duration = Duration::from_secs(1);
/// Or, when there is no pause, after so long.
const UNSAVED_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(100);

pub fn run(args: &Args) -> Exit {
    let done = match (&args.from_har, &args.from_log, &args.to) {
        (Some(path), ..) => import::har(args, path),
        (_, Some(path), _) => import::log(path, args.all_methods),
        (_, _, Some(to)) => record(args, to),
        _ => Err(Failure::usage("one of --to, --from-har and --from-log is needed")),
    };
    done.map_or_else(
        |failure| {
            say::line(format!("drom record: {}", failure.message));
            failure.exit
        },
        |()| Exit::Done,
    )
}

/// Why there is no scenario.
struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: Exit::Usage }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: Exit::Failed }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::Failed };
        Self { message: error.to_string(), exit }
    }
}

fn record(args: &Args, to: &str) -> Result<(), Failure> {
    let stop = watch_interrupts();
    let mut tape = tape(args, to)?;
    let proxy = Proxy::start(&Options {
        listen: args.listen,
        to: to.to_owned(),
        trust: Trust {
            insecure: args.insecure,
            ca_file: args.cacert.clone(),
            resume: true,
            ..Trust::default()
        },
        keep_host: args.keep_host,
        body_bytes_max: args.max_body as usize,
    })?;
    let address = proxy.address();
    say::line(format!("recording on http://{address} what is sent to {to}; Ctrl-C ends it"));
    listen(args, &proxy, &mut tape, stop);
    for seen in proxy.end() {
        if !is_full(args, &tape) {
            see(args, &mut tape, seen);
        }
    }
    let words = tape.finish().map_err(Failure::failed)?;
    say::line(format!("drom record: {words}"));
    Ok(())
}

fn tape(args: &Args, to: &str) -> Result<Tape, Failure> {
    let filter = Filter {
        skip_types: args.skip_type.iter().map(|kind| kind.trim().to_ascii_lowercase()).collect(),
        only: args.only.clone(),
    };
    let file = args.output.clone().filter(|path| path != Path::new("-"));
    let name = file.as_deref().and_then(Path::file_stem).map_or_else(
        || to.split("://").last().unwrap_or(to).trim_end_matches('/').to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    );
    let options = WriteOptions { mask: args.mask, host: args.host.clone() };
    let tape = Tape::new(name, file, filter, options);
    tape.check().map_err(Failure::usage)?;
    Ok(tape)
}

/// Until enough was recorded or somebody ends it.
fn listen(args: &Args, proxy: &Proxy, tape: &mut Tape, stop: &AtomicBool) {
    let (mut paused, mut saved) = (Duration::ZERO, clock::now());
    while !stop.load(Relaxed) && !is_full(args, tape) {
        if let Some(seen) = proxy.next(TICK) {
            see(args, tape, seen);
            paused = Duration::ZERO;
        } else {
            paused += TICK;
        }
        if paused >= PAUSE || saved.elapsed() >= UNSAVED_MAX {
            if let Some(trouble) = tape.save() {
                say::line(format!("drom record: {trouble}"));
            }
            (paused, saved) = (Duration::ZERO, clock::now());
        }
    }
}

fn is_full(args: &Args, tape: &Tape) -> bool {
    args.requests.is_some_and(|most| tape.len() as u64 >= most)
}

fn see(args: &Args, tape: &mut Tape, seen: Seen) {
    let line = line(&seen, args.mask);
    let left_out = tape.add(seen);
    if !args.quiet {
        say::line(left_out.map_or_else(|| line.clone(), |why| format!("{line}  ({why})")));
    }
}

/// `GET /path 200 12 ms`; what the client sent commands no terminal.
fn line(seen: &Seen, masks: bool) -> String {
    let ms = seen.took_ns as f64 / 1e6;
    let path = if masks { masked_url(&seen.path) } else { seen.path.clone() };
    let (method, path) = (format::plain(&seen.method), format::plain(&path));
    let status = if seen.status == 0 { "-".to_owned() } else { seen.status.to_string() };
    let decimals = if ms < 10.0 { 1 } else { 0 };
    let note = seen.note.as_ref().map_or_else(String::new, |note| format!("  {note}"));
    format!("{method} {path} {status} {ms:.decimals$} ms{note}")
}

/// `127.0.0.1:8888`, `localhost:8888`, `8888`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let is_port = text.parse::<u16>().is_ok();
    let whole = if is_port { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let found = whole.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| format!("{text:?} is no address like 127.0.0.1:8888"))
}

fn prefix(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("paths begin with a slash".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("81"), Ok(SocketAddr::from(([127, 0, 0, 1], 81))));
        assert_eq!(address("0.0.0.0:0"), Ok(SocketAddr::from(([0, 0, 0, 0], 0))));
        assert!(address("[::1]:8").is_ok());
        for bad in ["", "88888", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
