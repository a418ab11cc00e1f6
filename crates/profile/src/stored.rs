//! A profile as a file: JSON of its own (schema `drom-profile/1`), which has all that a profile
//! has, or folded stacks, which have names and counts; or what a profiler wrote that counts:
//! Devel::Drom (`counts.rs`), Devel::DProf (`dprof.rs`), Devel::NYTProf (`nytprof.rs`). Pure.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    counts, dprof,
    lines::Lines,
    nytprof,
    profile::{Counted, Frame, Kind, Profile, Taken},
};

const SCHEMA: &str = "drom-profile/1";

/// A file is none that is known.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoProfile {
    #[error("it is neither a profile of drom's (JSON) nor folded stacks: {0}")]
    Json(String),
    #[error("line {line} is no folded stack, `outer;inner 12`: {text}")]
    Line { line: usize, text: String },
    #[error("its schema is {0}; this drom reads {SCHEMA}")]
    Schema(String),
    #[error("a stack has frame {number}, and there are {frames}")]
    Frame { number: u32, frames: usize },
    #[error("line {line} is none of counts: {text}")]
    Count { line: usize, text: String },
    #[error("it is of NYTProf's format {0}; this drom reads 5, which NYTProf 5 and 6 write")]
    NytProf(String),
    #[error("it is empty")]
    Empty,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    program: String,
    wall_s: f64,
    /// What the process used, where samples are of CPU time.
    cpu_s: Option<f64>,
    missed: u64,
    torn: u64,
    idle: u64,
    frames: Vec<StoredFrame>,
    /// Numbers of frames, outermost first, and samples; of a program that was counted nanoseconds,
    /// and calls of the last frame by this way.
    stacks: Vec<(Vec<u32>, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<Counted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<Lines>,
}

#[derive(Serialize, Deserialize)]
struct StoredFrame {
    name: Arc<str>,
    kind: Kind,
    file: Arc<str>,
    line: u32,
}

/// `program` is what was watched.
#[must_use]
pub fn json(profile: &Profile, program: &str) -> String {
    let Taken { wall, missed, torn, idle, cpu, .. } = profile.taken;
    let frame = |frame: &Frame| StoredFrame {
        name: Arc::clone(&frame.name),
        kind: frame.kind,
        file: Arc::clone(&frame.file),
        line: frame.line,
    };
    let file = File {
        schema: SCHEMA.to_owned(),
        program: program.to_owned(),
        wall_s: wall.as_secs_f64(),
        cpu_s: cpu.map(|cpu| cpu.as_secs_f64()),
        missed,
        torn,
        idle,
        frames: profile.frames().iter().map(frame).collect(),
        stacks: profile.numbered().into_iter().map(|(stack, n)| (stack.clone(), n)).collect(),
        calls: profile.numbered().into_iter().filter_map(|(s, _)| profile.calls(s)).collect(),
        counted: profile.taken.counted,
        lines: profile.lines().cloned(),
    };
    serde_json::to_string(&file).expect("numbers and strings always have a JSON form") + "\n"
}

/// The profile, and what was watched, if that is known.
///
/// # Errors
/// What it is not.
pub fn read(bytes: &[u8]) -> Result<(Profile, Option<String>), NoProfile> {
    if bytes.starts_with(nytprof::FIRST_WORDS) {
        return nytprof::read(bytes);
    }
    let text = &*String::from_utf8_lossy(bytes);
    match text.trim_start().bytes().next() {
        None => Err(NoProfile::Empty),
        Some(b'{') => read_json(text).map(|(profile, program)| (profile, Some(program))),
        Some(_) if text.starts_with(counts::FIRST_WORDS) => {
            counts::read(text).map(|(profile, program)| (profile, Some(program)))
        }
        Some(_) if text.starts_with(dprof::FIRST_WORDS) => {
            dprof::read(text).map(|profile| (profile, None))
        }
        Some(_) => read_folded(text).map(|profile| (profile, None)),
    }
}

fn read_json(text: &str) -> Result<(Profile, String), NoProfile> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| NoProfile::Json(error.to_string()))?;
    let schema = value["schema"].as_str().unwrap_or("not said");
    if schema != SCHEMA {
        return Err(NoProfile::Schema(schema.to_owned()));
    }
    let file: File =
        serde_json::from_value(value).map_err(|error| NoProfile::Json(error.to_string()))?;
    let mut profile = Profile::default();
    for StoredFrame { name, kind, file, line } in file.frames {
        profile.number(Frame { name, kind, file, line });
    }
    let frames = profile.frames().len();
    for (stack, count) in &file.stacks {
        if let Some(number) = stack.iter().find(|number| **number as usize >= frames) {
            return Err(NoProfile::Frame { number: *number, frames });
        }
        profile.count(stack, *count);
    }
    for ((stack, _), calls) in file.stacks.iter().zip(&file.calls) {
        profile.called(stack, *calls);
    }
    if let Some(lines) = file.lines {
        profile.set_lines(lines);
    }
    profile.taken.counted = file.counted;
    let taken = &mut profile.taken;
    taken.wall = seconds(file.wall_s);
    taken.cpu = file.cpu_s.map(seconds);
    (taken.missed, taken.torn, taken.idle) = (file.missed, file.torn, file.idle);
    Ok((profile, file.program))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn read_folded(text: &str) -> Result<Profile, NoProfile> {
    let mut profile = Profile::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || NoProfile::Line { line: at + 1, text: line.chars().take(60).collect() };
        let (stack, count) = line.trim_end().rsplit_once(' ').ok_or_else(wrong)?;
        let count = count.parse::<u64>().map_err(|_| wrong())?;
        profile.add(stack.split(';').map(folded_frame), count);
    }
    Ok(profile)
}

/// What it is shows in its name.
fn folded_frame(name: &str) -> Frame {
    let kind = match name {
        "main" => Kind::Main,
        name if name.starts_with("CORE:") => Kind::Op,
        name if name.starts_with("thread ") => Kind::Thread,
        name if name.starts_with("process ") => Kind::Process,
        name if name.starts_with("(eval") || name.starts_with("(require ") => Kind::Eval,
        name if name.starts_with('(') && name.ends_with(')') => Kind::Boundary,
        _ => Kind::Sub,
    };
    Frame { name: name.into(), kind, file: "".into(), line: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{profile::made::at_two_lines, text};

    fn some() -> Profile {
        let mut profile = at_two_lines();
        (profile.taken.torn, profile.taken.cpu) = (1, Some(Duration::from_millis(250)));
        profile
    }

    #[test]
    fn what_was_written_is_read_again() {
        let (read, program) = read(json(&some(), "a.pl x").as_bytes()).expect("a profile");
        assert_eq!((program.as_deref(), read.taken), (Some("a.pl x"), some().taken));
        assert_eq!(text::collapsed(&read, true), text::collapsed(&some(), true));
    }

    #[test]
    fn folded_stacks_are_read() {
        let (profile, program) =
            read(b"main;A::b c;CORE:add 3\n\nmain;(eval) 1\n").expect("stacks");
        assert_eq!((profile.taken.samples, program), (4, None));
        let shares = profile.shares();
        assert_eq!((&*shares[0].name, shares[0].exclusive), ("A::b c", 3));
        assert_eq!((&*shares[1].name, shares[1].kind), ("(eval)", Kind::Eval));
    }

    #[test]
    fn what_is_none_is_said_to_be_so() {
        let error = |text: &str| read(text.as_bytes()).expect_err(text).to_string();
        assert!(error("a;b\n").contains("line 1") && error("a 1\nb x\n").contains("line 2"));
        assert!(error("{\"a\":").contains("neither") && error(" \n").contains("empty"));
        assert!(error("{\"schema\":\"drom-profile/9\"}").contains("drom-profile/9"));
        let beyond = json(&some(), "").replace("[0,1]", "[0,7]");
        assert!(error(&beyond).contains("frame 7"), "{beyond}");
        let kind = json(&some(), "").replace("\"kind\":\"main\"", "\"kind\":\"x\"");
        assert!(error(&kind).contains("unknown variant"), "{}", error(&kind));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*") {
            let _ = read(text.as_bytes());
        }
    }
}
