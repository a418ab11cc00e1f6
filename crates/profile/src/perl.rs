//! A perl in another process: which one it is, where its interpreter is, and what its numbers mean.

use std::{io, ops::Range, sync::Arc};

use crate::{
    abi::{self, Fingerprint, Layout},
    error::Error,
    memory::{Memory, Part, Remote},
    program::Symbols,
};

/// Where what runs is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All in one structure.
    Interpreter(u64),
    /// Variables of their own, of a perl without `MULTIPLICITY`.
    Globals { curcop: u64, curstackinfo: u64 },
}

#[derive(Clone, Debug)]
pub struct Perl {
    pub layout: Layout,
    pub place: Place,
    pub ops: Arc<Ops>,
    /// By which each thread finds the interpreter that it runs (`pthread_getspecific`).
    pub thread_key: Option<u32>,
    /// `sizeof(struct interpreter)`, which perl exports.
    pub interpreter_bytes: u64,
    /// Where its functions are.
    pub code: Range<u64>,
    /// Its program is not perl, and may have made any number of interpreters.
    pub is_embedded: bool,
}

/// Numbers of the operators that mean something here, and everybody's name.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    pub names: Vec<String>,
    pub entersub: u16,
    /// Of a place where one was.
    pub freed: u16,
    /// What each takes at most, where nothing else is known of it.
    pub bytes: Vec<u32>,
}

impl Perl {
    /// Looks at a living process.
    ///
    /// # Errors
    /// That it is none, has no perl, or one that is not known.
    pub fn attach(pid: i32) -> Result<Self, Error> {
        Self::of(&Remote { pid }, &Symbols::of(pid)?, pid)
    }

    /// # Errors
    /// As above.
    pub fn of(memory: &impl Memory, symbols: &Symbols, pid: i32) -> Result<Self, Error> {
        let denied = |source: io::Error| gone(pid, source);
        let fingerprint = fingerprint(memory, symbols).map_err(denied)?;
        // The program is being loaded.
        if fingerprint.revision == 0 {
            return Err(Error::NoInterpreter { pid });
        }
        let version =
            format!("{}.{}.{}", fingerprint.revision, fingerprint.version, fingerprint.subversion);
        let layout = Layout::of(&fingerprint).ok_or_else(|| Error::Unknown {
            pid,
            version,
            seen: format!("{fingerprint:?} in {}", symbols.file.display()),
        })?;
        let place = place(memory, symbols).map_err(denied)?;
        let place = place.ok_or(Error::NoInterpreter { pid })?;
        let ops = Arc::new(ops(memory, symbols).map_err(denied)?);
        let thread_key = thread_key(memory, symbols).map_err(denied)?;
        let interpreter_bytes = interpreter_bytes(memory, symbols).map_err(denied)?;
        let code = symbols.code.clone();
        let is_embedded = !symbols.is_program_perl;
        Ok(Self { layout, place, ops, thread_key, interpreter_bytes, code, is_embedded })
    }
}

impl Perl {
    /// Where the running statement and the running stack are told.
    #[must_use]
    pub fn running(&self) -> (u64, u64) {
        match self.place {
            Place::Globals { curcop, curstackinfo } => (curcop, curstackinfo),
            Place::Interpreter(at) => (
                at + self.layout.interpreter_curcop as u64,
                at + self.layout.interpreter_curstackinfo as u64,
            ),
        }
    }

    #[must_use]
    pub fn interpreter(&self) -> Option<u64> {
        match self.place {
            Place::Interpreter(at) => Some(at),
            Place::Globals { .. } => None,
        }
    }
}

/// Why nothing more can be read.
pub fn gone(pid: i32, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH) => Error::Ended { pid },
        _ => Error::NotAllowed { pid, source },
    }
}

fn fingerprint(memory: &impl Memory, symbols: &Symbols) -> io::Result<Fingerprint> {
    let byte = |name: &str| -> io::Result<u8> {
        let mut byte = [0];
        memory.bytes(symbols.address(name).unwrap_or(0), &mut byte)?;
        Ok(byte[0])
    };
    let options = symbols.address("PL_bincompat_options").unwrap_or(0);
    let options = text(memory, options, 1_024)?;
    Ok(Fingerprint {
        revision: byte("PL_revision")?,
        version: byte("PL_version")?,
        subversion: byte("PL_subversion")?,
        has_threads: options.contains("USE_ITHREADS"),
    })
}

fn place(memory: &impl Memory, symbols: &Symbols) -> io::Result<Option<Place>> {
    if let Some(at) = symbols.address("PL_curinterp") {
        let interpreter = memory.word(at)?.filter(|interpreter| *interpreter != 0);
        return Ok(interpreter.map(Place::Interpreter));
    }
    let globals = symbols.address("PL_curcop").zip(symbols.address("PL_curstackinfo"));
    Ok(globals.map(|(curcop, curstackinfo)| Place::Globals { curcop, curstackinfo }))
}

fn interpreter_bytes(memory: &impl Memory, symbols: &Symbols) -> io::Result<u64> {
    let mut bytes = [0; 2];
    memory.bytes(symbols.address("PL_interp_size").unwrap_or(0), &mut bytes)?;
    Ok(u16_at(&bytes, 0).into())
}

fn thread_key(memory: &impl Memory, symbols: &Symbols) -> io::Result<Option<u32>> {
    let Some(at) = symbols.address("PL_thr_key") else { return Ok(None) };
    let mut key = [0; 4];
    Ok(memory.bytes(at, &mut key)?.then(|| u32::from_le_bytes(key)))
}

/// Whether what lies there can be one: its stacks end where perl has begun.
pub fn is_interpreter(memory: &impl Memory, layout: &Layout, at: u64) -> io::Result<bool> {
    const STACKS_MAX: usize = 1_000;
    let first = at.wrapping_add(layout.interpreter_curstackinfo as u64);
    let mut stack = memory.word(first)?.unwrap_or(0);
    for _ in 0..STACKS_MAX {
        let mut bytes = [0; abi::SI_BYTES];
        if stack == 0 || !memory.bytes(stack, &mut bytes)? {
            return Ok(false);
        }
        let [top, max, kind] =
            [abi::SI_CXIX, abi::SI_CXMAX, layout.si_type].map(|at| u32_at(&bytes, at) as i32);
        stack = u64_at(&bytes, abi::SI_PREV);
        if !(-1..=max).contains(&top) || (kind == abi::SI_TYPE_MAIN) != (stack == 0) {
            return Ok(false);
        }
        if stack == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Longer names of operators there are none.
const OP_NAME_MAX: usize = 32;

fn ops(memory: &impl Memory, symbols: &Symbols) -> io::Result<Ops> {
    let table = symbols.address("PL_op_name").zip(symbols.size("PL_op_name"));
    let Some((at, size)) = table else { return Ok(Ops::default()) };
    let mut pointers = vec![0; size as usize];
    memory.bytes(at, &mut pointers)?;
    let mut texts = vec![[0; OP_NAME_MAX]; pointers.len() / 8];
    let places = pointers.chunks_exact(8).map(|bytes| u64_at(bytes, 0));
    let parts = texts.iter_mut().zip(places);
    let mut parts: Vec<Part<'_>> = parts.map(|(text, at)| Part::new(at, text)).collect();
    memory.read(&mut parts)?;
    let names: Vec<String> = texts.iter().map(|text| until_nul(text)).collect();
    let number = |wanted: &str| {
        names.iter().position(|name| name == wanted).map_or(u16::MAX, |at| at as u16)
    };
    let (entersub, freed) = (number("entersub"), number("freed"));
    let bytes = op_bytes(memory, symbols)?;
    Ok(Ops { entersub, freed, bytes, names })
}

/// By the kind of structure that perl's table tells of each.
fn op_bytes(memory: &impl Memory, symbols: &Symbols) -> io::Result<Vec<u32>> {
    const KIND: u32 = 8;
    let table = symbols.address("PL_opargs").zip(symbols.size("PL_opargs"));
    let Some((at, size)) = table else { return Ok(Vec::new()) };
    let mut words = vec![0; size as usize & !3];
    memory.bytes(at, &mut words)?;
    let bytes = |word: &[u8]| match u32_at(word, 0) >> KIND & 15 {
        0 => 40,
        2..=4 | 14 | 15 => 56,
        5 => 96,
        9 => 80,
        10 => 88,
        _ => 48,
    };
    Ok(words.chunks_exact(4).map(bytes).collect())
}

/// A C string, as far as it can be read.
pub fn text(memory: &impl Memory, at: u64, longest: usize) -> io::Result<String> {
    const STEP: usize = 64;
    let mut bytes = Vec::new();
    while bytes.len() < longest {
        let mut step = [0; STEP];
        // Never over the end of a page that may be the last one.
        let here = at + bytes.len() as u64;
        let step = &mut step[..STEP.min((0x1000 - (here & 0xfff)) as usize)];
        if !memory.bytes(here, step)? {
            break;
        }
        bytes.extend_from_slice(step);
        if step.contains(&0) {
            break;
        }
    }
    Ok(until_nul(&bytes))
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Numbers in bytes that were read whole.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The kinds of stack that perl runs code on, by `si_type`.
#[must_use]
pub fn boundary(si_type: i32) -> Option<&'static str> {
    match si_type {
        2 => Some("tie or magic"),
        3 => Some("sort"),
        4 => Some("signal"),
        5 => Some("overload"),
        6 => Some("DESTROY"),
        7 => Some("__WARN__"),
        8 => Some("__DIE__"),
        9 => Some("require"),
        10 => Some("callback"),
        11 => Some("regex"),
        _ => None,
    }
}
