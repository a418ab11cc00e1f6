//! The two clients: wrk, which belongs to nobody here, and `drom load`. Starts one, reads its
//! report. A run with failed requests is no measurement.

use std::{path::Path, process::Command, time::Duration};

use crate::{error::Error, server::end_with_us};

/// What a client is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub url: &'a str,
    pub connections: usize,
    pub duration: Duration,
    /// The only core the client may use.
    pub core: Option<usize>,
}

/// What it saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub rate_rps: f64,
    pub median_us: f64,
}

pub fn wrk(job: Job) -> Result<Seen, Error> {
    let mut command = pinned("wrk".as_ref(), job.core);
    let duration = format!("-d{}s", job.duration.as_secs());
    command.args(["-t1", "--latency", "--timeout", "10s", &duration]);
    command.arg(format!("-c{}", job.connections)).arg(job.url);
    let report = output("wrk", command, &[0])?;
    let failures = ["Socket errors:", "Non-2xx"];
    if let Some(line) = report.lines().find(|l| failures.iter().any(|f| l.trim().starts_with(f))) {
        return Err(Error::Failures("wrk", job.url.to_owned(), line.trim().to_owned()));
    }
    parse_wrk(&report).ok_or(Error::Client("wrk", report))
}

fn parse_wrk(report: &str) -> Option<Seen> {
    let after = |label: &str| {
        report.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim)
    };
    let rate_rps = after("Requests/sec:")?.parse().ok()?;
    (rate_rps > 0.0).then_some(Seen { rate_rps, median_us: microseconds(after("50%")?)? })
}

/// wrk's durations: `28.00us`, `1.20ms`, `2.00s`.
fn microseconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let factor = match &text[end..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(text[..end].parse::<f64>().ok()? * factor)
}

pub fn drom_load(drom: &Path, job: Job) -> Result<Seen, Error> {
    let mut command = pinned(drom.as_os_str(), job.core);
    command.args(["load", job.url, "--json", "--quiet", "-t", "1"]);
    command.args(["-c", &job.connections.to_string()]);
    command.args(["-d", &format!("{}s", job.duration.as_secs())]);
    // 3: measured, with a self-check that failed (the client was the limit: what a race of clients
    // wants).
    let report = output("drom load", command, &[0, 3])?;
    let document: serde_json::Value =
        serde_json::from_str(&report).map_err(|e| Error::Client("drom load", e.to_string()))?;
    let failed = document["requests"]["failed"].as_u64().unwrap_or(0);
    if failed > 0 {
        return Err(Error::Failures("drom load", job.url.to_owned(), format!("{failed} failed")));
    }
    let rate_rps = document["rate_rps"].as_f64().filter(|r| *r > 0.0);
    let median_us = document["latency_us"]["p50"].as_f64();
    match (rate_rps, median_us) {
        (Some(rate_rps), Some(median_us)) => Ok(Seen { rate_rps, median_us }),
        _ => Err(Error::Client("drom load", report)),
    }
}

pub fn pinned(program: &std::ffi::OsStr, core: Option<usize>) -> Command {
    let Some(core) = core else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

fn output(name: &'static str, mut command: Command, good: &[i32]) -> Result<String, Error> {
    end_with_us(&mut command);
    let output = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NotInstalled(name),
        _ => Error::Start(name.to_owned(), e),
    })?;
    if output.status.code().is_some_and(|code| good.contains(&code)) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Client(name, String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_wrk_is_read() {
        let report = "Running 1s test @ http://127.0.0.1:1/\n  Latency Distribution\n     50%  134.00us\n     \
                      75%  0.98ms\n  43210 requests in 1.00s, 5.00MB read\nRequests/sec:  43170.12\n";
        assert_eq!(parse_wrk(report), Some(Seen { rate_rps: 43170.12, median_us: 134.0 }));
        assert_eq!(parse_wrk("Requests/sec:      0.00\n 50% 0.00us"), None);
        assert_eq!(microseconds("1.20ms"), Some(1200.0));
        assert_eq!(microseconds("fast"), None);
    }
}
