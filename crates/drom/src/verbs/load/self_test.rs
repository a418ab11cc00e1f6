//! `drom load --self-test`: what this machine's client can do at most, as text or JSON.

use std::time::Duration;

use drom_load::{Plan, SelfTest, Target, self_test};
use serde::Serialize;

use super::{
    json::Latencies,
    text::{Paint, broken, count, number_of, time_us},
};
use crate::{exit::Exit, say};

/// Wider lines nobody likes to read.
const WIDTH: usize = 100;

/// As flags have it.
pub struct Wanted {
    pub connections: u32,
    pub threads: u32,
    pub keepalive: bool,
    pub duration: Duration,
    pub json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    connections: u32,
    threads: u32,
    keepalive: bool,
    duration_s: f64,
    ceiling_rps: f64,
    cpu_us_per_request: f64,
    latency_us: Latencies,
    timer_rps: f64,
    /// Null when it was stopped before.
    timer_lag_us: Option<Latencies>,
    clock_ns: f64,
    disturbed: bool,
    evidence: Option<String>,
}

pub fn run(wanted: &Wanted) -> Exit {
    let stop = super::interrupt::watch();
    match self_test(&wanted.plan(), wanted.duration, stop) {
        Ok(found) => {
            let told = say::result(&wanted.render(&found));
            if told.is_err() { Exit::Failed } else { exit(&found) }
        }
        Err(error) => {
            say::line(format!("drom load: {error}"));
            if error.is_usage() { Exit::Usage } else { Exit::Failed }
        }
    }
}

fn exit(found: &SelfTest) -> Exit {
    let timers = found.timers.as_ref();
    if found.ceiling.interrupted || timers.is_none_or(|timers| timers.interrupted) {
        Exit::Interrupted
    } else if found.ceiling.answers() == 0 {
        Exit::Failed
    } else if found.disturbed().is_some() {
        Exit::Doubtful
    } else {
        Exit::Done
    }
}

impl Wanted {
    fn plan(&self) -> Plan {
        // The target is the null server's, which is not there yet.
        let target = Target::at(([127, 0, 0, 1], 0).into(), "/");
        let Self { connections, threads, keepalive, .. } = *self;
        Plan { connections, threads, keepalive, ..Plan::get(target) }
    }

    fn render(&self, found: &SelfTest) -> String {
        if self.json {
            let document = serde_json::to_string_pretty(&self.document(found));
            return document.expect("numbers and strings always have a JSON form") + "\n";
        }
        let width = super::super::report::style().width.unwrap_or(WIDTH).min(WIDTH);
        let lines = self.lines(found).into_iter();
        let lines =
            lines.flat_map(|(title, text)| broken(Paint::for_stdout(), title, &text, Some(width)));
        lines.map(|line| line + "\n").collect()
    }

    fn document(&self, found: &SelfTest) -> Document {
        let open = found.timers.as_ref().and_then(|timers| timers.open.as_ref());
        let disturbed = found.disturbed();
        Document {
            schema: "drom-load-self-test/1",
            connections: self.connections,
            threads: self.threads,
            keepalive: self.keepalive,
            duration_s: self.duration.as_secs_f64(),
            ceiling_rps: found.ceiling.rate_rps(),
            cpu_us_per_request: found.ceiling.cpu_us_per_request(),
            latency_us: Latencies::of(&found.ceiling.latency),
            timer_rps: found.timer_rps,
            timer_lag_us: open.map(|open| Latencies::of(&open.lag)),
            clock_ns: found.clock_ns,
            disturbed: disturbed.is_some(),
            evidence: disturbed.map(|verdict| verdict.evidence),
        }
    }

    /// Titles and what stands behind them.
    fn lines(&self, found: &SelfTest) -> Vec<(&'static str, String)> {
        let us = |latency: &drom_load::Latency, quantile| {
            time_us(latency.quantile_ns(quantile) as f64 / 1e3)
        };
        let connections = number_of(u64::from(self.connections), "connection");
        let threads = number_of(u64::from(self.threads), "thread");
        let kept = if self.keepalive { "keep-alive" } else { "a connection a request" };
        let ceiling = &found.ceiling;
        let (median, late) = (us(&ceiling.latency, 0.5), us(&ceiling.latency, 0.99));
        let (rate, clock) = (count(ceiling.rate_rps().round() as u64), found.clock_ns);
        let server = "a built-in server that does nothing, on this machine";
        let mut lines = vec![
            ("Self-test", format!("{connections}, {threads}, {kept}")),
            ("Server", server.to_owned()),
            ("Ceiling", format!("{rate} answers/s")),
            ("Client", format!("{} of CPU a request", time_us(ceiling.cpu_us_per_request()))),
            ("Latency", format!("p50 {median}, p99 {late}")),
        ];
        if let Some(open) = found.timers.as_ref().and_then(|timers| timers.open.as_ref()) {
            let (median, late) = (us(&open.lag, 0.5), us(&open.lag, 0.99));
            let rps = count(found.timer_rps as u64);
            lines.push(("Timers", format!("p50 {median}, p99 {late} late, at {rps} requests/s")));
        }
        lines.push(("Clock", format!("{clock:.0} ns a look")));
        lines.extend(found.disturbed().map(|verdict| ("Disturbed", verdict.evidence)));
        lines
    }
}
