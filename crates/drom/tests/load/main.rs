//! `drom load` and `drom check` from outside: one program for all of
//! these tests, which wait side by side.

mod capacity;
mod check;
mod export;
#[path = "../support/loading.rs"]
mod loading;
mod open;
mod outputs;
mod runs;
mod self_test;
#[path = "../support/shop.rs"]
mod shop;
mod users;
mod ways;
