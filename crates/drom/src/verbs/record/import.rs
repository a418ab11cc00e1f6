//! Recordings that others have made: archives of browsers, logs of servers.

use std::{fs, path::Path};

use drom_record::Seen;
use drom_scenario::{AccessLog, Exchange, LogOptions, read_har};

use super::{Args, Failure, tape};
use crate::{say, verbs::load::text::number_of};

pub fn har(args: &Args, path: &Path) -> Result<(), Failure> {
    let exchanges = read_har(path, &read(path)?).map_err(|e| Failure::usage(e.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut tape = tape(args, &name)?;
    for exchange in exchanges {
        tape.add(seen(exchange));
    }
    let words = tape.finish().map_err(Failure::failed)?;
    say::line(format!("drom record: {words}"));
    Ok(())
}

fn seen(exchange: Exchange) -> Seen {
    let kinds = exchange.answer_headers.iter();
    let kind = kinds.clone().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let behind = exchange.url.find("://").map_or("", |at| &exchange.url[at + 3..]);
    let is_kept = exchange.can_be_asked_again();
    Seen {
        method: exchange.method.clone(),
        path: behind.find('/').map_or("/", |at| &behind[at..]).to_owned(),
        status: exchange.status,
        took_ns: exchange.took_ns,
        content_type: kind.map_or_else(String::new, |(_, value)| value.clone()),
        exchange: is_kept.then_some(exchange),
        note: None,
    }
}

pub fn log(path: &Path, all_methods: bool) -> Result<(), Failure> {
    let options = LogOptions { all_methods, ..LogOptions::default() };
    let log = AccessLog::read(path, &read(path)?, options);
    let log = log.map_err(|error| Failure::usage(error.to_string()))?;
    say::words(&summary(path, &log))
        .map_err(|error| Failure::failed(format!("cannot print the summary: {error}")))
}

/// What a replay of the log would send.
fn summary(path: &Path, log: &AccessLog) -> String {
    let seconds = log.times_ns.last().copied().unwrap_or(0) as f64 / 1e9;
    let rate = if seconds > 0.0 { log.len() as f64 / seconds } else { 0.0 };
    let mut out = format!("{}: {}", path.display(), number_of(log.len() as u64, "request"));
    if seconds > 0.0 {
        out += &format!(" in {seconds:.0} s, {rate:.2} a second");
    }
    out.push('\n');
    if log.unsafe_requests > 0 {
        let more = log.unsafe_requests;
        out += &format!("  {more} more that are neither GET nor HEAD; --all-methods takes them\n");
    }
    if log.bad_lines > 0 {
        let verb = if log.bad_lines == 1 { "is" } else { "are" };
        out += &format!("  {} {verb} passed over:\n", number_of(log.bad_lines, "line"));
    }
    for bad in &log.bad {
        out += &format!("    line {}: {}\n", bad.line, bad.reason);
    }
    out
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
}
