//! httperf's command line and request. Pure.
//!
//! Long options with `=` or a word behind, cut short as far as they stay clear. All of httperf
//! 0.9's are known; those that need what the engine has not are refused by name, at the end.

mod report;

use std::time::Duration;

use crate::Refusal;

pub use report::{Cpu, Figures, report};

const STATUS_WRONG: u8 = 1;
/// As good as none, which is httperf's default.
const TIMEOUT_NONE: Duration = Duration::from_secs(10_000_000);
const USER_AGENT: &str = "httperf/0.9.0";

/// What stands behind an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    None,
    Needed,
    /// Only with `=`.
    Possible,
}

use Value::{Needed, None as Bare, Possible};

#[rustfmt::skip]
const NAMES: &[(&str, Value)] = &[
    ("add-header", Needed), ("add-header-file", Needed), ("burst-length", Needed),
    ("client", Needed), ("close-with-reset", Bare), ("debug", Needed), ("failure-status", Needed),
    ("help", Bare), ("hog", Bare), ("http-version", Needed), ("max-connections", Needed),
    ("max-piped-calls", Needed), ("method", Needed), ("myaddr", Needed), ("native", Bare),
    ("no-host-hdr", Bare), ("num-calls", Needed), ("num-conns", Needed), ("period", Needed),
    ("periodic-stats", Bare), ("port", Needed), ("print-reply", Possible),
    ("print-request", Possible), ("rate", Needed), ("recv-buffer", Needed),
    ("retry-on-failure", Bare), ("runtime", Needed), ("send-buffer", Needed), ("server", Needed),
    ("server-name", Needed), ("servers", Needed), ("session-cookies", Bare), ("ssl", Bare),
    ("ssl-ca-file", Needed), ("ssl-ca-path", Needed), ("ssl-certificate", Needed),
    ("ssl-ciphers", Needed), ("ssl-key", Needed), ("ssl-no-reuse", Bare), ("ssl-protocol", Needed),
    ("ssl-verify", Possible), ("think-timeout", Needed), ("timeout", Needed), ("uri", Needed),
    ("use-timer-cache", Bare), ("verbose", Bare), ("version", Bare), ("wlog", Needed),
    ("wsess", Needed), ("wsesslog", Needed), ("wsesspage", Needed), ("wset", Needed),
];

/// Without effect on what is measured here: ports are the kernel's choice, the clock costs little.
const WITHOUT_EFFECT: &[&str] = &["debug", "hog", "periodic-stats", "use-timer-cache", "verbose"];

#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Run(Box<Options>),
    Help,
    Version,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub server: String,
    /// For the `Host` header.
    pub server_name: Option<String>,
    pub port: u16,
    pub uri: String,
    pub method: Option<String>,
    pub add_header: Option<String>,
    pub http_version: (u32, u32),
    pub no_host: bool,
    pub num_conns: u64,
    pub num_calls: u64,
    /// Connections a second; 0: one after the other.
    pub rate: f64,
    pub timeout: Option<f64>,
    pub max_connections: Option<u32>,
    pub send_buffer: usize,
    pub recv_buffer: usize,
    pub myaddr: Option<String>,
    /// Which of how many.
    pub client: (u32, u32),
    pub native: bool,
    /// Options that are not built yet.
    pub missing: Vec<&'static str>,
}

pub const USAGE: &str = "\
Usage: httperf [--server S] [--server-name S] [--port N] [--uri S] [--rate X | --period [d]X]
        [--num-conns N] [--num-calls N] [--timeout X] [--max-connections N] [--method S]
        [--add-header S] [--http-version S] [--no-host-hdr] [--myaddr S] [--client I/N]
        [--send-buffer N] [--recv-buffer N] [--hog] [--verbose] [--version] [--native]
Known and not built yet: sessions (--wsess, --wsesslog, --wsesspage), --wlog, --wset, other
--periods, --burst-length, --ssl, --servers, --runtime, --print-reply and the rest of httperf 0.9.
";

impl Default for Options {
    fn default() -> Self {
        Self {
            server: "localhost".to_owned(),
            server_name: None,
            port: 80,
            uri: "/".to_owned(),
            method: None,
            add_header: None,
            http_version: (1, 1),
            no_host: false,
            num_conns: 1,
            num_calls: 1,
            rate: 0.0,
            timeout: None,
            max_connections: None,
            send_buffer: 4_096,
            recv_buffer: 16_384,
            myaddr: None,
            client: (0, 1),
            native: false,
            missing: Vec::new(),
        }
    }
}

/// Reads the words behind `httperf`.
pub fn parse(words: &[String]) -> Result<Asked, Refusal> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match &**word {
            "-h" => ("help", None),
            "-V" => ("version", None),
            "-v" | "-n" => continue,
            "-d" => ("debug", None),
            long => named(long)?,
        };
        let needs = NAMES.iter().find(|(known, _)| *known == name).map_or(Bare, |(_, v)| *v);
        let value = match (value, needs) {
            (Some(_), Bare) => return Err(usage(&format!("option --{name} takes no value"))),
            (None, Needed) => {
                let next = words.next().map(|word| &**word);
                next.ok_or_else(|| usage(&format!("option --{name} needs a value")))?
            }
            (value, _) => value.unwrap_or_default(),
        };
        match name {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            _ => options.take(name, value)?,
        }
    }
    Ok(Asked::Run(Box::new(options)))
}

/// The name that it can only be, and what stands behind its `=`.
fn named(word: &str) -> Result<(&'static str, Option<&str>), Refusal> {
    let unknown = || usage(&format!("unrecognized option {word:?}"));
    let long = word.strip_prefix("--").filter(|long| !long.is_empty()).ok_or_else(unknown)?;
    let (start, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let names: Vec<&'static str> =
        NAMES.iter().map(|(name, _)| *name).filter(|name| name.starts_with(start)).collect();
    let exact = names.iter().find(|name| **name == start);
    match (exact, &names[..]) {
        (Some(name), _) | (None, [name]) => Ok((*name, value)),
        (None, []) => Err(unknown()),
        _ => Err(usage(&format!("option {word:?} is not clear"))),
    }
}

fn usage(what: &str) -> Refusal {
    Refusal::new(STATUS_WRONG, format!("httperf: {what}\n{USAGE}"))
}

fn illegal(what: &str, value: &str) -> Refusal {
    Refusal::new(STATUS_WRONG, format!("httperf: illegal {what} {value}\n"))
}

fn number<N: std::str::FromStr>(what: &str, value: &str) -> Result<N, Refusal> {
    value.parse().map_err(|_| illegal(what, value))
}

impl Options {
    fn take(&mut self, name: &'static str, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match name {
            "server" => value.clone_into(&mut self.server),
            "server-name" => self.server_name = text(),
            "port" => self.port = number("port number", value)?,
            "uri" => value.clone_into(&mut self.uri),
            "method" => self.method = text(),
            "add-header" => self.add_header = text(),
            "no-host-hdr" => self.no_host = true,
            "myaddr" => self.myaddr = text(),
            "native" => self.native = true,
            "http-version" => self.http_version = version(value)?,
            "num-conns" => self.num_conns = number("number of connections", value)?,
            "num-calls" => self.num_calls = number("number of calls", value)?,
            "max-connections" => {
                self.max_connections = Some(number("max. # of connection", value)?);
            }
            "send-buffer" => self.send_buffer = number("send buffer size", value)?,
            "recv-buffer" => self.recv_buffer = number("receive buffer size", value)?,
            "timeout" => self.timeout = Some(number("connection timeout", value)?),
            "rate" => self.rate = number::<f64>("request rate", value)?.max(0.0),
            "period" => self.take_period(value)?,
            "client" => self.client = client(value)?,
            "burst-length" | "print-reply" | "print-request" if value == "1" => {}
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => self.missing.push(name),
        }
        Ok(())
    }

    /// `d0.1` or `0.1`: so many seconds from one connection to the next.
    fn take_period(&mut self, value: &str) -> Result<(), Refusal> {
        if value.starts_with(['u', 'U', 'e', 'E', 'v', 'V']) {
            self.missing.push("period of that kind");
            return Ok(());
        }
        let period: f64 = number("mean interarrival time", value.trim_start_matches(['d', 'D']))?;
        self.rate = if period > 0.0 { 1.0 / period } else { 0.0 };
        Ok(())
    }

    /// Of each request; there is none without end.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let seconds = self.timeout.filter(|seconds| *seconds > 0.0 && *seconds < 1e7);
        seconds.map_or(TIMEOUT_NONE, Duration::from_secs_f64)
    }
}

fn version(value: &str) -> Result<(u32, u32), Refusal> {
    let parts = value.split_once('.');
    let parts = parts.and_then(|(major, minor)| major.parse().ok().zip(minor.parse().ok()));
    parts.ok_or_else(|| illegal("version number", value))
}

fn client(value: &str) -> Result<(u32, u32), Refusal> {
    let parts = value.split_once('/');
    let parts = parts.and_then(|(id, of)| id.parse().ok().zip(of.parse().ok()));
    parts.filter(|(id, of)| id < of).ok_or_else(|| illegal("client", value))
}

/// The bytes of each request.
#[must_use]
pub fn request(options: &Options) -> Vec<u8> {
    let method = options.method.as_deref().unwrap_or("GET");
    let (major, minor) = options.http_version;
    let mut head =
        format!("{method} {} HTTP/{major}.{minor}\r\nUser-Agent: {USER_AGENT}\r\n", options.uri);
    if !options.no_host {
        let host = options.server_name.as_ref().unwrap_or(&options.server);
        head += &format!("Host: {host}\r\n");
    }
    let added = options.add_header.as_deref().unwrap_or_default();
    // As it is typed in a shell's quotes: \n and \r in letters.
    head += &added.replace("\\r", "").replace("\\n", "\n").replace("\r", "").replace('\n', "\r\n");
    if !head.ends_with("\r\n") {
        head += "\r\n";
    }
    (head + "\r\n").into_bytes()
}

/// The command line as httperf repeats it.
#[must_use]
pub fn echo(options: &Options) -> String {
    let mut line = "httperf".to_owned();
    let mut put = |word: String| line += &format!(" --{word}");
    if let Some(timeout) = options.timeout.filter(|seconds| *seconds > 0.0) {
        put(format!("timeout={}", crate::number::general(timeout)));
    }
    put(format!("client={}/{}", options.client.0, options.client.1));
    put(format!("server={}", options.server));
    if let Some(name) = &options.server_name {
        put(format!("server_name={name}"));
    }
    put(format!("port={}", options.port));
    put(format!("uri={}", options.uri));
    if options.http_version != (1, 1) {
        put(format!("http-version={}.{}", options.http_version.0, options.http_version.1));
    }
    if let Some(most) = options.max_connections {
        put(format!("max-connections={most}"));
    }
    if options.rate > 0.0 {
        put(format!("rate={}", crate::number::general(options.rate)));
    }
    put(format!("send-buffer={}", options.send_buffer));
    put(format!("recv-buffer={}", options.recv_buffer));
    if let Some(header) = &options.add_header {
        put(format!("add-header='{header}'"));
    }
    if let Some(method) = &options.method {
        put(format!("method={method}"));
    }
    put(format!("num-conns={}", options.num_conns));
    put(format!("num-calls={}", options.num_calls));
    line + "\n"
}

#[cfg(test)]
#[path = "httperf/tests.rs"]
mod tests;
