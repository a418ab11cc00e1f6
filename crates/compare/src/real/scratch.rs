//! The scratch folder of one start of a server, and the sweep of those that a killed run left.
//!
//! A folder is named after its process and locked by it. The kernel gives the lock back when the
//! process ends, however it ends, and the lock holds across containers that share a `/tmp` but not
//! their process numbers.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

const PREFIX: &str = "drom-compare-";

/// An empty folder of its own; gone with everything in it when it is dropped.
pub struct Scratch {
    path: PathBuf,
    /// Holds the lock; closed in programs that are started.
    _lock: File,
}

impl Scratch {
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let (own, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("{PREFIX}{own}-{number}"));
            match fs::create_dir(&path) {
                // Another container has a process of this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => break made.map(|()| path)?,
            }
        };
        if own_uid() == 0 {
            // A server that is started by root gives its workers to another user; they write here.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        }
        let lock = File::open(&path)?;
        // Where folders cannot be locked, the owner's number alone keeps it from being swept.
        let _ = is_locked_by_us(&lock);
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // One that cannot be removed spoils nothing that was measured.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what former runs of this user left in the folder for temporary files.
pub fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    let left = entries.flatten().filter(|entry| {
        let owner = owner(&entry.file_name().to_string_lossy());
        owner.is_some_and(|pid| !is_alive(pid)) && is_left(&entry.path())
    });
    // What cannot be removed now may be by the next run.
    left.for_each(|entry| drop(fs::remove_dir_all(entry.path())));
}

/// The process that made a folder of this name.
fn owner(name: &str) -> Option<i32> {
    let (pid, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

fn is_alive(pid: i32) -> bool {
    // SAFETY: signal 0 only asks whether there is such a process; no memory is passed.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// A folder (no link) of this user whose lock nobody holds.
fn is_left(path: &Path) -> bool {
    let own = fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == own_uid());
    own && File::open(path).is_ok_and(|folder| is_locked_by_us(&folder))
}

/// Takes the lock if nobody has it.
fn is_locked_by_us(folder: &File) -> bool {
    // SAFETY: a call with the number of an open descriptor; no memory is passed.
    unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

fn own_uid() -> u32 {
    // SAFETY: takes nothing, touches no memory of ours.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_left_is_swept_and_nothing_else() {
        let gone = std::process::Command::new("true").spawn().expect("starts");
        let pid = gone.id();
        { gone }.wait().expect("ends");
        let folder = |name: &str| {
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(folder.join("logs")).expect("made");
            folder
        };
        let left = folder(&format!("{PREFIX}{pid}-0"));
        let locked = folder(&format!("{PREFIX}{pid}-1"));
        let other = folder(&format!("{PREFIX}{pid}-x"));
        let own = Scratch::new().expect("made");
        let lock = File::open(&locked).expect("opens");
        assert!(is_locked_by_us(&lock), "nobody has it");
        sweep();
        let there = [&left, &locked, &other, &own.path].map(|folder| folder.exists());
        assert_eq!(there, [false, true, true, true]);
        drop(lock);
        // A program that another test starts has a copy of the lock from its fork to its exec.
        for _ in 0..100 {
            sweep();
            if !locked.exists() {
                break;
            }
            drom_observe::clock::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!locked.exists());
        fs::remove_dir_all(other).expect("removed");
    }
}
