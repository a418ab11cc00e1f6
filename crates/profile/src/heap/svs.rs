//! Every value of a perl: heads stand in arenas, one after the other, and each arena tells where
//! the next one is. What a head points to is not this file's business.

use super::{abi, snapshot::Snapshot};
use crate::{
    abi as stacks,
    perl::{u32_at, u64_at},
};

/// An SV's head, as it is.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub any: u64,
    pub u: u64,
    pub refcnt: u32,
    pub flags: u32,
}

impl Head {
    #[must_use]
    pub fn kind(&self) -> u32 {
        self.flags & stacks::TYPE_MASK
    }

    #[must_use]
    pub fn is_live(&self) -> bool {
        self.kind() != abi::FREED
    }

    #[must_use]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

#[derive(Debug)]
struct Arena {
    start: u64,
    count: u32,
    /// Number of its first head among all.
    first: u32,
}

/// Heads by number.
#[derive(Debug, Default)]
pub struct Svs {
    arenas: Vec<Arena>,
    heads: Vec<Head>,
}

/// So many arenas are more than any memory has.
const ARENAS_MAX: usize = 1 << 24;

impl Svs {
    /// `root`: the arena that was made last.
    #[must_use]
    pub fn of(snapshot: &Snapshot, root: u64) -> Self {
        let mut places = Vec::new();
        let mut at = root;
        while at != 0 && places.len() < ARENAS_MAX {
            let Some(first) = head(snapshot, at).filter(|first| first.refcnt > 0) else { break };
            places.push((at, first.refcnt));
            at = first.any;
        }
        places.sort_unstable();
        places.dedup_by_key(|place| place.0);
        let mut svs = Self::default();
        places.into_iter().for_each(|(start, count)| svs.add(snapshot, start, count));
        svs
    }

    #[must_use]
    pub fn len(&self) -> u32 {
        self.heads.len() as u32
    }

    #[must_use]
    pub fn head(&self, number: u32) -> &Head {
        &self.heads[number as usize]
    }

    /// Where each arena begins.
    pub fn arenas(&self) -> impl Iterator<Item = u64> {
        self.arenas.iter().map(|arena| arena.start)
    }

    /// Numbers of those that live.
    pub fn live(&self) -> impl Iterator<Item = u32> + use<> {
        let live: Vec<u32> =
            (0..self.len()).filter(|number| self.heads[*number as usize].is_live()).collect();
        live.into_iter()
    }

    /// The living one that has its head here.
    #[must_use]
    pub fn at(&self, at: u64) -> Option<u32> {
        let arena = self.arenas.partition_point(|arena| arena.start <= at).checked_sub(1)?;
        let arena = &self.arenas[arena];
        let offset = at - arena.start;
        let slot = offset / stacks::SV_BYTES as u64;
        let is_one =
            offset.is_multiple_of(stacks::SV_BYTES as u64) && slot < u64::from(arena.count);
        let number = is_one.then(|| arena.first + slot as u32)?;
        self.heads[number as usize].is_live().then_some(number)
    }

    #[must_use]
    pub fn address(&self, number: u32) -> u64 {
        let arena = self.arenas.partition_point(|arena| arena.first <= number) - 1;
        let arena = &self.arenas[arena];
        arena.start + u64::from(number - arena.first) * stacks::SV_BYTES as u64
    }

    fn add(&mut self, snapshot: &Snapshot, start: u64, count: u32) {
        let Some(bytes) = snapshot.bytes(start, count as usize * stacks::SV_BYTES) else { return };
        self.arenas.push(Arena { start, count, first: self.heads.len() as u32 });
        self.heads.extend(bytes.chunks_exact(stacks::SV_BYTES).map(read));
        // The first one of each is for the arena itself.
        let first = self.heads.len() - count as usize;
        self.heads[first].flags = abi::FREED;
    }
}

fn head(snapshot: &Snapshot, at: u64) -> Option<Head> {
    snapshot.bytes(at, stacks::SV_BYTES).map(read)
}

fn read(bytes: &[u8]) -> Head {
    Head {
        any: u64_at(bytes, stacks::SV_ANY),
        u: u64_at(bytes, stacks::SV_U),
        refcnt: u32_at(bytes, abi::SV_REFCNT),
        flags: u32_at(bytes, stacks::SV_FLAGS),
    }
}
