//! What a process's mappings are for: a [`Segment`] each, and the files among them. Pure.
//!
//! Memory that a program or a library has besides its file (`.bss`) is anonymous here: the kernel
//! joins it with whatever comes to lie behind it, so that nobody can tell them apart from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::smaps::{Mapping, Pages};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    Heap,
    Stack,
    Anonymous,
    ProgramText,
    ProgramData,
    LibraryText,
    LibraryData,
    File,
    SharedMemory,
    Other,
}

impl Segment {
    pub const ALL: [Self; 10] = [
        Self::Heap,
        Self::Stack,
        Self::Anonymous,
        Self::ProgramText,
        Self::ProgramData,
        Self::LibraryText,
        Self::LibraryData,
        Self::File,
        Self::SharedMemory,
        Self::Other,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous",
            Self::ProgramText => "program text",
            Self::ProgramData => "program data",
            Self::LibraryText => "library text",
            Self::LibraryData => "library data",
            Self::File => "files",
            Self::SharedMemory => "shared memory",
            Self::Other => "other",
        }
    }
}

/// Sums over mappings, of one process or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    pub by_segment: BTreeMap<Segment, Pages>,
    /// Of the program, its libraries and the other files that it has mapped.
    pub by_file: BTreeMap<String, Pages>,
}

impl Segments {
    /// Adds those of a process whose program this is.
    pub fn add(&mut self, mappings: &[Mapping], program: &Path) {
        let code = mappings.iter().filter(|mapping| mapping.is_executable);
        let code: BTreeSet<&str> = code.map(|mapping| mapping.name.as_str()).collect();
        for mapping in mappings {
            let segment = segment(mapping, program, &code);
            self.by_segment.entry(segment).or_default().add(&mapping.pages);
            if is_file(segment) {
                self.by_file.entry(mapping.name.clone()).or_default().add(&mapping.pages);
            }
        }
    }
}

fn is_file(segment: Segment) -> bool {
    use Segment::{File, LibraryData, LibraryText, ProgramData, ProgramText};
    matches!(segment, ProgramText | ProgramData | LibraryText | LibraryData | File)
}

fn segment(mapping: &Mapping, program: &Path, code: &BTreeSet<&str>) -> Segment {
    let name = mapping.name.as_str();
    let is_text = mapping.is_executable;
    match name {
        "[heap]" => Segment::Heap,
        _ if name.starts_with("[stack") => Segment::Stack,
        _ if name.is_empty() || name.starts_with("[anon:") => Segment::Anonymous,
        _ if is_shared_memory(name) => Segment::SharedMemory,
        _ if name.starts_with('[') || !name.starts_with('/') => Segment::Other,
        _ if Path::new(name) == program && is_text => Segment::ProgramText,
        _ if Path::new(name) == program => Segment::ProgramData,
        _ if is_text => Segment::LibraryText,
        _ if code.contains(name) => Segment::LibraryData,
        _ => Segment::File,
    }
}

fn is_shared_memory(name: &str) -> bool {
    let begins = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "[anon_shmem:"];
    begins.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(name: &str, is_executable: bool, rss_bytes: u64) -> Mapping {
        let pages = Pages { rss_bytes, ..Pages::default() };
        Mapping { name: name.to_owned(), is_executable, pages, ..Mapping::default() }
    }

    #[test]
    fn each_mapping_has_its_segment_and_each_file_its_sum() {
        let mappings = [
            mapping("/usr/bin/perl", false, 1),
            mapping("/usr/bin/perl", true, 2),
            mapping("", false, 4),
            mapping("[heap]", false, 8),
            mapping("/lib/libc.so.6", true, 16),
            mapping("/lib/libc.so.6", false, 32),
            mapping("/usr/lib/locale/C.utf8/LC_CTYPE", false, 64),
            mapping("/dev/zero (deleted)", false, 128),
            mapping("[stack]", false, 256),
            mapping("[vdso]", true, 512),
            mapping("anon_inode:[perf_event]", false, 1024),
        ];
        let mut found = Segments::default();
        found.add(&mappings, Path::new("/usr/bin/perl"));
        let rss = |segment| found.by_segment[&segment].rss_bytes;
        assert_eq!((rss(Segment::ProgramData), rss(Segment::ProgramText)), (1, 2));
        assert_eq!((rss(Segment::Anonymous), rss(Segment::Heap), rss(Segment::Stack)), (4, 8, 256));
        assert_eq!((rss(Segment::LibraryText), rss(Segment::LibraryData)), (16, 32));
        assert_eq!((rss(Segment::File), rss(Segment::SharedMemory)), (64, 128));
        assert_eq!(rss(Segment::Other), 1536);
        let files: Vec<_> = found.by_file.iter().map(|(n, p)| (n.as_str(), p.rss_bytes)).collect();
        let locale = ("/usr/lib/locale/C.utf8/LC_CTYPE", 64);
        assert_eq!(files, [("/lib/libc.so.6", 48), ("/usr/bin/perl", 3), locale]);
    }

    #[test]
    fn every_segment_is_listed_and_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Segment::ALL.into_iter().map(Segment::name).collect();
        assert_eq!(names.len(), Segment::ALL.len());
        assert!(Segment::ALL.is_sorted());
    }
}
