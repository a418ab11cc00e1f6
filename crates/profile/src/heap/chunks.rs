//! What a process has allocated: the chunks of glibc's `malloc`, as their headers tell them. Of
//! those that are free the allocator's own lists say which; what a chunk holds is not known here.

use super::snapshot::{HEAP, Snapshot};

/// Before what the program got: the size of the chunk, and flags.
const HEADER: u64 = 16;
const SMALLEST: u64 = 32;
const IN_USE_BEFORE: u64 = 1;
const MAPPED: u64 = 2;
const OTHER_ARENA: u64 = 4;
const FLAGS: u64 = 7;
/// Arenas of threads begin at multiples of this.
const ARENA_ALIGN: u64 = 64 << 20;
/// Of `heap_info`, with which such an arena begins, and of the state behind the first one's.
const HEAP_INFO: u64 = 0x20;
const ARENA_STATE: u64 = 0x898;
const PAGE: u64 = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What the program got.
    pub at: u64,
    /// All that it costs, with the header.
    pub bytes: u64,
    pub is_free: bool,
}

impl Chunk {
    /// What the program may use.
    #[must_use]
    pub fn end(&self) -> u64 {
        // The next chunk's first word is this one's last.
        self.at - HEADER + self.bytes + 8
    }
}

/// What each thread of a program keeps of chunks that it has freed.
struct Cache {
    /// Of its chunk.
    bytes: u64,
    lists: usize,
    /// It counts how many more it takes, in place of how many it has.
    counts_room: bool,
}

/// Until glibc 2.41, and since then.
const CACHES: [Cache; 2] = [
    Cache { bytes: 0x290, lists: 64, counts_room: false },
    Cache { bytes: 0x300, lists: 76, counts_room: true },
];

/// All chunks, by address.
#[derive(Debug, Default)]
pub struct Chunks {
    all: Vec<Chunk>,
    /// By pages of each region: number of the first chunk that begins there or behind.
    pages: Vec<Pages>,
}

#[derive(Debug)]
struct Pages {
    start: u64,
    firsts: Vec<u32>,
}

impl Chunks {
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut chunks = Self::default();
        let mut tops = Vec::new();
        for region in snapshot.regions() {
            let first = chunks.all.len();
            if region.name == HEAP {
                tops.extend(chunks.walk(snapshot, region.start, region.end()));
            } else if region.name.is_empty() {
                chunks.anonymous(snapshot, region.start, region.end());
            }
            chunks.index(region.start, region.end(), first);
        }
        chunks.free_lists(snapshot, &tops);
        chunks
    }

    #[must_use]
    pub fn all(&self) -> &[Chunk] {
        &self.all
    }

    /// The chunk that has this address, used or free.
    #[must_use]
    pub fn holding(&self, at: u64) -> Option<u32> {
        let pages = self.pages.partition_point(|pages| pages.start <= at).checked_sub(1)?;
        let pages = &self.pages[pages];
        let page = ((at - pages.start) / PAGE) as usize;
        let from = *pages.firsts.get(page)? as usize;
        let to = *pages.firsts.get(page + 1)? as usize;
        let behind = from + self.all[from..to].partition_point(|chunk| chunk.at <= at);
        let number = behind.checked_sub(1)?;
        (at < self.all[number].end()).then_some(number as u32)
    }

    /// The chunk that begins here.
    #[must_use]
    pub fn at(&self, at: u64) -> Option<u32> {
        self.holding(at).filter(|number| self.all[*number as usize].at == at)
    }

    /// Chunk after chunk; the last one, which is the rest that is free, if it is found.
    fn walk(&mut self, snapshot: &Snapshot, start: u64, end: u64) -> Option<u64> {
        let begin = self.all.len();
        let mut at = start;
        while let Some(header) = snapshot.word(at + 8) {
            let bytes = header & !FLAGS;
            let is_plausible =
                header & MAPPED == 0 && bytes >= SMALLEST && bytes.is_multiple_of(16);
            if !is_plausible || bytes > end - at {
                break;
            }
            let is_last = at + bytes + HEADER > end;
            // The chunk behind knows whether this one is used.
            let next = snapshot.word(at + bytes + 8);
            let is_free = is_last || next.is_none_or(|next| next & IN_USE_BEFORE == 0);
            self.all.push(Chunk { at: at + HEADER, bytes, is_free });
            if is_last {
                return Some(at);
            }
            at += bytes;
        }
        // Where it makes no sense any more nothing is believed of it.
        if self.all.len() - begin < 2 {
            self.all.truncate(begin);
        }
        None
    }

    /// An arena of a thread, or allocations that are so large that each has pages of its own.
    fn anonymous(&mut self, snapshot: &Snapshot, start: u64, end: u64) {
        let mut at = start;
        if start.is_multiple_of(ARENA_ALIGN) && self.arena(snapshot, start, end) {
            return;
        }
        while at + HEADER <= end {
            let header = snapshot.word(at + 8).unwrap_or(0);
            let size = header & !FLAGS;
            // Since glibc 2.42 the size is less the header, and the word before it says of what
            // pages they are.
            let bytes = size.checked_next_multiple_of(PAGE).unwrap_or(0);
            let is_mapped = header & (FLAGS & !IN_USE_BEFORE) == MAPPED
                && snapshot.word(at).is_some_and(|word| word <= 1)
                && (PAGE..=end - at).contains(&bytes)
                && [bytes, bytes - HEADER].contains(&size);
            if is_mapped {
                self.all.push(Chunk { at: at + HEADER, bytes, is_free: false });
            }
            at += if is_mapped { bytes } else { PAGE };
        }
    }

    /// Whether it is one.
    fn arena(&mut self, snapshot: &Snapshot, start: u64, end: u64) -> bool {
        let state = snapshot.word(start).unwrap_or(0);
        let is_first = state == start + HEAP_INFO;
        let first = start + HEAP_INFO + if is_first { ARENA_STATE } else { 0 };
        let first = first.next_multiple_of(16);
        let header = snapshot.word(first + 8).unwrap_or(0);
        if header & OTHER_ARENA == 0 || snapshot.region(state).is_none() {
            return false;
        }
        let before = self.all.len();
        self.walk(snapshot, first, end);
        self.all.len() > before
    }

    fn index(&mut self, start: u64, end: u64, first: usize) {
        if self.all.len() == first {
            return;
        }
        let count = ((end - start) / PAGE) as usize + 1;
        let mut firsts = Vec::with_capacity(count + 1);
        let mut number = first;
        for page in 0..=count as u64 {
            while self.all.get(number).is_some_and(|chunk| chunk.at < start + page * PAGE) {
                number += 1;
            }
            firsts.push(number as u32);
        }
        self.pages.push(Pages { start, firsts });
    }

    /// Chunks that were freed lately look as if they were used.
    fn free_lists(&mut self, snapshot: &Snapshot, tops: &[u64]) {
        for number in 0..self.all.len() {
            let Chunk { at, bytes, .. } = self.all[number];
            for cache in CACHES.iter().filter(|cache| cache.bytes == bytes) {
                let heads = self.heads(snapshot, at, cache).unwrap_or_default();
                heads.into_iter().for_each(|head| self.free_list(snapshot, head, 0));
            }
        }
        for top in tops {
            for (_, state) in main_states(snapshot, *top) {
                for list in 0..10 {
                    let head = snapshot.word(state + 0x10 + 8 * list).unwrap_or(0);
                    self.free_list(snapshot, head, HEADER);
                }
            }
        }
    }

    /// Of a thread's cache: counts, then where its lists begin. Its counts are those of its lists.
    fn heads(&self, snapshot: &Snapshot, at: u64, cache: &Cache) -> Option<Vec<u64>> {
        let bytes = snapshot.bytes(at, 2 * cache.lists)?;
        let counts = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let counts: Vec<u16> = counts.collect();
        let most = counts.iter().copied().max()?;
        let lists = at + 2 * cache.lists as u64;
        let heads: Option<Vec<u64>> =
            (0..cache.lists as u64).map(|list| snapshot.word(lists + 8 * list)).collect();
        let heads = heads?;
        let is_so = heads.iter().zip(counts).all(|(head, count)| {
            let is_empty = if cache.counts_room { count == most } else { count == 0 };
            if is_empty { *head == 0 } else { *head != 0 && self.at(*head).is_some() }
        });
        is_so.then_some(heads)
    }

    /// `offset`: of a chunk's link behind what the list has of it.
    fn free_list(&mut self, snapshot: &Snapshot, head: u64, offset: u64) {
        let mut at = head;
        for _ in 0..self.all.len() {
            let link = at.wrapping_add(offset);
            let Some(number) = self.at(link) else { return };
            self.all[number as usize].is_free = true;
            let next = snapshot.word(link).unwrap_or(0);
            // Links are hidden by their own address since glibc 2.32.
            let shown = next ^ (link >> 12);
            at = if self.at(shown.wrapping_add(offset)).is_some() { shown } else { next };
        }
    }
}

/// Where the main arena's state may be: in some library's data, with the address of the free rest.
fn main_states(snapshot: &Snapshot, top: u64) -> Vec<(usize, u64)> {
    const TOP: u64 = 0x60;
    let is_file = |name: &str| name.starts_with('/') || name.is_empty();
    let regions = snapshot.regions().iter().enumerate();
    let regions =
        regions.filter(|(_, region)| is_file(&region.name) && region.bytes.len() < 1 << 20);
    let mut found = Vec::new();
    for (number, region) in regions {
        let words = region.bytes.chunks_exact(8).zip((region.start..).step_by(8));
        let hits = words.filter(|(word, _)| crate::perl::u64_at(word, 0) == top);
        found.extend(hits.map(|(_, at)| (number, at.wrapping_sub(TOP))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{super::snapshot::Region, *};

    /// A heap of chunks of these sizes, each used or not, and a rest.
    fn heap(sizes: &[(u64, bool)]) -> Snapshot {
        let mut bytes = vec![0; 0x2000];
        let mut at = 0;
        let mut before = true;
        let mut put = |at: u64, value: u64| {
            bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        for (size, used) in sizes {
            put(at + 8, size | u64::from(before));
            (at, before) = (at + size, *used);
        }
        put(at + 8, (0x2000 - at) | u64::from(before));
        Snapshot::of(vec![Region { start: 0x10_000, bytes, name: "[heap]".into() }])
    }

    #[test]
    fn chunks_are_found_with_their_sizes() {
        let chunks = Chunks::of(&heap(&[(0x20, true), (0x1010, false), (0x40, true)]));
        let found: Vec<_> = chunks.all().iter().map(|c| (c.at, c.bytes, c.is_free)).collect();
        let rest = (0x11_080, 0x2000 - 0x1070, true);
        assert_eq!(
            found,
            [(0x10_010, 0x20, false), (0x10_030, 0x1010, true), (0x11_040, 0x40, false), rest]
        );
        assert_eq!((chunks.at(0x10_010), chunks.at(0x10_018)), (Some(0), None));
        assert_eq!((chunks.holding(0x10_018), chunks.holding(0x11_030)), (Some(0), Some(1)));
        assert_eq!((chunks.holding(0x11_047), chunks.holding(0x10_000)), (Some(2), None));
    }

    /// As glibc lays it out, before 2.42 and since then.
    #[test]
    fn pages_of_their_own_are_found() {
        for (size, bytes) in [(0x3000, 0x3000), (0x2ff0, 0x3000)] {
            let mut region = vec![0; 0x5000];
            region[0x1008..0x1010].copy_from_slice(&(size | MAPPED).to_le_bytes());
            let region = Region { start: 0x10_000, bytes: region, name: String::new() };
            let chunks = Chunks::of(&Snapshot::of(vec![region]));
            assert_eq!(chunks.all(), [Chunk { at: 0x11_010, bytes, is_free: false }]);
        }
    }

    #[test]
    fn nonsense_ends_the_walk() {
        let mut wrong = vec![0xff; 0x1000];
        wrong[8..16].copy_from_slice(&0x21_u64.to_le_bytes());
        let region = Region { start: 0x10_000, bytes: wrong, name: "[heap]".into() };
        assert!(Chunks::of(&Snapshot::of(vec![region])).all().is_empty());
    }
}
