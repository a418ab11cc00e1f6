//! What a run checks about itself: one entry a check, with its evidence in words. Pure.
//!
//! A check that spoils the numbers has an exit status, that of the client one of its own; a warning
//! only stands in the report.

use drom_load::{OpenTally, Outcome, Plan, client_limited};

/// Little's law may be off by this much (compare with `METHODOLOGY`: 2 %).
const LITTLE_MAX: f64 = 0.02;
/// The check with an exit status of its own.
pub const CLIENT: &str = "client";
/// A generator later than this on one request in a hundred is part of what it measures.
const LAG_P99_US_MAX: f64 = 1_000.0;
const STEAL_MAX: f64 = 0.01;
/// Below this window the kernel's 10 ms ticks are too coarse to say anything of steal.
const STEAL_WINDOW_MIN_S: f64 = 0.5;

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
}

impl Check {
    pub fn spoils(&self) -> bool {
        self.state == State::Failed
    }
}

/// Every check, in the order of the report.
pub fn all(plan: &Plan, outcome: &Outcome) -> Vec<Check> {
    let checks = [
        Some(counts(outcome)),
        outcome.open.as_ref().map(|open| schedule(outcome, open)),
        Some(errors(outcome)),
        Some(connections(plan, outcome)),
        Some(little(plan, outcome)),
        Some(client(outcome)),
        steal(outcome),
    ];
    checks.into_iter().flatten().chain(super::kernel::checks(plan, outcome)).collect()
}

fn check(name: &'static str, good: bool, otherwise: State, evidence: String) -> Check {
    Check { name, state: if good { State::Ok } else { otherwise }, evidence }
}

fn counts(outcome: &Outcome) -> Check {
    let Outcome { sent, ok, failed, in_flight, .. } = outcome;
    let good = *sent == ok + failed + in_flight;
    let evidence = format!("{sent} sent = {ok} ok + {failed} failed + {in_flight} in flight");
    check("counts", good, State::Failed, evidence)
}

/// Whether an open loop did what was planned.
fn schedule(outcome: &Outcome, open: &OpenTally) -> Check {
    let sent = super::steps::begun(outcome);
    let planned = sent + open.unsent;
    let lag_us = open.lag.quantile_ns(0.99) as f64 / 1e3;
    let begun = if outcome.scene.is_some() { "rounds begun" } else { "sent" };
    let mut evidence = format!("{planned} planned = {sent} {begun} + {} unsent", open.unsent);
    if open.lag.count() > 0 {
        evidence += &format!("; p99 of the lag {}", super::text::time_us(lag_us));
    }
    let good = open.unsent == 0 && lag_us <= LAG_P99_US_MAX;
    check("schedule", good, State::Warning, evidence)
}

fn errors(outcome: &Outcome) -> Check {
    let errors: u64 = outcome.errors.values().sum();
    let refused = outcome.failed.saturating_sub(errors);
    let evidence = match (errors, refused, outcome.first_fault) {
        (0, 0, _) if outcome.ok == 0 => "no request ended in the window".to_owned(),
        (0, 0, _) => "every request that ended has a complete, good answer".to_owned(),
        (0, _, _) if outcome.scene.is_some() => {
            format!("{refused} answers do not pass their checks")
        }
        (0, _, _) => format!("{refused} answers have a status of 400 or more"),
        (_, _, None) => {
            format!("{} requests ended without a complete, good answer", outcome.failed)
        }
        (_, _, Some(fault)) => format!("{errors} requests failed; the first fault: {fault}"),
    };
    check("errors", outcome.failed == 0 && outcome.ok > 0, State::Warning, evidence)
}

fn connections(plan: &Plan, outcome: &Outcome) -> Check {
    let (connected, wanted) = (outcome.connected, plan.connections_used());
    let fairness = outcome.fairness();
    let evidence =
        format!("{connected} of {wanted} established, fairness {fairness:.3} (1 = even)");
    check("connections", connected == wanted, State::Failed, evidence)
}

/// N = X R, where R is the latency and all that lies between two requests of a connection.
fn little(plan: &Plan, outcome: &Outcome) -> Check {
    let deviation = outcome.little_deviation();
    let wanted = f64::from(plan.connections_used());
    let found = wanted * (1.0 + deviation);
    let evidence = format!("stamps account for {found:.2} of {wanted} connections");
    check("little", deviation.abs() <= LITTLE_MAX, State::Failed, evidence)
}

fn client(outcome: &Outcome) -> Check {
    let verdict = client_limited(outcome, None);
    let state = match (verdict.limited, verdict.near) {
        (true, _) => State::Failed,
        (false, true) => State::Warning,
        (false, false) => State::Ok,
    };
    Check { name: CLIENT, state, evidence: verdict.evidence }
}

fn steal(outcome: &Outcome) -> Option<Check> {
    if outcome.duration.as_secs_f64() < STEAL_WINDOW_MIN_S {
        return None;
    }
    let share = outcome.steal_share?;
    let evidence =
        format!("{:.1} % of the machine's CPU time taken by the hypervisor", share * 100.0);
    Some(check("steal", share <= STEAL_MAX, State::Warning, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drom_load::{ErrorKind, Target};
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
