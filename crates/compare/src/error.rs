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
    #[error("{}{message}", at(*line))]
    Plan {
        /// How the line begins that is to blame, without spaces.
        anchor: String,
        line: Option<usize>,
        message: String,
    },
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
    #[error(
        "group {group}: only {left} variant left after skipping, nothing to compare: what was \
        skipped {reason}"
    )]
    NothingLeft { group: String, left: usize, reason: String },
    #[error(
        "group {group}: the baseline `{baseline}` had to be skipped: what was skipped {reason}; \
         install that, or name another baseline in the plan"
    )]
    NoBaseline { group: String, baseline: String, reason: String },
    #[error("the load on `{variant}` could not be run: {reason}")]
    Load { variant: String, reason: String },
    #[error("`{variant}`: {reason}")]
    Ended { variant: String, reason: String },
    #[error(transparent)]
    Store(#[from] drom_store::Error),
}

impl Error {
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile { path: path.to_owned(), inner: Box::new(self) }
    }

    pub(crate) fn plan(anchor: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Plan { anchor: anchor.into(), line: None, message: message.into() }
    }

    /// Finds the line of the plan that a mistake is in; what stands nowhere has none.
    pub(crate) fn locate(self, source: &str) -> Self {
        let Self::Plan { anchor, message, .. } = self else { return self };
        let bare = |line: &str| line.split_whitespace().collect::<String>();
        let lines: Vec<&str> = source.lines().collect();
        let line = lines.iter().rposition(|line| bare(line).starts_with(&anchor));
        let line = line.filter(|_| !anchor.is_empty()).map(|index| index + 1);
        Self::Plan { anchor, line, message }
    }

    /// A server's own failure, which costs a block: whose it was, and what happened.
    pub(crate) fn of_server(&self) -> Option<(&str, String)> {
        match self {
            Self::Start { variant, reason } => Some((variant, format!("did not start: {reason}"))),
            Self::Answer { variant, path, reason } => Some((variant, format!("{path}: {reason}"))),
            Self::Load { variant, reason } | Self::Ended { variant, reason } => {
                Some((variant, reason.clone()))
            }
            _ => None,
        }
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

fn at(line: Option<usize>) -> String {
    line.map_or_else(
        || "the plan is wrong: ".to_owned(),
        |n| format!("the plan is wrong in line {n}: "),
    )
}
