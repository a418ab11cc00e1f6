//! What a run checks about itself. The catalogue is [`CHECKS`]: one entry a check, from which the
//! report, JSON, CSV, the page and docs/load.md come; a check is added by adding an entry. Pure.
//!
//! A check that spoils the numbers has an exit status, that of the client one of its own; a warning
//! only stands in the report.

use std::time::Duration;

use drom_load::{Address, Cause, ErrorKind, OpenTally, Outcome, Pace, Plan, Stop, client_limited};

use super::super::classic;
use super::{
    kernel, steps,
    text::{count, number_of, time_us},
};

/// Little's law may be off by this much (compare with `METHODOLOGY`: 2 %).
const LITTLE_MAX: f64 = 0.02;
/// The check with an exit status of its own.
pub const CLIENT: &str = "client";
const STEAL_MAX: f64 = 0.01;
/// Below this window the kernel's 10 ms ticks are too coarse to say anything of steal.
const STEAL_WINDOW_MIN_S: f64 = 0.5;
/// Growth is seen from second to second.
const BACKLOG_WINDOW_MIN: Duration = Duration::from_secs(2);
/// So many may wait where the server keeps up: so many times what is under way at the latency of
/// the quickest third of the window, and some; in the middle of it this part of the plan more.
const UNDER_WAY_TIMES: f64 = 4.0;
const UNDER_WAY_FEW: f64 = 10.0;
const BEHIND_SHARE: f64 = 0.06;
/// Of the planned ones, when they are a queue's.
const LATE_SHARE: f64 = 0.05;
/// Of that: so many left unsent are behind at any latency.
const UNSENT_SHARE: f64 = 0.5;
/// In one window of a thousand latencies that only come and go may be taken for growth.
const GROWTH_CHANCE: f64 = 0.001;
const NO_WORD: &str = "they were connected, but TLS or HTTP/2 did not come about on them: see the \
                       errors above, and whether the port is one for it";
const NOT_SERVED: &str = "the server takes connections that it does not serve: look at its limits \
                          (workers, clients), or ask for fewer (-c)";
const FEWER_STREAMS: &str = "the server allows no more at once (SETTINGS_MAX_CONCURRENT_STREAMS): \
                            raise that, or spread the requests over more connections (-c)";
const MORE_ROWS: &str = "give it more rows, or leave out `once`";
const LATE: &str = "give more threads (-t) or a machine with less to do";

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    /// Worth knowing; the numbers stand.
    Warning,
    /// Nobody can tell: what it needs cannot be read.
    Unknown,
    /// The numbers are doubtful.
    Failed,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub evidence: String,
    /// What to do; none where all is well.
    pub advice: Option<&'static str>,
}

/// One entry of the catalogue.
pub struct Entry {
    pub name: &'static str,
    /// What is looked at.
    pub doc: &'static str,
    /// When it is not well.
    pub fails: &'static str,
    /// What it is then.
    pub otherwise: State,
    /// What to do then.
    pub advice: &'static str,
    /// None where a run has nothing to look at.
    look: fn(&Plan, &Outcome) -> Option<Found>,
}

/// Every check that a run may have, in the order of the report.
pub const CHECKS: &[Entry] = &[
    Entry {
        name: "counts",
        doc: "every request that was sent is accounted for",
        fails: "`sent` is not `ok + failed + in_flight`",
        otherwise: State::Failed,
        advice: "the generator lost count, which is a bug in it: please report it",
        look: |_, outcome| Some(counts(outcome)),
    },
    Entry {
        name: "schedule",
        doc: "what was planned was done: by an open loop in time, by a closed one all rounds (-n)",
        fails: "a planned request was not sent (but for Ctrl-C), the p99 of the lag is over 1 ms, \
                or the rows of a feeder were all taken before the end",
        otherwise: State::Warning,
        advice: "unsent: give more connections (-c) or a lower rate; late: give more threads (-t) \
                 or a machine with less to do",
        look: schedule,
    },
    Entry {
        name: "backlog",
        doc: "the server kept up with an open loop (windows of two seconds and more)",
        fails: "latency rose evenly all through the window; or more waited, at the end of the \
                window (all timeouts, if they are over 5 % of the plan) or of a second, than four \
                times what is under way at the latency of its quickest third, and 10; of a second \
                by 6 % of the plan more; or over 3 % of the plan, and 10, were left unsent",
        otherwise: State::Warning,
        advice: "the latencies are those of a queue, and longer in a longer window: give a lower \
                 rate, or look for the highest that holds (--find-capacity)",
        look: backlog,
    },
    Entry {
        name: "errors",
        doc: "requests ended with a complete, good answer",
        fails: "a request ended without a complete answer with a status below 400, or none ended \
                at all",
        otherwise: State::Warning,
        advice: "look at the statuses and errors above, and into the server's log: latencies of \
                 quick refusals are no latencies of answers",
        look: |_, outcome| Some(errors(outcome)),
    },
    Entry {
        name: "connections",
        doc: "every connection that was asked for was there. Beside it: Jain's fairness index of \
              the answers per connection, 1 = even",
        fails: "not every connection was established at least once. That the server allowed fewer \
                HTTP/2 streams on each, or did not serve some of them, is a warning",
        otherwise: State::Failed,
        advice: "fewer clients than asked for loaded the server: look at its limits of connections \
                 and its listen backlog, or ask for fewer (-c)",
        look: connections,
    },
    Entry {
        name: "little",
        doc: "Little's law, N = X R: latencies, pauses and connects, each by its own stamps, \
              explain the connections' time",
        fails: "they explain less or more of it by over 2 %",
        otherwise: State::Failed,
        advice: "something is not in the latencies, or is in them twice: make the window longer \
                 (-d), so that its edges weigh less, and look for a machine that stood still",
        look: |plan, outcome| Some(little(plan, outcome)),
    },
    Entry {
        name: CLIENT,
        doc: "the client was not the limit. A short look for answers before going to sleep is \
              waiting, not work (its CPU time is in the CPU per request all the same)",
        fails: "a faster client, or one with a CPU of its own, would have measured something else \
                ([when](#was-the-client-the-limit)). Near to that it is a warning",
        otherwise: State::Failed,
        advice: "the rate is a lower bound of the server's: give more threads (-t), a core that \
                 nobody else uses, or another machine",
        look: |_, outcome| Some(client(outcome)),
    },
    Entry {
        name: "lateness",
        doc: "answers were taken when they came: the percentiles are the server's, not the \
              client's own delay. Known by the kernel's stamps (TCP, `epoll`)",
        fails: "p50, p90, p99 or p99.9 (each with ten answers beyond it) is over 10 % higher for \
                the time that answers lay, a millisecond or more, before the client took them",
        otherwise: State::Warning,
        advice: "something held the client up: give it a CPU that nobody else uses, more threads \
                 (-t), or another machine; `client.unkept_us` (--json) is what is left without",
        look: lateness,
    },
    Entry {
        name: "steal",
        doc: "the machine's CPUs were its own (windows of half a second and more)",
        fails: "the hypervisor took more than 1 % of the machine's CPU time",
        otherwise: State::Warning,
        advice: "measure again when the neighbours are quiet, or on a machine of its own",
        look: |_, outcome| steal(outcome),
    },
    Entry {
        name: "retransmits",
        doc: "TCP segments came through. The counters are of this network namespace, from the \
              begin of the run to its end: other traffic is in them. Where they cannot be read \
              the state of this check and the next is `unknown`",
        fails: "over one segment in a thousand requests was sent again",
        otherwise: State::Warning,
        advice: "latencies hold retransmission timers (200 ms and more): look for a network that \
                 loses packets, or for a full listen queue",
        look: kernel::retransmits,
    },
    Entry {
        name: "listen_queue",
        doc: "listening sockets took every connection (of a server on this machine)",
        fails: "a connection found the queue of a listening socket full",
        otherwise: State::Warning,
        advice: "each waited a second or more: raise the server's backlog and net.core.somaxconn",
        look: kernel::listen_queue,
    },
    Entry {
        name: "ports",
        doc: "there were local ports enough: a closed connection keeps its own for a minute, \
              unless the server closed first",
        fails: "the connections of a minute are over 80 % of the local ports for this server",
        otherwise: State::Warning,
        advice: "give more addresses (--source-address), a wider net.ipv4.ip_local_port_range, or \
                 net.ipv4.tcp_tw_reuse=1",
        look: kernel::ports,
    },
    Entry {
        name: "descriptors",
        doc: "there was room for open files",
        fails: "the run needs over 80 % of the open files that are allowed, or ran out of them",
        otherwise: State::Warning,
        advice: "raise the limit: ulimit -n",
        look: kernel::descriptors,
    },
];

/// What a look finds, with its evidence in words.
pub enum Found {
    Good(String),
    /// What it needs cannot be read.
    Unknown(String),
    /// A warning whatever the entry says.
    Near(String),
    /// The same, and what to do about it.
    NearBecause(String, &'static str),
    Bad(String),
    /// Bad, and what to do about it.
    Because(String, &'static str),
}

impl Found {
    pub fn good_if(good: bool, evidence: String) -> Self {
        if good { Self::Good(evidence) } else { Self::Bad(evidence) }
    }
}

impl Check {
    pub fn spoils(&self) -> bool {
        self.state == State::Failed
    }

    /// The evidence, and what to do.
    pub fn words(&self) -> String {
        let advice = self.advice.map_or_else(String::new, |advice| format!("; {advice}"));
        format!("{}{advice}", self.evidence)
    }
}

impl Entry {
    fn check(&self, plan: &Plan, outcome: &Outcome) -> Option<Check> {
        let (state, evidence, advice) = match (self.look)(plan, outcome)? {
            Found::Good(evidence) => (State::Ok, evidence, None),
            Found::Unknown(evidence) => (State::Unknown, evidence, None),
            Found::Near(evidence) => (State::Warning, evidence, Some(self.advice)),
            Found::NearBecause(evidence, advice) => (State::Warning, evidence, Some(advice)),
            Found::Bad(evidence) => (self.otherwise, evidence, Some(self.advice)),
            Found::Because(evidence, advice) => (self.otherwise, evidence, Some(advice)),
        };
        Some(Check { name: self.name, state, evidence, advice })
    }

    /// What follows when it is not well.
    pub fn consequence(&self) -> &'static str {
        match (self.name, self.otherwise) {
            (CLIENT, _) => "client limited",
            (_, State::Failed) => "doubtful",
            _ => "warning",
        }
    }
}

/// Every check of this run, in the order of the report.
pub fn all(plan: &Plan, outcome: &Outcome) -> Vec<Check> {
    CHECKS.iter().filter_map(|entry| entry.check(plan, outcome)).collect()
}

fn counts(outcome: &Outcome) -> Found {
    let Outcome { sent, ok, failed, in_flight, .. } = outcome;
    let good = *sent == ok + failed + in_flight;
    let [sent, ok, failed, in_flight] = [*sent, *ok, *failed, *in_flight].map(count);
    let evidence = format!("{sent} sent = {ok} ok + {failed} failed + {in_flight} in flight");
    Found::good_if(good, evidence)
}

/// Percentiles that the client's own delay may be most of, the highest last.
const LATE_QUANTILES: [(f64, &str); 4] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// With fewer answers beyond it a percentile is chance.
const BEYOND_MIN: f64 = 10.0;
const LATE_RATIO: f64 = 1.1;

fn lateness(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let (answers, kept) = (outcome.latency.count(), outcome.kept.count());
    if answers == 0 {
        return None;
    }
    if !outcome.engine.ends_with("epoll") || matches!(plan.target.address, Address::Unix(_)) {
        return Some(Found::Unknown("nothing stamps what comes here".to_owned()));
    }
    if plan.throttle.is_some() {
        return Some(Found::Unknown("a throttled client leaves answers lying".to_owned()));
    }
    let lay = format!("{} of {} lay for 1 ms or more", count(kept), number_of(answers, "answer"));
    let unkept = outcome.latency_unkept();
    let told = |(quantile, name): &(f64, &str)| {
        let [with, without] = [&outcome.latency, &unkept].map(|times| times.quantile_ns(*quantile));
        let is_late = with as f64 > LATE_RATIO * without as f64;
        let [with, without] = [with, without].map(|ns| time_us(ns as f64 / 1e3));
        is_late.then(|| format!("{name} {with}, {without} without that"))
    };
    let is_known = |(quantile, _): &&(f64, &str)| answers as f64 * (1.0 - quantile) >= BEYOND_MIN;
    let (known, unknown): (Vec<_>, Vec<_>) = LATE_QUANTILES.iter().partition(is_known);
    let late: Vec<String> = known.into_iter().filter_map(told).collect();
    Some(match late.is_empty() {
        true if unknown.is_empty() => Found::Good(lay),
        true => {
            let names: Vec<&str> = unknown.into_iter().map(|(_, name)| *name).collect();
            Found::Good(format!("{lay}; too few answers to say it of {}", names.join(", ")))
        }
        false => Found::Bad(format!("{lay} before the client took them: {}", late.join("; "))),
    })
}

fn schedule(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let Some(open) = &outcome.open else { return rounds(plan, outcome) };
    let sent = outcome.begun();
    let carried = match open.carried {
        0 => String::new(),
        carried => format!(" - {} from the warm-up", count(carried)),
    };
    let planned = open.planned(sent);
    let lag_us = open.lag.quantile_ns(0.99) as f64 / 1e3;
    let begun = if outcome.scene.is_some() { "rounds begun" } else { "sent" };
    let [planned, sent, unsent] = [planned, sent, open.unsent].map(count);
    // They would have been sent.
    let is_cut = outcome.interrupted && open.unsent > 0;
    let when = if is_cut { " when it was stopped" } else { "" };
    let mut evidence =
        format!("{planned} planned = {sent} {begun} + {unsent} unsent{when}{carried}");
    if open.lag.count() > 0 {
        evidence += &format!("; p99 of the lag {}", time_us(lag_us));
    }
    let users = steps::both(plan, outcome);
    if let Some(feeder) = users.and_then(|(scene, tally)| steps::exhausted(scene, tally)) {
        evidence += &format!("; then the rows of {feeder} were all taken");
        return Some(Found::Because(evidence, MORE_ROWS));
    }
    Some(match open.is_late() {
        true if is_cut => Found::Because(evidence, LATE),
        is_late => Found::good_if(!is_late && (is_cut || open.unsent == 0), evidence),
    })
}

/// Of a closed loop: whether all that were asked for had rows to begin with.
fn rounds(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let (scene, tally) = steps::both(plan, outcome)?;
    let feeder = steps::exhausted(scene, tally)?;
    let Stop::Requests(asked) = plan.stop else { return None };
    let (begun, all) = (count(tally.rounds.begun), number_of(asked, "round"));
    let evidence = format!("{begun} of {all} begun; then the rows of {feeder} were all taken");
    (tally.rounds.begun < asked).then_some(Found::Because(evidence, MORE_ROWS))
}

fn backlog(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let open = outcome.open.as_ref()?;
    if outcome.duration < BACKLOG_WINDOW_MIN {
        return None;
    }
    let growth = outcome.growth(plan.pace.as_ref().is_some_and(Pace::is_steady), GROWTH_CHANCE);
    let rise = growth.map_or_else(String::new, |slope| {
        format!("; latency rose by {} each second", time_us(slope * 1e6))
    });
    let drained = number_of(open.drained, "answer");
    let behind = behind(plan, outcome, open);
    let waiting = behind.map_or_else(String::new, |(waiting, usual)| match &outcome.scene {
        Some(_) => format!("; {} never began", number_of(waiting, "planned round")),
        None => format!(
            "; {} waited at once or in vain, where {} would have if the server kept up",
            number_of(waiting, "request"),
            count(usual)
        ),
    });
    let evidence = format!("{drained} came after the window{waiting}{rise}");
    if growth.is_none() && behind.is_none() {
        return Some(Found::Good(evidence));
    }
    let verdict = client_limited(outcome, None);
    Some(match verdict.cause.filter(|_| verdict.limited) {
        Some(Cause::Connections) => Found::Because(evidence, "it is the client's: see `client`"),
        _ => Found::Bad(evidence),
    })
}

/// So many waited, and so many would of a server that keeps up: where they were many more, at the
/// end of the window or before it. Those that waited when it opened are not meant. Rounds of users
/// have pauses: of them only those count that never began.
fn behind(plan: &Plan, outcome: &Outcome, open: &OpenTally) -> Option<(u64, u64)> {
    let share = BEHIND_SHARE * open.planned(outcome.begun()) as f64;
    let more = |waiting: u64| waiting.saturating_sub(open.carried) as f64;
    // Where much was never sent, latencies are those of a queue from the beginning.
    let is_left = more(open.unsent) > UNDER_WAY_FEW + UNSENT_SHARE * share;
    if outcome.scene.is_some() {
        return is_left.then_some((open.unsent, 0));
    }
    let pace = plan.pace.as_ref()?;
    let at_end = open.drained + open.unsent + late(plan, outcome, open);
    let at_ends = outcome.timeline.iter().map(|second| second.in_flight + second.waiting);
    let most = at_ends.max().unwrap_or(0);
    let rates = pace.stages.iter().flat_map(|stage| [stage.from_rps, stage.to_rps]);
    let rates_max = rates.fold(0.0, f64::max);
    let usual = rates_max * open.rise.quickest_third_s().unwrap_or(0.0);
    let may_wait = UNDER_WAY_TIMES * usual + UNDER_WAY_FEW;
    let is_behind = is_left || more(at_end) > may_wait || more(most) > may_wait + share;
    // Overloaded from the beginning: even the quickest third waited for connections.
    let served = rates_max * open.service.mean_ns() / 1e9;
    is_behind.then(|| (at_end.max(most), usual.min(served).ceil() as u64))
}

/// Requests that ended because they had waited for too long. A queue makes that the end of many; a
/// server that loses one now and then has none, and of those only what waits at one moment counts.
fn late(plan: &Plan, outcome: &Outcome, open: &OpenTally) -> u64 {
    let late =
        [ErrorKind::Timeout, ErrorKind::FirstByteTimeout].map(|kind| outcome.errors.get(&kind));
    let late: u64 = late.into_iter().flatten().sum();
    if late as f64 > LATE_SHARE * open.planned(outcome.begun()) as f64 {
        return late;
    }
    let longest = plan.timeout.max(plan.first_byte_timeout.unwrap_or_default());
    let at_once = longest.as_secs_f64() / outcome.duration.as_secs_f64();
    (late as f64 * at_once.min(1.0)).ceil() as u64
}

fn errors(outcome: &Outcome) -> Found {
    let errors: u64 = outcome.errors.values().sum();
    let refused = outcome.failed.saturating_sub(errors);
    let failed = number_of(outcome.failed, "request");
    let evidence = match (errors, refused, outcome.first_fault) {
        (0, 0, _) if outcome.ok == 0 => "no request ended in the window".to_owned(),
        (0, 0, _) => "every request that ended has a complete, good answer".to_owned(),
        (0, _, _) if outcome.scene.is_some() => {
            format!("{} failed checks", number_of(refused, "answer"))
        }
        (0, _, _) => format!("{} with a status of 400 or more", number_of(refused, "answer")),
        (_, _, None) => match outcome.first_os_error.map(std::io::Error::from_raw_os_error) {
            None => format!("{failed} ended without a complete, good answer"),
            Some(error) => {
                let why = classic::said(&error).to_lowercase();
                format!("{failed} ended without a complete, good answer; the first: {why}")
            }
        },
        (_, _, Some(fault)) => format!("{failed} failed; the first fault: {fault}"),
    };
    match outcome.unwritten() {
        0 => Found::good_if(outcome.failed == 0 && outcome.ok > 0, evidence),
        unwritten => {
            let unwritten = number_of(unwritten, "request");
            let evidence = format!("{evidence}; {unwritten} could not be written for a bad value");
            Found::Because(evidence, "see what is not as told above; {{name|url}} encodes a value")
        }
    }
}

/// Users who had nothing to send needed none.
fn connections(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    if outcome.sent == 0 && outcome.scene.is_some() {
        return None;
    }
    let (connected, wanted) = (outcome.connected, plan.connections_used());
    if plan.pace.is_some() && !plan.keepalive {
        // A place is used only when no other is free before it.
        let evidence = format!("{connected} of {wanted} places were needed");
        return Some(Found::good_if(connected > 0 || outcome.sent == 0, evidence));
    }
    let mut evidence = format!("{connected} of {wanted} established");
    if outcome.answers() > 0 {
        evidence += &format!(", fairness {:.3} (1 = even)", outcome.fairness());
    }
    // A thread for which nothing was planned has no reason to connect.
    if outcome
        .open
        .as_ref()
        .is_some_and(|open| u64::from(connected) >= open.planned(outcome.begun()))
    {
        return Some(Found::Good(evidence));
    }
    if connected < wanted && outcome.connect.count() >= u64::from(wanted) {
        return Some(Found::Because(evidence, NO_WORD));
    }
    let mute = outcome.mute_connections();
    if connected == wanted && mute > 0 {
        let words = format!("{evidence}, {mute} without an answer while others had several");
        return Some(Found::NearBecause(words, NOT_SERVED));
    }
    match outcome.streams_max.filter(|_| connected == wanted) {
        None => Some(Found::good_if(connected == wanted, evidence)),
        Some(fewer) => {
            let evidence = format!("{evidence}, with {fewer} of {} streams each", plan.depth);
            Some(Found::NearBecause(evidence, FEWER_STREAMS))
        }
    }
}

/// N = X R, where R is the latency and all that lies between two requests of a connection.
fn little(plan: &Plan, outcome: &Outcome) -> Found {
    let deviation = outcome.little_deviation();
    let wanted = f64::from(plan.connections_used());
    let found = wanted * (1.0 + deviation);
    let evidence = format!("stamps account for {found:.2} of {wanted} connections");
    Found::good_if(deviation.abs() <= LITTLE_MAX, evidence)
}

fn client(outcome: &Outcome) -> Found {
    let verdict = client_limited(outcome, None);
    match verdict.cause {
        Some(cause) if verdict.limited => Found::Because(verdict.evidence, cause.advice()),
        Some(cause) => Found::NearBecause(verdict.evidence, cause.advice_near()),
        None if verdict.is_short => Found::Unknown(verdict.evidence),
        None if verdict.near => Found::Near(verdict.evidence),
        None => Found::Good(verdict.evidence),
    }
}

fn steal(outcome: &Outcome) -> Option<Found> {
    if outcome.duration.as_secs_f64() < STEAL_WINDOW_MIN_S {
        return None;
    }
    let share = outcome.steal_share?;
    let evidence =
        format!("{:.1} % of the machine's CPU time taken by the hypervisor", share * 100.0);
    Some(Found::good_if(share <= STEAL_MAX, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drom_load::{ErrorKind, OpenTally, Target};
    use std::time::Duration;

    fn plan() -> Plan {
        let address = "127.0.0.1:80".parse().expect("an address");
        let target = Target::at(address, "/");
        Plan { connections: 4, ..Plan::get(target) }
    }

    fn good() -> Outcome {
        Outcome {
            sent: 12,
            ok: 10,
            in_flight: 2,
            connected: 4,
            duration: Duration::from_secs(1),
            connection_time: Duration::from_secs(4),
            accounted_time: Duration::from_millis(3_999),
            thread_cpu: vec![Duration::from_millis(400)],
            steal_share: Some(0.001),
            ..Outcome::default()
        }
    }

    fn state(outcome: &Outcome, name: &str) -> State {
        let checks = all(&plan(), outcome);
        checks.into_iter().find(|check| check.name == name).expect("it is there").state
    }

    #[test]
    fn an_open_loop_that_is_late_or_leaves_requests_out_is_warned_of() {
        let open = |lag_us: u64, unsent| {
            let mut open = OpenTally { unsent, ..OpenTally::default() };
            (0..100).for_each(|_| open.lag.record_ns(lag_us * 1_000));
            Outcome { open: Some(open), ..good() }
        };
        assert_eq!(state(&open(500, 0), "schedule"), State::Ok);
        assert_eq!(state(&open(1_100, 0), "schedule"), State::Warning);
        assert_eq!(state(&open(500, 1), "schedule"), State::Warning);
        assert!(all(&plan(), &good()).iter().all(|check| check.name != "schedule"));
        let stopped = |lag_us, unsent| {
            let outcome = Outcome { interrupted: true, ..open(lag_us, unsent) };
            let mut checks = all(&plan(), &outcome).into_iter();
            checks.find(|check| check.name == "schedule").expect("it is there")
        };
        let cut = stopped(500, 1);
        assert_eq!((cut.state, cut.advice), (State::Ok, None));
        assert!(cut.evidence.contains("+ 1 unsent when it was stopped;"), "{}", cut.evidence);
        let late = stopped(1_100, 1);
        assert_eq!((late.state, late.advice), (State::Warning, Some(LATE)));
        assert_eq!(stopped(1_100, 0).state, State::Warning);
    }

    #[test]
    fn the_catalogue_is_complete_and_its_names_are_keys() {
        let mut names: Vec<&str> = CHECKS.iter().map(|entry| entry.name).collect();
        for entry in CHECKS {
            let words = [entry.doc, entry.fails, entry.advice];
            assert!(words.iter().all(|words| !words.is_empty() && !words.contains('|')));
            assert!(entry.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
            assert_ne!(entry.otherwise, State::Ok, "{}", entry.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }

    #[test]
    fn only_what_is_not_well_comes_with_advice() {
        assert!(all(&plan(), &good()).iter().all(|check| check.advice.is_none()));
        let lost = all(&plan(), &Outcome { connected: 3, ..good() });
        let advised: Vec<&str> =
            lost.iter().filter(|check| check.advice.is_some()).map(|check| check.name).collect();
        assert_eq!(advised, ["connections"]);
        let words = lost[2].words();
        assert!(words.starts_with("3 of 4") && words.contains("; fewer clients"), "{words}");
    }

    #[test]
    fn lateness_is_said_only_of_percentiles_with_answers_beyond_them() {
        let of = |answers: u32| {
            let mut outcome = Outcome { engine: "closed-loop http/1.1 epoll", ..good() };
            (0..answers).for_each(|_| outcome.latency.record_ns(1_000_000));
            let checks = all(&plan(), &outcome).into_iter();
            checks.filter(|check| check.name == "lateness").map(|check| check.evidence).next()
        };
        let words = of(150).expect("there are answers");
        assert!(words.ends_with("; too few answers to say it of p99, p99.9"), "{words}");
        assert!(of(20_000).expect("there are answers").ends_with("for 1 ms or more"));
        assert_eq!(of(0), None);
    }

    #[test]
    fn a_good_run_passes_all() {
        assert!(all(&plan(), &good()).iter().all(|check| check.state == State::Ok));
    }

    #[test]
    fn each_fault_fails_its_own_check() {
        let lost = Outcome { in_flight: 1, ..good() };
        assert_eq!(state(&lost, "counts"), State::Failed);
        let erring = Outcome { failed: 1, errors: [(ErrorKind::Closed, 1)].into(), ..good() };
        assert_eq!(state(&erring, "errors"), State::Warning);
        let refusing = Outcome { failed: 3, status: [(500, 3)].into(), ..good() };
        assert_eq!(state(&refusing, "errors"), State::Warning);
        assert_eq!(state(&Outcome { connected: 3, ..good() }, "connections"), State::Failed);
        let idle = Outcome { accounted_time: Duration::from_millis(3_900), ..good() };
        assert_eq!(state(&idle, "little"), State::Failed);
        let silent = Outcome { ok: 0, sent: 2, ..good() };
        assert_eq!(state(&silent, "errors"), State::Warning, "nothing ended");
        let pegged = Outcome { thread_cpu: vec![Duration::from_millis(990)], ..good() };
        assert_eq!(state(&pegged, CLIENT), State::Failed);
        let busy = Outcome { thread_cpu: vec![Duration::from_millis(750)], ..good() };
        assert_eq!(state(&busy, CLIENT), State::Warning);
        assert_eq!(state(&Outcome { steal_share: Some(0.02), ..good() }, "steal"), State::Warning);
    }
}
