//! `drom serve` from outside: one program for all of its tests, which share the server and client
//! of `support` and wait side by side.

mod answers;
mod api;
mod apps;
mod cgi_again;
mod cgi_end;
mod cgi_errors;
mod conditions;
mod framing;
mod holds;
mod logs;
mod place;
mod reloads;
mod scripts;
mod spread;
mod starts;
mod supervision;
#[path = "../support/mod.rs"]
mod support;
mod survives;
mod types;
