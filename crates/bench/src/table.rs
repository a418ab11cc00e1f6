//! The rows of `bench/RESULTS.md`: what is measured against what, and what was asked. Data only.

use crate::server::Kind;

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
}

/// What the ratio Drom / peer should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    AtLeast(f64),
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
