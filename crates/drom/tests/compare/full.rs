//! `drom compare` on a disk that gets full in the middle of a run.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::answering;

/// A file system of this size, gone with the value.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Busy or not, the test is over.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn what_was_measured_is_printed_and_kept() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = answering::plan(folder.path(), 12);
    // Two or three blocks of three histograms and a line of some KB each.
    let Some(full) = Small::mount(&folder.path().join("full"), "size=64k") else {
        eprintln!("not tested: a small file system cannot be mounted here");
        return;
    };
    let out = full.0.join("run").display().to_string();
    let drom = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
        let done = command.args(args).stdin(Stdio::null()).output().expect("runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    let (code, table, news) = drom(&["compare", &plan, "--out", &out]);
    assert_eq!(code, Some(1), "{table}{news}");
    assert!(table.contains("a (again)") && table.contains("FAILED"), "{table}{news}");
    assert!(!table.contains("report.html"), "{table}");
    assert!(news.contains("No space left") && news.contains("kept in"), "{news}");
    assert!(news.contains(&format!("`drom report {out}`")), "{news}");
    assert!(!full.0.join("run/report.html").exists(), "half a page");
    let (code, again, news) = drom(&["report", &out]);
    assert_eq!(code, Some(0), "{again}{news}");
    assert!(again.contains("a (again)") && !again.contains("TORN"), "{again}");
}
