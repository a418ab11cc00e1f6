//! File systems and how full they are. Of each device one mount; those of other machines are left
//! out, because asking one that does not answer would wait for ever.

use std::{collections::BTreeSet, ffi::CString, fs, mem};

use crate::vitals::Alert;

/// A file system that has blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    pub path: String,
    pub device: String,
    pub kind: String,
    pub size_bytes: u64,
    pub used_bytes: u64,
    /// To everybody, not to root alone.
    pub available_bytes: u64,
    pub inodes: u64,
    pub available_inodes: u64,
}

/// A line of `/proc/self/mounts`.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    device: String,
    path: String,
    kind: String,
}

/// Of the space, or of the inodes.
const USED_ALARM: f64 = 0.9;
const REMOTE: &[&str] = &["nfs", "cifs", "smb", "ceph", "afs", "fuse.", "autofs", "ncp"];
/// Full by their nature.
const READ_ONLY: &[&str] = &["squashfs", "iso9660", "udf", "erofs"];

impl Mount {
    /// As `df` has it: of what is used and what everybody could use.
    #[must_use]
    pub fn used_share(&self) -> f64 {
        let whole = self.used_bytes.saturating_add(self.available_bytes);
        self.used_bytes as f64 / whole.max(1) as f64
    }

    #[must_use]
    pub fn alert(&self) -> Alert {
        let inodes_used = self.inodes.saturating_sub(self.available_inodes) as f64;
        let is_full = self.used_share() >= USED_ALARM
            || inodes_used / self.inodes.max(1) as f64 >= USED_ALARM;
        let is_meant_so = READ_ONLY.contains(&&*self.kind);
        if is_full && !is_meant_so { Alert::Alarm } else { Alert::None }
    }
}

#[must_use]
pub fn mounts() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut devices = BTreeSet::new();
    let local = text.lines().filter_map(line).filter(|line| !is_remote(&line.kind));
    let sized = local.filter_map(measured).filter(|(device, _)| devices.insert(*device));
    sized.map(|(_, mount)| mount).collect()
}

fn line(text: &str) -> Option<Line> {
    let mut words = text.split(' ').map(unescaped);
    let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
    Some(Line { device, path, kind })
}

fn is_remote(kind: &str) -> bool {
    REMOTE.iter().any(|remote| kind.starts_with(remote))
}

/// Blanks and backslashes are `\040` and the like there.
fn unescaped(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal.filter(|_| byte == b'\\').and_then(|d| u8::from_str_radix(d, 8).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// With the number of its device. `None` of what has no blocks, as `/proc`.
fn measured(line: Line) -> Option<(u64, Mount)> {
    let path = CString::new(line.path.as_bytes()).ok()?;
    // SAFETY: both are plain data, for which all zeroes is a valid value.
    let (mut space, mut place) = unsafe { (mem::zeroed(), mem::zeroed()) };
    // SAFETY: the path is a C string; the records are ours to write.
    let done = unsafe {
        libc::statvfs(path.as_ptr(), &raw mut space) == 0
            && libc::stat(path.as_ptr(), &raw mut place) == 0
    };
    let (space, place): (libc::statvfs, libc::stat) = (space, place);
    if !done || space.f_blocks == 0 {
        return None;
    }
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let mount = Mount {
        path: line.path,
        device: line.device,
        kind: line.kind,
        size_bytes: bytes(space.f_blocks),
        used_bytes: bytes(space.f_blocks.saturating_sub(space.f_bfree)),
        available_bytes: bytes(space.f_bavail),
        inodes: space.f_files,
        available_inodes: space.f_favail,
    };
    Some((place.st_dev, mount))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blanks_in_names_are_put_back() {
        let found = line("/dev/sda1 /mnt/my\\040disk\\134x ext4 rw 0 0").expect("well formed");
        assert_eq!((&*found.path, &*found.kind), ("/mnt/my disk\\x", "ext4"));
        assert_eq!((unescaped("a\\04"), unescaped("\\9zz")), ("a\\04".into(), "\\9zz".into()));
        assert_eq!(line("/dev/sda1"), None);
    }

    #[test]
    fn nine_tenths_are_alarming() {
        let at = |used: u64, available: u64| {
            let size_bytes = used + available;
            Mount { size_bytes, used_bytes: used, available_bytes: available, ..Mount::default() }
        };
        assert_eq!([at(89, 11).alert(), at(90, 10).alert()], [Alert::None, Alert::Alarm]);
        let picture = Mount { kind: "squashfs".into(), ..at(100, 0) };
        assert_eq!(picture.alert(), Alert::None);
        let many = Mount { inodes: 100, available_inodes: 10, ..at(1, 99) };
        assert_eq!(many.alert(), Alert::Alarm);
        assert_eq!(Mount::default().used_share(), 0.0);
    }

    #[test]
    fn the_root_is_a_mount_and_other_machines_are_not_asked() {
        let found = mounts();
        assert!(found.iter().any(|mount| mount.size_bytes > 0), "{found:?}");
        assert!(found.iter().all(|mount| mount.path != "/proc"));
        assert!(is_remote("nfs4") && is_remote("fuse.sshfs") && !is_remote("ext4"));
    }

    proptest! {
        #[test]
        fn no_line_panics(text in "[ \\\\0-9a-z/\\PC]{0,80}") {
            let _ = line(&text);
            prop_assert!(unescaped(&text).len() <= 3 * text.len());
        }
    }
}
