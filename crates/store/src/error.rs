//! What can go wrong with a run on disk.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot write {path}: {source}; is the folder writable and the disk not full?")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is damaged or no run of this tool: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} has schema {found}; this drom reads up to {known}: use a newer drom")]
    NewerSchema { path: PathBuf, found: u32, known: u32 },
    #[error("no run named `{name}` in {root}; `drom report` lists what is there")]
    NoSuchRun { name: String, root: PathBuf },
    #[error("`{name}` could be any of: {matches}; give more of the name")]
    Ambiguous { name: String, matches: String },
    #[error("{path} exists already; a finished run is never overwritten: choose another --out")]
    Exists { path: PathBuf },
    #[error("{path} is not empty; a run has a folder of its own: choose another --out")]
    NotEmpty { path: PathBuf },
}
