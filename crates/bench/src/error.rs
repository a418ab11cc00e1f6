//! What can go wrong while measuring, one variant a fault.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    #[error("{} is not there; run `cargo build --release -p drom` first, or name it with --drom", .0.display())]
    NoDrom(PathBuf),
    /// The row is left out with this reason.
    #[error("{0} is not installed; `make bench-peers` tries to install it")]
    NotInstalled(&'static str),
    #[error("this needs two cores, one for the client and one for the server")]
    OneCore,
    #[error("cannot start {0}: {1}")]
    Start(String, std::io::Error),
    #[error("{0} ended before it answered:\n{1}")]
    Ended(String, String),
    #[error("{0} did not answer {1} with 200 within 15 s: {2}\n{3}")]
    NotReady(String, String, String, String),
    #[error("{0} and {1} answer {2} and {3} with different bodies")]
    Different(&'static str, &'static str, String, String),
    #[error("the floor cannot be compiled (cc, perl -MExtUtils::Embed): {0}")]
    Compile(String),
    #[error("the counting allocator cannot be compiled (cc): {0}")]
    Allocator(String),
    #[error("{0} measured nothing: {1}")]
    Client(&'static str, String),
    #[error("{0} against {1}: some requests failed: {2}")]
    Failures(&'static str, String, String),
    #[error("the server that does nothing: {0}")]
    Null(String),
    #[error("too few rounds for an interval")]
    Rounds,
}
