//! The checks of what the kernel counted during a run, and of how near it came to the system's
//! limits. What cannot be read is said to be unknown: it passes no check. Pure.
//!
//! The counters are of the whole network namespace: others' traffic is in them.

use drom_load::{Address, Limits, Outcome, Plan};

use super::{
    checks::{Check, State},
    text::count,
};

/// From one segment in a thousand requests on, latencies hold retransmission timers.
const RETRANSMITS_A_REQUEST_MAX: f64 = 0.001;
/// How long a closed connection keeps its port (TCP_TIMEWAIT_LEN of Linux).
const TIME_WAIT_S: f64 = 60.0;
/// Of ports or open files.
const USED_SHARE_MAX: f64 = 0.8;

pub fn checks(plan: &Plan, outcome: &Outcome) -> Vec<Check> {
    let Some(limits) = &outcome.limits else { return Vec::new() };
    let is_tcp = matches!(plan.target.address, Address::Tcp(_));
    let checks = [
        is_tcp.then(|| retransmits(outcome, limits)),
        (is_tcp && limits.is_local).then(|| listen_queue(outcome, limits)),
        is_tcp.then(|| ports(outcome, limits)),
        Some(descriptors(limits)),
    ];
    checks.into_iter().flatten().collect()
}

fn check(name: &'static str, is_good: Option<bool>, evidence: String) -> Check {
    let state = match is_good {
        None => State::Unknown,
        Some(true) => State::Ok,
        Some(false) => State::Warning,
    };
    Check { name, state, evidence }
}

fn unknown(name: &'static str, file: &str) -> Check {
    check(name, None, format!("not known: {file} cannot be read"))
}

fn a_request(number: u64, outcome: &Outcome) -> f64 {
    number as f64 / outcome.sent.max(1) as f64
}

fn retransmits(outcome: &Outcome, limits: &Limits) -> Check {
    const NAME: &str = "retransmits";
    let (Some(again), Some(timeouts)) = (limits.network.retransmits, limits.network.timeouts)
    else {
        return unknown(NAME, "/proc/net/snmp or netstat");
    };
    let rate = a_request(again, outcome);
    let evidence = format!(
        "{} segments sent again ({}), {} timers ran out, of all TCP here",
        count(again),
        per_request(rate),
        count(timeouts)
    );
    check(NAME, Some(rate <= RETRANSMITS_A_REQUEST_MAX), evidence)
}

fn per_request(rate: f64) -> String {
    if rate == 0.0 { "0 a request".to_owned() } else { format!("{rate:.2e} a request") }
}

/// Only of servers here: a queue elsewhere shows as retransmits of the first segment.
fn listen_queue(outcome: &Outcome, limits: &Limits) -> Check {
    const NAME: &str = "listen queue";
    let network = limits.network;
    let (Some(full), Some(drops)) = (network.listen_overflows, network.listen_drops) else {
        return unknown(NAME, "/proc/net/netstat");
    };
    let lost = full.max(drops);
    let mut evidence = format!(
        "{} connections found a listen queue of this machine full ({})",
        count(lost),
        per_request(a_request(lost, outcome))
    );
    if lost > 0 {
        evidence += ": a second and more each; raise the server's backlog and net.core.somaxconn";
    }
    check(NAME, Some(lost == 0), evidence)
}

/// Where each request has a connection, its port is taken for a minute after it, unless the server
/// closes first or the kernel takes it again (net.ipv4.tcp_tw_reuse).
fn ports(outcome: &Outcome, limits: &Limits) -> Check {
    const NAME: &str = "ports";
    let Some(ports) = limits.ports else {
        return unknown(NAME, "/proc/sys/net/ipv4/ip_local_port_range");
    };
    let made = u64::from(outcome.connected) + outcome.reconnects;
    let seconds = outcome.duration.as_secs_f64();
    let in_a_minute = made as f64 * (TIME_WAIT_S / seconds.max(TIME_WAIT_S));
    let mut evidence = format!("{} connections of {} local ports", count(made), count(ports));
    let is_good = in_a_minute <= ports as f64 * USED_SHARE_MAX;
    if !is_good {
        evidence += " in TIME_WAIT's minute: more addresses (--source-address), a wider \
                     net.ipv4.ip_local_port_range, or net.ipv4.tcp_tw_reuse=1";
    }
    check(NAME, Some(is_good), evidence)
}

fn descriptors(limits: &Limits) -> Check {
    const NAME: &str = "descriptors";
    let Some(max) = limits.descriptors_max else { return unknown(NAME, "the limit") };
    let wanted = limits.descriptors;
    let mut evidence = format!("{} open files of {} allowed", count(wanted), count(max));
    let is_good = wanted as f64 <= max as f64 * USED_SHARE_MAX;
    if !is_good {
        evidence += &format!(": ulimit -n {}", wanted * 2);
    }
    check(NAME, Some(is_good), evidence)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drom_load::{Network, Target};

    use super::*;

    fn limits() -> Limits {
        let network = Network {
            retransmits: Some(0),
            timeouts: Some(0),
            listen_overflows: Some(0),
            listen_drops: Some(0),
        };
        let descriptors_max = Some(1_024);
        Limits { descriptors: 74, descriptors_max, ports: Some(28_232), is_local: true, network }
    }

    fn checked(limits: Limits, reconnects: u64) -> Vec<Check> {
        let outcome = Outcome {
            sent: 10_000,
            connected: 10,
            reconnects,
            duration: Duration::from_secs(10),
            limits: Some(limits),
            ..Outcome::default()
        };
        checks(&Plan::get(Target::at(([127, 0, 0, 1], 80).into(), "/")), &outcome)
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
        assert!(all[0].evidence.contains("20 segments") && all[0].evidence.contains("2.00e-3"));
        let network = Network { listen_drops: Some(1), ..limits().network };
        let all = checked(Limits { network, ..limits() }, 0);
        assert_eq!(state(&all, "listen queue"), Some(State::Warning));
    }

    #[test]
    fn queues_of_a_server_elsewhere_are_not_here() {
        let all = checked(Limits { is_local: false, ..limits() }, 0);
        assert_eq!(state(&all, "listen queue"), None);
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
        assert!(all[2].evidence.contains("ip_local_port_range"), "{}", all[2].evidence);
        let all = checked(Limits { descriptors: 1_000, ..limits() }, 0);
        assert!(all[3].evidence.contains("ulimit -n 2000"), "{}", all[3].evidence);
    }
}
