//! The checks of what the kernel counted during a run, and of how near it came to the system's
//! limits. What cannot be read is said to be unknown: it passes no check. Pure.
//!
//! The counters are of the whole network namespace: others' traffic is in them.

use drom_load::{Address, Limits, Outcome, Plan};

use drom_report::format::three;

use super::{
    checks::Found,
    text::{count, number_of},
};

/// From one segment in a thousand requests on, latencies hold retransmission timers.
const RETRANSMITS_A_REQUEST_MAX: f64 = 0.001;
const LOSSES: &str = "look for a network that loses packets";
/// Lost segments that others behind them made known at once.
const NO_TIMER: &str = "no latency holds a retransmission timer, yet some a round trip more: look \
                        for a network that loses packets";
/// How long a closed connection keeps its port (TCP_TIMEWAIT_LEN of Linux).
const TIME_WAIT_S: f64 = 60.0;
/// Of ports or open files.
const USED_SHARE_MAX: f64 = 0.8;

fn unknown(file: &str) -> Found {
    Found::Unknown(format!("not known: {file} cannot be read"))
}

fn of_tcp<'a>(plan: &Plan, outcome: &'a Outcome) -> Option<&'a Limits> {
    let is_tcp = matches!(plan.target.address, Address::Tcp(_));
    outcome.limits.as_ref().filter(|_| is_tcp)
}

fn a_request(number: u64, outcome: &Outcome) -> f64 {
    number as f64 / outcome.sent.max(1) as f64
}

pub fn retransmits(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let limits = of_tcp(plan, outcome)?;
    let (Some(again), Some(timeouts)) = (limits.network.retransmits, limits.network.timeouts)
    else {
        return Some(unknown("/proc/net/snmp or netstat"));
    };
    let rate = a_request(again, outcome);
    let evidence = format!(
        "{} segments sent again ({}), {} timers ran out, of all TCP here",
        count(again),
        per_request(rate),
        count(timeouts)
    );
    Some(match (rate <= RETRANSMITS_A_REQUEST_MAX, timeouts) {
        (true, _) => Found::Good(evidence),
        (false, 0) if outcome.answers() > 0 => Found::Because(evidence, NO_TIMER),
        (false, 0) => Found::Because(evidence, LOSSES),
        (false, _) => Found::Bad(evidence),
    })
}

fn per_request(rate: f64) -> String {
    match rate {
        0.0 => "0 a request".to_owned(),
        rate if rate < 0.001 => "less than 0.001 a request".to_owned(),
        rate => format!("{} a request", three(rate)),
    }
}

/// Only of servers here: a queue elsewhere shows as retransmits of the first segment.
pub fn listen_queue(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let limits = of_tcp(plan, outcome).filter(|limits| limits.is_local)?;
    let network = limits.network;
    let (Some(full), Some(drops)) = (network.listen_overflows, network.listen_drops) else {
        return Some(unknown("/proc/net/netstat"));
    };
    let lost = full.max(drops);
    let evidence = format!(
        "{} connections found a listen queue of this machine full ({})",
        count(lost),
        per_request(a_request(lost, outcome))
    );
    Some(Found::good_if(lost == 0, evidence))
}

/// Where each request has a connection, its port is taken for a minute after it, unless the server
/// closes first or the kernel takes it again (net.ipv4.tcp_tw_reuse).
pub fn ports(plan: &Plan, outcome: &Outcome) -> Option<Found> {
    let limits = of_tcp(plan, outcome)?;
    let Some(ports) = limits.ports else {
        return Some(unknown("/proc/sys/net/ipv4/ip_local_port_range"));
    };
    let made = outcome.connections_made();
    let seconds = outcome.duration.as_secs_f64();
    let in_a_minute = made as f64 * (TIME_WAIT_S / seconds.max(TIME_WAIT_S));
    let evidence = format!("{} of {} local ports", number_of(made, "connection"), count(ports));
    let is_good = in_a_minute <= ports as f64 * USED_SHARE_MAX;
    Some(Found::good_if(is_good, evidence))
}

pub fn descriptors(_: &Plan, outcome: &Outcome) -> Option<Found> {
    let limits = outcome.limits.as_ref()?;
    let Some(max) = limits.descriptors_max else { return Some(unknown("the limit")) };
    let wanted = limits.descriptors;
    let mut evidence = format!("{} open files of {} allowed", count(wanted), count(max));
    // Connections that the server gives up (GOAWAY) need theirs until they have ended.
    let ran_out = matches!(outcome.first_os_error, Some(libc::EMFILE | libc::ENFILE));
    if ran_out {
        evidence += "; more were needed, and there was none";
    }
    let is_good = !ran_out && wanted as f64 <= max as f64 * USED_SHARE_MAX;
    Some(Found::good_if(is_good, evidence))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drom_load::{Network, Target};

    use super::{
        super::checks::{Check, State},
        *,
    };

    fn limits() -> Limits {
        let network = Network {
            retransmits: Some(0),
            timeouts: Some(0),
            listen_overflows: Some(0),
            listen_drops: Some(0),
        };
        let descriptors_max = Some(1_024);
        Limits {
            descriptors: 74,
            descriptors_max,
            ports: Some(28_232),
            is_local: true,
            mtu: None,
            network,
        }
    }

    fn checked(limits: Limits, reconnects: u64) -> Vec<Check> {
        let outcome = Outcome {
            sent: 10_000,
            connected: 10,
            reconnects,
            duration: Duration::from_secs(10),
            limits: Some(limits),
            status: [(200, 9_000)].into(),
            ..Outcome::default()
        };
        all_of(&outcome)
    }

    fn all_of(outcome: &Outcome) -> Vec<Check> {
        let plan = Plan::get(Target::at(([127, 0, 0, 1], 80).into(), "/"));
        let kernels = ["retransmits", "listen_queue", "ports", "descriptors"];
        let all = crate::verbs::load::checks::all(&plan, outcome).into_iter();
        all.filter(|check| kernels.contains(&check.name)).collect()
    }

    fn state(checks: &[Check], name: &str) -> Option<State> {
        checks.iter().find(|check| check.name == name).map(|check| check.state)
    }

    #[test]
    fn a_quiet_network_and_room_enough_are_good() {
        let all = checked(limits(), 0);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|check| check.state == State::Ok), "{all:?}");
    }

    #[test]
    fn what_the_kernel_counted_is_told_by_request() {
        let network = Network { retransmits: Some(20), ..limits().network };
        let all = checked(Limits { network, ..limits() }, 0);
        assert_eq!(state(&all, "retransmits"), Some(State::Warning));
        assert!(all[0].evidence.contains("20 segments") && all[0].evidence.contains("0.00200 a"));
        assert_eq!(all[0].advice, Some(NO_TIMER), "none ran out");
        let limits_of_none = Some(Limits { network, ..limits() });
        let none = Outcome { sent: 9, limits: limits_of_none, ..Outcome::default() };
        assert_eq!(all_of(&none)[0].advice, Some(LOSSES), "there is no latency");
        let network = Network { timeouts: Some(1), ..network };
        let all = checked(Limits { network, ..limits() }, 0);
        assert!(all[0].advice.is_some_and(|advice| advice.contains("200 ms")), "{all:?}");
        let network = Network { listen_drops: Some(1), ..limits().network };
        let all = checked(Limits { network, ..limits() }, 0);
        assert_eq!(state(&all, "listen_queue"), Some(State::Warning));
    }

    /// With nothing but connects, each of which has failed later.
    #[test]
    fn connections_of_which_nothing_came_have_taken_ports() {
        let mut outcome = Outcome { limits: Some(limits()), ..Outcome::default() };
        (0..90_000).for_each(|_| outcome.connect.record_ns(1_000));
        assert_eq!(state(&all_of(&outcome), "ports"), Some(State::Warning));
    }

    #[test]
    fn queues_of_a_server_elsewhere_are_not_here() {
        let all = checked(Limits { is_local: false, ..limits() }, 0);
        assert_eq!(state(&all, "listen_queue"), None);
    }

    #[test]
    fn what_cannot_be_read_passes_no_check() {
        let blind = Limits { network: Network::default(), ports: None, ..limits() };
        let all = checked(Limits { descriptors_max: None, ..blind }, 0);
        assert!(all.iter().all(|check| check.state == State::Unknown), "{all:?}");
        assert!(all.iter().all(|check| check.evidence.contains("not known")), "{all:?}");
    }

    #[test]
    fn limits_come_with_what_moves_them() {
        let all = checked(limits(), 30_000);
        assert_eq!(state(&all, "ports"), Some(State::Warning));
        assert!(all[2].words().contains("ip_local_port_range"), "{}", all[2].evidence);
        let all = checked(Limits { descriptors: 1_000, ..limits() }, 0);
        assert!(all[3].words().contains("ulimit -n"), "{}", all[3].evidence);
    }

    #[test]
    fn who_ran_out_of_open_files_had_no_room() {
        let outcome = |first_os_error| Outcome {
            limits: Some(limits()),
            first_os_error,
            ..Outcome::default()
        };
        let plan = Plan::get(Target::at(([127, 0, 0, 1], 80).into(), "/"));
        let is_good = |error| matches!(descriptors(&plan, &outcome(error)), Some(Found::Good(_)));
        assert!(is_good(None) && is_good(Some(libc::ECONNREFUSED)));
        assert!(!is_good(Some(libc::EMFILE)));
    }
}
