//! The embedded interpreter: libperl behind a small C shim.
//!
//! Central nouns: [`Interpreter`] runs handlers and scripts for one [`Exchange`] at a time; [`zygote`] forks
//! CGI children out of a perl that waits inside its own start. Knows nothing of the HTTP wire format.
//!
//! Invariant: Perl's exceptions are long jumps and never cross a Rust frame; see `shim/shim.h`.

mod counter;
mod exchange;
mod host;
mod interpreter;
mod shim;
mod table;
pub mod zygote;

pub use counter::write_counter;
pub use exchange::{Command, Exchange, Number, TableKind, Text};
pub use host::{ServerFacts, set_server};
pub use interpreter::{
    COUNTS, Call, Counting, End, Handler, Interpreter, Outcome, Resolved, RunFlags, Source,
};
pub use shim::{Unavailable, available, load};
pub use table::Table;
