//! `drom compare` on a disk that gets full in the middle of a run.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const SERVER: &str = r#"
use strict; use IO::Socket::INET;
my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ARGV[0]", Listen => 9, ReuseAddr => 1)
    or die $!;
while (my $c = $l->accept) {
    while (defined(my $line = <$c>)) {
        my $close = 0;
        while ($line =~ /\S/) { $close = 1 if $line =~ /^connection: close/i; $line = <$c> // last }
        syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        last if $close;
    }
}
"#;

fn plan(folder: &Path) -> String {
    fs::write(folder.join("server.pl"), SERVER).expect("written");
    let variant = |name: &str| {
        let command = "[\"perl\", \"{plan_dir}/server.pl\", \"{port}\"]";
        format!("[[variant]]\nname = \"{name}\"\nurl = \"/\"\ncommand = {command}\n")
    };
    let plan = format!(
        "name = \"cli\"\nbaseline = \"a\"\nplacement = \"shared\"\n\
         blocks = {{ min = 12, max = 12 }}\n[load]\nconnections = 1\nslice = \"150ms\"\n\
         warmup = \"10ms\"\n{}{}",
        variant("a"),
        variant("b")
    );
    let path = folder.join("plan.toml");
    fs::write(&path, plan).expect("written");
    path.display().to_string()
}

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
    let plan = plan(folder.path());
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
