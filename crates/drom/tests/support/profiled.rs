//! Programs to be profiled, and `drom profile` at them.
#![allow(dead_code, reason = "each user has its part")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

/// `drom profile` with these words.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("profile").args(words).stdin(Stdio::null());
    command
}

pub fn drom(words: &[&str]) -> Output {
    command(words).output().expect("it starts")
}

pub fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("hot.pl");
    fs::write(&path, text).expect("written");
    path
}

/// A process that is ended with the test.
pub struct Target(pub Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn target(program: &str, words: &[&str]) -> Target {
    let mut command = Command::new(program);
    Target(command.args(words).stdout(Stdio::null()).spawn().expect("it starts"))
}

/// A perl that has said its first line.
pub fn perl(code: &str) -> (Target, BufReader<ChildStdout>) {
    let mut command = Command::new("perl");
    command.args(["-e", &format!("$| = 1; {code}")]).stdout(Stdio::piped());
    // Where these tests run without a shell nobody would continue their group, and the kernel does
    // not let a terminal's signals stop such a one (SIGTSTP).
    let child = command.process_group(0).spawn();
    let mut target = Target(child.expect("perl is there"));
    let mut said = BufReader::new(target.0.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("its first line");
    (target, said)
}

/// One byte, whenever it comes.
pub fn byte(from: &mut impl Read) -> u8 {
    let mut byte = [0];
    from.read_exact(&mut byte).expect("it says something");
    byte[0]
}

impl Target {
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn text(&self) -> String {
        self.0.id().to_string()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the child is ours and not waited for yet.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// `R`, `S`, `T`: stopped, `t`: traced.
    pub fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it lives");
        let (_, rest) = stat.rsplit_once(") ").expect("a command");
        rest.chars().next().expect("a state")
    }

    pub fn is_traced(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it lives");
        !status.contains("TracerPid:\t0\n")
    }
}
