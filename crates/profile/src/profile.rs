//! Where the time went: a [`Profile`] counts stacks by the names of their frames, whoever took
//! them. Adding up, merging and dropping detail; how it looks is other files' business.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::lines::Lines;

/// What runs, and where it is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// `Package::sub`, a file's name for `main` code, an operator's for a leaf.
    pub name: Arc<str>,
    pub kind: Kind,
    pub file: Arc<str>,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Main,
    Sub,
    Xs,
    Eval,
    /// Perl called what is above it: a sort block, a tie, a destructor.
    Boundary,
    /// A builtin, or another operator: the innermost frame.
    Op,
    /// A function of compiled code, or in brackets the file that it is in.
    Native,
    /// All that it did; the outermost frame, where there was more than one.
    Thread,
    Process,
}

/// Stacks, outermost frame first, and how often each was seen.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    frames: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    stacks: HashMap<Vec<u32>, u64>,
    /// Where they were counted: of the innermost frame, by this way.
    calls: HashMap<Vec<u32>, u64>,
    /// Where lines were counted apart.
    lines: Option<Lines>,
    pub taken: Taken,
}

/// How the samples were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub wall: Duration,
    pub samples: u64,
    /// Planned and not taken: the profiler was late by more than a whole interval.
    pub missed: u64,
    /// Something moved while it was read; counted all the same.
    pub torn: u64,
    /// The process was not at work; not counted among the samples of CPU time.
    pub idle: u64,
    /// What the process used meanwhile, where samples are of CPU time.
    pub cpu: Option<Duration>,
    /// Nothing was sampled: the counts of stacks are nanoseconds.
    pub counted: Option<Counted>,
}

/// What a program did, all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub calls: u64,
    pub statements: u64,
    /// Counting ended before the program did, or could not tell all ways apart.
    pub is_cut: bool,
}

/// The time that samples stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// All that passes, also while the process waits.
    #[default]
    Wall,
    /// What a CPU spends on it.
    Cpu,
}

impl Kind {
    /// Code of Perl's or a sub in C: not what perl itself does for it.
    #[must_use]
    pub fn is_code(self) -> bool {
        !matches!(self, Self::Op | Self::Boundary | Self::Thread | Self::Process)
    }
}

impl Taken {
    /// Seconds that each sample stands for.
    #[must_use]
    pub fn each_s(&self) -> f64 {
        self.cpu.unwrap_or(self.wall).as_secs_f64() / self.samples.max(1) as f64
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        if self.cpu.is_some() { Clock::Cpu } else { Clock::Wall }
    }
}

/// Names are the program's: they command no terminal and end no line.
fn printable(frame: Frame) -> Frame {
    let is_plain = |text: &str| !text.contains(char::is_control);
    if is_plain(&frame.name) && is_plain(&frame.file) {
        return frame;
    }
    let told = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    let shown = |text: &str| text.chars().map(told).collect::<String>().into();
    Frame { name: shown(&frame.name), file: shown(&frame.file), ..frame }
}

impl Profile {
    /// Counts a stack, outermost frame first.
    pub fn add(&mut self, stack: impl IntoIterator<Item = Frame>, count: u64) {
        let numbers: Vec<u32> = stack.into_iter().map(|frame| self.number(frame)).collect();
        self.count(&numbers, count);
    }

    /// The same by the numbers of its frames.
    pub fn count(&mut self, stack: &[u32], count: u64) {
        match self.stacks.get_mut(stack) {
            Some(seen) => *seen += count,
            None => {
                self.stacks.insert(stack.to_vec(), count);
            }
        }
        self.taken.samples += count;
    }

    /// So many calls of its innermost frame came by this way.
    pub(crate) fn called(&mut self, stack: &[u32], calls: u64) {
        *self.calls.entry(stack.to_vec()).or_default() += calls;
    }

    pub(crate) fn set_lines(&mut self, lines: Lines) {
        self.lines = Some(lines);
    }

    pub(crate) fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// Calls of the innermost frame by this way; `None` where calls were not counted.
    pub(crate) fn calls(&self, stack: &[u32]) -> Option<u64> {
        self.taken.counted.map(|_| self.calls.get(stack).copied().unwrap_or(0))
    }

    /// Adds what another one has.
    pub fn merge(&mut self, other: &Self) {
        self.merge_below(None, other);
    }

    /// The same, with a frame around all of it.
    pub(crate) fn merge_below(&mut self, outermost: Option<Frame>, other: &Self) {
        for (stack, count) in &other.stacks {
            let frames = stack.iter().map(|number| other.frames[*number as usize].clone());
            let frames = outermost.iter().cloned().chain(frames);
            let own: Vec<u32> = frames.map(|frame| self.number(frame)).collect();
            self.count(&own, *count);
            if let Some(calls) = other.calls.get(stack) {
                self.called(&own, *calls);
            }
        }
        if let Some(lines) = &other.lines {
            self.lines.get_or_insert_default().merge(lines);
        }
        let (taken, more) = (&mut self.taken, other.taken);
        taken.wall += more.wall;
        taken.missed += more.missed;
        taken.torn += more.torn;
        taken.idle += more.idle;
        if let Some(more) = more.counted {
            let counted = taken.counted.get_or_insert_default();
            counted.calls += more.calls;
            counted.statements += more.statements;
            counted.is_cut |= more.is_cut;
        }
        taken.cpu = match (taken.cpu, more.cpu) {
            (Some(cpu), Some(more)) => Some(cpu + more),
            (cpu, more) => cpu.or(more),
        };
    }

    /// In the order in which their frames were first seen.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&Frame>, u64)> {
        let named = |stack: &Vec<u32>| stack.iter().map(|n| &self.frames[*n as usize]).collect();
        self.numbered().into_iter().map(move |(stack, count)| (named(stack), count))
    }

    /// The same by the numbers of their frames.
    pub(crate) fn numbered(&self) -> Vec<(&Vec<u32>, u64)> {
        let mut stacks: Vec<_> = self.stacks.iter().map(|(stack, n)| (stack, *n)).collect();
        stacks.sort_unstable();
        stacks
    }

    /// By number.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// By which a frame is counted here.
    pub fn number(&mut self, frame: Frame) -> u32 {
        let frame = printable(frame);
        if let Some(number) = self.numbers.get(&frame) {
            return *number;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.numbers.insert(frame, number);
        number
    }
}

/// A sub's part of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub name: Arc<str>,
    pub kind: Kind,
    /// Samples in which it was the innermost, and in which it was anywhere.
    pub exclusive: u64,
    pub inclusive: u64,
    pub calls: Option<u64>,
}

#[derive(Default)]
struct Sums {
    exclusive: u64,
    inclusive: u64,
    calls: Option<u64>,
}

impl Profile {
    /// By sub, the largest exclusive share first. Operators count for the sub that they are in.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let mut shares: HashMap<(Arc<str>, Kind), Sums> = HashMap::new();
        for (numbers, count) in self.numbered() {
            let stack = numbers.iter().map(|number| &self.frames[*number as usize]);
            let subs = stack.filter(|frame| frame.kind.is_code());
            let mut names: Vec<(Arc<str>, Kind)> =
                subs.map(|frame| (Arc::clone(&frame.name), frame.kind)).collect();
            if let Some(innermost) = names.last() {
                let share = shares.entry(innermost.clone()).or_default();
                share.exclusive += count;
                if let Some(calls) = self.calls(numbers) {
                    *share.calls.get_or_insert(0) += calls;
                }
            }
            // A recursive sub is there once.
            names.sort_unstable();
            names.dedup();
            names.into_iter().for_each(|name| shares.entry(name).or_default().inclusive += count);
        }
        let share = |((name, kind), Sums { exclusive, inclusive, calls })| Share {
            name,
            kind,
            exclusive,
            inclusive,
            calls,
        };
        let mut shares: Vec<Share> = shares.into_iter().map(share).collect();
        shares.sort_by(|a, b| {
            (b.exclusive, b.inclusive, &a.name).cmp(&(a.exclusive, a.inclusive, &b.name))
        });
        shares
    }
}

/// For the tests of whoever writes profiles.
#[cfg(test)]
pub mod made {
    use super::*;

    pub fn frame(name: &str, kind: Kind, line: u32) -> Frame {
        Frame { name: name.into(), kind, file: "a.pl".into(), line }
    }

    /// Four samples in two seconds, of a sub at two of its lines.
    pub fn at_two_lines() -> Profile {
        let main = || frame("main", Kind::Main, 9);
        let mut profile = Profile::default();
        profile.add([main(), frame("A::b", Kind::Sub, 2)], 3);
        profile.add([main(), frame("A::b", Kind::Sub, 5)], 1);
        profile.taken.wall = Duration::from_secs(2);
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::{made::frame, *};

    fn some() -> Profile {
        let main = frame("a.pl", Kind::Main, 9);
        let fib = |line| frame("main::fib", Kind::Sub, line);
        let mut profile = Profile::default();
        profile.add([main.clone(), fib(2), fib(3)], 3);
        profile.add([main.clone(), fib(2), frame("add", Kind::Op, 2)], 2);
        profile.add([main], 1);
        profile
    }

    #[test]
    fn a_recursive_sub_is_in_its_stacks_once() {
        let shares = some().shares();
        let of = |at: usize| (&*shares[at].name, shares[at].exclusive, shares[at].inclusive);
        assert_eq!((of(0), of(1)), (("main::fib", 5, 5), ("a.pl", 1, 6)));
        assert_eq!((shares.len(), some().taken.samples), (2, 6));
    }

    #[test]
    fn merged_profiles_have_the_stacks_of_both() {
        let mut both = some();
        let mut other = some();
        (other.taken.missed, other.taken.wall) = (2, Duration::from_secs(3));
        both.merge(&other);
        assert_eq!((both.taken.samples, both.taken.missed), (12, 2));
        assert_eq!(both.taken.wall, Duration::from_secs(3), "of both together");
        assert_eq!((both.stacks().count(), both.shares()[0].exclusive), (3, 10));
    }
}
