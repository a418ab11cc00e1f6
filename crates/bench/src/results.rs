//! `bench/RESULTS.md`, written anew after every row so that Ctrl-C keeps what was measured, and
//! every round beside it in `rounds.csv`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use drom_observe::machine_record;
use drom_stats::{Estimate, Interval};

use crate::{
    contest::{Outcome, Rounds},
    error::Error,
    table::{Asked, Row, Unit},
};

pub struct Results {
    path: PathBuf,
    head: String,
    rows: Vec<String>,
    csv: String,
}

impl Results {
    pub fn new(path: PathBuf, seed: u64, rounds: Rounds) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::File(folder.to_owned(), e))?;
        }
        let csv = "row,round,first,drom,peer\n".to_owned();
        Ok(Self { path, head: head(seed, rounds), rows: Vec::new(), csv })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a row and returns its summary.
    pub fn add(&mut self, row: &Row, outcome: Result<Outcome, Error>) -> Result<String, Error> {
        let said = match &outcome {
            Ok(outcome) => measured(row, outcome),
            Err(e) => [String::new(), String::new(), first_line(e), asked(row), "-".to_owned()],
        };
        let [drom, peer, ratio, asked, reached] = &said;
        let Row { what, against, .. } = row;
        let connections = connections(row);
        self.rows.push(format!(
            "| {what} | {against} | {connections} | {drom} | {peer} | {ratio} | {asked} | {reached} |\n"
        ));
        let summary = match outcome {
            Ok(outcome) => {
                self.csv += &csv(row, &outcome);
                format!("{drom} against {peer}: {ratio}; asked {asked}: {reached}")
            }
            Err(e) => e.to_string(),
        };
        self.write()?;
        Ok(summary)
    }

    fn write(&self) -> Result<(), Error> {
        let text = format!("{}{}", self.head, self.rows.concat());
        let csv = self.path.with_file_name("rounds.csv");
        for (path, text) in [(&self.path, &text), (&csv, &self.csv)] {
            fs::write(path, text).map_err(|e| Error::File(path.clone(), e))?;
        }
        Ok(())
    }
}

fn measured(row: &Row, outcome: &Outcome) -> [String; 5] {
    let mean = |figure: fn(&crate::contest::Round) -> f64| {
        outcome.rounds.iter().map(figure).sum::<f64>() / outcome.rounds.len() as f64
    };
    let Estimate { centre, interval } = outcome.ratio;
    let drom = shown(row, mean(|r| r.drom));
    let reached = reached(row.asked, outcome.ratio).to_owned();
    let Interval { low, high } = interval;
    if !row.figure.has_peer() {
        let digits = if row.figure.unit() == Unit::Percent { 3 } else { 2 };
        let interval = format!("{drom} [{low:.digits$}, {high:.digits$}]");
        return [interval, "-".to_owned(), "-".to_owned(), asked(row), reached];
    }
    let digits = row.figure.ratio_digits();
    let ratio = format!("**{centre:.digits$}** [{low:.digits$}, {high:.digits$}]");
    [drom, shown(row, mean(|r| r.peer)), ratio, asked(row), reached]
}

fn shown(row: &Row, value: f64) -> String {
    let unit = row.figure.unit();
    match unit {
        Unit::PerSecond | Unit::PerCpuSecond => format!("{}{unit}", thousands(value)),
        Unit::Microseconds | Unit::Milliseconds => format!("{value:.1}{unit}"),
        Unit::Mebibytes | Unit::Points => format!("{value:.2}{unit}"),
        Unit::Percent => format!("{value:.3}{unit}"),
    }
}

fn connections(row: &Row) -> String {
    if row.connections == 0 { "-".to_owned() } else { row.connections.to_string() }
}

fn asked(row: &Row) -> String {
    let unit = if row.figure.has_peer() { String::new() } else { row.figure.unit().to_string() };
    match row.asked {
        Asked::Nothing => "-".to_owned(),
        Asked::AtLeast(least) => format!("≥ {least}{unit}"),
        Asked::AtMost(most) => format!("≤ {most}{unit}"),
        Asked::Within(share) => format!("within {:.0} %", share * 100.0),
    }
}

/// Judged by the interval, not by its centre.
fn reached(asked: Asked, ratio: Estimate) -> &'static str {
    let (low, high) = match asked {
        Asked::Nothing => return "-",
        Asked::AtLeast(least) => (least, f64::INFINITY),
        Asked::AtMost(most) => (f64::NEG_INFINITY, most),
        Asked::Within(share) => (1.0 - share, 1.0 + share),
    };
    let interval = ratio.interval;
    if interval.low >= low && interval.high <= high {
        "yes"
    } else if interval.high < low || interval.low > high {
        "no"
    } else {
        "not decided"
    }
}

fn csv(row: &Row, outcome: &Outcome) -> String {
    let line = |(number, r): (usize, &crate::contest::Round)| {
        let first = if r.drom_first { "drom" } else { "peer" };
        format!("{},{},{first},{:.2},{:.2}\n", row.name, number + 1, r.drom, r.peer)
    };
    outcome.rounds.iter().enumerate().map(line).collect()
}

fn head(seed: u64, rounds: Rounds) -> String {
    let mut text = String::from(
        "# Results\n\nWritten by `make bench`; do not edit. Every round is in `rounds.csv`.\n\n",
    );
    for (name, value) in facts() {
        text += &format!("- {name}: {value}\n");
    }
    let (count, each) = (rounds.count, rounds.each.as_secs());
    text += &format!("- rounds: {count} of {each} s a side, order drawn with seed {seed}\n");
    text += METHOD;
    text += "\n| what | against | connections | Drom | peer | ratio [95 % interval] | asked | reached |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    text
}

const METHOD: &str = "
Client: wrk with one thread and keep-alive, on the same machine and free to run on every core. Both
servers of a row are up at the same time, both were seen to answer 200 with the same body, neither
writes an access log. Against httpd both have as many workers as there are connections (prefork
holds a worker for each); against nginx and the floor both have two. On loopback drom and the floor
ask for the Reno congestion control (docs/decisions/003); httpd and nginx get the machine's default,
named above. The ratio is the geometric mean of the rounds' ratios, its interval Student's t over
the rounds' logarithms. *Reached* is \"yes\" or \"no\" when the whole interval is.

Rows of requests a CPU second, of memory and of the open loop are about the client. A server has the
first core, the clients take turns on the last (\"on every core\": they may run on the server's too,
as people start them). Plain GETs go to drom's null server (one thread, 128
bytes for each request, the answers to pipelined ones written together), so that the client is what
is busy; where \"nginx\" is said, and for large bodies, TLS and HTTP/2, one worker of nginx (TLS
1.3) has that core, which writes each pipelined answer alone and lets a fast client sleep and wake.
A client's CPU time is the kernel's, user and system, of its whole process from start to end; `drom
load` has one thread and records every latency. Their handshakes are full ones, each on a connection
of its own. wrk2 is not built here: it documents timers of 1 ms, ten times the lag that is asked
for. How late requests come is seen at a server of its own, by the kernel's stamps, from the
earliest constant schedule that all of them could have followed; requests of the first half second
are left out. Ten minutes at full rate are
`drom-bench --only load-memory-growth --rounds 2 --seconds 600`. How right its figures are stands in
[ACCURACY.md](ACCURACY.md) (`make accuracy`).

Rows without connections are about `drom profile` and `drom memory`, on whatever cores are free. CPU
time is what the kernel has counted for the program alone, user and system, over work that the
program does when it is told to, after its start; a round is one such piece of work, and there are
as many as fit into the time of the rounds above, or into twice that where half a hundredth is asked
for. What is sampled and what is bare is the same process by turns, looked at by a thread of the
benchmark with the code of `drom profile`; other profilers are loaded into a process of their own
beside a bare one. Stacks are of a program in which every call has a line of its own, so that one
which cannot have been is seen; one that moved while it was read can be and still lack the subs that
were called or left just then (docs/decisions/007). The 10,000 samples are those of all rounds
together. Shares are of a sub's own time. What code takes is the op slabs that a preloaded allocator
has given while the sub was compiled, and not got back; Devel::Size counts more than code by design,
but not the slabs.
";

/// Of the peers, but for those that Debian has not.
const PACKAGES: [&str; 10] = [
    "apache2-bin",
    "libapache2-mod-perl2",
    "nginx",
    "wrk",
    "nghttp2-client",
    "apache2-utils",
    "hey",
    "libdevel-nytprof-perl",
    "libdevel-dprof-perl",
    "libdevel-size-perl",
];

fn facts() -> Vec<(String, String)> {
    let mut facts = vec![("date".to_owned(), command("date", &["-u", "+%Y-%m-%d %H:%M UTC"]))];
    let wanted = ["CPU", "cores", "memory", "kernel", "system", "virtual machine"];
    for fact in machine_record().into_iter().filter(|f| wanted.contains(&f.name.as_str())) {
        facts.push((fact.name, fact.value));
    }
    let congestion = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let congestion = congestion.map_or_else(|e| e.to_string(), |name| name.trim().to_owned());
    facts.push(("TCP congestion control".to_owned(), congestion));
    let commit = command("git", &["describe", "--always", "--dirty"]);
    facts.push(("drom".to_owned(), format!("{} ({commit})", env!("CARGO_PKG_VERSION"))));
    facts.push(("perl".to_owned(), command("perl", &["-e", "printf '%vd', $^V"])));
    for package in PACKAGES {
        facts.push((
            package.to_owned(),
            command("dpkg-query", &["-W", "-f", "${Version}", package]),
        ));
    }
    facts.push(("oha".to_owned(), command("oha", &["--version"])));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    facts.push(("command".to_owned(), format!("`drom-bench {}`", arguments.join(" "))));
    facts
}

/// What a command says, or that it says nothing.
fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|o| o.status.success());
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.filter(|t| !t.is_empty()).unwrap_or_else(|| "not installed".to_owned())
}

fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().replace('|', "/")
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides_what_was_reached() {
        let ratio = |low, centre, high| Estimate { centre, interval: Interval { low, high } };
        let at_least = Asked::AtLeast(3.0);
        assert_eq!(reached(at_least, ratio(3.1, 3.2, 3.3)), "yes");
        assert_eq!(reached(at_least, ratio(2.9, 3.2, 3.5)), "not decided");
        assert_eq!(reached(at_least, ratio(2.0, 2.5, 2.9)), "no");
        let within = Asked::Within(0.1);
        assert_eq!(reached(within, ratio(0.95, 1.0, 1.05)), "yes");
        assert_eq!(reached(within, ratio(1.05, 1.1, 1.2)), "not decided");
        assert_eq!(reached(within, ratio(1.2, 1.3, 1.4)), "no");
    }

    #[test]
    fn rows_without_connections_have_the_digits_that_are_asked_for() {
        let row = |name| crate::table::rows().into_iter().find(|row| row.name == name);
        let outcome = |centre, low, high| Outcome {
            rounds: vec![crate::contest::Round { drom: centre, peer: 1.0, drom_first: true }],
            ratio: Estimate { centre, interval: Interval { low, high } },
        };
        let stacks = row("profile-stacks").expect("there");
        let said = measured(&stacks, &outcome(99.951, 99.94, 99.96));
        assert_eq!(said, ["99.951 % [99.940, 99.960]", "-", "-", "≥ 99.9 %", "yes"]);
        assert_eq!(connections(&stacks), "-");
        let cost = row("profile-cost-100").expect("there");
        let said = measured(&cost, &outcome(1.0021, 1.0011, 1.0049));
        assert_eq!(said[2..], ["**1.0021** [1.0011, 1.0049]", "≤ 1.005", "yes"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.0), "999");
    }
}
