//! Values that nothing holds and that live all the same: rings that hold themselves, and values of
//! which something forgot to let go.

use std::collections::{BTreeMap, HashSet};

use super::{Heap, abi, graph::Via, inventory::Lost};

const CYCLES_MAX: usize = 10;
const STEPS_MAX: usize = 10_000;

impl Heap {
    pub(super) fn lost(&self) -> Lost {
        let is_lost = |node: &u32| !self.ways.is_reached(*node);
        let lost: Vec<u32> = self.svs.live().filter(is_lost).collect();
        let mut kinds = BTreeMap::<String, u32>::new();
        for node in &lost {
            *kinds.entry(self.kind(*node)).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Lost {
            values: lost.len() as u32,
            bytes: lost.iter().map(|node| self.own(*node)).sum(),
            kinds,
            cycles: self.cycles(&lost),
        }
    }

    /// Of each shape of ring one.
    fn cycles(&self, lost: &[u32]) -> Vec<String> {
        let mut done = HashSet::new();
        let mut found = BTreeMap::<String, u32>::new();
        for node in lost {
            if done.contains(node) {
                continue;
            }
            if let Some(ring) = self.ring(*node, &mut done) {
                *found.entry(self.told(&ring)).or_default() += 1;
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let told = found.into_iter().take(CYCLES_MAX);
        told.map(|(ring, count)| if count > 1 { format!("{count} x {ring}") } else { ring })
            .collect()
    }

    /// The edges of a way that comes back to where it was, if one begins here.
    fn ring(&self, from: u32, done: &mut HashSet<u32>) -> Option<Vec<(u32, Via)>> {
        let mut way: Vec<(u32, usize)> = vec![(from, 0)];
        let mut places = std::collections::HashMap::from([(from, 0)]);
        done.insert(from);
        for _ in 0..STEPS_MAX {
            let depth = way.len();
            let (node, next) = way.last_mut()?;
            let Some(edge) = self.graph.edges(*node).get(*next) else {
                places.remove(node);
                way.pop();
                continue;
            };
            *next += 1;
            if let Some(begin) = places.get(&edge.to) {
                let ring = &way[*begin..];
                let via = |(node, next): &(u32, usize)| self.graph.edges(*node)[next - 1].via;
                return Some(ring.iter().map(|step| (step.0, via(step))).collect());
            }
            if edge.to < self.svs.len() && done.insert(edge.to) {
                places.insert(edge.to, depth);
                way.push((edge.to, 0));
            }
        }
        None
    }

    /// `HASH blessed into Node {parent} -> HASH blessed into Node {child} -> itself`
    fn told(&self, ring: &[(u32, Via)]) -> String {
        let mut told = String::new();
        // References say no more than that something holds something.
        let kind = |node: u32| self.svs.head(node).kind();
        let is_said = |node: u32| kind(node) > abi::PVMG;
        let begin = ring.iter().position(|(node, _)| is_said(*node)).unwrap_or(0);
        for (node, via) in ring[begin..].iter().chain(&ring[..begin]) {
            if is_said(*node) || ring.len() == 1 {
                told += &self.kind(*node);
                told.push(' ');
            }
            match via {
                Via::Key(key) => {
                    let key = self.key_shown(*key);
                    told += &format!("{{{key}}} -> ");
                }
                Via::Element(index) => told += &format!("[{index}] -> "),
                Via::Pad(index) => {
                    let sub = self.pads.get(node).map(|(sub, _)| *sub);
                    let name = sub.and_then(|sub| self.variable(sub, *index));
                    told += &format!("{} -> ", name.map_or_else(|| "a constant".into(), |n| n.0));
                }
                _ => {}
            }
        }
        told + "itself"
    }

    /// What a value is.
    #[must_use]
    pub fn kind(&self, node: u32) -> String {
        let head = self.svs.head(node);
        let kind = match head.kind() {
            _ if head.has(abi::ROK) => "reference",
            abi::PVAV => "ARRAY",
            abi::PVHV => "HASH",
            abi::PVCV => "CODE",
            abi::PVGV => "GLOB",
            abi::PVIO => "IO",
            abi::PVFM => "FORMAT",
            abi::REGEXP => "REGEXP",
            abi::PVOBJ => "OBJECT",
            abi::PVLV => "LVALUE",
            abi::IV | abi::NV => "number",
            0 => "undef",
            _ if head.has(abi::POK) => "string",
            _ => "scalar",
        };
        match self.class(node) {
            Some(class) => format!("{kind} blessed into {class}"),
            None => kind.to_owned(),
        }
    }

    fn class(&self, node: u32) -> Option<String> {
        let head = self.svs.head(node);
        if !head.has(abi::OBJECT) || head.kind() < abi::PVMG {
            return None;
        }
        let stash = self.svs.at(self.snapshot.word(head.any)?)?;
        self.package(stash)
    }
}
