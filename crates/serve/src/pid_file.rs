//! The file that says which process is the server: [`PidFile`], which goes with its value. It is
//! never taken from another server that lives, and never removed when it is another's by then.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub struct PidFile(PathBuf);

#[derive(Debug)]
pub enum Refusal {
    /// Another server that lives wrote it.
    Taken(u32),
    Unwritable(io::Error),
}

impl PidFile {
    /// Writes this process's number.
    pub fn write(path: &Path) -> Result<Self, Refusal> {
        if let Some(pid) = owner(path).filter(|pid| is_a_server(*pid)) {
            return Err(Refusal::Taken(pid));
        }
        let file = Self(path.to_owned());
        // An error leaves no empty file behind: the value's end removes what has no other owner.
        fs::write(path, format!("{}\n", std::process::id())).map_err(Refusal::Unwritable)?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Only the process that wrote it removes it: children of the master have the value too.
impl Drop for PidFile {
    fn drop(&mut self) {
        let is_empty = || fs::metadata(&self.0).is_ok_and(|m| m.is_file() && m.len() == 0);
        if owner(&self.0) == Some(std::process::id()) || is_empty() {
            // A file that somebody removed already is as good.
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn owner(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether a process that lives has this program's name: after a restart of the machine the number
/// may be anybody's.
fn is_a_server(pid: u32) -> bool {
    let name = |of: &str| fs::read(format!("/proc/{of}/comm")).ok();
    pid != std::process::id() && name(&pid.to_string()).is_some_and(|n| Some(n) == name("self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_value_and_only_when_it_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        fs::write(&path, "1\n").unwrap(); // lives, and is another program
        let file = PidFile::write(&path).unwrap();
        assert_eq!(owner(file.path()), Some(std::process::id()));
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(owner(&path), Some(1));
    }

    #[test]
    fn a_folder_that_is_not_there() {
        let refusal = PidFile::write(Path::new("/nowhere/pid")).unwrap_err();
        assert!(matches!(refusal, Refusal::Unwritable(_)), "{refusal:?}");
    }
}
