//! What can be wrong with a configuration: one `Fault` per distinct mistake, and the `Place` it is
//! at. A `ConfigError` is both; a `Notice` is something accepted that the user should know about.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::spelling::nearest;

/// Where a directive stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<PathBuf>,
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()), // the file as a whole
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ConfigError {
    pub place: Place,
    pub fault: Fault,
}

/// Something accepted with a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub place: Place,
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// The kinds of mistakes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("unknown directive \"{name}\"{}", meant(.near.as_deref()))]
    UnknownDirective { name: String, near: Option<String> },
    #[error("unknown section <{name}>{}", meant(.near.as_deref()))]
    UnknownSection { name: String, near: Option<String> },
    #[error("{name} is not supported yet: {why}")]
    NotSupported { name: String, why: String },
    #[error("{name} takes {wanted}: {name} {usage}")]
    ArgumentCount { name: &'static str, wanted: String, usage: &'static str },
    #[error("{name}: {what}")]
    Argument { name: String, what: String },
    #[error("{name} is not allowed inside <{section}>; {hint}")]
    NotHere { name: String, section: String, hint: &'static str },
    #[error("{0}")]
    Form(String),
    #[error("<{0}> is never closed; add </{0}>")]
    Unclosed(String),
    #[error("</{found}> closes nothing{}", .open.as_ref().map_or(String::new(), |o|
        format!("; the open section is <{o}>")))]
    Unopened { found: String, open: Option<String> },
    #[error("cannot read {}: {why}", .path.display())]
    Read { path: PathBuf, why: String },
    #[error("no file matches \"{0}\"; use IncludeOptional when that is all right")]
    NothingIncluded(String),
    #[error("files include each other more than {0} deep")]
    IncludeDepth(usize),
}

fn meant(near: Option<&str>) -> String {
    near.map_or(String::new(), |n| format!("; did you mean \"{n}\"?"))
}

/// A value that is none of the allowed words.
pub(crate) fn not_one_of(value: &str, words: &[&str]) -> String {
    match nearest(value, words.iter().copied()) {
        Some(near) => format!("\"{value}\" is not understood; did you mean \"{near}\"?"),
        None => format!("\"{value}\" is none of {}", words.join(", ")),
    }
}
