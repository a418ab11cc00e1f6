//! What values consist of and whom they hold: strings, references, arrays, hashes, globs and magic.

use super::{
    abi,
    graph::Via,
    ledger::Class,
    svs::Head,
    walk::{CHAIN_MAX, Extra, LONGEST, Walk, is_glob},
};
use crate::{
    abi as stacks,
    perl::{u32_at, u64_at},
};

impl Walk<'_> {
    pub(super) fn value(&mut self, number: u32) {
        let head = *self.svs.head(number);
        let kind = head.kind();
        self.body(number, &head);
        if kind >= abi::PVMG {
            self.magic(number, &head);
        }
        match kind {
            abi::PVAV => self.array(number, &head),
            abi::PVHV => self.hash(number, &head),
            abi::PVCV | abi::PVFM => self.sub(number, &head),
            abi::PVGV | abi::PVLV if is_glob(&head) => self.glob(number, &head),
            abi::REGEXP => {
                self.text(number, &head);
                self.later(head.any, 192, number, Class::Regexes);
            }
            abi::PVIO => self.later(head.any, 136, number, Class::Structures),
            abi::PVOBJ => self.later(head.any, 40, number, Class::Structures),
            _ => self.scalar(number, &head),
        }
    }

    fn body(&mut self, number: u32, head: &Head) {
        let Some((before, bytes)) = abi::body(head.kind(), self.has_aux(head), &self.perl.layout)
        else {
            return;
        };
        let chunk = self.chunks.holding(head.any.wrapping_add(before));
        if chunk.is_some() {
            self.ledger.piece(chunk, number, Class::Bodies, bytes);
        }
    }

    fn scalar(&mut self, number: u32, head: &Head) {
        if head.has(abi::ROK) {
            if let Some(held) = self.svs.at(head.u).filter(|_| !head.has(abi::WEAK)) {
                self.hold(number, held, Via::Reference);
            }
            return;
        }
        match head.kind() {
            abi::IV | abi::NV | 0 => {}
            abi::PVLV => {
                self.text(number, head);
                self.later(head.any, 80, number, Class::Structures);
            }
            _ => self.text(number, head),
        }
        // Objects in C are mostly numbers that are addresses.
        if head.has(abi::OBJECT) && head.kind() >= abi::PVMG {
            self.later(head.any.wrapping_add(0x20), 8, number, Class::Structures);
        }
    }

    pub(super) fn text(&mut self, number: u32, head: &Head) {
        let length = self.word(head.any.wrapping_add(abi::PV_LEN));
        if head.u == 0 || length == 0 {
            return;
        }
        let Some(chunk) = self.chunks.holding(head.u) else { return };
        if !head.has(abi::IS_COW) {
            self.ledger.claim(&self.chunks, chunk, number, Class::Strings);
            return;
        }
        let text = match self.texts.get(&chunk) {
            Some(text) => *text,
            None => {
                let text = self.extra(Extra::Text);
                self.texts.insert(chunk, text);
                self.ledger.claim(&self.chunks, chunk, text, Class::Strings);
                text
            }
        };
        self.hold(number, text, Via::Text);
    }

    fn magic(&mut self, number: u32, head: &Head) {
        let mut at = self.word(head.any.wrapping_add(abi::MAGIC));
        for _ in 0..CHAIN_MAX {
            let Some(bytes) = self.snapshot.bytes(at, abi::MG_BYTES) else { return };
            if !self.claim(at, number, Class::Magic) {
                return;
            }
            let [object, pointer] = [u64_at(bytes, abi::MG_OBJ), u64_at(bytes, abi::MG_PTR)];
            let length = u64_at(bytes, abi::MG_LEN) as i64;
            let (kind, flags) = (bytes[abi::MG_TYPE], bytes[abi::MG_FLAGS]);
            if kind == b'<' {
                self.back_references(number, object);
            } else if let Some(held) = self.svs.at(object)
                && flags & abi::MG_REFCOUNTED != 0
            {
                self.hold(number, held, Via::Magic);
            }
            match length {
                abi::MG_IS_SV => {
                    if let Some(held) = self.svs.at(pointer) {
                        self.hold(number, held, Via::Magic);
                    }
                }
                1.. => {
                    self.claim(pointer, number, Class::Magic);
                }
                _ => self.later(at.wrapping_add(abi::MG_PTR as u64), 8, number, Class::Magic),
            }
            at = u64_at(bytes, 0);
        }
    }

    /// A list of those that refer to it weakly is its own; one alone stands there itself.
    fn back_references(&mut self, number: u32, at: u64) {
        if let Some(list) = self.svs.at(at) {
            let head = self.svs.head(list);
            if head.kind() == abi::PVAV && !head.has(abi::REAL) {
                self.hold(number, list, Via::Magic);
            }
        }
    }

    fn array(&mut self, number: u32, head: &Head) {
        let pad = self.pads.get(&number).copied();
        let class = if pad.is_some() { Class::Pads } else { Class::Arrays };
        let allocated = self.word(head.any.wrapping_add(abi::AV_ALLOC));
        let chunk = self.chunks.holding(if allocated == 0 { head.u } else { allocated });
        if let Some(chunk) = chunk {
            self.ledger.claim(&self.chunks, chunk, number, class);
        }
        if !head.has(abi::REAL) && pad.is_none() {
            return;
        }
        let count = self.word(head.any.wrapping_add(abi::AV_FILL)).wrapping_add(1);
        let Some(bytes) = self.snapshot.bytes(head.u, (count.min(LONGEST) * 8) as usize) else {
            return;
        };
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            if let Some(held) = self.svs.at(u64_at(word, 0)) {
                let index = index as u32;
                let via = if pad.is_some() { Via::Pad(index) } else { Via::Element(index) };
                if pad.is_some() {
                    self.literal(held);
                }
                match self.is_of_package(held) {
                    true => self.may_hold(number, held, via),
                    false => self.hold(number, held, via),
                }
            }
        }
    }

    fn hash(&mut self, number: u32, head: &Head) {
        self.claim(head.u, number, Class::Hashes);
        for (entry, key, value) in self.entries(head) {
            let chunk = self.chunks.holding(entry);
            self.ledger.piece(chunk, number, Class::Hashes, 24);
            if let Some(held) = self.svs.at(value) {
                self.hold(number, held, Via::Key(key));
            }
            // Keys that are not shared are its own; shared ones have an owner already.
            self.claim(key, number, Class::Hashes);
        }
        if head.has(abi::OOK) {
            self.aux(number, head);
        }
    }

    /// Of a hash: where each entry is, its key and its value.
    fn entries(&self, head: &Head) -> Vec<(u64, u64, u64)> {
        let buckets = self.word(head.any.wrapping_add(abi::HV_MAX)).wrapping_add(1);
        let length = (buckets.min(LONGEST) * 8) as usize;
        let Some(bytes) = self.snapshot.bytes(head.u, length).filter(|_| head.u != 0) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for bucket in bytes.chunks_exact(8) {
            let mut at = u64_at(bucket, 0);
            while at != 0 && found.len() < CHAIN_MAX {
                let Some(entry) = self.snapshot.bytes(at, 24) else { break };
                found.push((at, u64_at(entry, 8), u64_at(entry, 16)));
                at = u64_at(entry, 0);
            }
        }
        found
    }

    /// Where the extra part of a hash is.
    #[must_use]
    pub fn aux_of(&self, head: &Head) -> u64 {
        if self.perl.layout.hash_aux_in_body {
            return head.any.wrapping_add(stacks::HV_AUX as u64);
        }
        let max = self.word(head.any.wrapping_add(abi::HV_MAX));
        head.u.wrapping_add(max.wrapping_add(1).wrapping_mul(8))
    }

    fn aux(&mut self, number: u32, head: &Head) {
        let aux = self.aux_of(head);
        let back = self.word(aux.wrapping_add(abi::AUX_BACKREFERENCES));
        self.back_references(number, back);
        if self.snapshot.half(aux.wrapping_add(abi::AUX_NAME_COUNT)).is_some_and(|count| count != 0)
        {
            self.claim(self.word(aux.wrapping_add(abi::AUX_NAME)), number, Class::Hashes);
        }
        let meta = self.word(aux.wrapping_add(abi::AUX_MRO_META));
        if self.claim(meta, number, Class::Hashes) {
            self.later(meta, 72, number, Class::Structures);
        }
    }

    /// Keys are allocated with their entries.
    pub(super) fn keys(&mut self, strtab: u64) {
        let Some(number) = self.svs.at(strtab) else { return };
        let (head, names) = (*self.svs.head(number), self.names());
        self.body(number, &head);
        self.hold(names, number, Via::Other);
        self.claim(head.u, names, Class::Names);
        for (entry, _, _) in self.entries(&head) {
            self.claim(entry, names, Class::Names);
        }
    }

    fn glob(&mut self, number: u32, head: &Head) {
        const SLOTS: [(usize, &str); 6] =
            [(0, "$"), (8, "IO"), (0x10, "&"), (0x20, "%"), (0x28, "@"), (0x30, "FORMAT")];
        let Some(bytes) = self.snapshot.bytes(head.u, abi::GP_BYTES) else { return };
        self.claim(head.u, number, Class::Globs);
        // A sub that was found by inheritance is only remembered here.
        let is_cache = u32_at(bytes, 0x18) != 0;
        for (offset, slot) in SLOTS {
            let Some(held) = self.svs.at(u64_at(bytes, offset)) else { continue };
            match slot {
                "&" if is_cache => {}
                "&" if !self.is_home(number, head, held) => {
                    self.may_hold(number, held, Via::Slot(slot));
                }
                _ => self.hold(number, held, Via::Slot(slot)),
            }
        }
    }

    /// Whether a sub was made in this glob, or has no other one: to where it was exported it is
    /// held too, but it is the package's that has made it.
    fn is_home(&self, number: u32, head: &Head, sub: u32) -> bool {
        let body = self.svs.head(sub).any;
        let flags = self.snapshot.half(body.wrapping_add(abi::CV_FLAGS)).unwrap_or(0);
        if flags & stacks::CV_NAMED != 0 {
            let stash = self.word(body.wrapping_add(stacks::CV_STASH as u64));
            return stash == self.word(head.any.wrapping_add(stacks::GV_STASH as u64));
        }
        let glob = self.word(body.wrapping_add(stacks::CV_GV as u64));
        flags & stacks::CV_ANON != 0 || glob == 0 || glob == self.svs.address(number)
    }

    pub(super) fn has_aux(&self, head: &Head) -> bool {
        head.kind() == abi::PVHV && head.has(abi::OOK) && self.perl.layout.hash_aux_in_body
    }
}
