//! httperf's command line and request. Pure.
//!
//! Long options with `=` or a word behind, cut short as far as they stay clear. All of httperf
//! 0.9's are known; those that need what the engine has not are refused by name, at the end.

mod calls;
mod period;
mod report;
mod session_log;
mod sessions;

use std::time::Duration;

use crate::Refusal;

pub use calls::{Calls, printed};
pub use period::Period;
pub use report::{Cpu, Figures, report};
pub use session_log::{Session, sessions};
pub use sessions::Sessions;

const STATUS_WRONG: u8 = 1;
/// As good as none, which is httperf's default.
const TIMEOUT_NONE: Duration = Duration::from_secs(10_000_000);
const PORT_OF_HTTPS: u16 = 443;
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

/// Each option, without its dashes, and whether a value must follow.
pub fn flags() -> impl Iterator<Item = (&'static str, bool)> {
    NAMES.iter().map(|(name, value)| (*name, *value == Needed))
}

/// Without effect on what is measured here: the clock costs little.
const WITHOUT_EFFECT: &[&str] = &["debug", "periodic-stats", "use-timer-cache"];

#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Run(Box<Options>),
    Help,
    Version,
}

/// A tree of so many pages, and how many of them a call goes on by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wset {
    pub pages: u64,
    pub step: f64,
}

/// A file of URIs with a NUL behind each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wlog {
    /// Begins again at its end.
    pub wraps: bool,
    pub file: String,
}

/// Sessions, calls of each, seconds between two bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wsess {
    pub sessions: u64,
    pub calls: u64,
    pub think_s: f64,
}

/// Sessions of a file, seconds between two bursts where the file does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Wsesslog {
    pub sessions: u64,
    pub think_s: f64,
    pub file: String,
}

/// What of each request is printed, besides its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    All,
    Header,
    Body,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "so many switches has httperf")]
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
    /// What makes the times between them uneven.
    pub period: Option<Period>,
    /// Calls that are written together.
    pub burst_length: u32,
    /// Seconds after which the run ends.
    pub runtime: Option<f64>,
    pub wset: Option<Wset>,
    pub wlog: Option<Wlog>,
    pub wsess: Option<Wsess>,
    pub wsesslog: Option<Wsesslog>,
    pub print_request: Option<Printed>,
    pub ssl: bool,
    pub ssl_ciphers: Option<String>,
    pub ssl_certificate: Option<String>,
    pub ssl_key: Option<String>,
    pub timeout: Option<f64>,
    /// Seconds more for the server to begin its reply.
    pub think_timeout: f64,
    pub max_connections: Option<u32>,
    pub send_buffer: usize,
    pub recv_buffer: usize,
    pub myaddr: Option<String>,
    /// Which of how many.
    pub client: (u32, u32),
    pub native: bool,
    /// Repeated, and without effect.
    pub hog: bool,
    pub ssl_no_reuse: bool,
    pub verbose: bool,
    /// Options that are not built yet.
    pub missing: Vec<&'static str>,
}

pub const USAGE: &str = "\
Usage: httperf [--server S] [--server-name S] [--port N] [--uri S]
        [--rate X | --period [d|u|e]X[,X]]
        [--num-conns N] [--num-calls N] [--burst-length N] [--max-connections N] [--method S]
        [--timeout X] [--think-timeout X] [--runtime X] [--wset N,X] [--wlog y|n,FILE]
        [--wsess N,N,X] [--wsesslog N,X,FILE] [--print-request [header|body]]
        [--ssl] [--ssl-ciphers L] [--ssl-no-reuse] [--ssl-certificate FILE --ssl-key FILE]
        [--add-header S] [--http-version S] [--no-host-hdr] [--myaddr S] [--client I/N]
        [--send-buffer N] [--recv-buffer N] [--hog] [--verbose] [--version] [--native]
Known and not built yet: --wsesspage, --session-cookies, --servers, --print-reply and
the rest of httperf 0.9.
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
            period: None,
            burst_length: 1,
            runtime: None,
            wset: None,
            wlog: None,
            wsess: None,
            wsesslog: None,
            print_request: None,
            ssl: false,
            ssl_ciphers: None,
            ssl_certificate: None,
            ssl_key: None,
            timeout: None,
            think_timeout: 0.0,
            max_connections: None,
            send_buffer: 4_096,
            recv_buffer: 16_384,
            myaddr: None,
            client: (0, 1),
            native: false,
            hog: false,
            ssl_no_reuse: false,
            verbose: false,
            missing: Vec::new(),
        }
    }
}

/// Reads the words behind `httperf`.
pub fn parse(words: &[String]) -> Result<Asked, Refusal> {
    let (mut options, mut has_port) = (Options::default(), false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match &**word {
            "-h" => ("help", None),
            "-V" => ("version", None),
            "-v" => ("verbose", None),
            "-n" => continue,
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
            "port" => has_port = true,
            _ => {}
        }
        options.take(name, value)?;
    }
    if options.ssl && !has_port {
        options.port = PORT_OF_HTTPS;
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
            "think-timeout" => self.think_timeout = number("think timeout", value)?,
            "rate" => {
                self.rate = number::<f64>("request rate", value)?.max(0.0);
                self.period = None;
            }
            "period" => (self.rate, self.period) = period::read(value)?,
            "client" => self.client = client(value)?,
            "burst-length" => {
                let burst = number("burst-length", value)?;
                // All of a burst is written at once, from memory.
                self.burst_length =
                    (burst <= 100_000).then_some(burst).ok_or_else(|| illegal(name, value))?;
            }
            "runtime" => self.runtime = Some(number("runtime", value)?),
            _ => self.take_more(name, value)?,
        }
        Ok(())
    }

    /// Options of TLS, lists and sessions.
    fn take_more(&mut self, name: &'static str, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match name {
            "wset" => self.wset = Some(wset(value)?),
            "wlog" => self.wlog = Some(wlog(value)?),
            "wsess" => self.wsess = Some(wsess(value)?),
            "wsesslog" => self.wsesslog = Some(wsesslog(value)?),
            "print-request" => self.print_request = Some(part("print-request", value)?),
            "hog" => self.hog = true,
            "verbose" => self.verbose = true,
            "ssl" => self.ssl = true,
            "ssl-ciphers" => self.ssl_ciphers = text(),
            "ssl-certificate" => self.ssl_certificate = text(),
            "ssl-key" => self.ssl_key = text(),
            // Sessions of TLS are not taken up again by themselves.
            "ssl-no-reuse" => self.ssl_no_reuse = true,
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => self.missing.push(name),
        }
        Ok(())
    }

    pub(crate) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or("GET")
    }

    /// The server as it stands in a URL.
    #[must_use]
    pub fn host(&self) -> String {
        crate::host_in_url(&self.server)
    }

    /// In sessions, of whatever kind.
    #[must_use]
    pub fn is_sessions(&self) -> bool {
        self.wsess.is_some() || self.wsesslog.is_some()
    }

    /// Of each request; there is none without end.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let seconds = self.timeout.filter(|seconds| *seconds > 0.0);
        let seconds = seconds.map(|seconds| seconds + self.think_timeout.max(0.0));
        seconds.filter(|seconds| *seconds < 1e7).map_or(TIMEOUT_NONE, Duration::from_secs_f64)
    }
}

fn version(value: &str) -> Result<(u32, u32), Refusal> {
    let parts = value.split_once('.');
    let parts = parts.and_then(|(major, minor)| major.parse().ok().zip(minor.parse().ok()));
    let version = parts.ok_or_else(|| illegal("version number", value))?;
    let is_spoken = matches!(version, (1, 0 | 1));
    let what = || format!("httperf: --http-version {value}: 1.0 and 1.1 are spoken\n");
    if is_spoken { Ok(version) } else { Err(Refusal::new(STATUS_WRONG, what())) }
}

fn client(value: &str) -> Result<(u32, u32), Refusal> {
    let parts = value.split_once('/');
    let parts = parts.and_then(|(id, of)| id.parse().ok().zip(of.parse().ok()));
    parts.filter(|(id, of)| id < of).ok_or_else(|| illegal("client", value))
}

fn wset(value: &str) -> Result<Wset, Refusal> {
    let wrong = || illegal("--wset", value);
    let (pages, step) = value.split_once(',').ok_or_else(wrong)?;
    let pages = pages.parse().ok().filter(|pages| *pages > 0).ok_or_else(wrong)?;
    let step = step.parse().ok().filter(|step| (0.0..=1e9).contains(step)).ok_or_else(wrong)?;
    Ok(Wset { pages, step })
}

fn wlog(value: &str) -> Result<Wlog, Refusal> {
    let (wraps, file) = value.split_once(',').ok_or_else(|| illegal("--wlog", value))?;
    Ok(Wlog { wraps: wraps.starts_with(['y', 'Y']), file: file.to_owned() })
}

fn wsess(value: &str) -> Result<Wsess, Refusal> {
    let wrong = || illegal("--wsess", value);
    let parts: Vec<&str> = value.split(',').collect();
    let [sessions, calls, think_s] = parts[..] else { return Err(wrong()) };
    let think_s = think_s_of(think_s).ok_or_else(wrong)?;
    let count = |text: &str| text.parse().map_err(|_| wrong());
    Ok(Wsess { sessions: count(sessions)?, calls: count(calls)?, think_s })
}

fn wsesslog(value: &str) -> Result<Wsesslog, Refusal> {
    let wrong = || illegal("--wsesslog", value);
    let parts: Vec<&str> = value.splitn(3, ',').collect();
    let [sessions, think_s, file] = parts[..] else { return Err(wrong()) };
    let think_s = think_s_of(think_s).ok_or_else(wrong)?;
    let sessions = sessions.parse().map_err(|_| wrong())?;
    Ok(Wsesslog { sessions, think_s, file: file.to_owned() })
}

fn think_s_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds| (0.0..=1e6).contains(seconds))
}

fn part(name: &str, value: &str) -> Result<Printed, Refusal> {
    match value.bytes().next() {
        None => Ok(Printed::All),
        Some(b'h' | b'H') => Ok(Printed::Header),
        Some(b'b' | b'B') => Ok(Printed::Body),
        Some(_) => Err(illegal(&format!("--{name}"), value)),
    }
}

/// The bytes of each request, where all are the same.
#[must_use]
pub fn request(options: &Options) -> Vec<u8> {
    request_of(options, options.method(), &options.uri, b"")
}

fn request_of(options: &Options, method: &str, uri: &str, contents: &[u8]) -> Vec<u8> {
    let (major, minor) = options.http_version;
    let mut head = format!("{method} {uri} HTTP/{major}.{minor}\r\nUser-Agent: {USER_AGENT}\r\n");
    if options.http_version == (1, 0) {
        head += "Connection: keep-alive\r\n";
    }
    if !options.no_host {
        let host = options.server_name.clone().unwrap_or_else(|| options.host());
        head += &format!("Host: {host}\r\n");
    }
    let added = options.add_header.as_deref().unwrap_or_default();
    // As it is typed in a shell's quotes: \n and \r in letters.
    head += &added.replace("\\r", "").replace("\\n", "\n").replace("\r", "").replace('\n', "\r\n");
    if !head.ends_with("\r\n") {
        head += "\r\n";
    }
    if !contents.is_empty() {
        head += &format!("Content-length: {}\r\n", contents.len());
    }
    [(head + "\r\n").as_bytes(), contents].concat()
}

/// The command line as httperf repeats it.
#[must_use]
pub fn echo(options: &Options) -> String {
    use crate::number::general;
    let seconds = |seconds: f64| (seconds > 0.0).then(|| general(seconds));
    let text = |text: &Option<String>| text.clone();
    let (major, minor) = options.http_version;
    let is_sessions = options.is_sessions();
    let logged = options.wsesslog.as_ref();
    let words = [
        ("verbose", options.verbose.then(String::new)),
        ("print-request", options.print_request.map(|part| part.words().to_owned())),
        ("hog", options.hog.then(String::new)),
        ("think-timeout=", seconds(options.think_timeout)),
        ("timeout=", options.timeout.and_then(seconds)),
        ("client=", Some(format!("{}/{}", options.client.0, options.client.1))),
        ("server=", Some(options.server.clone())),
        ("server_name=", text(&options.server_name)),
        ("port=", Some(options.port.to_string())),
        ("uri=", Some(options.uri.clone())),
        ("http-version=", (options.http_version != (1, 1)).then(|| format!("{major}.{minor}"))),
        ("max-connections=", options.max_connections.map(|most| most.to_string())),
        ("", period::echo(options)),
        ("send-buffer=", Some(options.send_buffer.to_string())),
        ("recv-buffer=", Some(options.recv_buffer.to_string())),
        ("ssl", options.ssl.then(String::new)),
        ("ssl-ciphers=", text(&options.ssl_ciphers)),
        ("ssl-no-reuse", options.ssl_no_reuse.then(String::new)),
        ("add-header=", options.add_header.as_ref().map(|header| format!("'{header}'"))),
        ("method=", text(&options.method)),
        ("wsess=", options.wsess.map(|w| format!("{},{},{:.3}", w.sessions, w.calls, w.think_s))),
        ("wsesslog=", logged.map(|w| format!("{},{:.3},{}", w.sessions, w.think_s, w.file))),
        ("num-conns=", (!is_sessions).then(|| options.num_conns.to_string())),
        ("num-calls=", (!is_sessions).then(|| options.num_calls.to_string())),
        ("burst-length=", (options.burst_length > 1).then(|| options.burst_length.to_string())),
        ("wset=", options.wset.map(|wset| format!("{},{:.3}", wset.pages, wset.step))),
    ];
    let mut line = "httperf".to_owned();
    for (name, value) in words.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        line += &format!(" --{name}{value}");
    }
    line + "\n"
}

impl Printed {
    fn words(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Header => "=header",
            Self::Body => "=body",
        }
    }
}

#[cfg(test)]
#[path = "httperf/tests.rs"]
mod tests;
