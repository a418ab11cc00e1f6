//! What a load generator pays: starts one, counts the requests it reports, and asks the kernel what
//! the whole process took (`wait4`). A run with failed requests is no measurement.

use std::{
    ffi::OsStr,
    fs,
    io::{Read, pipe},
    path::Path,
    process::{Command, ExitStatus},
    time::Duration,
};

use drom_observe::{clock, usage};
use serde_json::Value;

use crate::{client::pinned, error::Error, server::end_with_us};

/// Who competes with `drom load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Wrk,
    /// With a script that sends 16 requests at once.
    WrkPipelined,
    /// Over HTTP/2, with so many streams a connection.
    H2load {
        streams: usize,
    },
    /// Over HTTP/1.1: each connection asks once.
    H2loadOnce,
    Ab,
    Oha,
    Hey,
}

/// How long a client works.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    For(Duration),
    /// On a connection each.
    Handshakes(usize),
}

/// What a client is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Race<'a> {
    pub url: &'a str,
    pub connections: usize,
    pub work: Work,
    /// The only core the client may use.
    pub core: Option<usize>,
    /// Where the pipelining script is.
    pub script: &'a Path,
}

/// What it did and what that took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    pub requests: f64,
    pub cpu_s: f64,
}

impl Spent {
    pub fn requests_per_cpu_s(self) -> f64 {
        self.requests / self.cpu_s
    }
}

pub fn peer(peer: Peer, race: Race) -> Result<Spent, Error> {
    let mut command = pinned(peer.program().as_ref(), race.core);
    command.args(peer.arguments(race));
    let ran = run(peer.program(), command)?;
    if !ran.status.success() {
        return Err(Error::Client(peer.program(), ran.said));
    }
    let requests = peer
        .requests(&ran.said)
        .map_err(|failed| Error::Failures(peer.program(), race.url.to_owned(), failed))?;
    Ok(Spent { requests, cpu_s: ran.cpu_s })
}

/// `drom load` with these flags beside those of the race.
pub fn drom(drom: &Path, race: Race, flags: &[&str]) -> Result<Spent, Error> {
    let (document, ran) = drom_document(drom, race, flags)?;
    let requests = document["requests"]["ok"].as_f64().unwrap_or(0.0);
    Ok(Spent { requests, cpu_s: ran.cpu_s })
}

/// The result of `drom load`, and the process.
pub fn drom_document(drom: &Path, race: Race, flags: &[&str]) -> Result<(Value, Ran), Error> {
    let mut command = pinned(drom.as_os_str(), race.core);
    command.args(["load", race.url, "--json", "--quiet", "-t", "1"]);
    command.args(["-c", &race.connections.to_string()]);
    match race.work {
        Work::For(time) => command.args(["-d", &seconds(time)]),
        Work::Handshakes(number) => command.args(["-n", &number.to_string()]),
    };
    command.args(flags);
    let ran = run("drom load", command)?;
    // 3 and 6: measured, with a self-check that failed. On a core of its own, or beside other work,
    // the client is the limit: what a race of clients wants.
    let document = json(&ran.said).filter(|_| matches!(ran.status.code(), Some(0 | 3 | 6)));
    let Some(document) = document else {
        // The reason comes last, behind a result without answers.
        let reason = ran.said.lines().last().unwrap_or_default();
        return Err(Error::Client("drom load", reason.to_owned()));
    };
    match document["requests"]["failed"].as_u64() {
        Some(0) if document["requests"]["ok"].as_u64() > Some(0) => Ok((document, ran)),
        _ => {
            let what = format!("{} {}", document["requests"], document["errors"]);
            Err(Error::Failures("drom load", race.url.to_owned(), what))
        }
    }
}

/// `oha` at a rate.
pub fn oha_at(race: Race, rate: u32) -> Result<(), Error> {
    let mut command = pinned("oha".as_ref(), race.core);
    command.args(Peer::Oha.arguments(race));
    command.args(["-q", &rate.to_string(), "--latency-correction"]);
    let ran = run("oha", command)?;
    let requests = Peer::Oha.requests(&ran.said);
    requests.map(drop).map_err(|failed| Error::Failures("oha", race.url.to_owned(), failed))
}

impl Peer {
    pub fn program(self) -> &'static str {
        match self {
            Self::Wrk | Self::WrkPipelined => "wrk",
            Self::H2load { .. } | Self::H2loadOnce => "h2load",
            Self::Ab => "ab",
            Self::Oha => "oha",
            Self::Hey => "hey",
        }
    }

    fn arguments(self, race: Race) -> Vec<String> {
        let (connections, url) = (race.connections.to_string(), race.url);
        let (time, number) = match race.work {
            Work::For(time) => (seconds(time), String::new()),
            Work::Handshakes(number) => (String::new(), number.to_string()),
        };
        let script = race.script.to_string_lossy();
        let words = match self {
            Self::Wrk => format!("-t1 --latency --timeout 10s -d{time} -c{connections} {url}"),
            Self::WrkPipelined => {
                format!("-t1 --latency --timeout 10s -s {script} -d{time} -c{connections} {url}")
            }
            Self::H2load { streams } => {
                let time = time.trim_end_matches('s');
                format!("-t1 -c{connections} -m{streams} -D{time} {url}")
            }
            Self::H2loadOnce => format!("-t1 --h1 -c{connections} -n{number} {url}"),
            Self::Ab => {
                let time = time.trim_end_matches('s');
                format!("-k -q -t{time} -n2000000 -c{connections} {url}")
            }
            Self::Oha => format!("--no-tui --output-format json -z{time} -c{connections} {url}"),
            Self::Hey => format!("-z {time} -c {connections} {url}"),
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// Good answers, or what went wrong.
    fn requests(self, said: &str) -> Result<f64, String> {
        let found = match self {
            Self::Wrk | Self::WrkPipelined => wrk_requests(said)?,
            Self::H2load { .. } | Self::H2loadOnce => h2load_requests(said)?,
            Self::Ab => ab_requests(said)?,
            Self::Oha => oha_requests(said)?,
            Self::Hey => hey_requests(said)?,
        };
        found.filter(|requests| *requests > 0.0).ok_or_else(|| said.to_owned())
    }
}

type Found = Result<Option<f64>, String>;

fn wrk_requests(said: &str) -> Found {
    let mut lines = said.lines().map(str::trim);
    let bad = |line: &&str| line.starts_with("Socket errors:") || line.starts_with("Non-2xx");
    if let Some(line) = lines.clone().find(bad) {
        return Err(line.to_owned());
    }
    Ok(lines.find_map(|line| line.split_once(" requests in ")?.0.parse().ok()))
}

/// `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`
fn h2load_requests(said: &str) -> Found {
    let Some(line) = said.lines().find(|line| line.starts_with("requests: ")) else {
        return Ok(None);
    };
    let count = |word: &str| {
        let part = line.split(['[', ':', ',']).find(|part| part.trim().ends_with(word))?;
        part.trim().split(' ').next()?.parse::<f64>().ok()
    };
    if ["failed", "errored", "timeout"].iter().any(|word| count(word).is_some_and(|n| n > 0.0)) {
        return Err(line.to_owned());
    }
    Ok(count("succeeded"))
}

fn ab_requests(said: &str) -> Found {
    let count = |label: &str| {
        said.lines().find_map(|line| line.strip_prefix(label)?.trim().parse::<f64>().ok())
    };
    match count("Failed requests:").zip(Some(count("Non-2xx responses:").unwrap_or(0.0))) {
        Some((0.0, 0.0)) => Ok(count("Complete requests:")),
        Some((failed, bad)) => Err(format!("{failed} failed, {bad} bad statuses")),
        None => Ok(None),
    }
}

/// What was under way at the end is counted as aborted, and no failure.
fn oha_requests(said: &str) -> Found {
    let Some(found) = json(said) else { return Ok(None) };
    let errors = found["errorDistribution"].as_object().into_iter().flatten();
    if let Some((what, count)) = errors.clone().find(|(what, _)| !what.contains("deadline")) {
        return Err(format!("{count} x {what}"));
    }
    Ok(found["statusCodeDistribution"]["200"].as_f64())
}

/// `[200] 1234 responses`, with a tab between.
fn hey_requests(said: &str) -> Found {
    if let Some(at) = said.find("Error distribution:") {
        return Err(said[at..].trim().replace('\n', " "));
    }
    let good = said.lines().find_map(|line| line.trim().strip_prefix("[200]"));
    Ok(good.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()))
}

/// A process that has ended.
pub struct Ran {
    pub status: ExitStatus,
    /// On both streams.
    pub said: String,
    pub cpu_s: f64,
    /// The most memory it had (`VmHWM`), as far as it was seen.
    pub peak_mib: f64,
    /// How much that grew from the half of its life to nine tenths: the report comes after those.
    pub growth_mib: f64,
}

fn run(name: &'static str, mut command: Command) -> Result<Ran, Error> {
    end_with_us(&mut command);
    let start = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotInstalled(name),
        _ => Error::Start(name.to_owned(), error),
    };
    if !is_installed(command.get_program(), command.get_args()) {
        return Err(Error::NotInstalled(name));
    }
    let (mut reader, writer) = pipe().map_err(start)?;
    command.stdout(writer.try_clone().map_err(start)?).stderr(writer);
    let child = command.spawn().map_err(start)?;
    // Its ends of the pipe would keep the reader waiting.
    drop(command);
    let pid = child.id();
    let watch = std::thread::spawn(move || peaks_mib(pid));
    let mut said = Vec::new();
    reader.read_to_end(&mut said).map_err(start)?;
    let (status, usage) = usage::wait(pid).map_err(start)?;
    let cpu_s = usage.user_s + usage.system_s;
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let peaks = watch.join().unwrap_or_default();
    let peak_mib = peaks.last().copied().unwrap_or(0.0);
    let growth_mib = growth(&peaks);
    Ok(Ran { status, said, cpu_s, peak_mib, growth_mib })
}

/// With `taskset` in front the program is its third argument, and not finding it is its error.
fn is_installed<'a>(program: &OsStr, mut arguments: impl Iterator<Item = &'a OsStr>) -> bool {
    let program = if program == "taskset" { arguments.nth(2).unwrap_or(program) } else { program };
    if Path::new(program).components().count() > 1 {
        return Path::new(program).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Looks at its high-water mark until it has ended.
fn peaks_mib(pid: u32) -> Vec<f64> {
    let mut peaks = Vec::new();
    while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // One that has ended, and was not waited for yet, has no memory any more.
        let Some(line) = line else { break };
        let kib: Option<f64> = line.trim().trim_end_matches(" kB").parse().ok();
        peaks.extend(kib.map(|kib| kib / 1024.0));
        clock::sleep(Duration::from_millis(20));
    }
    peaks
}

fn growth(peaks: &[f64]) -> f64 {
    let at = |tenths: usize| peaks.get(peaks.len() * tenths / 10).copied().unwrap_or(0.0);
    at(9) - at(5)
}

/// The object in what was said; warnings may stand around it.
fn json(said: &str) -> Option<Value> {
    let (from, to) = (said.find('{')?, said.rfind('}')?);
    serde_json::from_str(said.get(from..=to)?).ok()
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_peers_are_read() {
        let wrk = "Running\n  43210 requests in 1.00s, 5.00MB read\n";
        assert_eq!(Peer::Wrk.requests(wrk), Ok(43210.0));
        let h2load = "finished in 2.00s, 9 req/s\nrequests: 90 total, 95 started, 90 done, 90 \
                      succeeded, 0 failed, 0 errored, 0 timeout\n";
        assert_eq!(Peer::H2load { streams: 1 }.requests(h2load), Ok(90.0));
        let ab = "Complete requests:      77\nFailed requests:        0\n";
        assert_eq!(Peer::Ab.requests(ab), Ok(77.0));
        let oha = r#"{"statusCodeDistribution": {"200": 12},
                      "errorDistribution": {"aborted due to deadline": 3}}"#;
        assert_eq!(Peer::Oha.requests(oha), Ok(12.0));
        let hey = "Status code distribution:\n  [200]\t456 responses\n";
        assert_eq!(Peer::Hey.requests(hey), Ok(456.0));
    }

    #[test]
    fn failures_are_no_measurement() {
        let wrk = "  Socket errors: connect 0, read 3, write 0, timeout 0\n  9 requests in 1s\n";
        assert!(Peer::Wrk.requests(wrk).is_err());
        let h2load = "requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 1 errored, 0 \
                      timeout";
        assert!(Peer::H2loadOnce.requests(h2load).is_err());
        let ab = "Complete requests:      77\nFailed requests:        2\n";
        assert!(Peer::Ab.requests(ab).is_err());
        let hey = "  [200]\t456 responses\n\nError distribution:\n  [3]\tGet: refused\n";
        assert!(Peer::Hey.requests(hey).is_err());
        assert!(Peer::Wrk.requests("nothing").is_err());
    }

    #[test]
    fn a_process_is_charged_its_own_time_and_memory() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"]);
        let ran = run("sh", command).unwrap();
        assert_eq!((&*ran.said, ran.status.success()), ("done", true));
        assert!(ran.cpu_s > 0.005 && ran.peak_mib > 0.1, "{} {}", ran.cpu_s, ran.peak_mib);
    }

    #[test]
    fn memory_grows_while_the_load_lasts_not_at_its_end() {
        assert_eq!(growth(&[1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.5, 2.5, 2.5, 2.5, 9.0]), 0.5);
        assert_eq!(growth(&[]), 0.0);
    }

    #[test]
    fn a_program_that_is_not_there_is_said_to_be_not_installed() {
        for command in
            [pinned("no-such-program".as_ref(), None), pinned("no-such".as_ref(), Some(0))]
        {
            assert!(matches!(run("it", command), Err(Error::NotInstalled("it"))));
        }
    }
}
