//! What can go wrong with an experiment as a whole. A doubtful measurement is no error: it is a
//! flag.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{place, spelling};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot read the plan {path}: {source}")]
    ReadPlan { path: PathBuf, source: io::Error },
    #[error("{}{message}", at(path.as_deref(), *line))]
    Plan {
        path: Option<PathBuf>,
        /// Keys and numbers that lead to what is wrong.
        place: Vec<String>,
        line: Option<usize>,
        message: String,
    },
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
    #[error(transparent)]
    Connections(drom_load::Error),
    #[error("`{variant}`: {reason}")]
    Ended { variant: String, reason: String },
    #[error(transparent)]
    Store(#[from] drom_store::Error),
}

impl Error {
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        if let Self::Plan { path, .. } = &mut self {
            *path = Some(file.to_owned());
        }
        self
    }

    pub(crate) fn plan(place: &[&str], message: impl Into<String>) -> Self {
        let place = place.iter().map(|step| (*step).to_owned()).collect();
        Self::Plan { path: None, place, line: None, message: message.into() }
    }

    /// What the reader of TOML says, in our shape: where, what, and the line itself.
    pub(crate) fn syntax(source: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| place::line_of(source, span.start));
        let quoted = line.and_then(|line| source.lines().nth(line - 1)).unwrap_or_default().trim();
        let quoted = if quoted.is_empty() { String::new() } else { format!("\n  {quoted}") };
        let message = format!("{}{quoted}", spelling::plain(error.message()));
        Self::Plan { path: None, place: Vec::new(), line, message }
    }

    /// Finds the line of the plan that a mistake is in; what stands nowhere has none.
    pub(crate) fn locate(mut self, source: &str) -> Self {
        if let Self::Plan { place, line, .. } = &mut self {
            *line = place::line(source, place);
        }
        self
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
        matches!(self, Self::ReadPlan { .. } | Self::Plan { .. })
    }
}

/// `plan.toml:3: `, as compilers say it.
fn at(path: Option<&Path>, line: Option<usize>) -> String {
    match (path, line) {
        (Some(path), Some(line)) => format!("{}:{line}: ", path.display()),
        (Some(path), None) => format!("{}: ", path.display()),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}
