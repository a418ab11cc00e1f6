//! What the verbs of the old tools have in common: how they end, what the system said, the day.

use std::{
    io,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use drom_classics::{Refusal, WallClock};
use drom_load::{Error, Target};

use crate::say;

/// The status, with the reason on standard error where there is one.
pub fn exit(ended: Result<u8, Refusal>) -> ExitCode {
    match ended {
        Ok(status) => status.into(),
        Err(Refusal { message, status }) => {
            say::part(drom_report::format::plain_lines(&message));
            status.into()
        }
    }
}

/// A part of the report; 0, so that it can be a verb's end.
pub fn print(tool: &str, text: &str) -> Result<u8, Refusal> {
    let printed = say::result(text).map(|()| 0);
    printed.map_err(|error| Refusal::new(1, format!("{tool}: cannot print the report: {error}\n")))
}

/// The system's words without the number that Rust adds.
pub fn said(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_owned()
}

/// A server to which a proxy makes the way, when it is asked this.
pub fn through(proxy: (&str, u16), url: &str, asked: Vec<u8>) -> Result<Target, Error> {
    let (host, port) = proxy;
    let proxy = Target::resolve(&format!("http://{host}:{port}/"))?;
    let target = Target::at_address(url, proxy.address)?;
    Ok(Target { tunnel: Some(asked), lookup: proxy.lookup, ..target })
}

/// Ends a run as Ctrl-C does.
pub fn stop_after(limit: Duration, stop: &'static AtomicBool) {
    std::thread::spawn(move || {
        drom_observe::clock::sleep(limit);
        stop.store(true, Relaxed);
    });
}

/// The number of the system's error behind it.
pub fn code_of(error: &Error) -> Option<i32> {
    match error {
        Error::Refused { .. } => Some(libc::ECONNREFUSED),
        Error::Descriptors { .. } => Some(libc::EMFILE),
        Error::Ports { .. } | Error::Source { .. } => Some(libc::EADDRNOTAVAIL),
        Error::Connect { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

/// Where the engine's clock stands in local time now.
pub fn wall_clock() -> WallClock {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let monotonic_us = (drom_observe::clock::monotonic_ns() / 1_000) as i64;
    WallClock {
        unix_us_at_zero: unix.as_micros() as i64 - monotonic_us,
        utc_offset_s: utc_offset_s(unix.as_secs() as libc::time_t),
    }
}

fn utc_offset_s(second: libc::time_t) -> i64 {
    // SAFETY: an all-zero `tm` is a valid one.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r leaves `tm` as it is when it fails.
    unsafe { libc::localtime_r(&raw const second, &raw mut tm) };
    tm.tm_gmtoff
}
