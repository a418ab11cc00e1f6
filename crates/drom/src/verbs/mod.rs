//! One file a verb: its flags and the glue to the room that does the work.

pub mod ab;
pub mod bench;
pub mod check;
mod classic;
pub mod compare;
pub mod completions;
pub mod http_load;
pub mod httperf;
pub mod load;
pub mod man;
pub mod memory;
pub mod profile;
pub mod record;
pub mod report;
pub mod serve;
pub mod top;
