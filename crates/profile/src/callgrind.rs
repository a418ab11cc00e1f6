//! A profile as callgrind writes one (KCachegrind and callgrind_annotate read it): samples by sub
//! and line, and what was under way in the subs that a line called. Pure.

use std::collections::BTreeMap;

use crate::{
    profile::{Frame, Profile},
    text::put,
};

/// A sub's file and name.
type Sub<'p> = (&'p str, &'p str);

/// What a line of a sub took itself, and in the subs that it called.
#[derive(Default)]
struct Line<'p> {
    own: u64,
    called: BTreeMap<Sub<'p>, Called>,
}

/// Calls, and what was under way in them.
#[derive(Default)]
struct Called {
    calls: u64,
    total: u64,
}

/// `program` is the command. Where calls were not counted their number is the samples'.
#[must_use]
pub fn callgrind(profile: &Profile, program: &str) -> String {
    let subs = lines_of_subs(profile);
    let events = if profile.taken.counted.is_some() { "Nanoseconds" } else { "Samples" };
    let mut out = format!(
        "# callgrind format\nversion: 1\ncreator: drom\ncmd: {program}\npositions: line\n\
         events: {events}\nsummary: {}\n",
        profile.taken.samples
    );
    for ((file, name), lines) in &subs {
        put(&mut out, format_args!("\nfl={file}\nfn={name}\n"));
        for (number, line) in lines {
            if line.own > 0 {
                put(&mut out, format_args!("{number} {}\n", line.own));
            }
            for ((file, name), Called { calls, total }) in &line.called {
                let first = subs.get(&(*file, *name)).and_then(|lines| lines.keys().next());
                let first = first.unwrap_or(&0);
                put(&mut out, format_args!("cfi={file}\ncfn={name}\ncalls={calls} {first}\n"));
                put(&mut out, format_args!("{number} {total}\n"));
            }
        }
    }
    out
}

fn lines_of_subs(profile: &Profile) -> BTreeMap<Sub<'_>, BTreeMap<u32, Line<'_>>> {
    let mut subs: BTreeMap<Sub<'_>, BTreeMap<u32, Line<'_>>> = BTreeMap::new();
    for (numbers, count) in profile.numbered() {
        let frames = numbers.iter().map(|number| &profile.frames()[*number as usize]);
        let frames: Vec<&Frame> = frames.filter(|frame| frame.kind.is_code()).collect();
        let counted = profile.calls(numbers);
        for (at, frame) in frames.iter().enumerate() {
            let line = subs.entry(sub(frame)).or_default().entry(frame.line).or_default();
            match frames.get(at + 1) {
                None => line.own += count,
                Some(callee) => {
                    let called = line.called.entry(sub(callee)).or_default();
                    called.total += count;
                    called.calls += match counted {
                        None => count,
                        // Those of the innermost frame by this way; others have ways of their own.
                        Some(calls) if at + 2 == frames.len() => calls,
                        Some(_) => 0,
                    };
                }
            }
        }
    }
    subs
}

/// What is not in a file is said to be so: an empty name would be the last one's.
fn sub(frame: &Frame) -> Sub<'_> {
    let file = if frame.file.is_empty() { "(none)" } else { &*frame.file };
    (file, &frame.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Kind;

    #[test]
    fn lines_have_their_own_samples_and_those_of_their_calls() {
        let frame = |name: &str, line| Frame {
            name: name.into(),
            kind: Kind::Sub,
            file: "a.pl".into(),
            line,
        };
        let xs = Frame { kind: Kind::Xs, file: "".into(), ..frame("Time::HiRes::sleep", 0) };
        let mut profile = Profile::default();
        profile.add([frame("main", 9), frame("b", 2)], 3);
        profile.add([frame("main", 9), frame("b", 4), xs], 1);
        let text = callgrind(&profile, "a.pl");
        assert!(text.contains("summary: 4\n"), "{text}");
        let slept = "cfi=(none)\ncfn=Time::HiRes::sleep\ncalls=1 0\n4 1\n";
        assert!(text.contains(&format!("\nfl=a.pl\nfn=b\n2 3\n{slept}")), "{text}");
        assert!(text.contains("\nfl=(none)\nfn=Time::HiRes::sleep\n0 1\n"), "{text}");
        assert!(text.contains("fn=main\ncfi=a.pl\ncfn=b\ncalls=4 2\n9 4\n"), "{text}");
    }
}
