//! Perl stacks of another process, read from outside: nothing of the process is changed or loaded
//! into, and it is stopped only where that was asked for. A [`Sampler`] finds the interpreter and
//! says what it does, a [`Watch`] when to look, a [`Profile`] what that adds up to.

mod abi;
#[doc(hidden)]
pub mod album;
mod callgrind;
mod calls;
mod counts;
mod diff;
mod dprof;
mod error;
mod family;
pub mod heap;
mod interpreter;
mod lines;
mod memory;
mod names;
mod native;
mod nytprof;
mod perl;
mod pprof;
pub mod profile;
mod program;
mod sampler;
mod speedscope;
mod stored;
pub mod text;
mod threads;
mod tracee;
mod tree;
mod walk;
mod watch;

pub use callgrind::callgrind;
pub use diff::{By, Change, Diff, Side, diff};
pub use error::Error;
pub use family::Family;
pub use lines::{LineShare, Lines};
pub use native::{Native, NativeError, NativePlan};
pub use pprof::pprof;
pub use profile::{Clock, Counted, Profile};
pub use sampler::Sampler;
pub use speedscope::speedscope;
pub use stored::{NoProfile, json, read};
pub use tree::{Node, Tree};
pub use watch::{Ended, Watch};
