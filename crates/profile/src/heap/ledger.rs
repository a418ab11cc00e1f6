//! Whose each allocated byte is: a [`Ledger`] gives every chunk one owner and one class, and every
//! owner its sum. Nothing is counted twice; what nobody claims is told as unknown.

use std::collections::HashSet;

use super::chunks::Chunks;

/// What memory is for. In the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Code,
    /// What operators hold besides: names of files, tables, hints.
    CodeData,
    Pads,
    Heads,
    Bodies,
    Strings,
    Arrays,
    Hashes,
    Names,
    Globs,
    Magic,
    Regexes,
    /// Structures of C that values hold.
    Structures,
    Interpreter,
    /// Held by what is not perl's: libraries.
    Native,
    /// Room in arenas of heads, bodies and entries that nothing uses.
    Room,
    Unknown,
}

impl Class {
    pub const ALL: [Self; 17] = [
        Self::Code,
        Self::CodeData,
        Self::Pads,
        Self::Heads,
        Self::Bodies,
        Self::Strings,
        Self::Arrays,
        Self::Hashes,
        Self::Names,
        Self::Globs,
        Self::Magic,
        Self::Regexes,
        Self::Structures,
        Self::Interpreter,
        Self::Native,
        Self::Room,
        Self::Unknown,
    ];

    /// Its name in JSON, and what it is.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Code => ("code", "operators of subs and of the main program"),
            Self::CodeData => ("code_data", "file names, tables and hints of operators"),
            Self::Pads => ("pads", "lists and names of lexical variables"),
            Self::Heads => ("heads", "heads of values, 24 bytes each"),
            Self::Bodies => ("bodies", "bodies of values"),
            Self::Strings => ("strings", "text of strings"),
            Self::Arrays => ("arrays", "elements of arrays"),
            Self::Hashes => ("hashes", "buckets and entries of hashes"),
            Self::Names => ("names", "keys of hashes and names of symbols, shared"),
            Self::Globs => ("globs", "what globs consist of"),
            Self::Magic => ("magic", "magic: ties, weak references, positions"),
            Self::Regexes => ("regexes", "compiled regexes"),
            Self::Structures => ("structures", "structures of C that values hold"),
            Self::Interpreter => ("interpreter", "the interpreter, its stacks and tables"),
            Self::Native => ("native", "memory of libraries"),
            Self::Room => ("room", "room for values that is not used now"),
            Self::Unknown => ("unknown", "used by nobody who was found"),
        }
    }
}

pub const NOBODY: u32 = u32::MAX;

/// By chunk and by node.
#[derive(Debug)]
pub struct Ledger {
    /// Who owns each chunk; of an arena nobody does.
    owners: Vec<u32>,
    classes: Vec<Class>,
    /// Of chunks that are owned piece by piece: what is.
    pieces: Vec<u32>,
    /// Arenas without a piece.
    rooms: HashSet<u32>,
    /// Bytes by node.
    own: Vec<u64>,
    totals: [u64; Class::ALL.len()],
}

impl Ledger {
    #[must_use]
    pub fn new(chunks: &Chunks) -> Self {
        let count = chunks.all().len();
        Self {
            owners: vec![NOBODY; count],
            classes: vec![Class::Unknown; count],
            pieces: vec![0; count],
            rooms: HashSet::new(),
            own: Vec::new(),
            totals: [0; Class::ALL.len()],
        }
    }

    /// A whole chunk, unless it has an owner already.
    pub fn claim(&mut self, chunks: &Chunks, chunk: u32, owner: u32, class: Class) -> bool {
        let found = &chunks.all()[chunk as usize];
        let at = chunk as usize;
        if found.is_free || self.is_claimed(chunk) {
            return false;
        }
        self.owners[at] = owner;
        self.classes[at] = class;
        self.charge(owner, class, found.bytes);
        true
    }

    /// A part of a chunk that belongs to many.
    pub fn piece(&mut self, chunk: Option<u32>, owner: u32, class: Class, bytes: u64) {
        if let Some(chunk) = chunk {
            self.pieces[chunk as usize] += bytes as u32;
            self.classes[chunk as usize] = Class::Room;
        }
        self.charge(owner, class, bytes);
    }

    fn charge(&mut self, owner: u32, class: Class, bytes: u64) {
        if self.own.len() <= owner as usize {
            self.own.resize(owner as usize + 1, 0);
        }
        self.own[owner as usize] += bytes;
        self.totals[class as usize] += bytes;
    }

    #[must_use]
    pub fn is_claimed(&self, chunk: u32) -> bool {
        let at = chunk as usize;
        self.owners[at] != NOBODY || self.pieces[at] > 0 || self.rooms.contains(&chunk)
    }

    /// Who has its text here.
    #[must_use]
    pub fn text_owner(&self, chunk: u32) -> Option<u32> {
        let at = chunk as usize;
        Some(self.owners[at])
            .filter(|_| self.classes[at] == Class::Strings)
            .filter(|o| *o != NOBODY)
    }

    /// An arena in which nothing lives.
    pub fn room(&mut self, chunk: u32) {
        let at = chunk as usize;
        if self.owners[at] == NOBODY && self.pieces[at] == 0 {
            self.rooms.insert(chunk);
        }
    }

    /// Bytes by class, and those that are free. All chunks are in it.
    #[must_use]
    pub fn close(mut self, chunks: &Chunks) -> Books {
        let mut free = 0;
        let mut nobodys = Vec::new();
        for (number, chunk) in chunks.all().iter().enumerate() {
            if chunk.is_free {
                free += chunk.bytes;
            } else if self.rooms.contains(&(number as u32)) {
                self.totals[Class::Room as usize] += chunk.bytes;
            } else if self.pieces[number] > 0 {
                let rest = chunk.bytes.saturating_sub(u64::from(self.pieces[number]));
                self.totals[Class::Room as usize] += rest;
            } else if self.owners[number] == NOBODY {
                self.totals[Class::Unknown as usize] += chunk.bytes;
                nobodys.push(number as u32);
            }
        }
        Books { own: self.own, totals: self.totals, free, nobodys }
    }
}

/// What a ledger adds up to.
#[derive(Debug)]
pub struct Books {
    pub own: Vec<u64>,
    pub totals: [u64; Class::ALL.len()],
    /// Given back to the allocator.
    pub free: u64,
    /// Chunks of unknown owners.
    pub nobodys: Vec<u32>,
}

impl Books {
    /// Of a node.
    #[must_use]
    pub fn own(&self, node: u32) -> u64 {
        self.own.get(node as usize).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// The part of what is used that has a name.
    #[must_use]
    pub fn named(&self) -> f64 {
        let used = self.used().max(1) as f64;
        1.0 - self.totals[Class::Unknown as usize] as f64 / used
    }
}
