//! Perl stacks of another process, read from outside: nothing of the process is changed, stopped or
//! loaded into. [`Perl::attach`] finds the interpreter, a [`Walker`] looks at what it does,
//! [`Names`] says what that is called.

pub mod abi;
mod error;
mod memory;
mod names;
mod perl;
pub mod profile;
mod program;
mod sampler;
pub mod text;
mod walk;
mod watch;

pub use error::Error;
pub use memory::{Memory, Part, Remote};
pub use names::{Names, Place as CodePlace, Sub, cv_of, op_type, stash_name};
pub use perl::{Ops, Perl, Place, boundary};
pub use profile::Profile;
pub use sampler::Sampler;
pub use walk::{Look, Walker};
pub use watch::{Ended, Watch};
