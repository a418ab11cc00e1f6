//! `drom memory` and `drom top` from outside: one program for all of
//! these tests, which wait side by side.

mod copies;
mod heap;
mod processes;
#[path = "../support/mod.rs"]
mod support;
mod top;
