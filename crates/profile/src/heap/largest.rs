//! The largest single values: what each takes itself, how much of that is in use, and where it is.

use super::{Heap, abi, svs::Head};

/// A string, an array, a hash, or another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub path: String,
    /// `string`, `ARRAY`, `HASH blessed into Shop`.
    pub kind: String,
    /// Head, body and what it has allocated for its text, elements or buckets.
    pub bytes: u64,
    /// With all that it alone holds.
    pub retained_bytes: u64,
    /// Of text bytes, of an array elements, of a hash entries: those that are there, and those for
    /// which there is room.
    pub used: Option<(u64, u64)>,
}

impl Heap {
    /// By what they take themselves; those of code and of perl itself are left out.
    #[must_use]
    pub fn largest(&self, rows: usize) -> Vec<Value> {
        let is_data = |node: &u32| match self.svs.head(*node).kind() {
            abi::PVCV | abi::PVFM | abi::PVGV => false,
            abi::PVAV => !self.pads.contains_key(node),
            _ => true,
        };
        let mut nodes: Vec<u32> = self.svs.live().filter(is_data).collect();
        let rows = rows.min(nodes.len());
        if rows == 0 {
            return Vec::new();
        }
        nodes.select_nth_unstable_by_key(rows - 1, |node| std::cmp::Reverse(self.own(*node)));
        nodes.truncate(rows);
        nodes.sort_by_key(|node| (std::cmp::Reverse(self.own(*node)), *node));
        nodes.into_iter().map(|node| self.value(node)).collect()
    }

    pub(super) fn one(&self, node: u32, bytes: u64) -> Value {
        let retained_bytes = self.retained.get(node as usize).copied().unwrap_or(bytes).max(bytes);
        Value {
            path: self.path(node),
            kind: self.kind(node),
            bytes,
            retained_bytes,
            used: self.used(node),
        }
    }

    /// Bytes in front of a string that were cut off: how many stands right before it, in one byte
    /// or, where that is 0, in the eight before.
    fn chopped(&self, head: &Head) -> u64 {
        if !head.has(abi::OOK) {
            return 0;
        }
        let before = head.u.wrapping_sub(1);
        match self.snapshot.bytes(before, 1) {
            Some([0]) => self.snapshot.word(before.wrapping_sub(8)).unwrap_or(0),
            Some([count]) => u64::from(*count),
            _ => 0,
        }
    }

    fn used(&self, node: u32) -> Option<(u64, u64)> {
        let head = self.svs.head(node);
        let word = |offset: u64| self.snapshot.word(head.any.wrapping_add(offset));
        match head.kind() {
            abi::PVAV => {
                // What was shifted off in front is still there.
                let shifted = head.u.saturating_sub(word(abi::AV_ALLOC)?) / 8;
                let room = word(abi::AV_MAX)?.wrapping_add(1).saturating_add(shifted);
                Some((word(abi::AV_FILL)?.wrapping_add(1), room))
            }
            abi::PVHV => Some((word(abi::HV_KEYS)?, word(abi::HV_MAX)?.wrapping_add(1))),
            abi::PV | abi::PVIV | abi::PVNV | abi::PVMG if head.has(abi::POK) => {
                Some((word(abi::PV_CUR)?, word(abi::PV_LEN)?.saturating_add(self.chopped(head))))
            }
            _ => None,
        }
    }
}
