//! Scenes that are played by a perl, and what `caller` says in them: that of the machine, or of
//! another system whose folder `DROM_TEST_ROOT` names (by root).
#![allow(dead_code, reason = "each user has its part")]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use drom_profile::profile::{Frame, Kind};

const SCENES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenes.pl");
const HELD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/held.pl");

/// A perl that is ended with the test.
pub struct Play(pub Child);

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn perl(words: &[&str]) -> (Play, BufReader<ChildStdout>) {
    let mut command = program();
    command.args(words).stdout(Stdio::piped());
    let mut child = command.spawn().expect("perl is there");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    (Play(child), said)
}

/// Addresses are not at random, so that processes have pages in common.
fn program() -> Command {
    inside(HELD);
    let perl = plain();
    let mut command = Command::new("setarch");
    command.arg("-R").arg(perl.get_program()).args(perl.get_args()).env("LC_ALL", "C");
    command.arg(inside(SCENES));
    command
}

pub fn root() -> Option<String> {
    env::var("DROM_TEST_ROOT").ok()
}

/// A perl.
pub fn plain() -> Command {
    let Some(root) = root() else { return Command::new("perl") };
    let mut command = Command::new("chroot");
    command.args([&root, "/usr/bin/perl"]).env("LC_ALL", "C");
    command
}

/// Where that perl finds a file of ours.
pub fn inside(file: &str) -> String {
    let Some(root) = root() else { return file.to_owned() };
    let name = Path::new(file).file_name().expect("a name");
    let folder = Path::new(&root).join("tests");
    fs::create_dir_all(&folder).expect("root's to write");
    // Another test may be about to read it.
    let whole = folder.join(format!("{}.{}", name.display(), std::process::id()));
    fs::copy(file, &whole).expect("root's to write");
    fs::rename(whole, folder.join(name)).expect("the same folder");
    format!("/tests/{}", name.display())
}

/// What `caller` says, as ours: subs, outermost first, with the line that each is at; the innermost
/// one is at any line.
pub fn expected(said: &mut impl BufRead) -> Vec<String> {
    let lines = said.lines().map(|line| line.expect("text")).take_while(|line| line != ".");
    let called: Vec<(String, String)> = lines
        .map(|line| {
            let (sub, line) = line.split_once(" called at ").expect("a call");
            (sub.to_owned(), line.to_owned())
        })
        .collect();
    let outer = called.iter().map(|(_, line)| line.clone());
    let mut names = called.iter().map(|(sub, _)| sub.as_str()).skip(1).collect::<Vec<_>>();
    names.push("main");
    let mut stack: Vec<String> =
        names.iter().zip(outer).map(|(name, line)| format!("{name}:{line}")).collect();
    stack.reverse();
    stack.push(called[0].0.clone());
    stack
}

pub fn seen(stack: &[&Frame]) -> Vec<String> {
    let is_frame = |frame: &&&Frame| !matches!(frame.kind, Kind::Op | Kind::Boundary | Kind::Xs);
    let told = |frame: &&Frame| {
        let name = frame.name.split('[').next().unwrap_or_default();
        let is_eval = name == "(eval STRING)" || name.starts_with("(require ");
        let name = if is_eval { "(eval)" } else { name };
        format!("{name}:{}", frame.line)
    };
    let mut stack: Vec<String> = stack.iter().filter(is_frame).map(told).collect();
    if let Some(last) = stack.last_mut() {
        let end = last.rfind(':').unwrap_or(last.len());
        last.truncate(end);
    }
    stack
}
