//! http_load's command line and URL file, and the request that it sends. Pure.
//!
//! Options are words behind one dash that can be cut short: of two that fit, http_load takes the
//! one it asks for first, and so does this. The report is in the file below.

mod report;

use std::time::Duration;

use drom_stats::Rng;

use crate::{Refusal, number::leading_int};

pub use report::{Figures, complaints, report};

const STATUS_WRONG: u8 = 1;
const TIMEOUT_S: i64 = 60;
/// Bytes a second of a modem of 33.6 kbit/s.
const MODEM_BPS: f64 = 3_360.0;
/// Starts with `-jitter` are planned ahead; so many are 160 MB.
const JITTERED_MAX: usize = 20_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Names in the order in which they are asked for, and whether each has a value.
const NAMES: &[(&str, bool)] = &[
    ("-checksum", false),
    ("-throttle", false),
    ("-Throttle", true),
    ("-verbose", false),
    ("-timeout", true),
    ("-jitter", false),
    ("-parallel", true),
    ("-rate", true),
    ("-fetches", true),
    ("-seconds", true),
    ("-sip", true),
    ("-cipher", true),
    ("-proxy", true),
];

#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Run(Box<Options>),
    Help,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "so many switches has http_load")]
pub struct Options {
    pub start: Start,
    pub end: End,
    pub checksum: bool,
    pub verbose: bool,
    pub jitter: bool,
    /// Bytes a second and connection.
    pub throttle_bps: Option<f64>,
    pub timeout: Duration,
    /// File of source addresses.
    pub sip: Option<String>,
    pub cipher: Option<String>,
    /// Host and port.
    pub proxy: Option<(String, u16)>,
    pub url_file: String,
    /// Drom's own report below.
    pub native: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// So many at once.
    Parallel(u32),
    /// So many a second.
    Rate(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fetches(u64),
    Seconds(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub full: String,
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
}

pub const USAGE: &str = "\
usage:  http_load [-checksum] [-throttle] [-proxy host:port] [-verbose] [-timeout secs]
            [-Throttle bits/s] [-sip sip_file] [-cipher str] [--native]
            -parallel N | -rate N [-jitter]
            -fetches N | -seconds N
            url_file
One of -parallel and -rate says how fetches start, one of -fetches and -seconds when they end.
";

impl Options {
    /// Milliseconds between two starts: whole ones, so that 300 a second are 333.
    #[must_use]
    pub fn interval_ms(&self) -> Option<u64> {
        match self.start {
            Start::Rate(rate) => Some(1_000 / u64::from(rate)),
            Start::Parallel(_) => None,
        }
    }

    /// When fetches start, in nanoseconds, where each interval is 10 % longer or shorter at random.
    ///
    /// # Errors
    /// That there are more than can be planned.
    pub fn jittered_ns(&self, seed: u64) -> Result<Vec<u64>, Refusal> {
        let interval_ns = self.interval_ms().unwrap_or(1) * NS_PER_MS;
        let (count, end_ns) = match self.end {
            End::Fetches(fetches) => (usize::try_from(fetches).unwrap_or(usize::MAX), u64::MAX),
            End::Seconds(seconds) => (usize::MAX, seconds * 1_000 * NS_PER_MS),
        };
        let (mut rng, mut at_ns) = (Rng::new(seed), 0);
        let mut starts = Vec::new();
        while starts.len() < count && at_ns < end_ns {
            if starts.len() == JITTERED_MAX {
                return Err(wrong(&format!("-jitter is built for {JITTERED_MAX} fetches at most")));
            }
            starts.push(at_ns);
            at_ns += (interval_ns as f64 * (0.9 + 0.2 * rng.unit())) as u64;
        }
        Ok(starts)
    }
}

/// Reads the words behind `http_load`.
pub fn parse(words: &[String]) -> Result<Asked, Refusal> {
    let mut reading = Reading::default();
    let mut words = words.iter();
    let mut files = Vec::new();
    while let Some(word) = words.next() {
        match &**word {
            "--native" => reading.native = true,
            "--help" => return Ok(Asked::Help),
            dashed if files.is_empty() && dashed.len() > 1 && dashed.starts_with('-') => {
                let name = full_name(dashed, words.len() > 0).ok_or_else(usage)?;
                let has_value = NAMES.iter().any(|(known, value)| *known == name && *value);
                let value = if has_value { words.next().map(|v| &**v) } else { None };
                reading.take(name, value.unwrap_or_default())?;
            }
            _ => files.push(word.clone()),
        }
    }
    let [url_file] = &files[..] else { return Err(usage()) };
    reading.finish(url_file.clone()).map(|options| Asked::Run(Box::new(options)))
}

/// The first name that begins so; one with a value only where there is a word for it.
fn full_name(word: &str, is_followed: bool) -> Option<&'static str> {
    let fits = |(name, value): &&(&str, bool)| name.starts_with(word) && (is_followed || !value);
    NAMES.iter().find(fits).map(|(name, _)| *name)
}

/// `None` without a port. An IPv6 address has colons of its own, in brackets.
fn host_and_port(authority: &str) -> Option<(&str, &str)> {
    let at = authority.rfind(']').unwrap_or(0);
    let colon = at + authority[at..].find(':')?;
    Some((&authority[..colon], &authority[colon + 1..]))
}

fn usage() -> Refusal {
    Refusal::new(STATUS_WRONG, USAGE)
}

fn wrong(what: &str) -> Refusal {
    Refusal::new(STATUS_WRONG, format!("http_load: {what}\n"))
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "so many switches has http_load")]
struct Reading {
    start: Option<Start>,
    end: Option<End>,
    checksum: bool,
    verbose: bool,
    jitter: bool,
    throttle_bps: Option<f64>,
    timeout_s: Option<i64>,
    sip: Option<String>,
    cipher: Option<String>,
    proxy: Option<(String, u16)>,
    native: bool,
}

impl Reading {
    fn take(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "-checksum" => self.checksum = true,
            "-throttle" => self.throttle_bps = Some(MODEM_BPS),
            "-Throttle" => self.throttle_bps = Some(leading_int(value) as f64 / 10.0),
            "-verbose" => self.verbose = true,
            "-timeout" => self.timeout_s = Some(leading_int(value)),
            "-jitter" => self.jitter = true,
            "-parallel" => {
                self.start = Some(Start::Parallel(number("parallel", value, u32::MAX.into())?));
            }
            "-rate" => self.start = Some(Start::Rate(number("rate", value, 1_000)?)),
            "-fetches" => {
                let fetches: u32 = number("fetches", value, u32::MAX.into())?;
                self.end = Some(End::Fetches(fetches.into()));
            }
            "-seconds" => {
                let seconds: u32 = number("seconds", value, 10_000_000)?;
                self.end = Some(End::Seconds(seconds.into()));
            }
            "-sip" => self.sip = Some(value.to_owned()),
            "-cipher" => self.cipher = Some(value.to_owned()),
            // "-proxy", the last one.
            _ => {
                let (host, port) = host_and_port(value).unwrap_or((value, "80"));
                let port = u16::try_from(leading_int(port)).unwrap_or(0);
                self.proxy = Some((host.to_owned(), port));
            }
        }
        Ok(())
    }

    fn finish(self, url_file: String) -> Result<Options, Refusal> {
        let (Some(start), Some(end)) = (self.start, self.end) else { return Err(usage()) };
        if self.jitter && matches!(start, Start::Parallel(_)) {
            return Err(usage());
        }
        let timeout_s = u64::try_from(self.timeout_s.unwrap_or(TIMEOUT_S)).unwrap_or(0);
        if timeout_s == 0 {
            return Err(wrong("timeout must be at least 1"));
        }
        Ok(Options {
            start,
            end,
            checksum: self.checksum,
            verbose: self.verbose,
            jitter: self.jitter,
            throttle_bps: self.throttle_bps,
            timeout: Duration::from_secs(timeout_s.min(10_000_000)),
            sip: self.sip,
            cipher: self.cipher,
            proxy: self.proxy,
            url_file,
            native: self.native,
        })
    }
}

fn number(name: &str, value: &str, max: i64) -> Result<u32, Refusal> {
    match leading_int(value) {
        ..1 => Err(wrong(&format!("{name} must be at least 1"))),
        number if number > max => Err(wrong(&format!("{name} may be at most {max}"))),
        number => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
    }
}

/// The URLs of a file, one a line. An empty line was "unknown protocol - " without a place.
pub fn urls(file: &str, text: &str) -> Result<Vec<Url>, Refusal> {
    let urls = text.lines().enumerate().map(|(at, line)| {
        let place = format!("{file}:{}", at + 1);
        Url::parse(line).map_err(|why| wrong(&format!("{why} - {line} ({place})")))
    });
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    if urls.is_empty() { Err(wrong(&format!("there is no URL in {file}"))) } else { Ok(urls) }
}

impl Url {
    fn parse(full: &str) -> Result<Self, &'static str> {
        if full.trim().is_empty() {
            return Err("an empty line");
        }
        let (tls, rest) = match (full.strip_prefix("http://"), full.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err("unknown protocol"),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let usual = if tls { "443" } else { "80" };
        let (host, port) = host_and_port(authority).unwrap_or((authority, usual));
        let port = port.parse().map_err(|_| "no port")?;
        if host.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("no URL");
        }
        let path = if path.is_empty() { "/" } else { path };
        let (host, path, full) = (host.to_owned(), path.to_owned(), full.to_owned());
        Ok(Self { full, tls, host, port, path })
    }
}

/// What became of `-cipher`: its named sets are long gone, other words are OpenSSL's.
#[must_use]
pub fn cipher_note(word: &str) -> String {
    let set = match &*word.to_ascii_lowercase() {
        "fastsec" => " (RC4-MD5)",
        "highsec" => " (DES-CBC3-SHA)",
        "paranoid" => " (AES256-SHA)",
        _ => "",
    };
    format!("http_load: -cipher {word}{set} cannot be had and is left out\n")
}

/// A line for each URL, for a list that the engine reads: the server, and the number of its row.
#[must_use]
pub fn list(urls: &[Url]) -> String {
    let line = |(row, url): (usize, &Url)| {
        let Url { tls, host, port, .. } = url;
        format!("http{}://{host}:{port}/{row}\n", if *tls { "s" } else { "" })
    };
    urls.iter().enumerate().map(line).collect()
}

/// HTTP/1.0, with the host's name and nothing of a port.
#[must_use]
pub fn request(options: &Options, url: &Url) -> Vec<u8> {
    // A proxy only makes a way for what is secured.
    let path = if options.proxy.is_some() && !url.tls { &url.full } else { &url.path };
    let (host, version) = (&url.host, env!("CARGO_PKG_VERSION"));
    let head = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: http_load (drom {version})\r\n\r\n"
    );
    head.into_bytes()
}

#[cfg(test)]
#[path = "http_load/tests.rs"]
mod tests;
