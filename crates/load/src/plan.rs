//! What to do: the whole of a closed-loop run, resolved (addresses looked up, body read).

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use drom_scenario::Scenario;

use crate::{
    error::Error,
    exchange::Record,
    schedule::{Arrivals, Stage},
    tls::Trust,
};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: Address,
    /// Over TLS.
    pub secure: bool,
    /// The `Host` header's value.
    pub host: String,
    /// Path and query as they stand in the request line.
    pub path: String,
    /// What a proxy that listens there is asked, for a way to the server, before TLS begins.
    pub tunnel: Option<Vec<u8>>,
    /// How long the resolver took, where it was asked.
    pub lookup: Option<Duration>,
}

impl Target {
    /// Plain HTTP to an address, under the name of that address.
    #[must_use]
    pub fn at(address: SocketAddr, path: &str) -> Self {
        let host = address.to_string();
        let (address, path) = (address.into(), path.to_owned());
        Self { address, secure: false, host, path, tunnel: None, lookup: None }
    }

    /// The host without its port: the name in a certificate.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, _)) => inner,
            None => self.host.split(':').next().unwrap_or(&self.host),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The words of a request line and of the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

impl Version {
    /// What a TLS handshake asks for.
    #[must_use]
    pub fn alpn(self) -> &'static [&'static str] {
        match self {
            Self::Http10 | Self::Http11 => &["http/1.1"],
            Self::Http2 => &["h2"],
        }
    }

    /// Where requests are text.
    pub(crate) fn of_text(self) -> Option<drom_scenario::Version> {
        match self {
            Self::Http10 => Some(drom_scenario::Version::Http10),
            Self::Http11 => Some(drom_scenario::Version::Http11),
            Self::Http2 => None,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http10 => "http/1.0",
            Self::Http11 => "http/1.1",
            Self::Http2 => "http/2",
        }
    }
}

/// How a thread hears of its sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Readiness, then a call for each read and each write.
    #[default]
    Epoll,
    /// Reads and writes of all connections in one call a round.
    IoUring,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    After(Duration),
    Requests(u64),
}

/// What is known of a body before it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBody {
    pub length: u64,
    /// [`crate::body_hash`]; `None` where only the length is always the same.
    pub hash: Option<u64>,
}

impl ExpectedBody {
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        Self { length: body.len() as u64, hash: Some(crate::body_hash(body)) }
    }

    #[must_use]
    pub fn is_met_by(&self, (length, hash): (u64, u64)) -> bool {
        length == self.length && self.hash.is_none_or(|expected| expected == hash)
    }
}

/// When requests begin whatever has become of those before: an open loop.
#[derive(Clone, Debug)]
pub struct Pace {
    pub arrivals: Arrivals,
    /// One after the other; together they are the window.
    pub stages: Vec<Stage>,
}

/// Users who do what a scenario says, in place of one request that is the same each time. Each has
/// a connection of its own to every server that it asks; a pace says when their rounds begin.
#[derive(Clone, Debug)]
pub struct Scene {
    pub scenario: Arc<Scenario>,
    /// Of its origins, in their order; of them only address, security and host count.
    pub targets: Vec<Target>,
    /// What is random about the users comes from it.
    pub seed: u64,
    /// In an open loop: rounds under way at the end go on to theirs.
    pub finishes_rounds: bool,
    /// Each way through the scenario in its turn, every judgement kept: a test, not a load.
    pub is_test: bool,
    /// Connections are made for the requests of a round, not ahead of them, and end with it.
    pub connects_for_rounds: bool,
    /// What goes out in place of what the scenario writes.
    pub raw: Option<Raw>,
    pub on_close: OnClose,
}

/// What a user does whose connection the server has closed between two requests of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnClose {
    /// Makes another one.
    #[default]
    Reconnect,
    /// Writes the next request into it, which fails, and its round with it.
    Fail,
    /// Writes the next request into it, which fails, and then again on another one.
    Repeat,
}

/// Requests as they are, in bursts: where the scenario asks for `/7`, burst 7 is written at once
/// and its answers are waited for together. Ways through the scenario are taken in turn.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    pub requests: Vec<Vec<u8>>,
    /// Each a range of them.
    pub bursts: Vec<Range<u32>>,
}

/// Without a pace a closed loop: every connection sends its next request when the answer to the
/// last one is complete.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    /// Users of a scenario: what method, headers and body say then does not count, and `Stop`
    /// counts rounds.
    pub scene: Option<Scene>,
    pub connections: u32,
    /// Requests under way on a connection at once; a closed loop writes so many together, and the
    /// next ones when all of them are answered.
    pub depth: u32,
    pub threads: u32,
    pub stop: Stop,
    pub pace: Option<Pace>,
    /// Answers in this time are counted apart and not measured.
    pub warmup: Duration,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub version: Version,
    pub engine: Engine,
    pub keepalive: bool,
    /// After so many answers a connection is closed and made anew.
    pub answers_per_connection: Option<u64>,
    pub trust: Trust,
    /// Connections come from these addresses in turn; none: from where the system likes.
    pub sources: Vec<IpAddr>,
    /// Longest wait for a whole answer, connect included.
    pub timeout: Duration,
    /// Parts of it: for the connection (with its TLS), and from the write to the first byte.
    pub connect_timeout: Option<Duration>,
    pub first_byte_timeout: Option<Duration>,
    /// Answers are read so slowly, in bytes a second and connection.
    pub throttle: Option<u64>,
    /// Only an answer that says `keep-alive` leaves its connection open, whatever its version.
    pub keeps_when_told: bool,
    /// When given, every body must be like this, else the answer is `BadBody`.
    pub expect_body: Option<ExpectedBody>,
    /// Records tell of each body's hash.
    pub sums_bodies: bool,
    /// Of so many requests each thread keeps a record.
    pub records_max: usize,
    /// Sent as it is, in place of what method, headers and body make; the method still says whether
    /// answers have bodies.
    pub raw_request: Option<Vec<u8>>,
    /// A server that never takes a connection is a result, not a reason to end the run.
    pub counts_refusals: bool,
    /// Which failed request ends the run.
    pub ends_with: Option<fn(&Record) -> bool>,
    /// Sizes of each socket's send and receive buffers.
    pub buffer_bytes: Option<(usize, usize)>,
}

/// Each connection has room for so many at most.
const DEPTH_MAX: u32 = 100_000;

impl Plan {
    /// GET `target` over 10 keep-alive connections from one thread for 10 s.
    #[must_use]
    pub fn get(target: Target) -> Self {
        Self {
            target,
            scene: None,
            connections: 10,
            depth: 1,
            threads: 1,
            stop: Stop::After(Duration::from_secs(10)),
            pace: None,
            warmup: Duration::ZERO,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            version: Version::Http11,
            engine: Engine::default(),
            keepalive: true,
            answers_per_connection: None,
            trust: Trust::default(),
            sources: Vec::new(),
            timeout: Duration::from_secs(10),
            connect_timeout: None,
            first_byte_timeout: None,
            throttle: None,
            keeps_when_told: false,
            expect_body: None,
            sums_bodies: false,
            records_max: 0,
            raw_request: None,
            counts_refusals: false,
            ends_with: None,
            buffer_bytes: None,
        }
    }

    /// The whole one and its parts.
    pub(crate) fn timeouts(&self) -> impl Iterator<Item = Duration> {
        let parts = self.connect_timeout.into_iter().chain(self.first_byte_timeout);
        parts.chain([self.timeout])
    }

    /// Somebody wants to see every body.
    pub(crate) fn looks_at_bodies(&self) -> bool {
        self.expect_body.is_some() || self.sums_bodies
    }

    /// Connections that get a request at all: never more than there are requests.
    #[must_use]
    pub fn connections_used(&self) -> u32 {
        match self.stop {
            Stop::Requests(requests) => {
                u32::try_from(requests).unwrap_or(u32::MAX).min(self.connections)
            }
            Stop::After(_) => self.connections,
        }
    }

    fn has_raw(&self) -> bool {
        self.scene.as_ref().is_some_and(|scene| scene.raw.is_some())
    }

    fn has_warmup_of_a_recording(&self) -> bool {
        let arrivals = self.pace.as_ref().map(|pace| &pace.arrivals);
        matches!(arrivals, Some(Arrivals::Recorded(_))) && !self.warmup.is_zero()
    }

    /// Whether [`crate::run`] would take it: what it would refuse before its first connection.
    pub fn check(&self) -> Result<(), Error> {
        self.check_numbers()?;
        crate::request::bytes(self).map(drop)
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let reason = if self.connections == 0 {
            "at least one connection is needed"
        } else if self.threads == 0 {
            "at least one thread is needed"
        } else if self.depth == 0 {
            "at least one request at a time is needed"
        } else if self.depth > DEPTH_MAX {
            "no more than 100,000 requests can be under way on a connection at once"
        } else if self.depth > 1 && !self.keepalive {
            "requests cannot be pipelined on connections that carry one each"
        } else if self.version == Version::Http2 && self.looks_at_bodies() {
            "bodies of HTTP/2 answers cannot be compared yet"
        } else if self.version == Version::Http2 && !self.keepalive {
            "HTTP/2 has no connection for each request; use answers-per-connection"
        } else if self.answers_per_connection == Some(0) {
            "a connection needs room for at least one answer"
        } else if self.scene.is_some() && self.depth > 1 && self.version != Version::Http2 {
            "a user waits for an answer before the next request: nothing to pipeline"
        } else if self.scene.as_ref().is_some_and(|scene| !scene.has_all_targets()) {
            "a server of the scenario has no address"
        } else if self.version == Version::Http2 && self.has_raw() {
            "requests as they are cannot be sent over HTTP/2"
        } else if self.scene.is_some() && self.expect_body.is_some() {
            "bodies are what the scenario's checks say"
        } else if self.has_warmup_of_a_recording() {
            "a recording begins at its first request; it has no warm-up"
        } else if self.threads > self.connections {
            "there are more threads than connections; each thread needs a connection of its own"
        } else if self.throttle.is_some() && self.engine == Engine::IoUring {
            "io_uring reads ahead of a slow reader; the epoll engine does not"
        } else if self.throttle == Some(0) {
            "nothing can be read at 0 bytes a second"
        } else if self.timeouts().any(|timeout| timeout.is_zero()) {
            "the timeout is zero"
        } else if matches!(self.stop, Stop::Requests(0)) {
            "zero requests were asked for"
        } else if matches!(self.stop, Stop::After(duration) if duration.is_zero()) {
            "the duration is zero"
        } else {
            return self.pace.as_ref().map_or(Ok(()), Pace::check);
        };
        Err(Error::Plan { reason })
    }
}

impl Raw {
    /// Each request a burst of its own.
    #[must_use]
    pub fn singly(requests: Vec<Vec<u8>>) -> Self {
        let bursts = (0..requests.len() as u32).map(|row| row..row + 1).collect();
        Self { requests, bursts }
    }

    /// The burst that the path of a scenario's request names; the first one where there is none.
    pub(crate) fn burst(&self, path: &[u8]) -> Range<u32> {
        let number = path.iter().skip(1).fold(0_usize, |number, digit| {
            number.saturating_mul(10).saturating_add(usize::from(digit.wrapping_sub(b'0')))
        });
        self.bursts.get(number).filter(|burst| !burst.is_empty()).cloned().unwrap_or(0..1)
    }

    pub(crate) fn request(&self, row: u32) -> &[u8] {
        self.requests.get(row as usize).map_or(b"", |request| request)
    }
}

impl Scene {
    fn has_all_targets(&self) -> bool {
        !self.targets.is_empty() && self.targets.len() == self.scenario.origins().len()
    }
}

impl Pace {
    #[must_use]
    pub fn steady(rps: f64, duration: Duration) -> Self {
        Self { arrivals: Arrivals::Constant, stages: vec![Stage::steady(duration, rps)] }
    }

    /// How long all stages last.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }

    /// The same rate from the beginning to the end.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let rates = || self.stages.iter().flat_map(|stage| [stage.from_rps, stage.to_rps]);
        let is_one = rates().zip(rates().skip(1)).all(|(rate, next)| rate.total_cmp(&next).is_eq());
        is_one && !matches!(self.arrivals, Arrivals::Recorded(_))
    }

    fn check(&self) -> Result<(), Error> {
        let good = |rps: f64| rps.is_finite() && rps >= 0.0;
        let bad = |stage: &Stage| !good(stage.from_rps) || !good(stage.to_rps);
        let reason = if self.stages.iter().any(bad) {
            "a rate is no number from 0 up"
        } else if self.stages.iter().any(|stage| stage.duration.is_zero()) {
            "a stage lasts no time"
        } else if self.stages.iter().all(|stage| stage.from_rps + stage.to_rps == 0.0) {
            "no request is planned: every rate is 0"
        } else {
            return Ok(());
        };
        Err(Error::Plan { reason })
    }
}

/// Part `at` of `whole` cut into `parts`; monotonic in `whole`, so that connections <= requests
/// holds in each part when it holds in all.
pub(crate) fn share(whole: u64, parts: u32, at: u32) -> u64 {
    whole / u64::from(parts) + u64::from(u64::from(at) < whole % u64::from(parts))
}
