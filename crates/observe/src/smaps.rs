//! The text of `/proc/PID/smaps` and `smaps_rollup`: what of each mapping is in memory, and whose
//! it is. [`Pages`] are its figures, in bytes. Pure: who reads the files is `footprint.rs`.

/// Of a mapping, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    pub rss_bytes: u64,
    /// Each page divided by the number of those that have it.
    pub pss_bytes: u64,
    pub shared_clean_bytes: u64,
    pub shared_dirty_bytes: u64,
    pub private_clean_bytes: u64,
    pub private_dirty_bytes: u64,
    /// Pages of no file, and those of files that were written to and so are no longer the file's.
    pub anonymous_bytes: u64,
    pub swap_bytes: u64,
    /// What is swapped out, divided by those that have it.
    pub swap_pss_bytes: u64,
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub is_executable: bool,
    pub is_readable: bool,
    pub is_writable: bool,
    /// What is written there stays the process's own.
    pub is_private: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// As the kernel writes it: a file, `[heap]`, nothing.
    pub name: String,
    pub pages: Pages,
}

impl Pages {
    /// Pages that no other process has: what would come back if this one ended.
    #[must_use]
    pub fn uss_bytes(&self) -> u64 {
        self.private_clean_bytes.saturating_add(self.private_dirty_bytes)
    }

    /// What others have, too: files, shared memory, and what is not yet copied since a fork.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.rss_bytes.saturating_sub(self.uss_bytes())
    }

    pub fn add(&mut self, other: &Self) {
        let fields = self.fields().into_iter().zip({
            let mut other = *other;
            other.fields().map(|(name, bytes)| (name, *bytes))
        });
        for ((_, sum), (_, more)) in fields {
            *sum = sum.saturating_add(more);
        }
    }

    /// A line like `Pss:    12 kB`; another one changes nothing.
    fn take(&mut self, line: &str) {
        let Some((key, rest)) = line.split_once(':') else { return };
        let kilobytes = rest.trim().strip_suffix(" kB").and_then(|number| number.parse().ok());
        let Some(kilobytes) = kilobytes else { return };
        if let Some((_, bytes)) = self.fields().into_iter().find(|(name, _)| *name == key) {
            *bytes = 1024_u64.saturating_mul(kilobytes);
        }
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 9] {
        [
            ("Rss", &mut self.rss_bytes),
            ("Pss", &mut self.pss_bytes),
            ("Shared_Clean", &mut self.shared_clean_bytes),
            ("Shared_Dirty", &mut self.shared_dirty_bytes),
            ("Private_Clean", &mut self.private_clean_bytes),
            ("Private_Dirty", &mut self.private_dirty_bytes),
            ("Anonymous", &mut self.anonymous_bytes),
            ("Swap", &mut self.swap_bytes),
            ("SwapPss", &mut self.swap_pss_bytes),
        ]
    }
}

/// Of `smaps_rollup`; `None` where there is not even its first figure.
#[must_use]
pub fn rollup(text: &str) -> Option<Pages> {
    let mut pages = Pages::default();
    text.lines().for_each(|line| pages.take(line));
    text.lines().any(|line| line.starts_with("Rss:")).then_some(pages)
}

/// Of `smaps`, or of `maps`, which has no figures: every mapping. What is no line of
/// it is passed over.
#[must_use]
pub fn mappings(text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        match head(line) {
            Some(mapping) => found.push(mapping),
            None => {
                if let Some(last) = found.last_mut() {
                    last.pages.take(line);
                }
            }
        }
    }
    found
}

/// `7f00-7f01 r-xp 00000000 fe:00 12     /usr/bin/perl`
fn head(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    // Permissions, offset, device, inode; what is left is the name, spaces and all.
    let mut words = rest.splitn(5, ' ');
    let permissions = words.next()?;
    let offset = words.next()?;
    let name = words.nth(2).unwrap_or_default();
    Some(Mapping {
        start: address(start)?,
        end: address(end)?,
        is_executable: permissions.contains('x'),
        is_readable: permissions.contains('r'),
        is_writable: permissions.contains('w'),
        is_private: permissions.ends_with('p'),
        offset: address(offset)?,
        name: name.trim_start().to_owned(),
        pages: Pages::default(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
55e0-55e2 r-xp 00002000 fe:00 247278                     /opt/a program (deleted)
Size:                 24 kB
Rss:                  20 kB
Pss:                   9 kB
Shared_Clean:         12 kB
Private_Clean:         8 kB
VmFlags: rd ex mr mw me
55e2-55e3 rw-p 00000000 00:00 0
Rss:                   4 kB
Pss:                   4 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
Swap:                  8 kB
SwapPss:               4 kB
";

    #[test]
    fn mappings_have_their_names_and_figures() {
        let found = mappings(TEXT);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "/opt/a program (deleted)");
        assert_eq!((found[0].start, found[0].end, found[0].is_executable), (0x55e0, 0x55e2, true));
        assert_eq!(found[0].offset, 0x2000);
        let pages = found[0].pages;
        assert_eq!((pages.rss_bytes, pages.pss_bytes), (20 << 10, 9 << 10));
        assert_eq!((pages.uss_bytes(), pages.shared_bytes()), (8 << 10, 12 << 10));
        assert_eq!((found[1].name.as_str(), found[1].is_executable), ("", false));
        let pages = found[1].pages;
        assert_eq!((pages.uss_bytes(), pages.anonymous_bytes), (4 << 10, 4 << 10));
        assert_eq!((pages.swap_bytes, pages.swap_pss_bytes), (8 << 10, 4 << 10));
    }

    #[test]
    fn figures_add_up() {
        let mut sum = Pages::default();
        mappings(TEXT).iter().for_each(|mapping| sum.add(&mapping.pages));
        assert_eq!((sum.rss_bytes, sum.pss_bytes, sum.uss_bytes()), (24 << 10, 13 << 10, 12 << 10));
        assert_eq!((sum.swap_bytes, sum.shared_clean_bytes), (8 << 10, 12 << 10));
    }

    #[test]
    fn a_rollup_is_one_set_of_figures() {
        let text = "5604-7fff ---p 00000000 00:00 0   [rollup]\nRss:  1668 kB\nPss:  242 kB\n\
                    Pss_Dirty:  112 kB\nPrivate_Clean:  40 kB\nPrivate_Dirty:  112 kB\n";
        let pages = rollup(text).expect("figures");
        assert_eq!((pages.rss_bytes, pages.pss_bytes), (1668 << 10, 242 << 10));
        assert_eq!(pages.uss_bytes(), 152 << 10);
        assert_eq!(rollup(""), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC*", cut in 0_usize..600, huge in any::<u64>()) {
            let _ = (mappings(&text), rollup(&text));
            let cut = TEXT.get(..cut.min(TEXT.len())).unwrap_or_default();
            prop_assert!(mappings(cut).len() <= 2);
            let mixed = format!("{cut}\n{text}\nRss: {huge} kB\nPrivate_Dirty: {huge} kB\n{cut}");
            let mut sum = Pages::default();
            mappings(&mixed).iter().for_each(|mapping| sum.add(&mapping.pages));
            let _ = (sum.uss_bytes(), sum.shared_bytes());
        }
    }
}
