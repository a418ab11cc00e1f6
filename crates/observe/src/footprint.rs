//! What memory a process takes, read from its `/proc`. A [`Footprint`] is one look; nothing of the
//! process is stopped or changed, but the kernel walks its pages: 0.15 to 0.5 ms for 50 MB.

use std::{fs, io, path::PathBuf};

use crate::{
    process::Stat,
    segments::Segments,
    smaps::{self, Pages},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub pages: Pages,
    /// All that is mapped, whether or not it is in memory.
    pub size_bytes: u64,
    /// What `statm` (and so GTop) calls shared: pages of files and of shared memory. What is shared
    /// since a fork is not in it.
    pub file_bytes: u64,
    /// The largest RSS so far.
    pub peak_rss_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FootprintError {
    #[error("there is no process {pid}")]
    NoProcess { pid: i32 },
    #[error("process {pid} has ended: it has no memory any more")]
    Ended { pid: i32 },
    #[error("{pid} is a thread of the kernel: it has no memory of its own")]
    Kernel { pid: i32 },
    #[error(
        "the memory of process {pid} may not be looked at: {source}; be its user or root (where \
         kernel.yama.ptrace_scope is 1 or more: root)"
    )]
    NotAllowed { pid: i32, source: io::Error },
    #[error("/proc/{pid}/{file} cannot be read: {source}")]
    Unreadable { pid: i32, file: &'static str, source: io::Error },
}

impl FootprintError {
    /// There is no such process any more.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::NoProcess { .. } | Self::Ended { .. })
    }
}

impl Footprint {
    /// # Errors
    /// Why nothing can be read of it.
    pub fn of(pid: i32) -> Result<Self, FootprintError> {
        let pages = smaps::rollup(&read(pid, "smaps_rollup")?).ok_or_else(|| no_memory(pid))?;
        let mut footprint = Self { pages, ..Self::default() };
        footprint.take_status(&read(pid, "status")?);
        Ok(footprint)
    }

    fn take_status(&mut self, text: &str) {
        let bytes = |key: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
            let kilobytes = rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
            Some(kilobytes.saturating_mul(1024))
        };
        self.size_bytes = bytes("VmSize:").unwrap_or(0);
        self.peak_rss_bytes = bytes("VmHWM:").unwrap_or(0).max(self.pages.rss_bytes);
        let [file, shared] = ["RssFile:", "RssShmem:"].map(|key| bytes(key).unwrap_or(0));
        self.file_bytes = file.saturating_add(shared);
    }

    pub fn add(&mut self, other: &Self) {
        self.pages.add(&other.pages);
        self.size_bytes = self.size_bytes.saturating_add(other.size_bytes);
        self.file_bytes = self.file_bytes.saturating_add(other.file_bytes);
        self.peak_rss_bytes = self.peak_rss_bytes.saturating_add(other.peak_rss_bytes);
    }
}

/// Adds what a process's mappings are for.
///
/// # Errors
/// Why nothing can be read of it.
pub fn add_segments(pid: i32, segments: &mut Segments) -> Result<(), FootprintError> {
    let mappings = smaps::mappings(&read(pid, "smaps")?);
    if mappings.is_empty() {
        return Err(no_memory(pid));
    }
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    segments.add(&mappings, &program);
    Ok(())
}

/// Names of files need not be letters.
fn read(pid: i32, file: &'static str) -> Result<String, FootprintError> {
    let path = PathBuf::from(format!("/proc/{pid}/{file}"));
    let bytes = fs::read(path).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => no_memory(pid),
        Some(libc::EACCES | libc::EPERM) => FootprintError::NotAllowed { pid, source },
        _ => FootprintError::Unreadable { pid, file, source },
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn no_memory(pid: i32) -> FootprintError {
    match Stat::of(pid) {
        None => FootprintError::NoProcess { pid },
        Some(stat) if stat.is_kernel => FootprintError::Kernel { pid },
        Some(_) => FootprintError::Ended { pid },
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn one_look_adds_up() {
        let own = Footprint::of(std::process::id() as i32).expect("our own");
        let Pages { rss_bytes, pss_bytes, .. } = own.pages;
        assert!(own.pages.uss_bytes() <= pss_bytes && pss_bytes <= rss_bytes, "{own:?}");
        assert!(own.size_bytes >= rss_bytes && own.peak_rss_bytes >= rss_bytes, "{own:?}");
        assert!(own.file_bytes > 0 && own.file_bytes < own.size_bytes, "{own:?}");
    }

    #[test]
    fn segments_are_the_whole() {
        let mut child = Command::new("sleep").arg("20").spawn().expect("sleep");
        let pid = child.id() as i32;
        // It has loaded all that it needs when it sleeps.
        while Stat::of(pid).is_some_and(|stat| stat.state != 'S') {
            crate::clock::sleep(std::time::Duration::from_millis(1));
        }
        let mut segments = Segments::default();
        add_segments(pid, &mut segments).expect("our own child");
        let whole = Footprint::of(pid).expect("our own child").pages;
        child.kill().and_then(|()| child.wait()).expect("ends");
        let mut sum = Pages::default();
        segments.by_segment.values().for_each(|pages| sum.add(pages));
        assert_eq!(sum.anonymous_bytes, whole.anonymous_bytes);
        assert!(segments.by_file.keys().any(|file| file.contains("libc")), "{segments:?}");
        assert!(sum.rss_bytes.abs_diff(whole.rss_bytes) <= 64 << 10, "{sum:?} {whole:?}");
    }

    #[test]
    fn who_has_ended_has_no_memory() {
        let mut child = Command::new("true").spawn().expect("true");
        let pid = child.id() as i32;
        while Stat::of(pid).is_some_and(|stat| stat.state != 'Z') {
            crate::clock::sleep(std::time::Duration::from_millis(1));
        }
        let error = Footprint::of(pid).expect_err("it has ended");
        assert!(matches!(error, FootprintError::Ended { .. }) && error.is_end(), "{error}");
        child.wait().expect("ends");
        let error = Footprint::of(pid).expect_err("it is gone");
        assert!(matches!(error, FootprintError::NoProcess { .. }), "{error}");
    }
}
