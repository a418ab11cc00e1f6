//! What one value takes, and all that can be come to from it: the figures of `Drom::Memory`'s
//! `size_of` and `total_size_of`.

use std::collections::HashSet;

use super::{
    Heap,
    graph::{Edge, Via},
    largest::Value,
};

impl Heap {
    /// The value whose head is at this address: as in `HASH(0x55d0c8a1e2b8)`.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<u32> {
        self.svs.at(address)
    }

    #[must_use]
    pub fn value(&self, node: u32) -> Value {
        self.one(node, self.own(node))
    }

    /// Of the value and of all that it leads to, whoever else holds it: each is counted once.
    /// Packages and the sub around a sub are not gone into.
    #[must_use]
    pub fn total(&self, node: u32) -> u64 {
        let mut met = HashSet::from([node]);
        let mut stack = vec![node];
        let mut bytes = 0;
        while let Some(node) = stack.pop() {
            bytes += self.own(node);
            let data = self.graph.edges(node).iter().filter(|edge| self.is_data(edge));
            stack.extend(data.map(|edge| edge.to).filter(|to| met.insert(*to)));
        }
        bytes
    }

    pub(super) fn own(&self, node: u32) -> u64 {
        self.books.own(node)
    }

    fn is_data(&self, edge: &Edge) -> bool {
        !matches!(edge.via, Via::Outside | Via::Other | Via::Root(_))
            && self.package(edge.to).is_none()
    }
}
