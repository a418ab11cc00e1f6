//! The file of counts that Devel::Drom writes (`crates/perl/exact/counter.c`), as a profile: each
//! way in which a sub was reached, its calls, and its own time in nanoseconds; lines with their
//! runs. Pure.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    lines::Lines,
    profile::{Counted, Frame, Kind, Profile},
    stored::NoProfile,
};

pub const FIRST_WORDS: &str = "drom-counts ";
const VERSION: &str = "1";

/// A node of the tree: the numbers are the file's.
struct Node {
    parent: u64,
    calls: u64,
    ticks: u64,
    frame: Frame,
}

#[derive(Default)]
struct Reader {
    nodes: HashMap<u64, Node>,
    lines: Lines,
    statements: u64,
    ticks: u64,
    ns: u64,
    program: String,
    is_cut: bool,
    has_end: bool,
}

/// # Errors
/// What it is not. A file that was cut off is read as far as it goes, and says so.
pub fn read(text: &str) -> Result<(Profile, String), NoProfile> {
    let mut lines = text.lines().enumerate();
    let version = lines.next().and_then(|(_, line)| line.strip_prefix(FIRST_WORDS));
    if version != Some(VERSION) {
        return Err(NoProfile::Schema(version.unwrap_or("not said").to_owned()));
    }
    let mut reader = Reader::default();
    for (at, line) in lines {
        let wrong = || NoProfile::Count { line: at + 1, text: line.chars().take(60).collect() };
        reader.line(line).ok_or_else(wrong)?;
    }
    let program = std::mem::take(&mut reader.program);
    Ok((reader.profile(), program))
}

impl Reader {
    fn line(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "ticks" => {
                let [ticks, ns] = numbers(rest)?.0;
                (self.ticks, self.ns) = (ticks, ns);
            }
            "cut" => self.is_cut = true,
            "program" => self.program = rest.to_owned(),
            "m" | "s" | "x" => self.node(what, rest)?,
            "in" => {
                let ([number], file) = numbers(rest)?;
                self.nodes.get_mut(&number)?.frame.file = file.into();
            }
            "line" => {
                let ([number, runs, ticks], file) = numbers(rest)?;
                self.statements += runs;
                let own = self.in_ns(ticks);
                let line = self.lines.at(&Arc::from(file), u32::try_from(number).ok()?);
                line.own += own;
                line.total += own;
                *line.runs.get_or_insert(0) += runs;
            }
            "end" => self.has_end = true,
            _ => return None,
        }
        Some(())
    }

    fn node(&mut self, what: &str, rest: &str) -> Option<()> {
        let ([number, parent, calls, ticks, line], name) = numbers(rest)?;
        let kind = match what {
            "m" => Kind::Main,
            "x" => Kind::Xs,
            _ => Kind::Sub,
        };
        let line = u32::try_from(line).ok()?;
        // Parents come after what is below them, and have smaller numbers: no way is a ring.
        if number <= parent && kind != Kind::Main {
            return None;
        }
        let frame = Frame { name: name.into(), kind, file: "".into(), line };
        self.nodes.insert(number, Node { parent, calls, ticks, frame });
        Some(())
    }

    fn in_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns as f64 / self.ticks.max(1) as f64).round() as u64
    }

    fn profile(self) -> Profile {
        let mut profile = Profile::default();
        let mut numbers: Vec<&u64> = self.nodes.keys().collect();
        numbers.sort_unstable();
        let mut calls = 0;
        for number in numbers {
            let node = &self.nodes[number];
            let stack: Vec<u32> =
                self.way(*number).into_iter().map(|frame| profile.number(frame)).collect();
            profile.count(&stack, self.in_ns(node.ticks));
            profile.called(&stack, node.calls);
            calls += node.calls;
        }
        let is_cut = self.is_cut || !self.has_end;
        // Who called the main program is nobody.
        let calls = calls.saturating_sub(1);
        profile.taken.counted = Some(Counted { calls, statements: self.statements, is_cut });
        profile.taken.wall = Duration::from_nanos(profile.taken.samples);
        profile.set_lines(self.lines);
        profile
    }

    /// From the outermost frame to this one.
    fn way(&self, mut number: u64) -> Vec<Frame> {
        let mut way = Vec::new();
        while let Some(node) = self.nodes.get(&number) {
            way.push(node.frame.clone());
            if node.parent == number {
                break;
            }
            number = node.parent;
        }
        way.reverse();
        way
    }
}

/// So many numbers, and the rest of the line.
fn numbers<const N: usize>(line: &str) -> Option<([u64; N], &str)> {
    let (mut found, mut rest) = ([0; N], line);
    for number in &mut found {
        let (word, more) = rest.split_once(' ').unwrap_or((rest, ""));
        (*number, rest) = (word.parse().ok()?, more);
    }
    Some((found, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "drom-counts 1\nticks 2000 1000\nprogram a.pl x y\n\
        s 2 1 7 600 3 main::inner\nin 2 a b.pl\nx 3 0 1 0 0 List::Util::first\nin 3 Util.c\n\
        s 1 0 2 400 1 main::outer\nin 1 a b.pl\nm 0 0 1 1000 0 main\n\
        line 3 7 600 a b.pl\nline 3 1 10 a b.pl\nline 9 2 90 a b.pl\nend\n";

    #[test]
    fn calls_times_and_lines_are_read() {
        let (profile, program) = read(FILE).expect("counts");
        assert_eq!(program, "a.pl x y");
        let counted = Counted { calls: 10, statements: 10, is_cut: false };
        assert_eq!((profile.taken.counted, profile.taken.samples), (Some(counted), 1_000));
        let of = |name: &str| {
            let shares = profile.shares();
            let share = shares.into_iter().find(|share| &*share.name == name).expect(name);
            (share.exclusive, share.inclusive, share.calls)
        };
        assert_eq!(of("main::inner"), (300, 300, Some(7)));
        assert_eq!(of("main::outer"), (200, 500, Some(2)));
        assert_eq!(of("List::Util::first"), (0, 0, Some(1)));
        assert_eq!(of("main"), (500, 1_000, Some(1)));
        let lines = Lines::of(&profile);
        assert_eq!((lines.files["a b.pl"][&3].runs, lines.files["a b.pl"][&3].own), (Some(8), 305));
    }

    #[test]
    fn a_file_that_was_cut_off_says_so_and_another_one_is_refused() {
        let cut = FILE.split_inclusive('\n').take(9).collect::<String>();
        assert!(read(&cut).expect("counts").0.taken.counted.expect("counted").is_cut);
        let error = |text: &str| read(text).expect_err(text).to_string();
        assert!(error("drom-counts 2\n").contains('2'));
        assert!(error("drom-counts 1\nx y\n").contains("line 2"));
        assert!(error("drom-counts 1\ns 1 5 1 1 1 ring\n").contains("line 2"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(lines in "(([smx]|in|line|ticks|end) [0-9 a]{0,30}\n){0,9}") {
            let _ = read(&format!("drom-counts 1\n{lines}"));
        }
    }
}
