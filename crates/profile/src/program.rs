//! The file of a process that holds perl, and where its symbols are in memory. Reads `/proc` and
//! the file; knows nothing of perl's structures.

use std::{
    collections::HashMap,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use drom_observe::smaps::{Mapping, mappings};
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A symbol of it tells that a file holds perl.
const MARK: &str = "PL_op_name";
const WANTED: [&str; 11] = [
    MARK,
    "PL_revision",
    "PL_version",
    "PL_subversion",
    "PL_bincompat_options",
    "PL_curinterp",
    "PL_interp_size",
    "PL_opargs",
    "PL_curcop",
    "PL_curstackinfo",
    "PL_thr_key",
];

/// Of the file that holds perl: addresses in the process and sizes of what was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Symbols {
    pub file: PathBuf,
    /// Where its functions are, and all else of it that can be run.
    pub code: Range<u64>,
    /// By its name.
    pub is_program_perl: bool,
    found: HashMap<String, (u64, u64)>,
}

/// A line of `/proc/PID/maps` that stands for the beginning of a file.
struct Mapped {
    start: u64,
    /// As the kernel writes it.
    range: String,
    file: PathBuf,
}

impl Symbols {
    /// Of the process's libperl, or of its program.
    pub fn of(pid: i32) -> Result<Self, Error> {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let link = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        // It was replaced since, as by an upgrade.
        let text = link.to_string_lossy();
        let program = PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(&text));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let is_program_perl = name.starts_with("perl");
        for mapped in candidates(pid, &program)? {
            let inside = root.join(mapped.file.strip_prefix("/").unwrap_or(&mapped.file));
            // What was replaced is still there for who has it mapped.
            let kept = format!("/proc/{pid}/map_files/{}", mapped.range);
            let read = fs::read(kept).or_else(|_| fs::read(&inside));
            let bytes = match read.or_else(|_| fs::read(&mapped.file)) {
                Ok(bytes) => bytes,
                Err(source) => return Err(Error::File { pid, file: mapped.file, source }),
            };
            let found = symbols(&bytes, mapped.start, &mapped.file)?;
            if found.contains_key(MARK) {
                let code = executable(&bytes, mapped.start);
                return Ok(Self { file: mapped.file, code, is_program_perl, found });
            }
        }
        Err(Error::NoPerl { pid })
    }

    pub fn address(&self, name: &str) -> Option<u64> {
        self.found.get(name).map(|(address, _)| *address)
    }

    pub fn size(&self, name: &str) -> Option<u64> {
        self.found.get(name).map(|(_, size)| *size)
    }
}

/// What a process has mapped, by address. Names of files need not be letters.
pub fn maps(pid: i32) -> Result<Vec<Mapping>, Error> {
    let text = fs::read(format!("/proc/{pid}/maps")).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NoProcess { pid },
        _ => Error::NotAllowed { pid, source },
    })?;
    Ok(mappings(&String::from_utf8_lossy(&text)))
}

/// Libraries with perl in their names first; then the program.
fn candidates(pid: i32, program: &Path) -> Result<Vec<Mapped>, Error> {
    let begins = maps(pid)?.into_iter().filter_map(begin);
    let (mut libraries, mut programs) = (Vec::new(), Vec::new());
    for mapped in begins {
        let name = mapped.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("libperl.so") {
            libraries.push(mapped);
        } else if mapped.file == program {
            programs.push(mapped);
        }
    }
    libraries.append(&mut programs);
    Ok(libraries)
}

fn begin(mapping: Mapping) -> Option<Mapped> {
    let Mapping { start, end, offset, name, .. } = mapping;
    let file = PathBuf::from(name.strip_suffix(" (deleted)").unwrap_or(&name));
    let is_begin = offset == 0 && name.starts_with('/');
    is_begin.then(|| Mapped { start, range: format!("{start:x}-{end:x}"), file })
}

fn symbols(bytes: &[u8], start: u64, file: &Path) -> Result<HashMap<String, (u64, u64)>, Error> {
    let wrong =
        |error: object::Error| Error::Program { file: file.to_owned(), reason: error.to_string() };
    let elf = object::File::parse(bytes).map_err(wrong)?;
    let moved = moved(&elf, start);
    let symbols = elf.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let wanted = symbols.filter_map(|symbol| {
        let name = WANTED.into_iter().find(|name| symbol.name() == Ok(name))?;
        Some((name.to_owned(), (symbol.address().wrapping_add(moved), symbol.size())))
    });
    Ok(wanted.collect())
}

/// How far from its addresses in the file it lies.
fn moved(elf: &object::File<'_>, start: u64) -> u64 {
    let lowest = elf.segments().map(|segment| segment.address()).min().unwrap_or(0);
    start.wrapping_sub(lowest & !0xfff)
}

fn executable(bytes: &[u8], start: u64) -> Range<u64> {
    const MAY_RUN: u32 = 1;
    let Ok(elf) = object::File::parse(bytes) else { return 0..0 };
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & MAY_RUN != 0);
    let code = elf.segments().find(|segment| is_code(segment.flags()));
    let moved = moved(&elf, start);
    code.map_or(0..0, |code| {
        let at = code.address().wrapping_add(moved);
        at..at.wrapping_add(code.size())
    })
}
