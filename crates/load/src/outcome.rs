//! What was measured: counts that reconcile, histograms, the client's own cost.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use crate::timeline::Interval;

/// Latencies in nanoseconds, 3 significant digits, 1 ns to 1 h; merged by addition.
pub type Latency = drom_stats::Latency;

/// Why an answer was not good. One variant per distinct fault; the names are the JSON keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    Connect,
    /// The TLS handshake, or what came after it.
    Tls,
    Timeout,
    /// No connection within the time for that.
    ConnectTimeout,
    /// Not a byte of the answer within the time for that.
    FirstByteTimeout,
    /// Closed or reset before the answer was complete.
    Closed,
    /// Not HTTP, or ambiguous framing.
    Protocol,
    /// Length or hash differs from what the plan expects.
    BadBody,
    Read,
    Write,
}

impl ErrorKind {
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::ConnectTimeout,
        Self::FirstByteTimeout,
        Self::Closed,
        Self::Protocol,
        Self::BadBody,
        Self::Read,
        Self::Write,
    ];

    /// What happened, for people.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Connect => "no connection: refused, unreachable or out of ports",
            Self::Tls => "the TLS handshake failed",
            Self::Timeout => "no whole answer within the timeout",
            Self::ConnectTimeout => "no connection within the connect timeout",
            Self::FirstByteTimeout => "not a byte of the answer within the first-byte timeout",
            Self::Closed => "the server closed the connection before the answer was whole",
            Self::Protocol => "what came is not HTTP, or not in the version that was asked for",
            Self::BadBody => "another body than was expected",
            Self::Read => "the connection failed while it was read",
            Self::Write => "the connection failed while it was written",
        }
    }

    /// The name in JSON and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::ConnectTimeout => "connect_timeout",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::BadBody => "bad_body",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// What else there is to know of it; may be empty.
    #[must_use]
    pub fn more(self) -> &'static str {
        match self {
            Self::Connect => "The next try waits 10 ms",
            Self::Tls => "Or a record after it was broken",
            Self::Timeout => "`--timeout`; noticed at most a twentieth, or 50 ms, late",
            Self::ConnectTimeout => "`--connect-timeout`; TLS is part of it",
            Self::FirstByteTimeout => "`--first-byte-timeout`; counts from the write",
            Self::Protocol => {
                "Or a head of more than 64 KiB, or framing that could be read in two ways (both \
                 lengths, bad chunks, bare line feeds, bytes after the end); in HTTP/2 a broken \
                 frame or header block, or a body of another length than was told; the check \
                 `errors` names the first one. A head has any number of fields; a folded line is \
                 read as a space"
            }
            Self::BadBody => "Only where a plan says what to expect",
            Self::Closed => "Or reset it",
            Self::Read => "Otherwise than by a reset: no route any more, say",
            Self::Write => "",
        }
    }
}

/// A body that was not the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBody {
    pub length: u64,
    pub hash: u64,
    /// Some of its bytes: the beginning of the last piece of it that came.
    pub part: Vec<u8>,
}

/// A finished (or interrupted) run. `sent == ok + failed + in_flight`.
///
/// A request belongs to the measured window unless it ended in the warm-up: those under way when
/// the window opened count as sent in it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub engine: &'static str,
    /// Why it is not the one that was asked for, where that is so.
    pub fallback: Option<String>,
    /// When the window was opened, on the wall's clock.
    pub opened: Option<SystemTime>,
    /// The measured window, warm-up excluded.
    pub duration: Duration,
    /// In an open loop: from its end to that of the last request of it.
    pub drain: Duration,
    /// Requests begun: written, or their connection asked for.
    pub sent: u64,
    /// Complete answers with a status below 400; of a scenario: that pass their checks.
    pub ok: u64,
    /// Other complete answers, and requests that ended in an error.
    pub failed: u64,
    pub in_flight: u64,
    /// Complete answers only; they are the ones in `latency`.
    pub status: BTreeMap<u16, u64>,
    pub errors: BTreeMap<ErrorKind, u64>,
    /// The first broken rule of the protocol, in words.
    pub first_fault: Option<crate::fault::Fault>,
    /// The system's number of the first error of a socket.
    pub first_os_error: Option<i32>,
    /// The first body that was not the expected one.
    pub first_bad_body: Option<BadBody>,
    /// All bytes of answers, and those of complete answers' bodies without the transfer coding.
    pub bytes_read: u64,
    pub body_bytes: u64,
    /// From the write of the request to the last byte of the answer; in an open loop from the
    /// planned time.
    pub latency: Latency,
    /// The parts of it: from the write to the first bytes of the answer, from those to the last.
    pub first_byte: Latency,
    pub transfer: Latency,
    /// Without keep-alive: from the start of the request's connect to the last byte.
    pub whole: Latency,
    /// How long requests took that ended in an error: kept apart, a refusal in 50 us is no fast
    /// answer.
    pub error_latency: Latency,
    /// Latencies of answers that the client kept waiting for a millisecond or more, and what they
    /// would have been without: known where the kernel stamps what comes (TCP, `epoll`).
    pub kept: Latency,
    pub unkept: Latency,
    /// What an open loop has to tell besides; its `latency` counts from the planned time.
    pub open: Option<crate::open::OpenTally>,
    /// From the start of a connect to the connection, where it succeeded.
    pub connect: Latency,
    /// TLS handshakes that succeeded.
    pub tls: Latency,
    /// Connections that were established at least once.
    pub connected: u32,
    /// HTTP/2: so many streams a server allowed at once, where they are fewer than were asked for.
    pub streams_max: Option<u32>,
    /// Connects in the window beyond the first of each connection.
    pub reconnects: u64,
    /// Pipelined requests that the server announced it would not answer, written once more.
    pub resent: u64,
    /// Answers (good or not) of each connection in the window, for Jain's index.
    pub answers_per_connection: Vec<u64>,
    /// Requests that ended in the warm-up; counted nowhere else.
    pub warmup_requests: u64,
    /// CPU time of each client thread inside the window.
    pub thread_cpu: Vec<Duration>,
    /// Part of `thread_cpu` in which the thread only looked for answers instead of sleeping.
    pub thread_idle_spin: Vec<Duration>,
    /// Time each client thread was runnable but had no CPU, where the kernel tells.
    pub thread_run_delay: Vec<Duration>,
    /// What each client thread's time was, and how much of its requests' time it held.
    pub accounts: Vec<crate::held::Accounts>,
    /// Share of the machine's CPU time that the hypervisor took away, where the kernel tells.
    pub steal_share: Option<f64>,
    /// What the system allowed, and what the kernel counted from begin to end, warm-up included.
    pub limits: Option<crate::limits::Limits>,
    /// Connection time of the window: connections times duration.
    pub connection_time: Duration,
    /// What is known of it from stamps taken one by one; Little's law compares the two.
    pub accounted_time: Duration,
    /// Good answers a second in steps of equal length over the window; empty for a run that was
    /// interrupted or had a number of requests to do.
    pub pace: Vec<f64>,
    pub interrupted: bool,
    /// The window in seconds.
    pub timeline: Vec<Interval>,
    /// The head of the first answer, as it came.
    pub first_head: Vec<u8>,
    /// What the first secured connection agreed on.
    pub secured: Option<crate::tls::TlsFacts>,
    /// What users of a scenario did.
    pub scene: Option<crate::scene::SceneTally>,
    /// The first requests, one by one: as many as the plan asks for.
    pub records: Vec<crate::exchange::Record>,
}

/// A connection that was given so many requests in the mean and answered none, where the others
/// answered so many, is not served.
const MUTE_REQUESTS: f64 = 1.25;
const MUTE_ANSWERS: f64 = 3.0;
const MUTE_CHANCE: f64 = 0.01;

impl Outcome {
    /// Complete answers, whatever their status.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.status.values().sum()
    }

    /// What the latencies would have been if the client had taken every answer within a
    /// millisecond.
    #[must_use]
    pub fn latency_unkept(&self) -> Latency {
        let mut latency = self.latency.clone();
        latency.take_out(&self.kept);
        latency.merge(&self.unkept);
        latency
    }

    /// Connections without an answer, where all had requests and those that were served had several
    /// answers: a server that is slow gives each its turn. One that leaves some requests without an
    /// answer, on whatever connection, makes a few of those by chance.
    #[must_use]
    pub fn mute_connections(&self) -> usize {
        let all = &self.answers_per_connection;
        let mute = all.iter().filter(|answers| **answers == 0).count();
        let served = all.len() - mute;
        let had_turns = self.begun() as f64 >= MUTE_REQUESTS * all.len() as f64;
        let others_had = self.answers() as f64 >= MUTE_ANSWERS * served as f64;
        let lost = ratio(self.failed as f64, (self.ok + self.failed) as f64);
        let is_chance = at_least(mute, lost * all.len() as f64) > MUTE_CHANCE;
        if served > 0 && had_turns && others_had && !is_chance { mute } else { 0 }
    }

    /// What a client waits for an answer: the latency, with the connect where each request has one.
    #[must_use]
    pub fn waited(&self) -> &Latency {
        if self.whole.count() > 0 { &self.whole } else { &self.latency }
    }

    /// In the window: what came after it is part of no rate.
    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        let drained = self.open.as_ref().map_or(0, |open| open.drained);
        ratio((self.answers() - drained) as f64, self.duration.as_secs_f64())
    }

    /// The same of the bytes of answers, heads included.
    #[must_use]
    pub fn read_per_s(&self) -> f64 {
        let drained = self.open.as_ref().map_or(0, |open| open.drained_bytes);
        ratio((self.bytes_read - drained) as f64, self.duration.as_secs_f64())
    }

    /// What an open loop plans: requests, or rounds of users.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.scene.as_ref().map_or(self.sent, |tally| tally.rounds.begun)
    }

    /// Of those begun; without users each is one request.
    #[must_use]
    pub fn requests_a_round(&self) -> f64 {
        ratio(self.sent as f64, self.begun() as f64)
    }

    /// Seconds of a place on the connections that each of those begun took, pauses included.
    #[must_use]
    pub fn place_s_a_round(&self) -> f64 {
        ratio(self.accounted_time.as_secs_f64(), self.begun() as f64)
    }

    /// Requests of users that could not be written: a value was missing, or would have broken them.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.scene.iter().flat_map(|tally| &tally.steps).map(|step| step.unsent).sum()
    }

    /// So many of those came to an end in a second. A round whose last answer comes after the
    /// window of an open loop is under way at its end.
    #[must_use]
    pub fn done_rps(&self) -> f64 {
        let rounds = self.scene.as_ref().map(|tally| tally.rounds.done as f64);
        rounds.map_or(self.rate_rps(), |done| ratio(done, self.duration.as_secs_f64()))
    }

    /// Seconds that latency rose by in each second of the window of an open loop, where it rose all
    /// the time. `is_steady`: its planned rate did not change. `chance`: how seldom it is to be
    /// said of one that does not grow.
    #[must_use]
    pub fn growth(&self, is_steady: bool, chance: f64) -> Option<f64> {
        self.open.as_ref()?.rise.slope(self.duration.as_secs_f64(), is_steady, chance)
    }

    #[must_use]
    pub fn cpu_us_per_request(&self) -> f64 {
        let cpu: Duration = self.thread_cpu.iter().sum();
        ratio(cpu.as_secs_f64() * 1e6, (self.ok + self.failed) as f64)
    }

    /// Of TCP, the first ones too: each takes a port, whatever comes of it.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.connect.count().max(u64::from(self.connected) + self.reconnects)
    }

    /// Relative deviation of the accounted from the real connection time: Little's law (N = X R)
    /// with the client's own pauses and connects counted in R. 0 is exact.
    #[must_use]
    pub fn little_deviation(&self) -> f64 {
        let real = self.connection_time.as_secs_f64();
        ratio(self.accounted_time.as_secs_f64() - real, real)
    }

    /// Jain's fairness index of the answers per connection: 1 is even, 1/n is one takes all.
    /// Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC TR-301, 1984.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let (mut sum, mut squares) = (0.0, 0.0);
        for answers in &self.answers_per_connection {
            sum += *answers as f64;
            squares += (*answers as f64).powi(2);
        }
        ratio(sum * sum, squares * self.answers_per_connection.len() as f64)
    }
}

/// How probable so many or more are where so many are expected (Poisson).
fn at_least(count: usize, expected: f64) -> f64 {
    let mut of_k = (-expected).exp();
    let mut fewer = 0.0;
    for k in 0..count {
        fewer += of_k;
        of_k *= expected / (k + 1) as f64;
    }
    1.0 - fewer
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_never_served_is_told_from_one_that_waits_for_its_turn() {
        let of = |answers: &[u64], sent| Outcome {
            sent,
            status: [(200, answers.iter().sum())].into(),
            answers_per_connection: answers.to_vec(),
            ..Outcome::default()
        };
        assert_eq!(of(&[9, 8, 0, 0, 0], 20).mute_connections(), 3);
        assert_eq!(of(&[9, 8, 0, 0, 0], 5).mute_connections(), 0, "not all had a request");
        assert_eq!(of(&[1, 2, 1, 0, 0], 20).mute_connections(), 0, "a slow server");
        assert_eq!(of(&[4, 4, 5], 20).mute_connections(), 0);
        assert_eq!(of(&[0, 0], 20).mute_connections(), 0, "nobody was served");
        // One in fifty is lost, and two connections had nothing but such a one.
        let answers = [[0; 2].as_slice(), &[4; 62]].concat();
        let losing = |failed| Outcome { ok: 248, failed, ..of(&answers, 254) };
        assert_eq!((losing(5).mute_connections(), losing(0).mute_connections()), (0, 2));
    }

    #[test]
    fn the_chance_of_so_many_is_poissons() {
        assert!((at_least(0, 1.3) - 1.0).abs() < 1e-12);
        assert!((at_least(1, 0.5) - 0.393_469_340).abs() < 1e-9);
        assert!((at_least(3, 2.0) - 0.323_323_584).abs() < 1e-9);
    }

    #[test]
    fn fairness_is_jains_index() {
        let of = |answers: &[u64]| {
            Outcome { answers_per_connection: answers.to_vec(), ..Outcome::default() }.fairness()
        };
        assert!((of(&[7, 7, 7, 7]) - 1.0).abs() < 1e-12);
        assert!((of(&[8, 0, 0, 0]) - 0.25).abs() < 1e-12);
        assert!((of(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
        assert!(of(&[]).abs() < 1e-12);
    }
}
