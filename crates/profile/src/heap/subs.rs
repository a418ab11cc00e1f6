//! What subs consist of and whom they hold: code with what its operators point to, and variables.

use super::{
    abi,
    code::{Code, Op, head_slab},
    graph::Via,
    ledger::Class,
    svs::Head,
    walk::{Extra, LONGEST, Walk},
};
use crate::{
    abi as stacks,
    perl::{u16_at, u32_at, u64_at},
};

/// No operator is longer.
const OP_MAX: u64 = 128;

impl Walk<'_> {
    pub(super) fn sub(&mut self, number: u32, head: &Head) {
        let Some(body) = self.snapshot.bytes(head.any, stacks::CV_BYTES) else { return };
        let word = |at: u64| u64_at(body, at as usize);
        let flags = u32_at(body, abi::CV_FLAGS as usize);
        // Its prototype.
        self.text(number, head);
        let outside = self.svs.at(word(abi::CV_OUTSIDE));
        if let Some(outside) = outside.filter(|_| flags & abi::CV_WEAK_OUTSIDE == 0) {
            self.hold(number, outside, Via::Outside);
        }
        let glob = self.svs.at(word(stacks::CV_GV as u64));
        if let Some(glob) = glob.filter(|_| flags & abi::CV_GV_COUNTED != 0) {
            self.may_hold(number, glob, Via::Other);
        }
        if flags & abi::CV_DYNFILE != 0 {
            self.claim(word(abi::CV_FILE), number, Class::CodeData);
        }
        if flags & stacks::CV_IS_XSUB != 0 {
            self.later(head.any.wrapping_add(abi::CV_XSUBANY), 8, number, Class::Structures);
            return;
        }
        let ops = [word(abi::CV_ROOT), word(abi::CV_XSUBANY)];
        if let Some(slab) = ops.into_iter().find_map(|op| head_slab(self.snapshot, op)) {
            let code = self.code(slab);
            self.hold(number, code, Via::Code);
        }
    }

    /// The node of code with this first slab; what its operators hold is claimed with it.
    pub fn code(&mut self, slab: u64) -> u32 {
        if let Some(known) = self.codes.get(&slab) {
            return *known;
        }
        let mut code = Code::of(self.snapshot, slab, self.perl.ops.freed);
        let node = self.extra(Extra::Root);
        self.codes.insert(slab, node);
        for (at, _) in &code.slabs {
            self.claim(*at, node, Class::Code);
        }
        self.claim(code.freed_list, node, Class::Code);
        let mut next = 0;
        while let Some(op) = code.ops.get(next).copied() {
            let bytes = u64::from(op.bytes).min(OP_MAX);
            code.apart.extend(self.operands(node, op.at, bytes));
            code.take_apart();
            next += 1;
        }
        self.extras[(node - self.svs.len()) as usize] = Extra::Code(Box::new(code));
        node
    }

    /// An operator of code that no sub tells it of: the one that holds all others is a `leave`.
    pub(super) fn set_root(&mut self, node: u32, op: u64) {
        let kind = self.perl.ops.names.iter().position(|name| name == "leave");
        if let Extra::Code(code) = &mut self.extras[(node - self.svs.len()) as usize] {
            let is_leave = |one: &&Op| one.at == op && Some(usize::from(one.kind)) == kind;
            if code.root == 0 && code.ops.iter().any(|one| is_leave(&one)) {
                code.root = op;
            }
        }
    }

    /// Tables begin with their length, and shared names with theirs: what an operator points to
    /// is a little behind the beginning. Operators that are in no slab are told.
    fn operands(&mut self, node: u32, at: u64, bytes: u64) -> Vec<Op> {
        const BEHIND_MAX: u64 = 16;
        let mut apart = Vec::new();
        let Some(bytes) = self.snapshot.bytes(at, bytes as usize & !7) else { return apart };
        for word in bytes.chunks_exact(8) {
            let target = u64_at(word, 0);
            if let Some(sv) = self.svs.at(target) {
                self.literal(sv);
                match self.is_of_package(sv) {
                    true => self.may_hold(node, sv, Via::Code),
                    false => self.hold(node, sv, Via::Code),
                }
                continue;
            }
            let Some(chunk) = self.chunks.holding(target) else { continue };
            let at = self.chunks.all()[chunk as usize].at;
            if target - at > BEHIND_MAX || self.ledger.is_claimed(chunk) {
                continue;
            }
            if let Some(op) = self.op_apart(target).filter(|_| target == at) {
                self.ledger.claim(&self.chunks, chunk, node, Class::Code);
                apart.push(op);
            } else if self.ledger.claim(&self.chunks, chunk, node, Class::CodeData) {
                // Hints are chained, and tables have pointers to text.
                let bytes = self.chunks.all()[chunk as usize].bytes - 8;
                self.later(at, bytes, node, Class::CodeData);
            }
        }
        apart
    }

    /// Those that perl makes when it optimises a sub that is compiled have memory of their own.
    fn op_apart(&self, at: u64) -> Option<Op> {
        let bytes = self.snapshot.bytes(at, abi::OP_BYTES)?;
        let (function, bits) = (u64_at(bytes, stacks::OP_PPADDR), u16_at(bytes, abi::OP_TYPE));
        let kind = bits & stacks::OP_TYPE_MASK;
        let chunk = self.chunks.all()[self.chunks.at(at)? as usize];
        let is_op = usize::from(kind) < self.perl.ops.names.len()
            && bits & stacks::OP_SLABBED == 0
            && self.perl.code.contains(&function)
            && chunk.bytes - 8 >= abi::OP_BYTES as u64;
        // The allocator may have given more than was asked for.
        let given = (chunk.bytes - 8) as u32;
        let bytes =
            self.perl.ops.bytes.get(usize::from(kind)).map_or(given, |most| given.min(*most));
        is_op.then_some(Op { at, bytes, kind, line: 0, is_apart: true })
    }

    /// Notes which arrays are its variables.
    pub(super) fn padlist(&mut self, number: u32, head: &Head) {
        let flags = self.snapshot.half(head.any.wrapping_add(abi::CV_FLAGS)).unwrap_or(u32::MAX);
        let list = self.word(head.any.wrapping_add(abi::CV_PADLIST));
        if flags & stacks::CV_IS_XSUB != 0 || list == 0 {
            return;
        }
        let Some(bytes) = self.snapshot.bytes(list, abi::PADLIST_BYTES) else { return };
        let (max, array) = (u64_at(bytes, 0), u64_at(bytes, 8));
        let length = (max.wrapping_add(1).min(LONGEST) * 8) as usize;
        let Some(pads) = self.snapshot.bytes(array, length) else { return };
        self.claim(list, number, Class::Pads);
        self.claim(array, number, Class::Pads);
        for (depth, pad) in pads.chunks_exact(8).enumerate() {
            let at = u64_at(pad, 0);
            match (depth, self.svs.at(at)) {
                (0, _) => self.pad_names(number, at),
                (_, Some(pad)) => {
                    self.pads.insert(pad, (number, depth as u32));
                    self.hold(number, pad, Via::Depth(depth as u32));
                }
                (_, None) => {}
            }
        }
    }

    fn pad_names(&mut self, number: u32, at: u64) {
        if !self.claim(at, number, Class::Pads) {
            return;
        }
        let (fill, array) = (self.word(at), self.word(at.wrapping_add(8)));
        self.claim(array, number, Class::Pads);
        for index in 0..fill.wrapping_add(1).min(LONGEST) {
            let name = self.word(array.wrapping_add(8 * index));
            self.claim(name, number, Class::Pads);
        }
    }
}
