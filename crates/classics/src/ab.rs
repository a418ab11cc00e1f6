//! ab's command line: all options of ApacheBench 2.3 as httpd 2.4 ships it, and what they come to.
//!
//! One after the other, as ab reads them: `-t` sets the number of requests, so an `-n` before it
//! counts for nothing. The request's bytes, the figures and the reports are in the files below.

mod figures;
mod files;
mod html;
mod request;
mod text;
mod tls;
mod usage;

use std::time::Duration;

use crate::{
    Refusal,
    getopt::{Letters, Misuse},
    number::{base64, leading_int},
};

pub use figures::{Figures, ends_run};
pub use files::{gnuplot, percentile_csv};
pub use html::report as html_report;
pub use request::{request, tunnel};
pub use text::{benchmarking, log, progress_line, report as text_report};
pub use tls::{Secured, suites, version};
pub use usage::{HELP, banner, flags, usage};

/// ab's status for a wrong command line: EINVAL.
pub const STATUS_USAGE: u8 = 22;
const STATUS_BAD_VALUE: u8 = 1;

const LETTERS: &str = "n:c:t:s:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:";
/// Of a run that ends by time.
const TIMED_REQUESTS: u64 = 50_000;
const CONCURRENCY_MAX: i64 = 200_000;
/// ab's room for coded credentials.
const CREDENTIALS_MAX: usize = 1_024;
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Run(Box<Options>),
    /// `-V`, after `-w` in HTML.
    Version {
        html: bool,
    },
    /// `--help`, which ab has not.
    Help,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "so many switches has ab")]
pub struct Options {
    pub url: Url,
    pub requests: u64,
    pub concurrency: u32,
    pub limit: Option<Duration>,
    pub timeout: Duration,
    pub buffer_bytes: Option<usize>,
    pub bind: Option<String>,
    pub method: String,
    /// File of the body.
    pub body: Option<String>,
    pub content_type: Option<String>,
    pub verbosity: i64,
    pub html: Option<Attributes>,
    pub cookie: Option<String>,
    /// Whole header lines of `-A` and `-P`.
    pub credentials: String,
    pub headers: Vec<String>,
    /// Host and port.
    pub proxy: Option<(String, u16)>,
    pub keepalive: bool,
    pub percentiles: bool,
    pub confidence: bool,
    pub variable_length: bool,
    pub gnuplot: Option<String>,
    pub csv: Option<String>,
    /// `-r`: errors of sockets do not end the run.
    pub goes_on: bool,
    /// After how many requests a line of progress.
    pub heartbeat: Option<u64>,
    /// Drom's own report below.
    pub native: bool,
    pub tls: Tls,
}

/// What `-x`, `-y` and `-z` put into the tags of table, rows and cells.
impl Options {
    /// Through a proxy that only makes a way.
    #[must_use]
    pub fn is_tunnelled(&self) -> bool {
        self.url.tls && self.proxy.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub table: String,
    pub row: String,
    pub cell: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub ciphers: Option<String>,
    pub protocol: Option<String>,
    pub certificate: Option<String>,
    pub no_sni: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
    /// As it was written.
    pub full: String,
}

/// Reads the words behind `ab`.
pub fn parse(words: &[String]) -> Result<Asked, Refusal> {
    let mut letters = Letters::new(LETTERS, words);
    let mut reading = Reading::default();
    loop {
        if letters.takes_word("--native") {
            reading.native = true;
            continue;
        }
        if letters.takes_word("--help") {
            return Ok(Asked::Help);
        }
        match letters.next_option() {
            None => break,
            Some(Err(misuse)) => return Err(misused(misuse)),
            Some(Ok(('V', _))) => return Ok(Asked::Version { html: reading.html.is_some() }),
            Some(Ok((letter, value))) => reading.take(letter, value)?,
        }
    }
    reading.finish(letters.words()).map(|options| Asked::Run(Box::new(options)))
}

fn misused(misuse: Misuse) -> Refusal {
    match misuse {
        Misuse::Unknown(letter) => wrong(&format!("illegal option -- {letter}")),
        Misuse::NoValue(letter) => wrong(&format!("option requires an argument -- {letter}")),
    }
}

/// With the list of options below it.
fn wrong(what: &str) -> Refusal {
    Refusal::new(STATUS_USAGE, format!("ab: {what}\n{}", usage()))
}

fn bad_value(what: &str) -> Refusal {
    Refusal::new(STATUS_BAD_VALUE, format!("{what}\n\n"))
}

/// The options so far.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "so many switches has ab")]
struct Reading {
    requests: Option<u64>,
    concurrency: Option<i64>,
    limit_s: i64,
    timeout: Option<Duration>,
    buffer_bytes: Option<usize>,
    bind: Option<String>,
    method: Option<String>,
    body: Option<String>,
    content_type: Option<String>,
    verbosity: i64,
    html: Option<Attributes>,
    cookie: Option<String>,
    credentials: String,
    headers: Vec<String>,
    proxy: Option<(String, u16)>,
    keepalive: bool,
    no_percentiles: bool,
    no_confidence: bool,
    variable_length: bool,
    gnuplot: Option<String>,
    csv: Option<String>,
    goes_on: bool,
    quiet: bool,
    native: bool,
    tls: Tls,
}

impl Reading {
    /// What changes the request or how much of it is sent.
    fn take(&mut self, letter: char, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match letter {
            'n' => self.take_requests(value)?,
            'c' => self.concurrency = Some(leading_int(value)),
            't' => self.take_limit(value)?,
            's' => self.take_timeout(value)?,
            'b' => self.buffer_bytes = usize::try_from(leading_int(value)).ok().filter(|b| *b > 0),
            'B' => self.bind = text(),
            'i' => self.method_by("HEAD", "HEAD")?,
            'm' => self.method = text(),
            'p' | 'u' => {
                let method = if letter == 'p' { "POST" } else { "PUT" };
                self.method_by(method, method)?;
                self.body = text();
            }
            'T' => self.content_type = text(),
            'C' => self.cookie = text(),
            'A' => self.credit("Authorization", "Authentication", value)?,
            'P' => self.credit("Proxy-Authorization", "Proxy", value)?,
            'H' => self.headers.push(value.to_owned()),
            'X' => self.take_proxy(value),
            'k' => self.keepalive = true,
            'r' => self.goes_on = true,
            _ => return self.take_for_report(letter, value),
        }
        Ok(())
    }

    fn take_for_report(&mut self, letter: char, value: &str) -> Result<(), Refusal> {
        let text = || Some(value.to_owned());
        match letter {
            'v' => self.verbosity = leading_int(value),
            'l' => self.variable_length = true,
            'd' => self.no_percentiles = true,
            'S' => self.no_confidence = true,
            'q' => self.quiet = true,
            'g' => self.gnuplot = text(),
            'e' => self.csv = text(),
            'w' => drop(self.in_html()),
            'x' => value.clone_into(&mut self.in_html().table),
            'y' => value.clone_into(&mut self.in_html().row),
            'z' => value.clone_into(&mut self.in_html().cell),
            'Z' => self.tls.ciphers = text(),
            'f' => self.tls.protocol = text(),
            'E' => self.tls.certificate = text(),
            'I' => self.tls.no_sni = true,
            // 'h', the last one.
            _ => return Err(Refusal::new(STATUS_USAGE, usage())),
        }
        Ok(())
    }

    fn take_requests(&mut self, value: &str) -> Result<(), Refusal> {
        let requests = u64::try_from(leading_int(value)).unwrap_or(0);
        if requests == 0 {
            return Err(bad_value("Invalid number of requests"));
        }
        self.requests = Some(requests);
        Ok(())
    }

    fn take_limit(&mut self, value: &str) -> Result<(), Refusal> {
        self.limit_s = leading_int(value);
        if self.limit_s < 0 {
            return Err(bad_value("Invalid negative timelimit"));
        }
        self.requests = Some(TIMED_REQUESTS);
        Ok(())
    }

    fn take_timeout(&mut self, value: &str) -> Result<(), Refusal> {
        let seconds = u64::try_from(leading_int(value)).ok().filter(|seconds| *seconds > 0);
        let seconds =
            seconds.ok_or_else(|| bad_value("Invalid timeout: -s takes at least 1 second"))?;
        self.timeout = Some(Duration::from_secs(seconds.min(10_000_000)));
        Ok(())
    }

    fn method_by(&mut self, method: &str, word: &str) -> Result<(), Refusal> {
        if self.method.is_some() {
            return Err(bad_value(&format!("Cannot mix {word} with other methods")));
        }
        self.method = Some(method.to_owned());
        Ok(())
    }

    fn credit(&mut self, header: &str, whose: &str, value: &str) -> Result<(), Refusal> {
        let coded = base64(value.trim_start().as_bytes());
        if coded.len() >= CREDENTIALS_MAX {
            return Err(bad_value(&format!("{whose} credentials too long")));
        }
        self.credentials += &format!("{header}: Basic {coded}\r\n");
        Ok(())
    }

    fn take_proxy(&mut self, value: &str) {
        let (host, port) = value.split_once(':').unwrap_or((value, "80"));
        let port = u16::try_from(leading_int(port)).unwrap_or(0);
        self.proxy = Some((host.to_owned(), port));
    }

    fn in_html(&mut self) -> &mut Attributes {
        let cell = || "bgcolor=white".to_owned();
        let plain = || Attributes { table: String::new(), row: String::new(), cell: cell() };
        self.html.get_or_insert_with(plain)
    }

    fn finish(self, words: &[String]) -> Result<Options, Refusal> {
        let [url] = words else { return Err(wrong("wrong number of arguments")) };
        let url = Url::parse(url).ok_or_else(|| wrong("invalid URL"))?;
        let requests = self.requests.unwrap_or(1);
        let concurrency = self.concurrency.unwrap_or(1);
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            return Err(wrong(&format!("Invalid Concurrency [Range 0..{CONCURRENCY_MAX}]")));
        }
        if concurrency as u64 > requests {
            let what = "Cannot use concurrency level greater than total number of requests";
            return Err(wrong(what));
        }
        let limit = u64::try_from(self.limit_s).ok().filter(|seconds| *seconds > 0);
        Ok(Options {
            url,
            requests,
            concurrency: concurrency as u32,
            limit: limit.map(Duration::from_secs),
            timeout: self.timeout.unwrap_or(TIMEOUT),
            buffer_bytes: self.buffer_bytes,
            bind: self.bind,
            method: self.method.unwrap_or_else(|| "GET".to_owned()),
            body: self.body,
            content_type: self.content_type,
            verbosity: self.verbosity,
            html: self.html,
            cookie: self.cookie,
            credentials: self.credentials,
            headers: self.headers,
            proxy: self.proxy,
            keepalive: self.keepalive,
            percentiles: !self.no_percentiles,
            confidence: !self.no_confidence,
            variable_length: self.variable_length,
            gnuplot: self.gnuplot,
            csv: self.csv,
            goes_on: self.goes_on,
            heartbeat: (!self.quiet && requests > 150).then(|| (requests / 10).max(100)),
            native: self.native,
            tls: self.tls,
        })
    }
}

impl Url {
    /// `None`: ab takes no URL without a path, and no user names.
    fn parse(full: &str) -> Option<Self> {
        let (tls, rest) = match full.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, full.strip_prefix("http://").unwrap_or(full)),
        };
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let is_host = !host.is_empty() && !host.contains(['@', ' ']) && port != 0;
        let (host, path, full) = (host.to_owned(), path.to_owned(), full.to_owned());
        is_host.then_some(Self { tls, host, port, path, full })
    }

    /// What the `Host` header says.
    fn host_field(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

#[cfg(test)]
#[path = "ab/options_tests.rs"]
mod tests;
