//! What the system allows a run, before it begins and beside what it used: local ports and open
//! files. And what the kernel counted meanwhile.

use std::net::UdpSocket;

use drom_observe::network::{self, Network};

use crate::{
    error::Error,
    plan::{Address, Plan},
    socket::check_descriptors,
};

/// Descriptors beside the connections: standard streams, epoll, files of the caller.
const DESCRIPTORS_BESIDE: u64 = 24;

/// What a run may use of the machine. `None` is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Open files that the run needs, and the hard limit.
    pub descriptors: u64,
    pub descriptors_max: Option<u64>,
    /// Local ports for connections to this server, over all source addresses; none are needed for a
    /// Unix socket.
    pub ports: Option<u64>,
    /// The server is on this machine: what listening sockets here count may be its.
    pub is_local: bool,
    /// The largest packet on the way to it, in bytes.
    pub mtu: Option<u32>,
    pub network: Network,
}

/// Open files for so many connections.
pub fn descriptors(connections: u64) -> u64 {
    connections + DESCRIPTORS_BESIDE
}

/// Whether connections can come from the addresses that they are to come from.
pub fn check_sources(plan: &Plan) -> Result<(), Error> {
    let Address::Tcp(server) = &plan.target.address else { return Ok(()) };
    for &source_address in &plan.sources {
        let wrong = |reason| Err(Error::Source { source_address, reason });
        if source_address.is_ipv4() != server.is_ipv4() {
            return wrong(format!("the server's address {} is of another kind", server.ip()));
        }
        if let Err(error) = UdpSocket::bind((source_address, 0)) {
            return wrong(match error.raw_os_error() {
                Some(libc::EADDRNOTAVAIL) => "this machine has no such address".to_owned(),
                _ => error.to_string(),
            });
        }
    }
    Ok(())
}

/// Whether there are as many local ports as connections; the rest of a run's needs is not knowable
/// before it.
pub fn check_ports(plan: &Plan) -> Result<(), Error> {
    let (wanted, ports) = (u64::from(plan.connections_used()), ports(plan));
    match (&plan.target.address, ports) {
        (Address::Tcp(_), Some(ports)) if wanted > ports => {
            Err(Error::FewPorts { wanted, ports, sources: sources(plan) })
        }
        _ => Ok(()),
    }
}

impl Limits {
    /// Before a run with so many connections, to all its servers; the counters as they stand.
    pub fn before(plan: &Plan, connections: u64) -> Self {
        let descriptors = descriptors(connections);
        let is_local = match &plan.target.address {
            Address::Tcp(address) => network::is_own(address.ip()),
            Address::Unix(_) => true,
        };
        Self {
            descriptors,
            descriptors_max: check_descriptors(descriptors).ok().map(|limit| limit.rlim_max),
            ports: ports(plan),
            is_local,
            mtu: match &plan.target.address {
                Address::Tcp(address) => network::mtu(*address),
                Address::Unix(_) => None,
            },
            network: Network::now(),
        }
    }

    /// After it: the counters are what was added.
    pub fn after(self) -> Self {
        Self { network: Network::now().since(self.network), ..self }
    }
}

/// Each source address has all of them.
fn ports(plan: &Plan) -> Option<u64> {
    network::ports().map(|ports| ports * sources(plan))
}

fn sources(plan: &Plan) -> u64 {
    plan.sources.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;

    fn plan(connections: u32) -> Plan {
        Plan { connections, ..Plan::get(Target::at(([127, 0, 0, 1], 80).into(), "/")) }
    }

    #[test]
    fn a_source_is_an_address_of_this_machine_and_of_the_servers_kind() {
        let from = |source: &str| {
            let sources = vec![source.parse().expect("an address")];
            check_sources(&Plan { sources, ..plan(1) }).map_err(|error| error.to_string())
        };
        assert_eq!(from("127.0.0.9"), Ok(()));
        let foreign = "no connection can come from 192.0.2.1: this machine has no such address";
        assert_eq!(from("192.0.2.1"), Err(foreign.to_owned()));
        assert!(from("::1").expect_err("the server is IPv4").contains("is of another kind"));
    }

    #[test]
    fn more_connections_than_ports_are_refused_with_what_to_change() {
        let error = check_ports(&plan(70_000)).expect_err("there are 64512 at most");
        assert!(error.to_string().contains("ip_local_port_range"), "{error}");
        assert!(error.to_string().contains("1 source address of"), "{error}");
        assert!(check_ports(&plan(10)).is_ok());
        let sources = (1..=200).map(|last| [127, 0, 1, last].into()).collect();
        assert!(check_ports(&Plan { sources, ..plan(70_000) }).is_ok(), "each has its own");
        let mut unix = plan(70_000);
        unix.target.address = Address::Unix("/tmp/socket".into());
        assert!(check_ports(&unix).is_ok(), "it has no ports");
    }

    #[test]
    fn a_server_here_is_known_from_one_elsewhere() {
        assert!(Limits::before(&plan(10), 10).is_local);
        let elsewhere = Plan::get(Target::at(([192, 0, 2, 1], 80).into(), "/"));
        assert!(!Limits::before(&elsewhere, 10).is_local);
        let limits = Limits::before(&plan(10), 10).after();
        assert_eq!(limits.descriptors, 34);
        assert!(limits.network.retransmits.is_some() && limits.ports.is_some());
    }
}
