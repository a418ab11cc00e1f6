//! A recursive program in which each call has its line, and whether a stack of it can be.
#![allow(dead_code, reason = "each user has its part")]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use drom_profile::profile::{Frame, Kind, Profile};

const PROGRAM: &str = include_str!("../hot.pl");

/// The program at work; it is ended when this is dropped.
pub struct Target(Child);

pub fn start(depth: &str) -> Target {
    begin(&mut command(depth))
}

/// For who has something to say about how it starts.
pub fn command(depth: &str) -> Command {
    let mut command = Command::new("perl");
    command.args(["-e", PROGRAM, depth]);
    command
}

pub fn begin(command: &mut Command) -> Target {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("perl is there");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("it is ready");
    Target(child)
}

impl Target {
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Until it goes on nothing of it moves.
    pub fn stop(&self) {
        // SAFETY: no pointers; the child is ours and not waited for yet.
        unsafe { libc::kill(self.pid(), libc::SIGSTOP) };
        let stat = format!("/proc/{}/stat", self.pid());
        while !std::fs::read_to_string(&stat).expect("it lives").contains(") T ") {}
    }

    pub fn go_on(&self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.pid(), libc::SIGCONT) };
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Which sub a line is in, and which one it calls.
struct Lines(HashMap<u32, (String, Option<String>)>);

impl Lines {
    fn read() -> Self {
        let mut sub = "main".to_owned();
        let mut lines = HashMap::new();
        for (number, line) in (1..).zip(PROGRAM.lines()) {
            if let Some(name) = line.strip_prefix("sub ") {
                sub = format!("main::{}", &name[..1]);
            }
            let call = line.find("($d - 1)").or_else(|| line.find("($depth -"));
            let callee = call.map(|at| format!("main::{}", &line[at - 1..at]));
            lines.insert(number, (sub.clone(), callee));
            if line.ends_with('}') {
                sub = "main".to_owned();
            }
        }
        Self(lines)
    }

    fn can_be(&self, stack: &[&Frame]) -> bool {
        let here =
            |frame: &Frame| self.0.get(&frame.line).is_some_and(|(sub, _)| **sub == *frame.name);
        let calls = |two: &[&Frame]| {
            let callee = self.0.get(&two[0].line).and_then(|(_, callee)| callee.as_deref());
            callee == Some(&*two[1].name)
        };
        stack.iter().all(|frame| here(frame)) && stack.windows(2).all(calls)
    }
}

/// The mean depth, and the stacks that the program cannot have had.
pub fn judge(profile: &Profile) -> (f64, Vec<(String, u64)>) {
    let lines = Lines::read();
    let (mut depth, mut wrong) = (0, Vec::new());
    for (stack, count) in profile.stacks() {
        let subs: Vec<&Frame> =
            stack.into_iter().filter(|f| matches!(f.kind, Kind::Sub | Kind::Main)).collect();
        depth += subs.len() as u64 * count;
        if !lines.can_be(&subs) {
            let told = subs.iter().map(|frame| format!("{}:{}", frame.name, frame.line));
            wrong.push((told.collect::<Vec<_>>().join(" "), count));
        }
    }
    (depth as f64 / profile.taken.samples.max(1) as f64, wrong)
}
