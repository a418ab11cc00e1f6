//! Every figure of a run, once: its key in the result, its title in the report, its unit, what it
//! is, and the names by which `--threshold` and the exports know it. Thresholds and exports read
//! this table, JSON's keys and CSV's columns are compared with it, and docs/load.md is written from
//! it: a figure is added by adding an entry.

use crate::{
    outcome::{Latency, Outcome},
    plan::Plan,
};

/// One entry of the catalogue.
pub struct Metric {
    /// In JSON, with points between objects; empty where it is only in the report for people.
    pub key: &'static str,
    /// Its title in the report for people; empty where it is only in files.
    pub shown: &'static str,
    /// A histogram is an object of [`STATISTICS`], each in this unit.
    pub unit: Unit,
    /// In `--threshold`; empty where there is none.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// What else there is to know; may be empty.
    pub more: &'static str,
    pub exported: Option<Exported>,
    pub(crate) of: Of,
    pub(crate) needs: Needs,
}

/// What a figure is given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Us,
    Seconds,
    Requests,
    PerSecond,
    Bytes,
    /// A word, a number without a unit, or a list.
    None,
}

/// How Prometheus and OpenTelemetry know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Prometheus adds `_total` to a counter and `_seconds` to a histogram.
    pub name: &'static str,
    pub kind: ExportKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportKind {
    Counter,
    /// One counter for each kind of error.
    CounterByKind,
    Gauge,
    Histogram,
}

/// Where a limit finds the value.
pub(crate) enum Of {
    Times(fn(&Outcome) -> Option<&Latency>),
    Figure(Kind, fn(&Outcome) -> f64),
    /// No limit can be of it.
    Nothing,
}

/// Without which a run has no such figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A connection for each request.
    NoKeepalive,
    Tls,
    OpenLoop,
}

/// Which numbers a limit can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Time,
    Number,
    /// Of the requests that ended.
    Requests,
    Planned,
}

/// The members of a histogram in JSON, and the ends of its columns in CSV.
pub const STATISTICS: [(&str, &str); 6] = [
    ("mean", "of all, each to three significant digits"),
    ("p50", "the median"),
    ("p90", "one answer in ten took longer"),
    ("p99", "one in a hundred"),
    ("p999", "one in a thousand; `p99.9` in the report and for `--threshold`"),
    ("max", "the longest"),
];

/// In the order of the JSON result.
pub const METRICS: &[Metric] = &[
    Metric { doc: "`drom-load/1`. Keys are added, never renamed", ..fact("schema", "") },
    Metric { doc: "of this program", ..fact("version", "") },
    Metric { doc: "what was loaded, as it was written", ..fact("url", "Target") },
    Metric { doc: "when the window opened, UTC", ..fact("opened_at", "") },
    Metric { doc: "`--method`; `null` of a scenario", ..fact("plan.method", "Target") },
    Metric { doc: "`-c`", ..fact("plan.connections", "Load") },
    Metric {
        doc: "requests under way on a connection at once: `--pipeline`, `--streams`",
        ..fact("plan.depth", "Load")
    },
    Metric { doc: "`-t`", ..fact("plan.threads", "Load") },
    Metric { doc: "`false`: `--no-keepalive`", ..fact("plan.keepalive", "Load") },
    Metric {
        doc: "`--answers-per-connection`; `null` without a limit",
        ..fact("plan.answers_per_connection", "Load")
    },
    Metric {
        doc: "`--throttle`: bytes a second that each connection reads; `null` without a limit",
        ..fact("plan.throttle_bytes_per_second", "Load")
    },
    Metric { doc: "`--warmup`", unit: Unit::Seconds, ..fact("plan.warmup_s", "Load") },
    Metric {
        doc: "`-d`, or the sum of the stages; `null` with `-n`",
        unit: Unit::Seconds,
        ..fact("plan.duration_s", "Load")
    },
    Metric { doc: "`-n`; `null` with `-d`", ..fact("plan.requests", "Load") },
    Metric {
        doc: "`--rate`; `null` in a closed loop and of several stages",
        unit: Unit::PerSecond,
        ..fact("plan.rate_rps", "Load")
    },
    Metric { doc: "`--stages`, where they are several or change", ..fact("plan.stages", "Load") },
    Metric { doc: "`--timeout`", unit: Unit::Seconds, ..fact("plan.timeout_s", "") },
    Metric {
        doc: "HTTP/2 streams that the server allowed at once, where they are fewer than were asked \
              for; else `null`",
        ..fact("streams_max", "Load")
    },
    Metric { doc: "what wrote and read, e.g. `epoll`", ..fact("engine", "Load") },
    Metric {
        doc: "why it is not the one that `--engine` asked for; `null` where it is",
        ..fact("fallback", "Load")
    },
    Metric {
        doc: "the measured window",
        more: "From the end of the warm-up to the deadline, to the last answer (`-n`), or to \
               Ctrl-C",
        unit: Unit::Seconds,
        ..fact("duration_s", "Window")
    },
    Metric {
        doc: "requests begun: written, or their connection asked for",
        more: "Less those that ended in the warm-up; one that is under way when the warm-up ends \
               belongs to the window, for it ends there",
        exported: counter("drom_load_requests_sent"),
        ..requests("requests.sent", "")
    },
    Metric {
        doc: "complete answers with a status below 400; of a scenario, that pass their checks",
        exported: counter("drom_load_requests_ok"),
        ..requests("requests.ok", "")
    },
    Metric {
        name: "failed",
        doc: "other answers, and errors",
        more: "For `--threshold` also requests of users that could not be written",
        exported: counter("drom_load_requests_failed"),
        of: Of::Figure(Kind::Requests, |run| (run.failed + run.unwritten()) as f64),
        ..requests("requests.failed", "")
    },
    Metric {
        doc: "requests under way: begun, and not ended",
        more: "When the run ended: in an open loop none, unless it was stopped. What is exported, \
               and in the series, is the number at the end of the last second. Always \
               `sent = ok + failed + in_flight`",
        exported: Some(Exported { name: "drom_load_in_flight", kind: ExportKind::Gauge }),
        ..requests("requests.in_flight", "In flight")
    },
    Metric {
        doc: "requests that were written once more on another connection",
        more: "The server had announced not to answer them (`Connection: close`, GOAWAY), or \
               refused their stream. Each is one of `sent`, and no failure: a server's own count \
               is `sent + resent`, less what it had not read when it turned it away. How long \
               the server had it before that is in its latency, making the other connection is \
               not",
        ..requests("requests.resent", "Connects")
    },
    Metric {
        doc: "bytes of answers, heads included",
        more: "1 MB = 10^6 bytes",
        unit: Unit::Bytes,
        exported: counter("drom_load_read_bytes"),
        ..fact("bytes_read", "Read")
    },
    Metric {
        name: "rate",
        doc: "complete answers a second",
        more: "Of any status, in the window / `duration_s`: in an open loop without \
               `open.drained`. `null` when the run was stopped in its warm-up",
        unit: Unit::PerSecond,
        of: Of::Figure(Kind::Number, Outcome::rate_rps),
        ..fact("rate_rps", "Rate")
    },
    Metric {
        doc: "of every complete answer; in an open loop from the planned time",
        more: "In a closed loop from just before the request is written. To the read that brought \
               its last byte; a connect is never in it. Three significant digits; nothing is \
               dropped, corrected or invented. Errors are not in it",
        exported: Some(Exported { name: "drom_load_latency", kind: ExportKind::Histogram }),
        ..times("latency_us", "latency", "Latency", |run| Some(&run.latency))
    },
    Metric {
        doc: "how long it took to find the host's address, once, before the run",
        unit: Unit::Us,
        ..fact("phases.lookup_us", "Lookup")
    },
    Metric {
        doc: "of the TCP connects",
        more: "Of every connection that was made in the window, by the kernel's clock where it \
               tells (TCP_INFO): of many that are begun at once most wait for the client",
        ..times("phases.connect_us", "connect", "Connect", |run| Some(&run.connect))
    },
    Metric {
        doc: "of the TLS handshakes",
        more: "Of every connection that was made in the window, after its connect",
        needs: Needs::Tls,
        ..times("phases.tls_us", "tls", "TLS", |run| Some(&run.tls))
    },
    Metric {
        doc: "from the write to the first bytes of the answer",
        ..times("phases.first_byte_us", "first_byte", "First byte", |run| Some(&run.first_byte))
    },
    Metric {
        doc: "from those to the last",
        ..times("phases.transfer_us", "transfer", "Transfer", |run| Some(&run.transfer))
    },
    Metric {
        doc: "from the start of the connect to the last byte (--no-keepalive)",
        needs: Needs::NoKeepalive,
        ..times("phases.whole_us", "whole", "Whole", |run| Some(&run.whole))
    },
    Metric { doc: "`constant`, `poisson` or `recorded`", ..fact("open.arrivals", "Arrivals") },
    Metric {
        doc: "of random arrivals: `--seed` with it repeats them",
        ..fact("open.seed", "Arrivals")
    },
    Metric {
        doc: "requests (of a scenario: rounds) whose time came in the window",
        more: "Always `planned + carried = sent + unsent`",
        ..requests("open.planned", "Planned")
    },
    Metric {
        name: "unsent",
        doc: "planned, and never sent (open loop)",
        more: "No connection was free for them until the end",
        of: Of::Figure(Kind::Planned, |run| run.open.as_ref().map_or(0, |open| open.unsent) as f64),
        ..requests("open.unsent", "Planned")
    },
    Metric {
        doc: "planned in the warm-up, and under way or not yet begun when the window opened",
        more: "They are among those sent (or unsent) in the window, not among those planned",
        ..requests("open.carried", "Planned")
    },
    Metric {
        doc: "sent, but no connection was free at their planned time",
        more: "They waited for one, and that is in their latency",
        ..requests("open.queued", "Planned")
    },
    Metric {
        doc: "planned requests a second",
        unit: Unit::PerSecond,
        ..fact("open.planned_rps", "Planned")
    },
    Metric {
        doc: "from the write to the last byte, in an open loop too",
        more: "What a closed loop calls latency",
        ..times("open.service_us", "service", "Service", |run| {
            Some(run.open.as_ref().map_or(&run.latency, |open| &open.service))
        })
    },
    Metric {
        doc: "of the generator itself (open loop)",
        more: "From the planned time to the write (with `--no-keepalive` to the start of the \
               connect), of requests for which a connection was free",
        needs: Needs::OpenLoop,
        ..times("open.lag_us", "lag", "Lag", |run| run.open.as_ref().map(|open| &open.lag))
    },
    Metric {
        doc: "the most requests that the client was late with and that went out at once",
        more: "Those that waited for a connection are `open.queued`",
        ..requests("open.burst_max", "Planned")
    },
    Metric {
        doc: "from the end of the window to that of the last request (open loop)",
        more: "What is under way is waited for, and no request begins",
        unit: Unit::Seconds,
        ..fact("open.drain_s", "Drain")
    },
    Metric {
        doc: "answers that came in that time",
        more: "They are in the counts and in `latency_us`, and in no rate. The report tells of \
               them where they are more than a hundredth",
        ..requests("open.drained", "Drain")
    },
    Metric { doc: "the file's name, or what it calls itself", ..fact("scenario.name", "Scenario") },
    Metric { doc: "`--seed` makes the same users again", ..fact("scenario.seed", "Scenario") },
    Metric {
        doc: "rounds through its steps that a user began",
        more: "Always `begun = done + under_way`",
        ..fact("scenario.rounds.begun", "Rounds")
    },
    Metric {
        doc: "those that came to an end; one that `stop_on` ends early did",
        ..fact("scenario.rounds.done", "Rounds")
    },
    Metric { doc: "those that had not at the end", ..fact("scenario.rounds.under_way", "Rounds") },
    Metric {
        doc: "rounds done a second",
        unit: Unit::PerSecond,
        ..fact("scenario.rounds.rate_rps", "Rounds")
    },
    Metric {
        doc: "from the beginning of a round to its end, pauses included",
        more: "In an open loop from its planned time",
        unit: Unit::Us,
        ..fact("scenario.rounds.time_us", "Rounds")
    },
    Metric {
        doc: "list of `name`, `sent`, `ok`, `failed`, `unsent` and `latency_us` of each step",
        more: "From the write of the request to the last byte, of complete answers; redirects are \
               in them. Unsent: a value was missing, or would have broken the request",
        ..fact("scenario.steps", "Steps")
    },
    Metric {
        doc: "list of `step`, `name`, `passed` and `failed` of each check of the scenario",
        more: "The report has those that failed",
        ..fact("scenario.checks", "Not as told")
    },
    Metric {
        doc: "users who had no more to do: all rows of a feeder were taken (`once`)",
        ..fact("scenario.users_ended", "Scenario")
    },
    Metric { doc: "the feeder whose rows they were", ..fact("scenario.exhausted", "Scenario") },
    Metric {
        doc: "cookies of answers that a user's jar did not take: for another host, say",
        ..fact("scenario.cookies_refused", "Cookies")
    },
    Metric { doc: "complete answers by status code", ..requests("status", "Status") },
    Metric {
        name: "errors",
        doc: "requests that ended without a complete answer",
        more: "By kind, see below",
        exported: Some(Exported { name: "drom_load_errors", kind: ExportKind::CounterByKind }),
        of: Of::Figure(Kind::Requests, |run| run.errors.values().sum::<u64>() as f64),
        ..requests("errors", "Errors")
    },
    Metric {
        doc: "of requests that ended without a complete answer, until they did",
        more: "From the write, or the connect they waited for. They are in no other time: a \
               refusal after 50 us is no fast answer",
        ..times("error_us", "error", "Error after", |run| Some(&run.error_latency))
    },
    Metric {
        name: "cpu",
        doc: "CPU time of the client a request",
        more: "Of its threads in the window, user and system, / requests that ended",
        unit: Unit::Us,
        of: Of::Figure(Kind::Time, |run| run.cpu_us_per_request() * 1e3),
        ..fact("client.cpu_us_per_request", "Client")
    },
    Metric {
        doc: "`true` when the client was the limit: the check `client` failed",
        ..fact("client.limited", "Checks")
    },
    Metric {
        doc: "what the client lacked when it was the limit, or may have been: `work` (its own \
              work took its CPU time), `starved` (something else used its CPU), `stopped`, \
              `stolen` (by the hypervisor), `connections` (an open loop had too few)",
        ..fact("client.cause", "")
    },
    Metric {
        doc: "share of the window that the busiest thread was on a CPU, less looking for \
              answers",
        ..fact("client.work_share", "")
    },
    Metric {
        doc: "share of the window that this thread was ready without a CPU, by the \
              kernel's count",
        ..fact("client.starved_share", "")
    },
    Metric {
        doc: "share of the window that this thread had something to do and came to it a \
              millisecond late or more",
        ..fact("client.late_share", "")
    },
    Metric {
        doc: "share of its requests' time that the client held itself, of the thread with \
              the most",
        ..fact("client.held_share", "")
    },
    Metric {
        doc: "the longest that an answer or a planned time waited for that thread",
        unit: Unit::Us,
        ..fact("client.late_max_us", "")
    },
    Metric {
        doc: "complete answers that the client left lying for a millisecond or more",
        more: "By the kernel's stamps of what comes (TCP, `epoll`), and by its own clock from the \
               end of its wait on",
        unit: Unit::Requests,
        ..fact("client.kept_answers", "Checks")
    },
    Metric {
        doc: "`latency_us` without that time; `null` where no answer was left so",
        ..Metric { name: "", of: Of::Nothing, ..times("client.unkept_us", "", "Checks", |_| None) }
    },
    Metric {
        doc: "seconds in which that thread held too much",
        ..fact("client.limited_seconds", "")
    },
    Metric {
        doc: "when the worst of them began",
        unit: Unit::Seconds,
        ..fact("client.worst_at_s", "")
    },
    Metric {
        doc: "share of the machine's CPU time that the hypervisor took",
        ..fact("client.steal_share", "")
    },
    Metric {
        doc: "TCP segments sent again in this network namespace, from the begin of the run \
              to its end; `null` is not known",
        ..fact("kernel.retransmits", "")
    },
    Metric { doc: "TCP retransmission timers that ran out", ..fact("kernel.timeouts", "") },
    Metric {
        doc: "connections that found the queue of a listening socket here full",
        ..fact("kernel.listen_overflows", "")
    },
    Metric {
        doc: "those and others that a listening socket here did not take",
        ..fact("kernel.listen_drops", "")
    },
    Metric {
        doc: "the server is on this machine: what listening sockets count may be its",
        ..fact("kernel.is_server_local", "")
    },
    Metric {
        doc: "the largest packet on the way to the server, by this machine's routes",
        more: "64 KiB over loopback as a rule: a network has many packets where that has one",
        unit: Unit::Bytes,
        ..fact("kernel.mtu", "Target")
    },
    Metric {
        doc: "local ports for connections to this server, over all source addresses",
        ..fact("kernel.ports", "")
    },
    Metric {
        doc: "connections made in the window, the first ones too",
        ..fact("kernel.connections_made", "")
    },
    Metric { doc: "open files that the run needs", ..fact("kernel.descriptors", "") },
    Metric { doc: "open files that are allowed", ..fact("kernel.descriptors_max", "") },
    Metric {
        doc: "list of `name`, `state` (`ok`, `warning`, `unknown`, `failed`), `evidence`, and \
              `advice` where it is not `ok`",
        ..fact("checks", "Checks")
    },
    Metric {
        doc: "list of `expression`, `value` (in `unit`, that of the limit) and `met`",
        ..fact("thresholds", "Thresholds")
    },
    Metric {
        doc: "the run second by second, with the columns of `--csv-series`",
        ..fact("series", "")
    },
    Metric {
        doc: "connects in the window after a connection's first, and requests behind others that \
              were sent again: pipelined ones, and HTTP/2 streams that the server had refused (up \
              to 8 times); shown when there were any",
        ..fact("", "Connects")
    },
];

impl Metric {
    /// Whether it has a mean, percentiles and a maximum.
    #[must_use]
    pub fn is_histogram(&self) -> bool {
        matches!(self.of, Of::Times(_))
    }

    /// What a limit of it is written in; empty where there is none.
    #[must_use]
    pub fn limit_units(&self) -> &'static str {
        match &self.of {
            Of::Times(_) => Kind::Time.units(),
            Of::Figure(kind, _) => kind.units(),
            Of::Nothing => "",
        }
    }
}

impl Needs {
    /// What `plan` would have to be; nothing where the figure will be there.
    pub(crate) fn missing(self, plan: &Plan, is_open: bool) -> Option<&'static str> {
        let scene = plan.scene.as_ref();
        let is_secure = scene.is_none() && plan.target.secure
            || scene.is_some_and(|scene| scene.targets.iter().any(|target| target.secure));
        match self {
            Self::NoKeepalive if plan.keepalive => Some("a connection for each request"),
            Self::Tls if !is_secure => Some("TLS, an https:// URL"),
            Self::OpenLoop if !is_open => Some("a rate"),
            _ => None,
        }
    }
}

impl Kind {
    fn units(self) -> &'static str {
        match self {
            Self::Time => "ns, us, ms or s",
            Self::Number => "a number a second, k, M",
            Self::Requests => "% of the requests that ended, or a number",
            Self::Planned => "% of the planned requests, or a number",
        }
    }
}

impl Unit {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Us => "microseconds",
            Self::Seconds => "seconds",
            Self::Requests => "requests",
            Self::PerSecond => "a second",
            Self::Bytes => "bytes",
            Self::None => "",
        }
    }
}

impl Exported {
    /// As Prometheus has it.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let end = match self.kind {
            ExportKind::Counter | ExportKind::CounterByKind => "_total",
            ExportKind::Gauge => "",
            ExportKind::Histogram => "_seconds",
        };
        format!("{}{end}", self.name)
    }
}

/// The entry of a key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.key == key)
}

/// Those with a name that `--threshold` knows: the histograms first.
pub fn limits() -> impl Iterator<Item = &'static Metric> {
    let named = || METRICS.iter().filter(|metric| !metric.name.is_empty());
    let histograms = named().filter(|metric| metric.is_histogram());
    histograms.chain(named().filter(|metric| !metric.is_histogram()))
}

const fn fact(key: &'static str, shown: &'static str) -> Metric {
    Metric {
        key,
        shown,
        unit: Unit::None,
        name: "",
        doc: "",
        more: "",
        exported: None,
        of: Of::Nothing,
        needs: Needs::Nothing,
    }
}

const fn requests(key: &'static str, shown: &'static str) -> Metric {
    Metric { unit: Unit::Requests, ..fact(key, shown) }
}

const fn times(
    key: &'static str,
    name: &'static str,
    shown: &'static str,
    of: fn(&Outcome) -> Option<&Latency>,
) -> Metric {
    Metric { unit: Unit::Us, name, of: Of::Times(of), ..fact(key, shown) }
}

const fn counter(name: &'static str) -> Option<Exported> {
    Some(Exported { name, kind: ExportKind::Counter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_names_are_unique_and_every_entry_says_something() {
        let mut known = Vec::new();
        for metric in METRICS {
            known.push(format!("key {}", metric.key));
            known.push(format!("name {}", metric.name));
            assert!(!metric.doc.is_empty(), "{}", metric.key);
            assert!(!metric.doc.contains('|') && !metric.more.contains('|'), "{}", metric.key);
            assert_eq!(metric.name.is_empty(), matches!(metric.of, Of::Nothing), "{}", metric.key);
        }
        known.retain(|name| name != "key " && name != "name ");
        let all = known.len();
        known.sort();
        known.dedup();
        assert_eq!(known.len(), all);
    }

    #[test]
    fn a_unit_is_at_the_end_of_its_key() {
        for metric in METRICS {
            let is_us = metric.key.ends_with("_us") || metric.key.contains("_us_");
            assert_eq!(is_us, metric.unit == Unit::Us, "{}", metric.key);
            assert_eq!(metric.key.ends_with("_s"), metric.unit == Unit::Seconds, "{}", metric.key);
            assert_eq!(
                metric.key.ends_with("_rps"),
                metric.unit == Unit::PerSecond,
                "{}",
                metric.key
            );
        }
    }
}
