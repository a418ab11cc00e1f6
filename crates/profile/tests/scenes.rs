//! Stacks of a living perl against what `caller` says inside it, scene by scene.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use drom_profile::{
    Clock, Sampler,
    profile::{Frame, Kind},
};

const SCENES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenes.pl");
const SAMPLES: usize = 200;

/// A perl that is ended with the test.
struct Play(Child);

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn perl(words: &[&str]) -> (Play, BufReader<ChildStdout>) {
    let mut command = Command::new("perl");
    command.arg(SCENES).args(words).stdout(Stdio::piped());
    let mut child = command.spawn().expect("perl is there");
    let said = BufReader::new(child.stdout.take().expect("a pipe"));
    (Play(child), said)
}

/// What `caller` says, as ours: subs, outermost first, with the line that each is at; the innermost
/// one is at any line.
fn expected(said: &mut impl BufRead) -> Vec<String> {
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

fn seen(stack: &[&Frame]) -> Vec<String> {
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

#[test]
fn stacks_are_what_caller_says() {
    let (_play, mut said) = perl(&[]);
    let mut scenes = String::new();
    said.read_line(&mut scenes).expect("a list");
    assert!(scenes.split_whitespace().count() >= 40, "{scenes}");
    let mut wrong = Vec::new();
    for scene in scenes.split_whitespace() {
        let (play, mut said) = perl(&[scene]);
        let expected = expected(&mut said);
        let mut sampler = Sampler::attach(play.0.id() as i32, Clock::Wall).expect("a perl");
        for _ in 0..SAMPLES {
            sampler.sample().expect("it lives");
        }
        let profile = sampler.into_profile();
        let bad = profile.stacks().find(|(stack, _)| seen(stack) != expected);
        if let Some((stack, count)) = bad {
            wrong.push(format!("{scene}: {count} times {:?}\n  not {expected:?}", seen(&stack)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What runs in a sub: an XS sub by its name, or an operator.
#[test]
fn the_innermost_frame_is_what_runs() {
    let scenes = [
        ("use Time::HiRes; sub rest { Time::HiRes::sleep(60) }", "Time::HiRes::sleep", Kind::Xs),
        ("use Time::HiRes 'sleep'; *rest = sub { sleep 60 };", "Time::HiRes::sleep", Kind::Xs),
        ("use POSIX (); sub rest { POSIX::pause() }", "POSIX::pause", Kind::Xs),
        ("sub rest { sleep 60 }", "CORE:sleep", Kind::Op),
        ("sub rest { select undef, undef, undef, 60 }", "CORE:sselect", Kind::Op),
        ("sub rest { pipe my $out, my $in; readline $out }", "CORE:readline", Kind::Op),
    ];
    for (code, name, kind) in scenes {
        let mut command = Command::new("perl");
        command.args(["-e", &format!("$| = 1; {code} print qq(x\\n); rest()")]);
        let mut play = Play(command.stdout(Stdio::piped()).spawn().expect("perl is there"));
        let mut said = BufReader::new(play.0.stdout.take().expect("a pipe"));
        said.read_line(&mut String::new()).expect("it has begun");
        // Until it rests there may be something else.
        let is_there = (0..10_000).any(|_| {
            let pid = play.0.id() as i32;
            let mut sampler = Sampler::attach(pid, Clock::Wall).expect("a perl");
            (0..20).for_each(|_| sampler.sample().expect("it lives"));
            sampler.into_profile().stacks().all(|(stack, _)| {
                stack.last().is_some_and(|leaf| &*leaf.name == name && leaf.kind == kind)
            })
        });
        assert!(is_there, "{code}");
    }
}
