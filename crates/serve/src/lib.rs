//! The server: configuration, connections, dispatch, supervision of workers.
//!
//! `run` is the door. The processes: `master` (owns the sockets, never runs Perl) forks a `template` (loads
//! Perl once) which forks workers (`worker`: an `engine` and a `perl_tier`); the CGI `spawner` keeps zygotes.

mod access_log;
mod answer;
mod cgi;
pub mod conditions;
pub mod config;
mod crisis;
mod engine;
mod environment;
pub mod error_page;
pub mod files;
mod generation;
pub mod http;
pub mod inspection;
mod loading;
pub mod log;
mod lost;
pub mod map;
mod master;
mod outcome;
mod output;
mod perl_tier;
mod pid_file;
mod pressure;
mod request;
pub mod scoreboard;
mod script_headers;
mod script_source;
mod site;
mod sys;
mod template;
mod worker;

pub use master::{ReadConfig, ServeError, run};
pub use outcome::{Heard, heard};
pub use sys::is_root;

/// A line of the error log, without its end.
#[must_use]
pub fn warning(text: &str) -> String {
    String::from_utf8_lossy(&site::error_line(config::LogLevel::Warn, None, "core", text))
        .into_owned()
}

/// Workers that accept: one a core, no more than there are workers. More would only spread connections over
/// processes that wait for each other's core.
fn primaries(workers: usize) -> usize {
    let cores = drom_observe::core_count();
    cores.min(workers).max(1)
}
