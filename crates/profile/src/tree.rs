//! Stacks put together: a [`Tree`] has a node for each way in which a sub was reached. Lines are
//! left out: a sub is one node, wherever in it a sample was. Pure.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use crate::profile::{Frame, Kind, Profile};

/// In the order of a walk: a node, then what is below it, the largest first.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Outermost frames have 0.
    pub depth: usize,
    pub name: Arc<str>,
    pub kind: Kind,
    pub file: Arc<str>,
    /// Samples in which it was the innermost, and in which it was anywhere.
    pub own: u64,
    pub total: u64,
    pub calls: Option<u64>,
}

/// A node while it grows, and those below it by what tells them apart.
#[derive(Default)]
struct Growing<'p> {
    frame: Option<&'p Frame>,
    own: u64,
    total: u64,
    calls: Option<u64>,
    below: HashMap<(&'p str, Kind, &'p str), usize>,
}

impl Tree {
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut growing = vec![Growing::default()];
        for (numbers, count) in profile.numbered() {
            let mut at = 0;
            for number in numbers {
                at = step(&mut growing, at, &profile.frames()[*number as usize]);
                growing[at].total += count;
            }
            growing[at].own += count;
            if let Some(calls) = profile.calls(numbers) {
                *growing[at].calls.get_or_insert(0) += calls;
            }
        }
        Self { nodes: walk(&growing) }
    }

    /// Without nodes, and what is below them, of fewer samples than `least`.
    #[must_use]
    pub fn without_small(mut self, least: u64) -> Self {
        self.nodes.retain(|node| node.total >= least);
        self
    }
}

/// To the node of this frame below that at `at`.
fn step<'p>(growing: &mut Vec<Growing<'p>>, at: usize, frame: &'p Frame) -> usize {
    let key = (&*frame.name, frame.kind, &*frame.file);
    let next = growing.len();
    let found = *growing[at].below.entry(key).or_insert(next);
    if found == next {
        growing.push(Growing { frame: Some(frame), ..Growing::default() });
    }
    found
}

/// Without calling itself: stacks are as deep as Perl's.
fn walk(growing: &[Growing<'_>]) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(growing.len());
    let mut to_come: Vec<(usize, usize)> = below(growing, 0, 0);
    while let Some((at, depth)) = to_come.pop() {
        let Growing { frame, own, total, calls, .. } = &growing[at];
        if let Some(frame) = frame {
            nodes.push(Node {
                depth,
                name: Arc::clone(&frame.name),
                kind: frame.kind,
                file: Arc::clone(&frame.file),
                own: *own,
                total: *total,
                calls: *calls,
            });
        }
        to_come.extend(below(growing, at, depth + 1));
    }
    nodes
}

/// The largest last, for it is taken first.
fn below(growing: &[Growing<'_>], at: usize, depth: usize) -> Vec<(usize, usize)> {
    let mut below: Vec<_> = growing[at].below.iter().collect();
    below.sort_unstable_by_key(|((name, kind, file), at)| {
        (growing[**at].total, Reverse((*name, *kind, *file)))
    });
    below.into_iter().map(|(_, at)| (*at, depth)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, line: u32) -> Frame {
        Frame { name: name.into(), kind: Kind::Sub, file: "a.pl".into(), line }
    }

    fn some() -> Profile {
        let mut profile = Profile::default();
        profile.add([frame("main", 9), frame("b", 2), frame("c", 1)], 1);
        profile.add([frame("main", 8), frame("a", 4)], 5);
        profile.add([frame("main", 8), frame("b", 3)], 2);
        profile
    }

    #[test]
    fn a_sub_is_one_node_and_the_largest_is_first() {
        let nodes = Tree::of(&some()).nodes;
        let seen: Vec<_> = nodes.iter().map(|n| (n.depth, &*n.name, n.own, n.total)).collect();
        let expected = [(0, "main", 0, 8), (1, "a", 5, 5), (1, "b", 2, 3), (2, "c", 1, 1)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_small_is_left_out_with_all_below() {
        let tree = Tree::of(&some()).without_small(2);
        assert_eq!(tree.nodes.iter().map(|n| &*n.name).collect::<Vec<_>>(), ["main", "a", "b"]);
    }

    #[test]
    fn deep_recursion_is_no_problem() {
        let mut profile = Profile::default();
        profile.add((0..100_000).map(|_| frame("again", 1)), 1);
        let nodes = Tree::of(&profile).nodes;
        assert_eq!((nodes.len(), nodes[99_999].depth), (100_000, 99_999));
    }
}
