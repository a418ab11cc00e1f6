//! Who may see a place: `Require` (with `<RequireAll>`, `<RequireAny>`, `<RequireNone>`) and the
//! older `Order`/`Allow`/`Deny`. Its noun is `Access`; it asks for the client's address and the
//! method. Authentication (`Require user …`) is not here.

use std::net::IpAddr;

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: u128,
    bits: u32,
}

impl Network {
    /// Reads `10.1.2.3`, `10.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0` or their IPv6 forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Network> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        if let Ok(ip) = address.parse::<IpAddr>() {
            let width = if ip.is_ipv4() { 32 } else { 128 };
            let bits = length.map_or(Some(width), |l| prefix_length(l, width))?;
            return Some(Network { base: widen(ip), bits: bits + 128 - width });
        }
        if length.is_some() {
            return None;
        }
        let parts: Option<Vec<u8>> =
            address.trim_end_matches('.').split('.').map(|p| p.parse().ok()).collect();
        let parts = parts.filter(|p| p.len() < 4)?;
        let mut octets = [0; 4];
        octets[..parts.len()].copy_from_slice(&parts);
        Some(Network { base: widen(IpAddr::from(octets)), bits: 96 + 8 * parts.len() as u32 })
    }

    /// Whether `ip` lies in it.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let mask = if self.bits == 0 { 0 } else { u128::MAX << (128 - self.bits) };
        (self.base ^ widen(ip)) & mask == 0
    }
}

/// IPv4 as IPv4-mapped IPv6, so that one comparison serves both.
fn widen(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn prefix_length(text: &str, width: u32) -> Option<u32> {
    if let Ok(bits) = text.parse::<u32>() {
        return (bits <= width).then_some(bits);
    }
    let mask = u32::from_be_bytes(text.parse::<std::net::Ipv4Addr>().ok()?.octets());
    let bits = mask.leading_ones();
    (width == 32 && mask.checked_shl(bits).unwrap_or(0) == 0).then_some(bits)
}

/// One `Require` line or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Require {
    Granted,
    Denied,
    Local,
    Ip(Vec<Network>),
    Method(Vec<String>),
    Not(Box<Require>),
    All(Vec<Require>),
    Any(Vec<Require>),
}

impl Require {
    fn holds(&self, client: IpAddr, method: &[u8]) -> bool {
        match self {
            Require::Granted => true,
            Require::Denied => false,
            Require::Local => is_local(client),
            Require::Ip(networks) => networks.iter().any(|n| n.contains(client)),
            // Apache takes HEAD for GET everywhere.
            Require::Method(names) => {
                let method = if method == b"HEAD" { b"GET" } else { method };
                names.iter().any(|name| name.as_bytes() == method)
            }
            Require::Not(inner) => !inner.holds(client, method),
            Require::All(inner) => inner.iter().all(|r| r.holds(client, method)),
            Require::Any(inner) => inner.iter().any(|r| r.holds(client, method)),
        }
    }
}

fn is_local(client: IpAddr) -> bool {
    match client {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}

/// `Allow from` and `Deny from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    All,
    Network(Network),
}

impl From {
    fn includes(&self, client: IpAddr) -> bool {
        match self {
            From::All => true,
            From::Network(network) => network.contains(client),
        }
    }
}

/// The `Order`/`Allow`/`Deny` lines of one section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legacy {
    /// `Order allow,deny`: refuse unless allowed and not denied. Otherwise `deny,allow`.
    pub allow_first: bool,
    pub allow: Vec<From>,
    pub deny: Vec<From>,
}

impl Legacy {
    fn allows(&self, client: IpAddr) -> bool {
        let allowed = self.allow.iter().any(|f| f.includes(client));
        let denied = self.deny.iter().any(|f| f.includes(client));
        if self.allow_first { allowed && !denied } else { allowed || !denied }
    }
}

/// What one section says about access. An inner section's replaces an outer one's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Several `Require` lines beside each other: any of them suffices.
    pub require: Vec<Require>,
    pub legacy: Option<Legacy>,
}

impl Access {
    /// Whether the client may pass. Nothing said means yes.
    #[must_use]
    pub fn allows(&self, client: IpAddr, method: &[u8]) -> bool {
        let positive =
            self.require.is_empty() || self.require.iter().any(|r| r.holds(client, method));
        positive && self.legacy.as_ref().is_none_or(|l| l.allows(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_in_every_spelling() {
        for (network, inside, outside) in [
            ("10.1", "10.1.255.3", "10.2.0.0"),
            ("10.0.0.0/8", "10.9.9.9", "11.0.0.0"),
            ("192.168.0.0/255.255.0.0", "192.168.7.7", "192.169.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("2001:db8::/32", "2001:db8:1::5", "2001:db9::"),
            ("::1", "::1", "::2"),
        ] {
            let network = Network::parse(network).unwrap();
            assert!(network.contains(ip(inside)) && !network.contains(ip(outside)));
        }
        for bad in ["", "x", "10.0.0.0/33", "10.0.0.0/255.0.255.0", "1.2.3.4.5", "10./8"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
        assert!(Network::parse("10.0.0.0/8").unwrap().contains(ip("::ffff:10.1.1.1")));
    }

    #[test]
    fn require_lines_are_alternatives() {
        let access = Access { require: vec![Require::Denied, Require::Local], legacy: None };
        assert!(access.allows(ip("127.9.9.9"), b"GET") && access.allows(ip("::1"), b"GET"));
        assert!(!access.allows(ip("10.0.0.1"), b"GET"));
        assert!(Access::default().allows(ip("10.0.0.1"), b"GET"));
    }

    #[test]
    fn order_decides_what_wins() {
        let all = || vec![From::All];
        let ten = || vec![From::Network(Network::parse("10").unwrap())];
        let allow_deny = Legacy { allow_first: true, allow: all(), deny: ten() };
        assert!(!allow_deny.allows(ip("10.0.0.1")) && allow_deny.allows(ip("11.0.0.1")));
        let deny_allow = Legacy { allow_first: false, allow: ten(), deny: all() };
        assert!(deny_allow.allows(ip("10.0.0.1")) && !deny_allow.allows(ip("11.0.0.1")));
        assert!(!Legacy { allow_first: true, ..Legacy::default() }.allows(ip("1.1.1.1")));
    }

    #[test]
    fn a_method_may_be_required() {
        let require = vec![Require::Method(vec!["GET".into(), "OPTIONS".into()])];
        let access = Access { require, legacy: None };
        let allows = |method: &[u8]| access.allows(ip("10.0.0.1"), method);
        assert!(allows(b"GET") && allows(b"HEAD") && allows(b"OPTIONS"));
        assert!(!allows(b"POST") && !allows(b"get"));
    }
}
