//! One file a verb: its flags and the glue to the room that does the work.

pub mod compare;
pub mod load;
pub mod record;
pub mod report;
pub mod serve;
