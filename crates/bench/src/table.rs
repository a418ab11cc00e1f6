//! The rows of `bench/RESULTS.md`: what is measured against what, and what was asked. Data only.

mod profile;

use std::fmt;

use crate::{
    cost::Peer,
    server::{Kind, LARGE_FILE, Way},
};
pub use profile::{Profile, Profiler, Sizer};

/// A server and a path on it.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub kind: Kind,
    pub path: &'static str,
}

/// What a row compares.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// Requests a second that wrk gets from two servers.
    Servers { drom: Side, peer: Side },
    /// Requests a second that `drom load` and wrk get from one server.
    ClientRate { server: Side },
    /// Median latency that `drom load` and wrk see, client and server on a core each.
    ClientMedian { server: Side },
    /// Requests for each second of CPU time of the client, client and server on a core each.
    ClientCost(Race),
    /// The same of users of a scenario, against the plain load of one path.
    Scenario { path: &'static str },
    /// How late requests of a constant schedule come at a server, p99, against oha.
    Lateness { rate: u32 },
    /// p99 of the lag behind a schedule, against a thread that only looks at the clock: what the
    /// machine leaves.
    MachineLag { rate: u32 },
    /// A figure of `drom load` without a peer.
    Alone(Alone),
    /// Of `drom profile` or `drom memory`.
    Profile(Profile),
}

/// Two load generators on one server.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    pub way: Way,
    pub path: &'static str,
    /// Flags of `drom load` beside those of every race.
    pub flags: &'static [&'static str],
    pub peer: Peer,
    /// So many TLS handshakes with a request each, in place of a time.
    pub handshakes: Option<usize>,
    /// As people start a client; otherwise it has the last core.
    pub every_core: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// The most memory that it had, in MiB.
    PeakMemory,
    /// How much more that was towards the end than in the middle of a run, in MiB.
    MemoryGrowth,
    /// From the start of the process to the first bytes of its first request, in milliseconds.
    StartToRequest,
    /// p99 of the lag behind the schedule at so many requests a second, in microseconds.
    LagP99 { rate: u32 },
}

/// What a row's figures are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    PerCpuSecond,
    Microseconds,
    Milliseconds,
    Mebibytes,
    Percent,
    /// Of a percentage.
    Points,
}

impl Figure {
    pub fn unit(self) -> Unit {
        match self {
            Self::Servers { .. } | Self::ClientRate { .. } => Unit::PerSecond,
            Self::ClientCost(_) | Self::Scenario { .. } => Unit::PerCpuSecond,
            Self::ClientMedian { .. } | Self::Lateness { .. } => Unit::Microseconds,
            Self::Alone(Alone::LagP99 { .. }) | Self::MachineLag { .. } => Unit::Microseconds,
            Self::Alone(Alone::StartToRequest) => Unit::Milliseconds,
            Self::Alone(Alone::PeakMemory | Alone::MemoryGrowth) => Unit::Mebibytes,
            Self::Profile(profile) => profile.unit(),
        }
    }

    pub fn has_peer(self) -> bool {
        match self {
            Self::Alone(_) => false,
            Self::Profile(profile) => profile.has_peer(),
            _ => true,
        }
    }

    /// Of the ratio, behind the point.
    pub fn ratio_digits(self) -> usize {
        if let Self::Profile(profile) = self { profile.ratio_digits() } else { 2 }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerSecond => "/s",
            Self::PerCpuSecond => "/CPU s",
            Self::Microseconds => " µs",
            Self::Milliseconds => " ms",
            Self::Mebibytes => " MiB",
            Self::Percent => " %",
            Self::Points => " points",
        })
    }
}

/// What the ratio Drom / peer should be, or the figure itself where there is no peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
    /// Within this share of 1.
    Within(f64),
    /// Nothing: the row is there to read the others by.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub what: &'static str,
    pub against: &'static str,
    /// 0: it is not about connections.
    pub connections: usize,
    pub figure: Figure,
    pub asked: Asked,
}

const MOD_PERL: &str = "mod_perl 2 on httpd prefork";
const MOD_CGI: &str = "mod_cgi on httpd prefork";

#[must_use]
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut both = |names: [&'static str; 2], what, path, asked: [f64; 2]| {
        rows.push(httpd(names[0], what, MOD_PERL, 8, path, asked[0]));
        rows.push(httpd(names[1], what, MOD_PERL, 32, path, asked[1]));
    };
    both(["modperl-8", "modperl-32"], "hello, `modperl` handler", "/modperl/hello", [3.0, 4.0]);
    let path = "/perl-script/hello";
    both(["perl-script-8", "perl-script-32"], "hello, `perl-script` handler", path, [4.0; 2]);
    both(["registry-8", "registry-32"], "hello, Registry", "/registry/hello.pl", [4.0; 2]);
    both(["perlrun-8", "perlrun-32"], "hello, PerlRun", "/perlrun/hello.pl", [2.5; 2]);
    rows.push(Row {
        name: "floor-32",
        what: "hello, `modperl` handler",
        against: "the floor: a bare epoll loop that calls Perl",
        connections: 32,
        figure: Figure::Servers {
            drom: Side { kind: Kind::Drom { workers: 2 }, path: "/modperl/hello" },
            peer: Side { kind: Kind::Floor { processes: 2 }, path: "/" },
        },
        asked: Asked::AtLeast(0.75),
    });
    rows.push(Row {
        name: "ceiling-32",
        what: "the floor in Drom's place: what this machine leaves room for",
        against: MOD_PERL,
        connections: 32,
        figure: Figure::Servers {
            drom: Side { kind: Kind::Floor { processes: 2 }, path: "/modperl/hello" },
            peer: Side { kind: Kind::Httpd { workers: 32 }, path: "/modperl/hello" },
        },
        asked: Asked::Nothing,
    });
    rows.push(httpd("cgi-8", "hello, CGI, plain Perl", MOD_CGI, 8, "/cgi-bin/hello.pl", 10.0));
    rows.push(httpd(
        "cgi-pm-8",
        "hello, CGI with `use CGI`",
        MOD_CGI,
        8,
        "/cgi-bin/cgi-pm.pl",
        15.0,
    ));
    for (name, what, path) in [
        ("heavy-modperl-8", "heavy script, `modperl` handler", "/modperl/heavy"),
        ("heavy-perl-script-8", "heavy script, `perl-script` handler", "/perl-script/heavy"),
        ("heavy-registry-8", "heavy script, Registry", "/registry/heavy.pl"),
        ("heavy-perlrun-8", "heavy script, PerlRun", "/perlrun/heavy.pl"),
    ] {
        rows.push(httpd(name, what, MOD_PERL, 8, path, 1.0));
    }
    rows.push(httpd("static-httpd-8", "small static file", "httpd prefork", 8, "/hello.txt", 3.0));
    rows.push(httpd(
        "static-httpd-32",
        "small static file",
        "httpd prefork",
        32,
        "/hello.txt",
        3.0,
    ));
    rows.push(nginx("static-nginx-8", 8));
    rows.push(nginx("static-nginx-32", 32));
    rows.extend(clients());
    rows.extend(races());
    rows.push(users());
    rows.extend(alone());
    rows.extend(profile::rows());
    rows
}

/// As many workers on both sides as there are connections: prefork holds one for each.
fn httpd(
    name: &'static str,
    what: &'static str,
    against: &'static str,
    connections: usize,
    path: &'static str,
    asked: f64,
) -> Row {
    let drom = Side { kind: Kind::Drom { workers: connections }, path };
    let peer = Side { kind: Kind::Httpd { workers: connections }, path };
    let figure = Figure::Servers { drom, peer };
    Row { name, what, against, connections, figure, asked: Asked::AtLeast(asked) }
}

fn nginx(name: &'static str, connections: usize) -> Row {
    let drom = Side { kind: Kind::Drom { workers: 2 }, path: "/hello.txt" };
    let peer = Side { kind: Kind::Nginx { workers: 2 }, path: "/hello.txt" };
    Row {
        name,
        what: "small static file",
        against: "nginx, 2 workers",
        connections,
        figure: Figure::Servers { drom, peer },
        asked: Asked::AtLeast(0.8),
    }
}

fn clients() -> [Row; 2] {
    let server = Side { kind: Kind::Drom { workers: 2 }, path: "/modperl/hello" };
    [
        Row {
            name: "load-rate-32",
            what: "`drom load`, closed loop: rate",
            against: "wrk on the same server",
            connections: 32,
            figure: Figure::ClientRate { server },
            asked: Asked::AtLeast(1.0),
        },
        Row {
            name: "load-median-1",
            what: "`drom load`, closed loop: median latency",
            against: "wrk on the same server",
            connections: 1,
            figure: Figure::ClientMedian { server },
            asked: Asked::Within(0.1),
        },
    ]
}

const SMALL: Race = Race {
    way: Way::Plain,
    path: "/hello.txt",
    flags: &[],
    peer: Peer::Wrk,
    handshakes: None,
    every_core: false,
};
/// Against a server that costs next to nothing.
const NULL: Race = Race { way: Way::Null, path: "/", ..SMALL };

/// What a request costs the client.
fn races() -> Vec<Row> {
    let (keep, on_nginx) = ("keep-alive GET", "keep-alive GET, nginx");
    let on_ring = "keep-alive GET, `--engine io_uring`";
    let free = "keep-alive GET, clients on every core";
    let large = Race { path: LARGE_FILE, ..SMALL };
    let tls = Race { way: Way::Tls, flags: &["--insecure"], ..SMALL };
    let piped = Race { flags: &["--pipeline", "16"], peer: Peer::WrkPipelined, ..NULL };
    let piped_nginx = Race { way: Way::Plain, path: "/hello.txt", ..piped };
    let streams = Peer::H2load { streams: 16 };
    let h2_flags = &["--http2", "--streams", "16", "--insecure"];
    let h2 = Race { way: Way::Http2, flags: h2_flags, peer: streams, ..SMALL };
    let h2_tls = Race { way: Way::Tls, ..h2 };
    let h2_ids = Race { path: "/ids/hello.txt", ..h2 };
    let full = Race { handshakes: Some(HANDSHAKES), peer: Peer::H2loadOnce, ..tls };
    vec![
        race("load-cost-wrk-32", keep, "wrk", 32, NULL, Asked::AtLeast(1.1)),
        race("load-cost-wrk-128", keep, "wrk", 128, NULL, Asked::AtLeast(1.1)),
        race("load-cost-oha-32", keep, "oha", 32, of(Peer::Oha), Asked::AtLeast(2.0)),
        race("load-cost-hey-32", keep, "hey", 32, of(Peer::Hey), Asked::AtLeast(5.0)),
        race("load-cost-free-wrk-32", free, "wrk", 32, anywhere(Peer::Wrk), Asked::AtLeast(1.1)),
        race("load-cost-free-oha-32", free, "oha", 32, anywhere(Peer::Oha), Asked::AtLeast(2.0)),
        race("load-cost-free-hey-32", free, "hey", 32, anywhere(Peer::Hey), Asked::AtLeast(5.0)),
        race("load-cost-uring-wrk-32", on_ring, "wrk", 32, ring(Peer::Wrk), Asked::AtLeast(1.1)),
        race("load-cost-uring-oha-32", on_ring, "oha", 32, ring(Peer::Oha), Asked::AtLeast(2.0)),
        race("load-cost-uring-hey-32", on_ring, "hey", 32, ring(Peer::Hey), Asked::AtLeast(5.0)),
        race(
            "load-cost-pipeline-32",
            "pipelining, 16 deep",
            "wrk with a script",
            32,
            piped,
            Asked::AtLeast(1.5),
        ),
        race("load-cost-nginx-32", on_nginx, "wrk", 32, SMALL, Asked::AtLeast(1.1)),
        race("load-cost-nginx-128", on_nginx, "wrk", 128, SMALL, Asked::AtLeast(1.1)),
        // ab keeps a connection where an answer says Keep-Alive, which the null server never does.
        race("load-cost-nginx-ab-32", on_nginx, "ab", 32, nginx_of(Peer::Ab), Asked::Nothing),
        race("load-cost-nginx-oha-32", on_nginx, "oha", 32, nginx_of(Peer::Oha), Asked::Nothing),
        race("load-cost-nginx-hey-32", on_nginx, "hey", 32, nginx_of(Peer::Hey), Asked::Nothing),
        race("load-cost-64k-32", "bodies of 64 KiB", "wrk", 32, large, Asked::AtLeast(1.1)),
        race("load-cost-tls-32", "TLS, keep-alive", "wrk", 32, tls, Asked::AtLeast(1.0)),
        race(
            "load-cost-nginx-pipeline-32",
            "pipelining, 16 deep, nginx",
            "wrk with a script",
            32,
            piped_nginx,
            Asked::Nothing,
        ),
        race("load-cost-h2-8", "HTTP/2, 16 streams", "h2load", 8, h2, Asked::AtLeast(1.0)),
        race("load-cost-h2-tls-8", "HTTP/2 over TLS", "h2load", 8, h2_tls, Asked::AtLeast(1.0)),
        race(
            "load-cost-h2-ids-8",
            "HTTP/2, each answer with an id of its own",
            "h2load",
            8,
            h2_ids,
            Asked::Nothing,
        ),
        race(
            "load-cost-handshakes",
            "full TLS handshakes",
            "h2load",
            HANDSHAKES,
            full,
            Asked::AtLeast(1.0),
        ),
    ]
}

fn users() -> Row {
    Row {
        name: "load-cost-users-32",
        what: "scenario: three steps, cookies, a capture",
        against: "`drom load` of one page",
        connections: 32,
        figure: Figure::Scenario { path: "/users/hello.txt" },
        asked: Asked::AtLeast(0.6),
    }
}

/// All at once: h2load makes each of its connections once.
const HANDSHAKES: usize = 1_000;

fn ring(peer: Peer) -> Race {
    Race { flags: &["--engine", "io_uring"], ..of(peer) }
}

fn anywhere(peer: Peer) -> Race {
    Race { every_core: true, ..of(peer) }
}

fn of(peer: Peer) -> Race {
    Race { peer, ..NULL }
}

fn nginx_of(peer: Peer) -> Race {
    Race { peer, ..SMALL }
}

fn race(
    name: &'static str,
    what: &'static str,
    against: &'static str,
    connections: usize,
    race: Race,
    asked: Asked,
) -> Row {
    Row { name, what, against, connections, figure: Figure::ClientCost(race), asked }
}

/// What only `drom load` is asked, and the open loop.
fn alone() -> Vec<Row> {
    let row = |name, what, connections, alone, most| Row {
        name,
        what,
        against: "-",
        connections,
        figure: Figure::Alone(alone),
        asked: Asked::AtMost(most),
    };
    let lag = Alone::LagP99 { rate: 20_000 };
    vec![
        row("load-memory-10k", "`drom load`: peak memory", 10_000, Alone::PeakMemory, 64.0),
        row(
            "load-memory-growth",
            "`drom load`: memory, its growth from half to nine tenths of a run at full rate",
            32,
            Alone::MemoryGrowth,
            0.5,
        ),
        row(
            "load-start",
            "`drom load`: start to the first request",
            1,
            Alone::StartToRequest,
            20.0,
        ),
        row("load-lag-20k", "`drom load --rate 20k`: p99 of the lag", 64, lag, 100.0),
        Row {
            name: "load-lag-machine",
            what: "`drom load --rate 20k`: p99 of the lag",
            against: "a thread that only looks at the clock: what this machine leaves",
            connections: 64,
            figure: Figure::MachineLag { rate: 20_000 },
            asked: Asked::Nothing,
        },
        Row {
            name: "load-lateness-oha",
            what: "20,000 requests a second: how late they come at the server, p99",
            against: "oha",
            connections: 64,
            figure: Figure::Lateness { rate: 20_000 },
            asked: Asked::AtMost(0.2),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = rows().iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows().len());
    }
}
