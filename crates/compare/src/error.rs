//! What can go wrong with an experiment as a whole. A doubtful measurement is no error: it is a
//! flag.

use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot read the plan {path}: {source}")]
    ReadPlan { path: PathBuf, source: io::Error },
    #[error("not a plan: {message}")]
    Syntax { message: String },
    #[error("the plan is wrong: {message}")]
    Plan { message: String },
    #[error("{path}: {inner}")]
    InFile { path: PathBuf, inner: Box<Error> },
    #[error("`{variant}` did not start: {reason}")]
    Start { variant: String, reason: String },
    #[error("`{variant}` ({path}) does not answer as a server should: {reason}")]
    Answer { variant: String, path: String, reason: String },
    #[error(
        "group {group}: `{variant}` answers {got}, but `{other}` answers {expected}; they do not \
            do the \
         same work (set same_answer = false when that is meant)"
    )]
    DifferentAnswers {
        group: String,
        variant: String,
        other: String,
        got: String,
        expected: String,
    },
    #[error("group {group}: only {left} left to compare after skipping; {reason}")]
    NothingLeft { group: String, left: usize, reason: String },
    #[error("the load on `{variant}` could not be run: {reason}")]
    Load { variant: String, reason: String },
    #[error(transparent)]
    Store(#[from] drom_store::Error),
}

impl Error {
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile { path: path.to_owned(), inner: Box::new(self) }
    }

    /// The plan is wrong, not the world.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::InFile { inner, .. } => inner.is_usage(),
            Self::ReadPlan { .. } | Self::Syntax { .. } | Self::Plan { .. } => true,
            _ => false,
        }
    }
}
