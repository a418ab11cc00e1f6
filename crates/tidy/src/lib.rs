//! The rules of the house, as functions from the files to what is wrong with them.
//!
//! Central noun: [`House`], every file of the project that is ours. A rule returns one line a
//! violation, each with the file and what to do. `tests/tidy.rs` runs them; nothing else depends on
//! this crate.

mod functions;
mod house;
mod ratchet;
mod rules;
mod text;

pub use house::{File, House};
pub use ratchet::Ratchet;
pub use rules::{
    banned_calls, changelog, dependency_arrows, dependency_list, file_heads, file_sizes,
    long_functions, long_lines, markdown_links, over_limit, unfinished,
};
