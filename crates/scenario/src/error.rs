//! Why a scenario, or a file that it needs, cannot be used. Each message names file and line and
//! says what to do; what goes wrong with an answer is no error but a failed check.

use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}{message}", place(path, *line))]
    At { path: PathBuf, line: Option<usize>, message: String },
}

impl Error {
    pub(crate) fn at(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self::At { path: path.to_owned(), line: Some(line), message: message.into() }
    }

    pub(crate) fn of_file(path: &Path, message: impl Into<String>) -> Self {
        Self::At { path: path.to_owned(), line: None, message: message.into() }
    }
}

/// The line (from 1) that holds this byte.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count()
}

/// `; did you mean ...?`, when one of the right words is near; or what there is.
pub(crate) fn hint<'c>(word: &str, right: impl IntoIterator<Item = &'c str>) -> String {
    let right: Vec<&str> = right.into_iter().collect();
    let most = (word.chars().count() / 3).max(1);
    let near = right.iter().map(|other| (strsim::osa_distance(word, other), other));
    match near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance) {
        Some((_, near)) => format!("; did you mean `{near}`?"),
        None if right.is_empty() => "; there is none".to_owned(),
        None => format!("; there is `{}`", right.join("`, `")),
    }
}

/// `login.toml:3: `, as compilers say it.
fn place(path: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}: ", path.display()),
        None => format!("{}: ", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_placed_as_compilers_do_it() {
        let error = Error::at(Path::new("a.toml"), 3, "no");
        assert_eq!(error.to_string(), "a.toml:3: no");
        assert_eq!(Error::of_file(Path::new("a"), "no").to_string(), "a: no");
        assert_eq!((line_of("a\nb\n", 0), line_of("a\nb\n", 2), line_of("a", 99)), (1, 2, 1));
    }

    #[test]
    fn the_nearest_word_is_offered() {
        assert_eq!(hint("tokn", ["token", "id"]), "; did you mean `token`?");
        assert_eq!(hint("colour", ["a", "b"]), "; there is `a`, `b`");
        assert_eq!(hint("colour", []), "; there is none");
    }
}
