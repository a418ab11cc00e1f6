//! Calls as other profilers' files tell them, one after the other: [`Calls`] puts them together by
//! the way that they came. Pure.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::profile::{Counted, Frame, Kind, Profile};

/// From the main program to a sub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way(u32);

impl Way {
    pub const MAIN: Self = Self(0);
}

pub struct Calls {
    nodes: Vec<Node>,
    below: HashMap<(Way, Arc<str>), Way>,
    places: HashMap<Arc<str>, (Arc<str>, u32)>,
}

struct Node {
    caller: Way,
    depth: usize,
    name: Arc<str>,
    calls: u64,
    /// Of the sub itself, in the file's unit.
    own: f64,
}

/// Deeper than this, what runs already is that again: ways are no more than the program's text has.
const DEPTH_MAX: usize = 200;

impl Default for Calls {
    fn default() -> Self {
        let main = Node { caller: Way::MAIN, depth: 0, name: "main".into(), calls: 1, own: 0.0 };
        Self { nodes: vec![main], below: HashMap::new(), places: HashMap::new() }
    }
}

impl Calls {
    /// Counts a call.
    pub fn called(&mut self, caller: Way, name: &Arc<str>) -> Way {
        let way = self.way(caller, name);
        self.nodes[way.0 as usize].calls += 1;
        way
    }

    /// The same, of none.
    pub fn way(&mut self, caller: Way, name: &Arc<str>) -> Way {
        if let Some(known) = self.below.get(&(caller, Arc::clone(name))) {
            return *known;
        }
        let depth = self.nodes[caller.0 as usize].depth + 1;
        if depth > DEPTH_MAX
            && let Some(again) = self.above(caller).find(|way| self.node(*way).name == *name)
        {
            return again;
        }
        let way = Way(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { caller, depth, name: Arc::clone(name), calls: 0, own: 0.0 });
        self.below.insert((caller, Arc::clone(name)), way);
        way
    }

    pub fn took(&mut self, way: Way, own: f64) {
        self.nodes[way.0 as usize].own += own;
    }

    pub fn counted(&mut self, way: Way, calls: u64) {
        self.nodes[way.0 as usize].calls += calls;
    }

    /// Where a sub begins.
    pub fn place(&mut self, name: Arc<str>, file: Arc<str>, line: u32) {
        self.places.insert(name, (file, line));
    }

    /// What is left of all the time is the main program's.
    pub fn complete(&mut self, whole: f64) {
        let subs: f64 = self.nodes.iter().map(|node| node.own).sum();
        self.nodes[0].own += (whole - subs).max(0.0);
    }

    /// Where a unit of the file is so many nanoseconds.
    pub fn profile(self, unit_ns: f64, statements: u64, is_cut: bool) -> Profile {
        let mut profile = Profile::default();
        let mut left_ns = u64::MAX / 4;
        for number in 0..self.nodes.len() as u32 {
            let mut stack: Vec<u32> =
                self.above(Way(number)).map(|way| profile.number(self.frame(way))).collect();
            stack.reverse();
            let node = self.node(Way(number));
            // Less than nothing is what taking the costs of counting away can leave.
            let own_ns = ((node.own.max(0.0) * unit_ns).round() as u64).min(left_ns);
            left_ns -= own_ns;
            profile.count(&stack, own_ns);
            profile.called(&stack, node.calls);
        }
        let calls = self.nodes[1..].iter().map(|node| node.calls).sum();
        profile.taken.counted = Some(Counted { calls, statements, is_cut });
        profile.taken.wall = Duration::from_nanos(profile.taken.samples);
        profile
    }

    fn node(&self, way: Way) -> &Node {
        &self.nodes[way.0 as usize]
    }

    /// It, its caller, and so on.
    fn above(&self, way: Way) -> impl Iterator<Item = Way> {
        let caller = |way: &Way| (*way != Way::MAIN).then(|| self.node(*way).caller);
        std::iter::successors(Some(way), caller)
    }

    fn frame(&self, way: Way) -> Frame {
        let name = Arc::clone(&self.node(way).name);
        let place = self.places.get(&name).cloned();
        let kind = match place {
            _ if way == Way::MAIN => Kind::Main,
            // A sub in C, or an operator that was counted as one, is on no line.
            Some((_, 0)) => Kind::Xs,
            _ if name.contains("::CORE:") => Kind::Xs,
            _ => Kind::Sub,
        };
        let (file, line) = place.unwrap_or_default();
        Frame { name, kind, file, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_recursion_is_a_way_of_its_text() {
        let mut calls = Calls::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut way = Way::MAIN;
        for _ in 0..10_000 {
            for name in [&a, &b] {
                way = calls.called(way, name);
                calls.took(way, 1.0);
            }
        }
        calls.complete(20_005.0);
        let profile = calls.profile(1.0, 0, false);
        let deepest = profile.stacks().map(|(stack, _)| stack.len()).max();
        assert_eq!(deepest, Some(DEPTH_MAX + 1));
        let shares = profile.shares();
        let seen: Vec<_> = shares.iter().map(|s| (&*s.name, s.exclusive, s.calls)).collect();
        assert_eq!(
            seen,
            [("a", 10_000, Some(10_000)), ("b", 10_000, Some(10_000)), ("main", 5, Some(1))]
        );
    }
}
