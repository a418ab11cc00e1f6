//! How connections are made: flags of addresses, TLS and the life of a connection.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use drom_load::{Address, Error, Plan, Target, Trust, Version};

use super::count;

/// More than a range of this many is a slip of the pen.
const SOURCES_MAX: u128 = 65_536;

/// Their section of the help.
pub const HEADING: &str = "Connections";

#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub struct Transport {
    /// Keep connections, which is the default (ab's habit)
    #[arg(short, long, conflicts_with = "no_keepalive")]
    keepalive: bool,
    /// A connection for each request
    ///
    /// With Connection: close, which such a header of your own (-H) does as well.
    #[arg(long)]
    pub no_keepalive: bool,
    /// Close a connection after so many answers
    ///
    /// Another one is made in its place.
    #[arg(long, value_parser = count::parse::<u64>, value_name = "N")]
    #[arg(allow_hyphen_values = true)]
    answers_per_connection: Option<u64>,
    /// Speak HTTP/1.0
    ///
    /// With Connection: keep-alive unless --no-keepalive.
    #[arg(long = "http1.0")]
    http10: bool,
    /// Speak HTTP/2: over TLS by agreement (ALPN), over plain TCP at once (prior knowledge)
    #[arg(long, conflicts_with_all = ["http10", "no_keepalive"])]
    http2: bool,
    /// Connect to a Unix socket; the URL says Host and path
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resolve", "source_address"])]
    unix_socket: Option<PathBuf>,
    /// Where HOST is, whatever the resolver says: an address, with a port if it is another one
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = place)]
    resolve: Option<Place>,
    /// Local addresses to connect from, in turn: one, a list, or a range A-B; can be repeated
    ///
    /// As 127.0.0.2-127.0.0.9. Each has its own ports, and without it the system chooses.
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', value_parser = range)]
    source_address: Vec<Range>,
    /// Take any certificate
    #[arg(long, conflicts_with = "cacert")]
    insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's
    ///
    /// A server's own may be among them, self-signed or not; it is then good for any name.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Certificate to show to the server, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Take earlier TLS sessions up again, instead of a full handshake for each connection
    ///
    /// Without it each connection has a full handshake, as each new client has.
    #[arg(long)]
    tls_resume: bool,
}

/// Addresses from the first to the last.
#[derive(Clone, Copy, Debug)]
struct Range(IpAddr, IpAddr);

/// Where a server is; without a port it is the URL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(IpAddr, Option<u16>);

impl Transport {
    pub fn target(&self, url: &str) -> Result<Target, Error> {
        if let Some(path) = &self.unix_socket {
            return Target::at_address(url, Address::Unix(path.clone()));
        }
        let Some(Place(ip, other_port)) = self.resolve else { return Target::resolve(url) };
        let (_, port) = Target::place(url)?;
        let address = SocketAddr::new(ip, other_port.unwrap_or(port));
        Target::at_address(url, Address::Tcp(address))
    }

    /// Whether the files of TLS can be used, of a run that speaks none: one that does reads them
    /// itself, and a pipe can be read only once.
    pub fn check_files(&self, plan: &Plan) -> Result<(), Error> {
        let others = plan.scene.iter().flat_map(|scene| &scene.targets);
        let is_read = others.chain([&plan.target]).any(|target| target.secure);
        if is_read || (self.cacert.is_none() && self.cert.is_none()) {
            return Ok(());
        }
        // The system's certificates are not asked for.
        let trust = Trust { insecure: self.cacert.is_none(), ..plan.trust.clone() };
        trust.security("localhost", &[]).map(drop)
    }

    /// A header of `plan` may end each connection, too.
    pub fn close(&self, plan: Plan) -> Plan {
        Plan { keepalive: plan.keepalive && !closes(&plan.headers), ..plan }
    }

    /// Puts the flags into `plan`.
    pub fn apply(&self, plan: Plan) -> Plan {
        Plan {
            keepalive: !self.no_keepalive,
            version: match (self.http10, self.http2) {
                (true, _) => Version::Http10,
                (false, true) => Version::Http2,
                (false, false) => Version::Http11,
            },
            answers_per_connection: self.answers_per_connection,
            sources: self.source_address.iter().flat_map(Range::addresses).collect(),
            trust: Trust {
                insecure: self.insecure,
                ca_file: self.cacert.clone(),
                client_files: self.cert.clone().zip(self.key.clone()),
                resume: self.tls_resume,
                ..Trust::default()
            },
            ..plan
        }
    }
}

impl Range {
    fn addresses(&self) -> Vec<IpAddr> {
        match (self.0, self.1) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let bits = u32::from(from)..=u32::from(to);
                bits.map(|bits| IpAddr::V4(bits.into())).collect()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let bits = u128::from(from)..=u128::from(to);
                bits.map(|bits| IpAddr::V6(bits.into())).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn place(text: &str) -> Result<Place, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let place = match text.parse::<SocketAddr>() {
        Ok(address) => Ok(Place(address.ip(), Some(address.port()))),
        Err(_) => bare.parse().map(|ip| Place(ip, None)),
    };
    match place {
        Ok(Place(_, Some(0))) => Err("the port is a number from 1 to 65535".to_owned()),
        place => place.map_err(|_| "an address is wanted, as in 127.0.0.1:8080".to_owned()),
    }
}

fn range(text: &str) -> Result<Range, String> {
    let address = |text: &str| {
        text.trim().parse::<IpAddr>().map_err(|_| format!("{text:?} is no IP address"))
    };
    let Some((from, to)) = text.split_once('-') else {
        return address(text).map(|one| Range(one, one));
    };
    let (from, to) = (address(from)?, address(to)?);
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => ip.into(),
    };
    if from.is_ipv4() != to.is_ipv4() || from > to {
        return Err(format!("{from} to {to} is no range"));
    }
    if number(to) - number(from) >= SOURCES_MAX {
        return Err(format!("{from} to {to} are more than {SOURCES_MAX} addresses"));
    }
    Ok(Range(from, to))
}

/// A header that ends every connection after its answer, whatever the flags say.
fn closes(headers: &[(String, String)]) -> bool {
    let mut values = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    values.any(|(_, value)| value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_with_or_without_a_port() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        assert_eq!(place("127.0.0.1"), Ok(Place(ip("127.0.0.1"), None)));
        assert_eq!(place("127.0.0.1:80"), Ok(Place(ip("127.0.0.1"), Some(80))));
        for text in ["::1", "[::1]"] {
            assert_eq!(place(text), Ok(Place(ip("::1"), None)), "{text}");
        }
        assert_eq!(place("[::1]:80"), Ok(Place(ip("::1"), Some(80))));
        for bad in ["foo", "", "127.0.0.1:0", "[::1]:0", "[::1", "localhost:80", "127.0.0.1:x"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_are_what_lies_between() {
        let of = |text: &str| range(text).map(|range| range.addresses());
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        assert_eq!(of("127.0.0.2"), Ok(vec![ip("127.0.0.2")]));
        let some = ["127.0.0.254", "127.0.0.255", "127.0.1.0"].map(ip);
        assert_eq!(of("127.0.0.254-127.0.1.0"), Ok(some.to_vec()));
        assert_eq!(of("::1-::2"), Ok(["::1", "::2"].map(ip).to_vec()));
        for bad in ["x", "127.0.0.2-127.0.0.1", "127.0.0.1-::1", "10.0.0.0-10.255.0.0", ""] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
}
