//! Stacks of a living perl against what `caller` says inside it, scene by scene.

#[path = "support/play.rs"]
mod play;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use drom_profile::{Clock, Sampler, profile::Kind};
use play::{Play, expected, perl, seen};

const SAMPLES: usize = 200;

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
