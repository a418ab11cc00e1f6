//! `drom memory` and `drom top` from outside: one program for all of its tests, which wait side by side.

mod heap;
mod processes;
#[path = "../support/mod.rs"]
mod support;
mod top;
