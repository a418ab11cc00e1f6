//! Where configuration text comes from. `Source` is the one door to files of this room: the real
//! disk in service, a map in tests. Expands the wildcards of `Include`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::fnmatch::{fnmatch, has_wildcards};

/// Files and the environment as the parser sees them.
pub trait Source {
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The names in a directory, sorted; an error when it is none.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// An environment variable, for `${NAME}`.
    fn environment(&self, name: &str) -> Option<String>;
    /// Whether a directory can be read. Text in memory stands for any machine: yes.
    fn is_directory(&self, _path: &Path) -> bool {
        true
    }
    /// Whether the machine has this user, or `#uid`.
    fn has_user(&self, _name: &str) -> bool {
        true
    }
    fn has_group(&self, _name: &str) -> bool {
        true
    }
    /// Whether the machine speaks IPv6.
    fn has_ipv6(&self) -> bool {
        true
    }
}

/// The disk and environment of this process.
pub struct RealSource;

impl Source for RealSource {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = std::fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names: io::Result<Vec<String>> = std::fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect();
        let mut names = names?;
        names.sort();
        Ok(names)
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn is_directory(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|m| m.is_dir())
    }

    fn has_user(&self, name: &str) -> bool {
        crate::sys::has_user(name)
    }

    fn has_group(&self, name: &str) -> bool {
        crate::sys::has_group(name)
    }

    fn has_ipv6(&self) -> bool {
        crate::sys::has_ipv6()
    }
}

/// Files in memory: path → text.
#[derive(Debug, Clone, Default)]
pub struct MemorySource(pub BTreeMap<PathBuf, String>);

impl Source for MemorySource {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let below = self.0.keys().filter_map(|file| file.strip_prefix(path).ok());
        let mut names: Vec<String> = below
            .filter_map(|rest| rest.components().next())
            .map(|first| first.as_os_str().to_string_lossy().into_owned())
            .collect();
        names.dedup();
        if names.is_empty() { Err(io::ErrorKind::NotADirectory.into()) } else { Ok(names) }
    }

    fn environment(&self, _name: &str) -> Option<String> {
        None
    }
}

/// All files that an `Include` argument names: a file, a directory with all below, or a wildcard
/// in any component. Sorted as Apache does.
pub fn expand(source: &dyn Source, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str().to_string_lossy();
        if has_wildcards(&part) {
            let matching = |dir: PathBuf| {
                let names = source.list(&dir).unwrap_or_default().into_iter();
                let fits = names.filter(|name| fnmatch(part.as_bytes(), name.as_bytes(), true));
                fits.map(|name| dir.join(name)).collect::<Vec<_>>()
            };
            found = found.into_iter().flat_map(matching).collect();
        } else {
            found.iter_mut().for_each(|path| path.push(component));
        }
    }
    found.into_iter().flat_map(|path| files_below(source, path)).collect()
}

fn files_below(source: &dyn Source, path: PathBuf) -> Vec<PathBuf> {
    match source.list(&path) {
        Ok(names) => names.into_iter().flat_map(|n| files_below(source, path.join(n))).collect(),
        Err(_) => vec![path],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_wildcards_and_directories() {
        let files = ["/e/a.conf", "/e/b.conf", "/e/c.txt", "/e/d/x.conf"];
        let map = files.iter().map(|f| (PathBuf::from(f), String::new())).collect();
        let source = MemorySource(map);
        let got = |p: &str| expand(&source, Path::new(p));
        assert_eq!(got("/e/*.conf"), [PathBuf::from("/e/a.conf"), "/e/b.conf".into()]);
        assert_eq!(got("/e").len(), 4);
        assert_eq!(got("/e/?/*.conf"), [PathBuf::from("/e/d/x.conf")]);
        assert_eq!(got("/e/*.none"), Vec::<PathBuf>::new());
    }
}
