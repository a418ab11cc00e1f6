//! The file system as the map sees it: `stat`, `lstat` and the time behind a trait, so that mapping
//! is testable and its system calls countable. `Disk` is the real one.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What kind of thing a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// The facts of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub kind: FileKind,
    pub size: u64,
    pub mtime_s: i64,
    pub mtime_ns: i64,
    pub inode: u64,
    pub device: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u64,
    pub atime_s: i64,
    pub ctime_s: i64,
}

/// Why there is no `Stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing of this name, or a file where a directory should be.
    Missing,
    /// The server may not look, or the name is impossible.
    Forbidden,
}

/// Access to files.
pub trait Files {
    /// Monotonic: when they are looked at.
    fn now_ns(&self) -> u64;
    fn stat(&self, path: &Path) -> Result<Stat, Absent>;
    /// Of a symbolic link itself.
    fn lstat(&self, path: &Path) -> Result<Stat, Absent>;
}

/// The real file system.
pub struct Disk;

impl Files for Disk {
    fn now_ns(&self) -> u64 {
        drom_observe::clock::monotonic_ns()
    }

    fn stat(&self, path: &Path) -> Result<Stat, Absent> {
        std::fs::metadata(path).map(|m| Stat::of(&m)).map_err(|e| absent(&e))
    }

    fn lstat(&self, path: &Path) -> Result<Stat, Absent> {
        std::fs::symlink_metadata(path).map(|m| Stat::of(&m)).map_err(|e| absent(&e))
    }
}

fn absent(error: &io::Error) -> Absent {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Absent::Missing,
        _ => Absent::Forbidden,
    }
}

impl Stat {
    /// From the standard library's.
    #[must_use]
    pub fn of(m: &std::fs::Metadata) -> Stat {
        let kind = match m.file_type() {
            t if t.is_file() => FileKind::File,
            t if t.is_dir() => FileKind::Directory,
            t if t.is_symlink() => FileKind::Symlink,
            _ => FileKind::Other,
        };
        Stat {
            kind,
            size: m.size(),
            mtime_s: m.mtime(),
            mtime_ns: m.mtime_nsec(),
            inode: m.ino(),
            device: m.dev(),
            mode: m.mode(),
            uid: m.uid(),
            gid: m.gid(),
            nlink: m.nlink(),
            atime_s: m.atime(),
            ctime_s: m.ctime(),
        }
    }
}
