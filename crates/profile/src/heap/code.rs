//! What subs are made of: slabs of operators, and what their operators hold. Sizes are exact: slots
//! are counted as they lie in memory, with what is free among them and behind.

use std::collections::HashMap;

use super::{abi, snapshot::Snapshot};
use crate::{
    abi as stacks,
    perl::{u16_at, u32_at, u64_at},
};

/// One chain of slabs: the code of a sub, of its closures, or of the main program.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Addresses and bytes of its slabs, the first one first.
    pub slabs: Vec<(u64, u64)>,
    /// The operator that holds all others, where its sub does not tell; 0 else.
    pub root: u64,
    /// The chunk in which the first one keeps what was freed.
    pub freed_list: u64,
    pub ops: Vec<Op>,
    /// Operators in memory of their own that were just found.
    pub apart: Vec<Op>,
    /// Bytes of slots that hold no operator any more, and of those that never did.
    pub freed: u64,
    pub unused: u64,
}

/// An operator in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub at: u64,
    /// With the slot's header.
    pub bytes: u32,
    pub kind: u16,
    /// 0: of no statement that was found.
    pub line: u32,
    /// In no slab.
    pub is_apart: bool,
}

const SLABS_MAX: usize = 100_000;
const OPS_MAX: usize = 10_000_000;

/// The first slab of the chain that an operator is in.
#[must_use]
pub fn head_slab(snapshot: &Snapshot, op: u64) -> Option<u64> {
    let slot = op.checked_sub(stacks::SLOT_BYTES as u64)?;
    let bytes = snapshot.bytes(slot, stacks::SLOT_BYTES + abi::OP_BYTES)?;
    if u16_at(bytes, stacks::SLOT_BYTES + abi::OP_TYPE) & stacks::OP_SLABBED == 0 {
        return None;
    }
    let offset = 8 * u64::from(u16_at(bytes, stacks::SLOT_OFFSET));
    let slab = slot.checked_sub(offset)?.checked_sub(stacks::SLAB_HEADER)?;
    let head = snapshot.word(slab.wrapping_add(abi::SLAB_HEAD as u64))?;
    // The chain begins with itself.
    (snapshot.word(head.wrapping_add(abi::SLAB_HEAD as u64))? == head).then_some(head)
}

impl Code {
    /// `freed`: the type of operators that are none any more.
    #[must_use]
    pub fn of(snapshot: &Snapshot, head: u64, freed: u16) -> Self {
        let mut code = Self::default();
        let mut at = head;
        while at != 0 && code.slabs.len() < SLABS_MAX {
            let Some(bytes) = snapshot.bytes(at, abi::SLAB_BYTES) else { break };
            if u64_at(bytes, abi::SLAB_HEAD) != head {
                break;
            }
            if at == head {
                code.freed_list = u64_at(bytes, abi::SLAB_FREED);
            }
            code.slab(snapshot, at, bytes, freed);
            at = u64_at(bytes, abi::SLAB_NEXT);
        }
        code
    }

    /// Of its slabs, and of operators that are in none.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let apart = self.ops.iter().filter(|op| op.is_apart).map(|op| u64::from(op.bytes));
        self.slabs.iter().map(|(_, bytes)| bytes).sum::<u64>() + apart.sum::<u64>()
    }

    /// Those that were found are among the others from now on.
    pub fn take_apart(&mut self) {
        self.ops.append(&mut self.apart);
    }

    fn slab(&mut self, snapshot: &Snapshot, at: u64, header: &[u8], freed: u16) {
        let size = 8 * u64::from(u16_at(header, abi::SLAB_SIZE));
        let space = 8 * u64::from(u16_at(header, abi::SLAB_FREE_SPACE));
        // The size that it tells is that of the slots.
        let slots = at.wrapping_add(abi::SLAB_BYTES as u64);
        self.slabs.push((at, abi::SLAB_BYTES as u64 + size));
        self.unused += space.min(size);
        // They were taken from the end downwards.
        let (mut slot, end) = (slots + space, slots + size);
        while slot.wrapping_add(stacks::SLOT_BYTES as u64) + abi::OP_BYTES as u64 <= end {
            let Some(bytes) = snapshot.bytes(slot, stacks::SLOT_BYTES + abi::OP_BYTES) else {
                break;
            };
            let length = 8 * u32::from(u16_at(bytes, 0));
            if length < 8 || u64::from(length) > end - slot {
                break;
            }
            let kind = u16_at(bytes, stacks::SLOT_BYTES + abi::OP_TYPE) & stacks::OP_TYPE_MASK;
            if kind == freed {
                self.freed += u64::from(length);
            } else {
                let at = slot.wrapping_add(stacks::SLOT_BYTES as u64);
                self.ops.push(Op { at, bytes: length, kind, line: 0, is_apart: false });
            }
            slot += u64::from(length);
        }
    }

    /// Gives each operator the line of the statement that it belongs to: in the order of the tree
    /// from `root` on, as perl compiled them.
    pub fn lines(
        &mut self,
        snapshot: &Snapshot,
        root: u64,
        first: u32,
        is_statement: impl Fn(u16) -> bool,
    ) {
        let numbers: HashMap<u64, usize> =
            self.ops.iter().enumerate().map(|(number, op)| (op.at, number)).collect();
        let mut stack = vec![root];
        let (mut line, mut seen) = (first, 0);
        while let Some(at) = stack.pop() {
            let Some(number) = numbers.get(&at).filter(|_| seen < OPS_MAX) else { continue };
            let Some(bytes) = snapshot.bytes(at, abi::OP_FIRST + 8) else { continue };
            seen += 1;
            let op = &mut self.ops[*number];
            if is_statement(op.kind) {
                line = u32_at(bytes, abi::COP_LINE);
            }
            if op.line != 0 {
                continue;
            }
            op.line = line;
            if u16_at(bytes, abi::OP_TYPE) & abi::OP_MORESIB != 0 {
                stack.push(u64_at(bytes, abi::OP_SIBPARENT));
            }
            if bytes[abi::OP_FLAGS] & abi::OP_KIDS != 0 {
                stack.push(u64_at(bytes, abi::OP_FIRST));
            }
        }
    }
}
