//! Samples by line of source: a [`Lines`] says which lines of which files ran, and which waited for
//! what they had called. Reads no file. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::profile::Profile;

/// By file and line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    pub files: BTreeMap<Arc<str>, BTreeMap<u32, LineShare>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineShare {
    /// Samples in which the line itself ran, its operators and XS subs with it.
    pub own: u64,
    /// Samples in which it ran, or a sub that it had called.
    pub total: u64,
    /// How often, where that was counted; `own` and `total` are then its own nanoseconds.
    pub runs: Option<u64>,
}

impl Lines {
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        if let Some(counted) = profile.lines() {
            return counted.clone();
        }
        let mut lines = Self::default();
        for (stack, count) in profile.stacks() {
            let placed: Vec<_> =
                stack.iter().filter(|f| f.line > 0).map(|f| (&f.file, f.line)).collect();
            if let Some((file, line)) = placed.last() {
                lines.at(file, *line).own += count;
            }
            // A line that is there more than once was there once.
            let seen: BTreeSet<_> = placed.into_iter().collect();
            seen.into_iter().for_each(|(file, line)| lines.at(file, line).total += count);
        }
        lines
    }

    /// Adds what others have.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (file, lines) in &other.files {
            for (number, more) in lines {
                let line = self.at(file, *number);
                line.own += more.own;
                line.total += more.total;
                if let Some(runs) = more.runs {
                    *line.runs.get_or_insert(0) += runs;
                }
            }
        }
    }

    pub(crate) fn at(&mut self, file: &Arc<str>, line: u32) -> &mut LineShare {
        self.files.entry(Arc::clone(file)).or_default().entry(line).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, Kind};

    #[test]
    fn operators_count_for_their_line_and_recursion_once() {
        let frame = |name: &str, kind, line| Frame {
            name: name.into(),
            kind,
            file: if line > 0 { "a.pl".into() } else { "".into() },
            line,
        };
        let fib = || frame("fib", Kind::Sub, 3);
        let mut profile = Profile::default();
        profile.add([frame("main", Kind::Main, 9), fib(), fib(), frame("add", Kind::Op, 0)], 4);
        profile.add([frame("main", Kind::Main, 9)], 1);
        let lines = Lines::of(&profile);
        let of = |line| lines.files["a.pl"][&line];
        assert_eq!(of(3), LineShare { own: 4, total: 4, runs: None });
        assert_eq!(of(9), LineShare { own: 1, total: 5, runs: None });
        assert_eq!(lines.files.len(), 1);
    }
}
