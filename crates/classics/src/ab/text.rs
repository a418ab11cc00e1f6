//! ab's report in words, line by line, and what it says before and beside it. Pure.

use drom_load::Outcome;

use super::{
    Options, Secured,
    figures::{Column, Figures, round_ms},
};

const PERCENTS: [usize; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// What is said while the first request goes out.
#[must_use]
pub fn benchmarking(options: &Options) -> String {
    let through = options.proxy.as_ref().map(|(host, port)| format!("[through {host}:{port}] "));
    let end = if options.heartbeat.is_some() { "\n" } else { "..." };
    let (host, through) = (&options.url.host, through.unwrap_or_default());
    format!("Benchmarking {host} {through}(be patient){end}")
}

#[must_use]
pub fn progress_line(done: u64) -> String {
    format!("Completed {done} requests\n")
}

/// What `-v` shows: from 2 on the request and the head of the first answer, from 3 on each status.
#[must_use]
pub fn log(options: &Options, request: &[u8], outcome: &Outcome) -> String {
    if options.verbosity < 2 {
        return String::new();
    }
    let head_end = request.windows(4).position(|four| four == b"\r\n\r\n");
    let sent = &request[..head_end.map_or(request.len(), |at| at + 4)];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut log = format!("INFO: {} header == \n---\n{}\n---\n", options.method, text(sent));
    log += &format!("LOG: header received:\n{}\n", text(&outcome.first_head));
    if options.verbosity > 2 {
        let answers = outcome.records.iter().filter(|record| record.status != 0);
        log.extend(answers.map(|record| format!("LOG: Response code = {}\n", record.status)));
    }
    log
}

/// From "Server Software" on.
#[must_use]
pub fn report(options: &Options, figures: &Figures) -> String {
    let mut report = what(options, figures) + &counts(options, figures);
    report += &rates(options, figures);
    if figures.done > 0 {
        report += &times(options, figures);
        if options.percentiles && figures.done > 1 {
            report += &percentiles(figures);
        }
    }
    report
}

fn what(options: &Options, figures: &Figures) -> String {
    let url = &options.url;
    let mut lines = Lines::default();
    lines.blank().blank();
    lines.put("Server Software", &figures.server);
    lines.put("Server Hostname", url.host.trim_matches(['[', ']']));
    lines.put("Server Port", url.port);
    if let Some(Secured { protocol, key, name }) = &figures.secured {
        lines.put("SSL/TLS Protocol", protocol);
        for (what, value) in [("Server Temp Key", key), ("TLS Server Name", name)] {
            if let Some(value) = value {
                lines.put(what, value);
            }
        }
    }
    lines.blank();
    lines.put("Document Path", &url.path);
    if options.variable_length {
        lines.put("Document Length", "Variable");
    } else {
        lines.put("Document Length", format!("{} bytes", figures.document_bytes));
    }
    lines.blank();
    lines.0
}

fn counts(options: &Options, figures: &Figures) -> String {
    let mut lines = Lines::default();
    lines.put("Concurrency Level", options.concurrency);
    lines.put("Time taken for tests", format!("{:.3} seconds", figures.taken_s));
    lines.put("Complete requests", figures.done);
    lines.put("Failed requests", figures.failed);
    if figures.failed > 0 {
        let Figures { connect, receive, length, exceptions, .. } = figures;
        lines.0 += &format!(
            "   (Connect: {connect}, Receive: {receive}, Length: {length}, \
             Exceptions: {exceptions})\n"
        );
    }
    if figures.write_errors > 0 {
        lines.put("Write errors", figures.write_errors);
    }
    if figures.non_2xx > 0 {
        lines.put("Non-2xx responses", figures.non_2xx);
    }
    if options.keepalive {
        lines.put("Keep-Alive requests", figures.kept);
    }
    lines.put("Total transferred", format!("{} bytes", figures.read_bytes));
    if options.body.is_some() {
        lines.put("Total body sent", figures.sent_bytes);
    }
    lines.put("HTML transferred", format!("{} bytes", figures.body_bytes));
    lines.0
}

fn rates(options: &Options, figures: &Figures) -> String {
    let (taken_s, done) = (figures.taken_s, figures.done as f64);
    if taken_s <= 0.0 || figures.done == 0 {
        return String::new();
    }
    let concurrency = f64::from(options.concurrency);
    let rate = |bytes: u64| bytes as f64 / 1024.0 / taken_s;
    let mut lines = Lines::default();
    lines.put("Requests per second", format!("{:.2} [#/sec] (mean)", done / taken_s));
    let each_ms = concurrency * taken_s * 1000.0 / done;
    lines.put("Time per request", format!("{each_ms:.3} [ms] (mean)"));
    let interval_ms = taken_s * 1000.0 / done;
    let across = "(mean, across all concurrent requests)";
    lines.put("Time per request", format!("{interval_ms:.3} [ms] {across}"));
    let read = rate(figures.read_bytes);
    lines.put("Transfer rate", format!("{read:.2} [Kbytes/sec] received"));
    if options.body.is_some() {
        let both = rate(figures.read_bytes + figures.sent_bytes);
        for (rate, what) in [(rate(figures.sent_bytes), "sent"), (both, "total")] {
            lines.0 += &format!("{:24}{rate:.2} kb/s {what}\n", "");
        }
    }
    lines.0
}

fn times(options: &Options, figures: &Figures) -> String {
    let rows = [
        ("Connect:", figures.connects(), "initial connection"),
        ("Processing:", figures.processings(), "processing"),
        ("Waiting:", figures.waits(), "waiting"),
        ("Total:", figures.totals(), "total"),
    ];
    let mut text = "\nConnection Times (ms)\n".to_owned();
    if !options.confidence {
        text += "              min   avg   max\n";
        for (name, Column { min, mean, max, .. }, _) in &rows {
            text += &format!("{name:<12}{min:>5} {mean:>5}{max:>5}\n");
        }
        return text;
    }
    text += "              min  mean[+/-sd] median   max\n";
    for (name, Column { min, mean, sd, median, max }, _) in &rows {
        text += &format!("{name:<12}{min:>5} {mean:>4} {sd:>5.1} {median:>6} {max:>7}\n");
    }
    text.extend(rows.iter().map(|(_, column, what)| doubt(column, what)));
    text
}

/// Rounded figures against one that is not: with short times it warns for nothing, as ab does.
fn doubt(column: &Column, what: &str) -> String {
    let apart = (column.mean - column.median).abs() as f64;
    let of = format!("The median and mean for the {what} time are");
    if apart > 2.0 * column.sd {
        format!(
            "ERROR: {of} more than twice the standard\n       \
             deviation apart. These results are NOT reliable.\n"
        )
    } else if apart > column.sd {
        format!(
            "WARNING: {of} not within a normal deviation\n        \
             These results are probably not that reliable.\n"
        )
    } else {
        String::new()
    }
}

/// No interpolation: the value at the index, cut off.
fn percentiles(figures: &Figures) -> String {
    let totals = figures.sorted_totals();
    let mut text = "\nPercentage of the requests served within a certain time (ms)\n".to_owned();
    for percent in PERCENTS {
        let at = (totals.len() * percent / 100).min(totals.len() - 1);
        let longest = if percent == 100 { " (longest request)" } else { "" };
        text += &format!("{percent:>4}%  {:>5}{longest}\n", round_ms(totals[at]));
    }
    text
}

/// Names, and values from one column on.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        let name = format!("{name}:");
        self.0 += &format!("{name:<24}{value}\n");
        self
    }

    fn blank(&mut self) -> &mut Self {
        self.0.push('\n');
        self
    }
}
