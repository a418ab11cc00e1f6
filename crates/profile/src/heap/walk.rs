//! What each value consists of and holds: a [`Walk`] goes over all heads of a snapshot, claims
//! what is theirs and notes whom they hold. Code is `code.rs`'s business, what else points into the
//! heap `roots.rs`'s.

use std::collections::{HashMap, HashSet};

use super::{
    abi,
    chunks::Chunks,
    code::Code,
    graph::{Edge, Via},
    ledger::{Class, Ledger},
    snapshot::Snapshot,
    svs::{Head, Svs},
};
use crate::{
    abi as stacks,
    perl::{Perl, u64_at},
};

/// What is no value and holds or is held as if it were one.
#[derive(Debug)]
pub enum Extra {
    /// All that lives is held by it.
    Root,
    /// Keys and names of symbols.
    Names,
    /// Text that several strings share.
    Text,
    Code(Box<Code>),
    Interpreter,
    /// A library's data, a stack: by its name.
    Native(String),
}

/// Nodes are the values by their numbers, then extras.
pub struct Walk<'s> {
    pub snapshot: &'s Snapshot,
    pub perl: &'s Perl,
    pub chunks: Chunks,
    pub svs: Svs,
    pub ledger: Ledger,
    pub edges: Vec<Edge>,
    /// Who may hold something, and counts only where nobody does for sure.
    pub maybe: Vec<Edge>,
    pub extras: Vec<Extra>,
    /// Nodes of code by its first slab.
    pub codes: HashMap<u64, u32>,
    /// Arrays that are variables of a sub: whose, and how deep in recursion.
    pub pads: HashMap<u32, (u32, u32)>,
    pub texts: HashMap<u32, u32>,
    /// Keys that stand in the program's code.
    pub literals: HashSet<u64>,
    /// Memory of which only its owner is known: to be searched when all else has been claimed.
    loose: Vec<Loose>,
}

/// So many bytes from here on, and whose they are.
#[derive(Clone, Copy)]
pub struct Loose {
    pub at: u64,
    pub bytes: u64,
    pub owner: u32,
    pub class: Class,
}

/// Broken numbers make nothing endless.
pub const LONGEST: u64 = 1 << 28;
pub const CHAIN_MAX: usize = 1 << 24;

impl<'s> Walk<'s> {
    pub fn new(snapshot: &'s Snapshot, perl: &'s Perl, interpreter: u64) -> Self {
        let chunks = Chunks::of(snapshot);
        let root = snapshot.word(interpreter.wrapping_add(abi::I_ARENAROOT)).unwrap_or(0);
        let svs = Svs::of(snapshot, root);
        let ledger = Ledger::new(&chunks);
        let extras = vec![Extra::Root, Extra::Names];
        Self {
            snapshot,
            perl,
            chunks,
            svs,
            ledger,
            edges: Vec::new(),
            maybe: Vec::new(),
            extras,
            codes: HashMap::new(),
            pads: HashMap::new(),
            texts: HashMap::new(),
            literals: HashSet::new(),
            loose: Vec::new(),
        }
    }

    #[must_use]
    pub fn root(&self) -> u32 {
        self.svs.len()
    }

    #[must_use]
    pub fn names(&self) -> u32 {
        self.svs.len() + 1
    }

    pub fn extra(&mut self, extra: Extra) -> u32 {
        self.extras.push(extra);
        self.svs.len() + self.extras.len() as u32 - 1
    }

    /// A constant of the program's: `{name}` is kept as the key that it is.
    pub fn literal(&mut self, number: u32) {
        let head = self.svs.head(number);
        let is_key = head.has(abi::IS_COW) && self.word(head.any.wrapping_add(abi::PV_LEN)) == 0;
        if is_key && matches!(head.kind(), abi::PV | abi::PVIV | abi::PVNV | abi::PVMG) {
            self.literals.insert(head.u.wrapping_sub(stacks::HEK_KEY as u64));
        }
    }

    pub fn hold(&mut self, from: u32, to: u32, via: Via) {
        self.edges.push(Edge { from, to, via });
    }

    pub fn may_hold(&mut self, from: u32, to: u32, via: Via) {
        self.maybe.push(Edge { from, to, via });
    }

    /// What has its place in a package: code and the interpreter remember where it is, and hold it
    /// too, but it is the package's.
    pub fn is_of_package(&self, number: u32) -> bool {
        let head = self.svs.head(number);
        match head.kind() {
            // A copy of a glob is a value like others.
            abi::PVGV => is_glob(head) && !head.has(abi::FAKE),
            abi::PVHV => head.has(abi::OOK) && self.word(self.aux_of(head)) != 0,
            _ => false,
        }
    }

    /// Goes over everything. `strtab`: the hash that has the text of all keys.
    pub fn values(&mut self, strtab: u64) {
        self.heads();
        let live: Vec<u32> = self.svs.live().collect();
        for number in &live {
            let head = *self.svs.head(*number);
            if matches!(head.kind(), abi::PVCV | abi::PVFM) {
                self.padlist(*number, &head);
            }
        }
        self.keys(strtab);
        let strtab = self.svs.at(strtab);
        for number in live.into_iter().filter(|number| Some(*number) != strtab) {
            self.value(number);
        }
    }

    /// What only may be a pointer: the rest that nobody has claimed so far.
    pub fn loose(&mut self) {
        for loose in std::mem::take(&mut self.loose) {
            self.search(loose);
        }
    }

    /// Claims chunks that are pointed to and have no owner, and what they point to; the values
    /// among that may be held: what was in a buffer before looks like them, too.
    fn search(&mut self, loose: Loose) {
        for sv in self.claim_from(loose) {
            self.may_hold(loose.owner, sv, Via::Other);
        }
    }

    /// The same; who holds the values that were met is left open.
    pub fn claim_from(&mut self, loose: Loose) -> Vec<u32> {
        let mut met = Vec::new();
        let mut stack = vec![(loose.at, loose.bytes)];
        while let Some((at, bytes)) = stack.pop() {
            let Some(bytes) = self.snapshot.bytes(at, (bytes & !7) as usize) else { continue };
            for word in bytes.chunks_exact(8) {
                let target = u64_at(word, 0);
                if let Some(sv) = self.svs.at(target) {
                    met.push(sv);
                } else if let Some(owner) = self.text_owner(target) {
                    met.push(owner);
                } else if let Some(chunk) = self.pointed_to(target, loose.class)
                    && self.ledger.claim(&self.chunks, chunk, loose.owner, loose.class)
                {
                    let chunk = self.chunks.all()[chunk as usize];
                    stack.push((chunk.at, chunk.end() - chunk.at));
                }
            }
        }
        met
    }

    /// XS modules keep their data in strings of which nothing but the text is known to anybody.
    fn text_owner(&self, at: u64) -> Option<u32> {
        let owner = self.ledger.text_owner(self.chunks.at(at)?)?;
        (owner < self.svs.len()).then_some(owner)
    }

    /// Of a structure of perl's or C's the beginning; other languages' pointers are to any part.
    fn pointed_to(&self, at: u64, class: Class) -> Option<u32> {
        if class == Class::Native { self.chunks.holding(at) } else { self.chunks.at(at) }
    }

    fn heads(&mut self) {
        let arenas: Vec<u64> = self.svs.arenas().collect();
        let mut chunk = None;
        let mut next = arenas.iter().copied().peekable();
        for number in 0..self.svs.len() {
            let at = self.svs.address(number);
            if next.next_if_eq(&at).is_some() {
                chunk = self.chunks.holding(at);
            } else if self.svs.head(number).is_live() {
                self.ledger.piece(chunk, number, Class::Heads, stacks::SV_BYTES as u64);
            }
        }
    }

    pub(super) fn later(&mut self, at: u64, bytes: u64, owner: u32, class: Class) {
        self.loose.push(Loose { at, bytes, owner, class });
    }

    pub fn claim(&mut self, at: u64, owner: u32, class: Class) -> bool {
        let chunk = self.chunks.at(at);
        chunk.is_some_and(|chunk| self.ledger.claim(&self.chunks, chunk, owner, class))
    }

    pub fn word(&self, at: u64) -> u64 {
        self.snapshot.word(at).unwrap_or(0)
    }
}

pub fn is_glob(head: &Head) -> bool {
    head.flags & (abi::HAS_GP | 0x4000) == abi::HAS_GP
}
