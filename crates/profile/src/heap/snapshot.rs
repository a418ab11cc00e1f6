//! What a process had in its memory at one moment: a [`Snapshot`] copies the pages that it can
//! write to while the process stands still. What they mean is other files' business.

use std::{fs::File, io, os::unix::fs::FileExt, time::Duration};

use drom_observe::{clock, smaps::Mapping};

use super::stop::still;
use crate::{
    error::Error,
    memory::{Memory, Part, Remote},
    perl::gone,
    program::maps,
};

pub const HEAP: &str = "[heap]";

const PAGE: u64 = 4_096;
const CALL_BYTES: usize = 1 << 30;

/// Pages one after the other.
#[derive(Clone, Debug)]
pub struct Region {
    pub start: u64,
    pub bytes: Vec<u8>,
    /// A file, `[heap]`, `[stack]`, or nothing.
    pub name: String,
}

#[derive(Debug, Default)]
pub struct Snapshot {
    /// By address.
    regions: Vec<Region>,
    /// Of threads: below them in their regions is nothing of any more.
    pub stack_tops: Vec<u64>,
    /// How long the process stood still; `None` where it could not be stopped.
    pub pause: Option<Duration>,
}

impl Snapshot {
    /// # Errors
    /// That it is gone, or not ours to read.
    pub fn take(pid: i32) -> Result<Self, Error> {
        let mut ready: Vec<Region> = places(pid)?.into_iter().map(Region::of).collect();
        ready.iter_mut().for_each(Region::touch);
        let began = clock::monotonic_ns();
        let taken = still(pid, |tops| {
            let places = places(pid)?.into_iter();
            let mut taken: Vec<Region> =
                places.map(|place| Region::of_ready(place, &mut ready)).collect();
            copy(pid, &mut taken).map_err(|source| gone(pid, source))?;
            Ok((taken, tops))
        });
        let passed = Duration::from_nanos(clock::monotonic_ns() - began);
        let (regions, tops) = taken?;
        let pause = tops.is_some().then_some(passed);
        Ok(Self { regions, stack_tops: tops.unwrap_or_default(), pause })
    }

    #[cfg(test)]
    pub fn of(mut regions: Vec<Region>) -> Self {
        regions.sort_by_key(|region| region.start);
        Self { regions, ..Self::default() }
    }

    /// The same with other bytes.
    #[cfg(test)]
    pub fn changed(&self, change: impl FnOnce(&mut [Region])) -> Self {
        let mut regions = self.regions.clone();
        change(&mut regions);
        Self { regions, ..Self::default() }
    }

    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region that has this address.
    #[must_use]
    pub fn region(&self, at: u64) -> Option<(usize, &Region)> {
        let number = self.regions.partition_point(|region| region.start <= at).checked_sub(1)?;
        let region = &self.regions[number];
        (at < region.end()).then_some((number, region))
    }

    #[must_use]
    pub fn bytes(&self, at: u64, length: usize) -> Option<&[u8]> {
        let (_, region) = self.region(at)?;
        let from = (at - region.start) as usize;
        region.bytes.get(from..from.checked_add(length)?)
    }

    #[must_use]
    pub fn word(&self, at: u64) -> Option<u64> {
        self.bytes(at, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
    }

    #[must_use]
    pub fn half(&self, at: u64) -> Option<u32> {
        self.bytes(at, 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four")))
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        self.regions.iter().map(|region| region.bytes.len() as u64).sum()
    }
}

/// The addresses of the process, in what was copied of it.
impl Memory for Snapshot {
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()> {
        for part in parts {
            if let Some(bytes) = self.bytes(part.at, part.into.len()) {
                part.into.copy_from_slice(bytes);
                part.is_read = true;
            }
        }
        Ok(())
    }
}

impl Region {
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn of(place: Mapping) -> Self {
        let bytes = vec![0; (place.end - place.start) as usize];
        Self { start: place.start, bytes, name: place.name }
    }

    /// With the memory that was made ready for it.
    fn of_ready(place: Mapping, ready: &mut [Self]) -> Self {
        let same = |old: &&mut Self| old.start == place.start && !old.bytes.is_empty();
        let Some(old) = ready.iter_mut().find(same) else { return Self::of(place) };
        let mut bytes = std::mem::take(&mut old.bytes);
        bytes.resize((place.end - place.start) as usize, 0);
        Self { start: place.start, bytes, name: place.name }
    }

    /// The kernel gives memory when it is written to: not while somebody waits.
    fn touch(&mut self) {
        self.bytes
            .iter_mut()
            .step_by(PAGE as usize)
            .for_each(|byte| *byte = std::hint::black_box(0));
    }
}

/// What the process can write to and shares with nobody.
fn places(pid: i32) -> Result<Vec<Mapping>, Error> {
    Ok(joined(maps(pid)?.into_iter().filter(is_its_own)))
}

fn is_its_own(mapping: &Mapping) -> bool {
    mapping.is_readable
        && mapping.is_writable
        && mapping.is_private
        && !mapping.is_executable
        && !mapping.name.starts_with("[v")
}

/// After a fork the kernel may keep the one heap in several parts.
fn joined(places: impl Iterator<Item = Mapping>) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    for place in places {
        match all.last_mut() {
            Some(last) if last.name == HEAP && place.name == HEAP && last.end == place.start => {
                last.end = place.end;
            }
            _ => all.push(place),
        }
    }
    all
}

/// Only pages that are there: to read others would make them.
fn copy(pid: i32, regions: &mut [Region]) -> io::Result<()> {
    let present = File::open(format!("/proc/{pid}/pagemap")).ok();
    let mut parts = Vec::new();
    for region in regions {
        let mut at = region.start;
        let mut rest = &mut region.bytes[..];
        for (pages, is_there) in runs(present.as_ref(), region.start, rest.len() as u64 / PAGE) {
            let (run, behind) = rest.split_at_mut((pages * PAGE) as usize);
            if is_there {
                let places = (at..).step_by(CALL_BYTES);
                let pieces = places.zip(run.chunks_mut(CALL_BYTES));
                parts.extend(pieces.map(|(at, piece)| Part::new(at, piece)));
            }
            at += pages * PAGE;
            rest = behind;
        }
    }
    // The kernel copies no more than 2 GiB in one call.
    let mut from = 0;
    while from < parts.len() {
        let mut bytes = 0;
        let mut fits = |part: &Part<'_>| {
            bytes += part.into.len();
            bytes <= CALL_BYTES
        };
        let count = parts[from..].iter().take_while(|part| fits(part)).count().max(1);
        Remote { pid }.read(&mut parts[from..from + count])?;
        from += count;
    }
    Ok(())
}

/// Pages one after the other, and whether they are there (in memory, or swapped out).
fn runs(pagemap: Option<&File>, start: u64, pages: u64) -> Vec<(u64, bool)> {
    const IS_THERE: u64 = 0b11 << 62;
    let mut entries = vec![0; pages as usize * 8];
    let read = pagemap.map(|file| file.read_exact_at(&mut entries, start / PAGE * 8));
    if !matches!(read, Some(Ok(()))) {
        return vec![(pages, true)];
    }
    let there = entries.chunks_exact(8).map(|entry| crate::perl::u64_at(entry, 0) & IS_THERE != 0);
    let mut runs: Vec<(u64, bool)> = Vec::new();
    for is_there in there {
        match runs.last_mut() {
            Some((count, same)) if *same == is_there => *count += 1,
            _ => runs.push((1, is_there)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use drom_observe::smaps::mappings;

    use super::*;

    fn region(line: &str) -> Option<Region> {
        mappings(line).into_iter().find(is_its_own).map(Region::of)
    }

    #[test]
    fn lines_of_maps_are_read() {
        let found = region("7f00-9f00 rw-p 00000000 fe:00 12                     /usr/bin/a b");
        let found = found.expect("a region");
        assert_eq!((found.start, found.bytes.len()), (0x7f00, 0x2000));
        assert_eq!(found.name, "/usr/bin/a b");
        assert!(region("7f00-9f00 r--p 00000000 fe:00 12   /usr/bin/perl").is_none());
        assert!(region("7f00-9f00 rw-p 00000000 00:00 0    [vvar]").is_none());
        assert!(region("nonsense").is_none());
    }

    #[test]
    fn a_heap_in_parts_is_one() {
        let maps = "1000-2000 rw-p 00000000 00:00 0    [heap]\n\
                    2000-4000 rw-p 00000000 00:00 0    [heap]\n\
                    5000-6000 rw-p 00000000 00:00 0    [heap]\n\
                    6000-7000 rw-p 00000000 00:00 0 \n\
                    7000-8000 rw-p 00000000 00:00 0 \n";
        let found = joined(mappings(maps).into_iter().filter(is_its_own));
        let places: Vec<_> = found.iter().map(|place| (place.start, place.end)).collect();
        assert_eq!(
            places,
            [(0x1000, 0x4000), (0x5000, 0x6000), (0x6000, 0x7000), (0x7000, 0x8000)]
        );
    }

    #[test]
    fn addresses_are_found_and_others_are_not() {
        let bytes = (0..32).collect();
        let snapshot = Snapshot::of(vec![Region { start: 0x1000, bytes, name: String::new() }]);
        assert_eq!(snapshot.half(0x1004), Some(0x0706_0504));
        assert_eq!(
            snapshot.word(0x1018).map(u64::to_le_bytes),
            Some([24, 25, 26, 27, 28, 29, 30, 31])
        );
        assert_eq!(snapshot.word(0x1019), None);
        assert_eq!((snapshot.word(0xfff), snapshot.word(0x2000)), (None, None));
        assert_eq!(snapshot.bytes(0x1000, usize::MAX), None);
    }
}
