//! One process taken apart: what its memory is made of, its open files, limits, and the names in
//! its environment. Values of variables are not read further than to find where they end.

use std::{collections::HashMap, fs, io};

/// What could be read; what may not is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anatomy {
    pub executable: Option<String>,
    pub folder: Option<String>,
    pub peak_rss_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// From and to disks (or what stands for them), since it began.
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    /// Largest share of memory first.
    pub mappings: Vec<Mapping>,
    pub files: Vec<OpenFile>,
    pub limits: Vec<Limit>,
    pub variables: Vec<String>,
}

/// All mappings of one file, or of one kind of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// A path, or a name in brackets.
    pub name: String,
    pub has_code: bool,
    pub count: u64,
    pub size_bytes: u64,
    pub rss_bytes: u64,
    pub pss_bytes: u64,
    /// Private: what would come back.
    pub uss_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    pub fd: u32,
    /// As the kernel has it: a path, `socket:[4711]`, `pipe:[12]`.
    pub target: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub name: String,
    pub soft: String,
    pub hard: String,
    pub unit: String,
}

impl Mapping {
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.has_code && self.name.starts_with('/')
    }
}

impl Anatomy {
    /// # Errors
    /// That there is no such process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let text = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let lossy = |name: &str| String::from_utf8_lossy(&text(name)).into_owned();
        let link = |name: &str| {
            let to = fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
            Some(to.to_string_lossy().into_owned())
        };
        let io = lossy("io");
        Ok(Self {
            executable: link("exe"),
            folder: link("cwd"),
            peak_rss_bytes: value(&status, "VmHWM:").map(|kb| kb.saturating_mul(1024)),
            virtual_bytes: value(&status, "VmSize:").map(|kb| kb.saturating_mul(1024)),
            swap_bytes: value(&status, "VmSwap:").map(|kb| kb.saturating_mul(1024)),
            read_bytes: value(&io, "read_bytes:"),
            written_bytes: value(&io, "write_bytes:"),
            mappings: mappings(&lossy("smaps")),
            files: open_files(pid),
            limits: limits(&lossy("limits")),
            variables: variables(&text("environ")),
        })
    }
}

fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Of `/proc/PID/smaps`: a line of addresses, then its figures.
fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut places = HashMap::new();
    let mut at = None;
    for line in smaps.lines() {
        if let Some((name, size_bytes, has_code)) = addresses(line) {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                found.push(Mapping { name, ..Mapping::default() });
                found.len() - 1
            });
            let mapping = &mut found[place];
            mapping.count += 1;
            mapping.size_bytes = mapping.size_bytes.saturating_add(size_bytes);
            mapping.has_code |= has_code;
            at = Some(place);
        } else if let Some(place) = at {
            add(&mut found[place], line);
        }
    }
    found.sort_by(|a, b| b.pss_bytes.cmp(&a.pss_bytes).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Name, length and whether there is code: `from-to rwxp offset device inode   name`.
fn addresses(line: &str) -> Option<(String, u64, bool)> {
    let mut words = line.splitn(6, ' ');
    let (from, to) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    let size_bytes = address(to)?.checked_sub(address(from)?)?;
    let has_code = words.next()?.contains('x');
    let name = words.nth(3).unwrap_or_default().trim();
    let name = if name.is_empty() { "[anonymous]" } else { name };
    Some((name.to_owned(), size_bytes, has_code))
}

fn add(mapping: &mut Mapping, line: &str) {
    let Some((key, figure)) = line.split_once(':') else { return };
    let kb = || figure.split_ascii_whitespace().next()?.parse::<u64>().ok();
    let sum = match key {
        "Rss" => &mut mapping.rss_bytes,
        "Pss" => &mut mapping.pss_bytes,
        "Private_Clean" | "Private_Dirty" => &mut mapping.uss_bytes,
        _ => return,
    };
    *sum = sum.saturating_add(kb().unwrap_or(0).saturating_mul(1024));
}

fn open_files(pid: i32) -> Vec<OpenFile> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let file = |entry: fs::DirEntry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
        Some(OpenFile { fd, target })
    };
    let mut files: Vec<OpenFile> = entries.flatten().filter_map(file).collect();
    files.sort_by_key(|file| file.fd);
    files
}

/// A table in columns, whose names have single blanks in them.
fn limits(text: &str) -> Vec<Limit> {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Vec::new() };
    let at = |name: &str| head.find(name);
    let places = at("Soft").zip(at("Hard")).zip(at("Units"));
    let Some(((soft, hard), unit)) = places else { return Vec::new() };
    let limit = |line: &str| {
        let part = |from: usize, to: usize| {
            let to = to.min(line.len());
            line.get(from.min(to)..to).map(|part| part.trim().to_owned())
        };
        Some(Limit {
            name: part(0, soft)?,
            soft: part(soft, hard)?,
            hard: part(hard, unit)?,
            unit: part(unit, usize::MAX)?,
        })
    };
    lines.filter_map(limit).collect()
}

/// Names alone.
fn variables(environ: &[u8]) -> Vec<String> {
    let names = environ.split(|byte| *byte == 0).filter_map(|entry| {
        let end = entry.iter().position(|byte| *byte == b'=')?;
        Some(String::from_utf8_lossy(&entry[..end]).into_owned())
    });
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMAPS: &str = "\
55d0-55d2 r--p 00000000 08:01 7      /usr/lib/lib c.so
Rss:   8 kB
Pss:   2 kB
Private_Clean:   4 kB
55d2-55d3 r-xp 00000000 08:01 7      /usr/lib/lib c.so
Rss:   4 kB
Pss:   1 kB
VmFlags: rd ex
7f00-7f08 rw-p 00000000 00:00 0 
Rss:   8 kB
Pss:   8 kB
Private_Dirty:   8 kB
";

    #[test]
    fn mappings_of_one_file_are_one() {
        let found = mappings(SMAPS);
        let names: Vec<&str> = found.iter().map(|mapping| &*mapping.name).collect();
        assert_eq!(names, ["[anonymous]", "/usr/lib/lib c.so"]);
        let library = &found[1];
        assert!(library.is_library() && !found[0].is_library());
        let sizes = (library.count, library.size_bytes, library.rss_bytes);
        assert_eq!((sizes, library.pss_bytes, library.uss_bytes), ((2, 3, 12288), 3072, 4096));
    }

    #[test]
    fn values_of_variables_are_not_told() {
        let names = variables(b"PATH=/bin:/x=y\0DB_PASSWORD=secret\0broken\0A=\0=odd\0");
        assert_eq!(names, ["A", "DB_PASSWORD", "PATH"]);
    }

    #[test]
    fn limits_are_found_in_their_columns() {
        let text = "Limit                     Soft Limit    Hard Limit    Units     \n\
                    Max open files            1024          1048576       files     \n\
                    Max nice priority         0             0             \n";
        let found = limits(text);
        let first = &found[0];
        assert_eq!((&*first.name, &*first.soft), ("Max open files", "1024"));
        assert_eq!((&*first.hard, &*first.unit), ("1048576", "files"));
        assert_eq!((&*found[1].name, &*found[1].unit), ("Max nice priority", ""));
        assert!(limits("").is_empty() && limits("nothing\nelse").is_empty());
    }

    #[test]
    fn this_process_can_be_taken_apart() {
        let own = Anatomy::of(std::process::id() as i32).expect("ourselves");
        assert!(own.executable.is_some() && own.peak_rss_bytes > Some(0));
        assert!(own.mappings.iter().any(Mapping::is_library), "{:?}", own.mappings);
        assert!(own.limits.iter().any(|limit| limit.name == "Max open files"));
        assert!(!own.files.is_empty() && own.variables.contains(&"PATH".to_owned()));
        assert!(Anatomy::of((1 << 22) + 1).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "[0-9a-f \\-:\\n\\PC]{0,200}", cut in 0..300_usize) {
            let smaps: String = SMAPS.chars().take(cut).collect();
            let _ = (mappings(&format!("{smaps}{text}")), mappings(&text));
            let head = "Limit  Soft Limit  Hard Limit  Units\n";
            let _ = (limits(&format!("{head}{text}")), limits(&text));
            prop_assert!(variables(text.as_bytes()).is_empty() || text.contains('='));
        }
    }
}
