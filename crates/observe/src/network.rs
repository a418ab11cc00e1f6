//! What the kernel counted on its TCP connections, and the ports that it gives away. Of the network
//! namespace of the calling thread, all its users together. Two readings subtract.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
};

/// Counters since boot; only differences mean anything. `None` is what could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Segments sent again (RFC 4022 tcpRetransSegs).
    pub retransmits: Option<u64>,
    /// Times that a retransmission timer ran out.
    pub timeouts: Option<u64>,
    /// Connections that found the queue of a listening socket here full.
    pub listen_overflows: Option<u64>,
    /// Those and others that a listening socket here did not take.
    pub listen_drops: Option<u64>,
}

impl Network {
    #[must_use]
    pub fn now() -> Self {
        let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        parse(&read("netstat").unwrap_or_default(), &read("snmp").unwrap_or_default())
    }

    /// What happened since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let less = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_sub(b));
        Self {
            retransmits: less(self.retransmits, earlier.retransmits),
            timeouts: less(self.timeouts, earlier.timeouts),
            listen_overflows: less(self.listen_overflows, earlier.listen_overflows),
            listen_drops: less(self.listen_drops, earlier.listen_drops),
        }
    }
}

fn parse(netstat: &str, snmp: &str) -> Network {
    let of_tcp_ext = |name| counter(netstat, "TcpExt:", name);
    Network {
        retransmits: counter(snmp, "Tcp:", "RetransSegs"),
        timeouts: of_tcp_ext("TCPTimeouts"),
        listen_overflows: of_tcp_ext("ListenOverflows"),
        listen_drops: of_tcp_ext("ListenDrops"),
    }
}

/// A line of names, then one of numbers, both behind the same prefix.
fn counter(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|other| other == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// How many local ports connections to one address may have from one source.
#[must_use]
pub fn ports() -> Option<u64> {
    count_of(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

fn count_of(range: &str) -> Option<u64> {
    let mut ends = range.split_ascii_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    last.checked_sub(first).map(|more| more + 1)
}

/// The largest packet on the way there, by this machine's own routes. Over loopback it is 64 KiB as
/// a rule: what takes 44 packets elsewhere is one.
#[must_use]
pub fn mtu(to: SocketAddr) -> Option<u32> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Finds the route; nothing is sent.
    socket.connect(to).ok()?;
    let (level, name) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let (mut mtu, mut length) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the value has the length that is told, and both live through the call.
    let done = unsafe {
        let value = (&raw mut mtu).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut length)
    };
    u32::try_from(mtu).ok().filter(|mtu| done == 0 && *mtu > 0)
}

/// Whether the address is one of this machine's.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\n\
        TcpExt: 4 5 6 7\nIpExt: InNoRoutes\nIpExt: 1\n";
    const SNMP: &str =
        "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 9\n";

    #[test]
    fn a_packet_to_this_machine_is_as_large_as_its_loopback_lets_it_be() {
        let file = fs::read_to_string("/sys/class/net/lo/mtu").expect("there is a loopback");
        let wanted: u32 = file.trim().parse().expect("a number");
        // The length of a packet of IPv4 has 16 bits.
        assert_eq!(mtu(([127, 0, 0, 1], 80).into()), Some(wanted.min(65_535)));
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let network = parse(NETSTAT, SNMP);
        let all = [network.retransmits, network.timeouts];
        assert_eq!(all, [Some(9), Some(7)]);
        assert_eq!((network.listen_overflows, network.listen_drops), (Some(5), Some(6)));
    }

    #[test]
    fn what_cannot_be_read_is_not_known_rather_than_nothing() {
        assert_eq!(parse("", ""), Network::default());
        let cut = parse("TcpExt: ListenOverflows ListenDrops\nTcpExt: 5\n", "Tcp: RetransSegs\n");
        let found = (cut.listen_overflows, cut.listen_drops, cut.retransmits);
        assert_eq!(found, (Some(5), None, None));
        assert_eq!(parse(NETSTAT, SNMP).since(Network::default()), Network::default());
    }

    #[test]
    fn differences_are_what_happened_meanwhile() {
        let earlier = parse(NETSTAT, SNMP);
        let later = Network { retransmits: Some(12), ..earlier };
        assert_eq!(later.since(earlier).retransmits, Some(3));
        assert_eq!(later.since(earlier).timeouts, Some(0));
    }

    #[test]
    fn both_ends_of_the_range_are_ports() {
        assert_eq!(count_of("32768\t60999\n"), Some(28_232));
        assert_eq!(count_of("10 10"), Some(1));
        assert_eq!([count_of(""), count_of("9 3"), count_of("x 3")], [None; 3]);
    }

    #[test]
    fn this_machine_knows_its_own_addresses() {
        assert!(is_own([127, 0, 0, 1].into()));
        // TEST-NET-1 (RFC 5737) is nobody's.
        assert!(!is_own([192, 0, 2, 1].into()));
    }
}
