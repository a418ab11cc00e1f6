//! What holds the values of a perl from outside of them: the interpreter with its stacks, and the
//! data of libraries, in which anything may be a pointer.

use super::{
    abi,
    code::head_slab,
    graph::Via,
    ledger::Class,
    snapshot::HEAP,
    walk::{Extra, Loose, Walk},
};
use crate::perl::{u32_at, u64_at};

/// Of the interpreter: stacks that are not arrays.
const I_SAVESTACK: u64 = 0x28;
const I_SAVESTACK_IX: u64 = 0x30;
const I_SCOPESTACK: u64 = 0x38;
const I_TMPS_STACK: u64 = 0x48;
const I_TMPS_IX: u64 = 0x50;
const I_MARKSTACK: u64 = 0x60;
/// Of a list of arenas.
const SET_COUNT: u64 = 12;
const SET_ENTRIES: u64 = 16;
const STACKS_MAX: usize = 10_000;

impl Walk<'_> {
    /// Of an interpreter of so many bytes.
    pub fn roots(&mut self, interpreter: u64, bytes: u64) {
        let node = self.extra(Extra::Interpreter);
        let (root, names) = (self.root(), self.names());
        self.hold(root, node, Via::Root("interpreter"));
        self.hold(root, names, Via::Root("names"));
        self.claim(interpreter, node, Class::Interpreter);
        self.arenas(interpreter, bytes, node);
        self.stacks(interpreter, node);
        self.named(interpreter, bytes);
        let own = Loose { at: interpreter, bytes, owner: node, class: Class::Interpreter };
        self.met(own, "interpreter");
        self.libraries();
    }

    /// Numbers that look as if they pointed to values: they may hold them.
    fn met(&mut self, from: Loose, by: &'static str) {
        let root = self.root();
        for value in self.claim_from(from) {
            self.may_hold(root, value, Via::Root(by));
        }
    }

    /// Arenas of bodies and entries, of which perl keeps lists: those that nothing lives in now are
    /// room for what is to come. So are arenas of heads.
    fn arenas(&mut self, interpreter: u64, bytes: u64, node: u32) {
        for at in self.svs.arenas().collect::<Vec<_>>() {
            self.room(at);
        }
        let words = (0..bytes).step_by(8).map(|offset| interpreter + offset);
        let sets: Vec<u64> = words.map(|at| self.word(at)).filter(|at| self.is_set(*at)).collect();
        for mut set in sets {
            while self.is_set(set) && self.claim(set, node, Class::Interpreter) {
                let count = self.snapshot.half(set + SET_COUNT).unwrap_or(0);
                for entry in 0..=u64::from(count) {
                    let arena = self.word(set + SET_ENTRIES + 24 * entry);
                    self.room(arena);
                }
                set = self.word(set);
            }
        }
    }

    fn room(&mut self, at: u64) {
        if let Some(chunk) = self.chunks.at(at) {
            self.ledger.room(chunk);
        }
    }

    /// A list of arenas fills one itself: with the next list, how many it can have, and how many it
    /// has.
    fn is_set(&self, at: u64) -> bool {
        const MOST: u32 = (4_080 - 16) / 24;
        self.chunks.at(at).is_some()
            && self.snapshot.half(at + 8) == Some(MOST)
            && self.snapshot.half(at + SET_COUNT).is_some_and(|count| count <= MOST)
    }

    /// What the interpreter's own words point to: values, and code that is no sub's.
    fn named(&mut self, interpreter: u64, bytes: u64) {
        let defstash = self.word(interpreter.wrapping_add(abi::I_DEFSTASH));
        let mut main = None;
        for offset in (0..bytes).step_by(8) {
            let target = self.word(interpreter + offset);
            let Some(value) = self.svs.at(target) else { continue };
            let (root, is_main) = (self.root(), target == defstash);
            let via = Via::Root(self.root_name(value, is_main));
            if via == Via::Root("main program") {
                main.get_or_insert(value);
            }
            // What runs now is remembered, and its sub's all the same.
            let is_others = self.is_of_package(value) || self.pads.contains_key(&value);
            match is_others && !is_main {
                true => self.may_hold(root, value, via),
                false => self.hold(root, value, via),
            }
        }
        self.main_code(interpreter, bytes, main);
    }

    /// Code that no sub tells of, by operators that the interpreter knows.
    fn main_code(&mut self, interpreter: u64, bytes: u64, main: Option<u32>) {
        let (subs, root) = (self.codes.clone(), self.root());
        for offset in (0..bytes).step_by(8) {
            let op = self.word(interpreter + offset);
            let Some(slab) = head_slab(self.snapshot, op) else { continue };
            if subs.contains_key(&slab) {
                continue;
            }
            let is_known = self.codes.contains_key(&slab);
            let code = self.code(slab);
            self.set_root(code, op);
            match main {
                _ if is_known => {}
                Some(main) => self.hold(main, code, Via::Code),
                None => self.hold(root, code, Via::Root("main program")),
            }
        }
    }

    fn root_name(&self, value: u32, is_main: bool) -> &'static str {
        let head = self.svs.head(value);
        let flags = || self.snapshot.half(head.any.wrapping_add(abi::CV_FLAGS)).unwrap_or(0);
        match head.kind() {
            abi::PVHV if is_main => "main::",
            abi::PVCV if flags() & abi::CV_UNIQUE != 0 => "main program",
            _ => "interpreter",
        }
    }

    fn stacks(&mut self, interpreter: u64, node: u32) {
        let word = |walk: &Self, offset: u64| walk.word(interpreter + offset);
        let tops = word(self, I_SAVESTACK_IX) & 0xffff_ffff;
        let [saved, temporary] = [I_SAVESTACK, I_TMPS_STACK].map(|offset| word(self, offset));
        let count = word(self, I_TMPS_IX).wrapping_add(1);
        for offset in [I_SAVESTACK, I_TMPS_STACK, I_SCOPESTACK, I_MARKSTACK] {
            let at = word(self, offset);
            self.claim(at, node, Class::Interpreter);
        }
        self.held_in(saved, tops * 8, "local");
        self.held_in(temporary, count.wrapping_mul(8), "temporary");
        let mut at = word(self, abi::I_CURSTACKINFO);
        // Stacks that were left are kept for later.
        for _ in 0..STACKS_MAX {
            let next = self.word(at.wrapping_add(0x18));
            if next == 0 || self.snapshot.word(next).is_none() {
                break;
            }
            at = next;
        }
        for _ in 0..STACKS_MAX {
            let Some(bytes) = self.snapshot.bytes(at, 0x30) else { return };
            let (stack, contexts) = (u64_at(bytes, 0), u64_at(bytes, 8));
            let (previous, top) = (u64_at(bytes, 0x10), u32_at(bytes, 0x20) as i32);
            self.claim(at, node, Class::Interpreter);
            self.claim(contexts, node, Class::Interpreter);
            if let Some(stack) = self.svs.at(stack) {
                let root = self.root();
                self.hold(root, stack, Via::Root("stack"));
            }
            let used = u64::try_from(top.saturating_add(1)).unwrap_or(0)
                * self.perl.layout.context_size as u64;
            self.held_in(contexts, used, "running");
            at = previous;
        }
    }

    fn held_in(&mut self, at: u64, bytes: u64, name: &'static str) {
        let root = self.root();
        let Some(bytes) = usize::try_from(bytes).ok().and_then(|b| self.snapshot.bytes(at, b))
        else {
            return;
        };
        for word in bytes.chunks_exact(8) {
            if let Some(value) = self.svs.at(u64_at(word, 0)) {
                self.may_hold(root, value, Via::Root(name));
            }
        }
    }

    /// Data of the program and its libraries; then what belongs to none, and stacks of threads.
    fn libraries(&mut self) {
        let mut places: Vec<(u8, String, u64, u64)> = Vec::new();
        let mut file = String::new();
        let mut end = 0;
        for region in self.snapshot.regions() {
            // Behind the data of a file is that which begins as zeroes.
            let is_behind = region.start == end && region.name.is_empty();
            let name = if is_behind { file.clone() } else { region.name.clone() };
            let rank = match &name[..] {
                HEAP => continue,
                "[stack]" => 2,
                name if name.starts_with('/') => 0,
                _ => 1,
            };
            (file, end) = (name.clone(), region.end());
            places.push((rank, name, region.start, region.bytes.len() as u64));
        }
        places.sort_by_key(|place| place.0);
        for (_, name, at, bytes) in places {
            // Where allocations are they are told apart.
            if self.chunks.holding(at + 16).is_some() {
                continue;
            }
            let owner = self.extra(Extra::Native(name));
            let root = self.root();
            self.hold(root, owner, Via::Root("libraries"));
            let tops = self.snapshot.stack_tops.iter();
            let top = tops.copied().find(|top| (at..at + bytes).contains(top)).unwrap_or(at);
            let loose =
                Loose { at: top & !7, bytes: at + bytes - (top & !7), owner, class: Class::Native };
            self.met(loose, "library");
        }
    }
}
