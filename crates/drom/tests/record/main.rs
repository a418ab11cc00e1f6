//! `drom record` from outside: one program for all of its tests, which wait side by side.

mod files;
mod passing;
#[path = "../support/recorder.rs"]
mod recorder;
#[path = "../support/mod.rs"]
mod support;
