//! Which sections hold for a place, in Apache's merge order: `<Directory>` from the shortest to
//! the longest, `<DirectoryMatch>`, `<Files>`, `<Location>` in order of appearance. A set of
//! sections is a `Key`; the policy of each key is merged once and kept, so that a request never
//! merges.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Policy, Scope, Section};

/// The sections that hold, in merge order: index of the section, and of a nested `<Files>` in it.
pub type Key = Vec<(u32, Option<u32>)>;

/// A file name and its parts.
pub struct FileName<'a> {
    /// A directory's ends in a slash if the URI did.
    pub whole: &'a [u8],
    /// The directory that holds the file, or the directory itself; no last slash.
    pub dir: &'a [u8],
    pub last: &'a [u8],
}

/// Sections by kind, and the merged policies.
pub struct Rules {
    /// `<Directory>` sections with how many components their path has, sorted by that.
    directories: Vec<(usize, u32)>,
    directory_regexes: Vec<u32>,
    files: Vec<u32>,
    locations: Vec<u32>,
    merged: Mutex<HashMap<Key, Arc<Policy>>>,
}

impl Rules {
    pub fn new(config: &Config) -> Rules {
        let indexed = || config.sections.iter().zip(0_u32..);
        let of = |scope: Scope| indexed().filter(move |(s, _)| s.scope == scope);
        let path = |s: &Section| match &s.pattern {
            crate::config::Pattern::Literal(p) | crate::config::Pattern::Wildcard(p) => {
                depth(p.as_bytes())
            }
            crate::config::Pattern::Regex(_) => 0,
        };
        let mut directories: Vec<(usize, u32)> = of(Scope::Directory)
            .filter(|(s, _)| !s.is_regex())
            .map(|(s, i)| (path(s), i))
            .collect();
        directories.sort_by_key(|(depth, _)| *depth);
        Rules {
            directories,
            directory_regexes: of(Scope::Directory)
                .filter(|(s, _)| s.is_regex())
                .map(|(_, i)| i)
                .collect(),
            files: of(Scope::Files).map(|(_, i)| i).collect(),
            locations: of(Scope::Location).map(|(_, i)| i).collect(),
            merged: Mutex::new(HashMap::new()),
        }
    }

    /// The sections of a file asked for as `uri`.
    pub fn key(&self, config: &Config, file: &FileName, uri: &[u8]) -> Key {
        let mut key = self.directory_key(config, file.dir, file.whole);
        let name = file.last;
        let directories = key.len();
        let section = |i: u32| &config.sections[i as usize];
        key.extend(self.files.iter().filter(|&&i| section(i).is_file(name)).map(|&i| (i, None)));
        for at in 0..directories {
            let outer = key[at].0;
            let nested = section(outer).policy.files.iter().zip(0_u32..);
            key.extend(nested.filter(|(f, _)| f.is_file(name)).map(|(_, i)| (outer, Some(i))));
        }
        key.extend(
            self.locations.iter().filter(|&&i| section(i).is_location(uri)).map(|&i| (i, None)),
        );
        key
    }

    /// The `<Directory>` part of a key.
    pub fn directory_key(&self, config: &Config, dir: &[u8], filename: &[u8]) -> Key {
        let section = |i: u32| &config.sections[i as usize];
        let mut key: Key = Vec::new();
        for &(depth, i) in &self.directories {
            if prefix(dir, depth).is_some_and(|p| section(i).is_directory(p)) {
                key.push((i, None));
            }
        }
        let hit = |i: u32| section(i).regex_matches_filename(filename);
        key.extend(self.directory_regexes.iter().filter(|&&i| hit(i)).map(|&i| (i, None)));
        key
    }

    /// The policy of a set of sections.
    pub fn policy(&self, config: &Config, key: &Key) -> Arc<Policy> {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = merged.get(key) {
            return Arc::clone(policy);
        }
        let mut policy = config.base.clone();
        for &(i, nested) in key {
            let section = &config.sections[i as usize];
            match nested {
                None => policy.overlay(&section.policy),
                Some(n) => policy.overlay(&section.policy.files[n as usize].policy),
            }
        }
        let policy = Arc::new(policy);
        merged.insert(key.clone(), Arc::clone(&policy));
        policy
    }
}

/// How many components a path has: `/` has none, `/a/b` two.
fn depth(path: &[u8]) -> usize {
    path.split(|&c| c == b'/').filter(|part| !part.is_empty()).count()
}

/// The first `depth` components of a directory; `None` when it has fewer.
fn prefix(dir: &[u8], depth: usize) -> Option<&[u8]> {
    if depth == 0 {
        return Some(b"/");
    }
    let slash = memchr::memchr_iter(b'/', dir).nth(depth);
    match slash {
        Some(end) => Some(&dir[..end]),
        None if memchr::memchr_iter(b'/', dir).count() == depth && dir.len() > 1 => Some(dir),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_by_depth() {
        let dir = b"/a/bb/c";
        for (n, want) in
            [(0, Some("/")), (1, Some("/a")), (2, Some("/a/bb")), (3, Some("/a/bb/c")), (4, None)]
        {
            assert_eq!(prefix(dir, n), want.map(str::as_bytes));
        }
        assert_eq!(prefix(b"/", 1), None);
        assert_eq!((depth(b"/"), depth(b"/a/b")), (0, 2));
    }
}
