//! `drom profile` from outside: one program for all of its tests, which wait side by side.

mod forks;
mod live;
mod native;
#[path = "../support/profiled.rs"]
mod profiled;
mod sampled;
mod served;
mod stops;
#[path = "../support/mod.rs"]
mod support;
mod switched;
mod targets;
