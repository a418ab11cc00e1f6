//! `drom compare` and `drom report` from outside, and what all verbs have in common: one program
//! for all of these tests, which wait side by side.

#[path = "../support/answering.rs"]
mod answering;
mod answers;
mod examples;
mod full;
mod manual;
mod refusals;
mod report;
mod runs;
mod streams;
