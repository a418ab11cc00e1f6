//! Names for addresses: of subs and of places in files. What was found is kept, with when it was
//! looked at last: memory is used again, and another sub may lie where one was.

use std::{collections::HashMap, io, sync::Arc};

use crate::{
    abi,
    memory::{Memory, Part},
    perl::{self, Perl, u16_at, u32_at, u64_at},
    walk::{Frame, Kind, Look},
};

/// A sub as people know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sub {
    /// `Package::name`, `Package::__ANON__[file:line]`.
    pub name: Arc<str>,
    pub is_xs: bool,
    /// The code that it is made of, as of [`Place`]; 0 is not known.
    pub code: u64,
    /// Its first operator, which mostly is a statement's.
    pub start: u64,
}

/// Where a statement is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u32,
    /// Whose code it is: the first slab of that sub's operators. 0 is not known.
    pub code: u64,
}

const NAME_MAX: usize = 256;
const FILE_MAX: usize = 1_024;
/// Frames of each look that are looked at again. Memory is used again, and where a sub was may be
/// another one: of a stack of fifty each is seen to be the same every 25th look.
const CHECKS: usize = 2;
/// A program that makes ever new code (string evals) does not fill the memory of who looks at it.
const KNOWN_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub struct Names {
    subs: HashMap<u64, Known<Sub>>,
    places: HashMap<u64, Known<Place>>,
    checked: usize,
}

/// What was found, and memory that would tell if it were something else now.
#[derive(Debug)]
struct Known<T> {
    what: T,
    marks: [Mark; 2],
}

/// Some bytes of the process; none at 0.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: u64,
    bytes: [u8; MARK_BYTES],
}

/// Of a CV's body its stash, start, root and glob; of a COP line, package and file.
const MARK_BYTES: usize = 32;

impl Mark {
    fn of(at: u64, from: &[u8], length: usize) -> Self {
        let mut mark = Self { at, ..Self::default() };
        mark.bytes[..length].copy_from_slice(&from[..length]);
        mark
    }
}

/// A look again.
struct Check {
    frame: Frame,
    mark: Mark,
    length: usize,
    now: [u8; MARK_BYTES],
}

const HEAD_MARK: usize = 8;
const PLACE_MARK: usize = abi::COP_FILE + 8 - abi::COP_LINE;

impl Names {
    /// Looks again at some of the frames, at others with each look: whether one is not what it was.
    /// And the number of the operator that runs, which is read in the same call.
    pub fn check(&mut self, memory: &impl Memory, look: &Look) -> io::Result<(bool, Option<u16>)> {
        let mut checks = self.checks(&look.frames);
        let mut op = [0; 2];
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(checks.len() + 1);
        parts.push(Part::new(look.op.wrapping_add(abi::OP_TYPE as u64), &mut op));
        parts.extend(
            checks.iter_mut().map(|check| Part::new(check.mark.at, &mut check.now[..check.length])),
        );
        let from = usize::from(look.op == 0);
        memory.read(&mut parts[from..])?;
        let has_op = parts[0].is_read;
        let mut has_changed = self.subs.len().max(self.places.len()) > KNOWN_MAX;
        if has_changed {
            (self.subs, self.places) = <_>::default();
        }
        let are_read: Vec<bool> = parts[1..].iter().map(|part| part.is_read).collect();
        for (check, is_read) in checks.iter().zip(are_read) {
            if !is_read || check.now != check.mark.bytes {
                has_changed = true;
                self.forget(check.frame);
            }
        }
        let number = has_op.then(|| u16_at(&op, 0) & abi::OP_TYPE_MASK);
        Ok((has_changed, number))
    }

    fn checks(&mut self, frames: &[Frame]) -> Vec<Check> {
        let mut checks = Vec::with_capacity(3 * CHECKS);
        for more in 0..CHECKS.min(frames.len()) {
            let frame = frames[(self.checked + more) % frames.len()];
            let mut add = |mark: Mark, length: usize| {
                let now = [0; MARK_BYTES];
                checks.extend((mark.at != 0).then_some(Check { frame, mark, length, now }));
            };
            if let Some(known) = self.places.get(&frame.cop) {
                add(known.marks[0], PLACE_MARK);
            }
            let (Kind::Sub(cv) | Kind::Format(cv)) = frame.kind else { continue };
            if let Some(known) = self.subs.get(&cv) {
                add(known.marks[0], HEAD_MARK);
                add(known.marks[1], MARK_BYTES);
            }
        }
        self.checked = self.checked.wrapping_add(CHECKS);
        checks
    }

    fn forget(&mut self, frame: Frame) {
        self.places.remove(&frame.cop);
        if let Kind::Sub(cv) | Kind::Format(cv) = frame.kind {
            self.subs.remove(&cv);
        }
    }

    /// Of a CV; `None` where there is none.
    pub fn sub(&mut self, memory: &impl Memory, perl: &Perl, cv: u64) -> io::Result<Option<Sub>> {
        if let Some(known) = self.subs.get(&cv) {
            return Ok(Some(known.what.clone()));
        }
        let Some(known) = self.read_sub(memory, perl, cv)? else { return Ok(None) };
        let what = known.what.clone();
        self.subs.insert(cv, known);
        Ok(Some(what))
    }

    /// Of a COP.
    pub fn place(
        &mut self,
        memory: &impl Memory,
        perl: &Perl,
        cop: u64,
    ) -> io::Result<Option<Place>> {
        if let Some(known) = self.places.get(&cop) {
            return Ok(Some(known.what.clone()));
        }
        let Some(known) = read_place(memory, perl, cop)? else { return Ok(None) };
        let what = known.what.clone();
        self.places.insert(cop, known);
        Ok(Some(what))
    }

    fn read_sub(
        &mut self,
        memory: &impl Memory,
        perl: &Perl,
        cv: u64,
    ) -> io::Result<Option<Known<Sub>>> {
        let Some((body, flags)) = head(memory, cv)? else { return Ok(None) };
        let mut bytes = [0; abi::CV_BYTES];
        let is_code = [abi::TYPE_CV, abi::TYPE_FM].contains(&(flags & abi::TYPE_MASK));
        if !is_code || !memory.bytes(body, &mut bytes)? {
            return Ok(None);
        }
        let flags = u32_at(&bytes, abi::CV_FLAGS);
        let is_xs = flags & abi::CV_IS_XSUB != 0;
        let gv_or_hek = u64_at(&bytes, abi::CV_GV);
        let stash = u64_at(&bytes, abi::CV_STASH);
        let name = match flags & abi::CV_NAMED != 0 {
            true => {
                let name = hek(memory, gv_or_hek)?.unwrap_or_default();
                match flags & abi::CV_LEXICAL != 0 {
                    true => name,
                    false => qualified(stash_name(memory, perl, stash)?, &name),
                }
            }
            false => glob_name(memory, perl, gv_or_hek)?.unwrap_or_default(),
        };
        let mut name = if name.is_empty() { "__ANON__".to_owned() } else { name };
        if flags & abi::CV_ANON != 0 && !is_xs {
            let start = u64_at(&bytes, abi::CV_START);
            if let Some(place) = self.place(memory, perl, start)? {
                name += &format!("[{}:{}]", place.file, place.line);
            }
        }
        let marks = [
            Mark::of(cv, &body.to_le_bytes(), HEAD_MARK),
            Mark::of(body.wrapping_add(abi::CV_STASH as u64), &bytes[abi::CV_STASH..], MARK_BYTES),
        ];
        let code = match is_xs {
            true => 0,
            false => code_of(memory, perl, u64_at(&bytes, abi::CV_ROOT))?,
        };
        let start = u64_at(&bytes, abi::CV_START);
        Ok(Some(Known { what: Sub { name: name.into(), is_xs, code, start }, marks }))
    }
}

/// The CV that an SV is or leads to: a sub, a glob, a reference.
pub fn cv_of(memory: &impl Memory, sv: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; abi::SV_BYTES];
    if sv == 0 || !memory.bytes(sv, &mut bytes)? {
        return Ok(None);
    }
    let (flags, inner) = (u32_at(&bytes, abi::SV_FLAGS), u64_at(&bytes, abi::SV_U));
    match flags & abi::TYPE_MASK {
        abi::TYPE_CV => Ok(Some(sv)),
        abi::TYPE_GV => memory.word(inner.wrapping_add(abi::GP_CV as u64)),
        _ if flags & abi::FLAG_ROK != 0 => Ok(Some(inner)),
        _ => Ok(None),
    }
}

/// Body and flags of an SV.
fn head(memory: &impl Memory, sv: u64) -> io::Result<Option<(u64, u32)>> {
    let mut bytes = [0; abi::SV_BYTES];
    let is_read = sv != 0 && memory.bytes(sv, &mut bytes)?;
    Ok(is_read.then(|| (u64_at(&bytes, abi::SV_ANY), u32_at(&bytes, abi::SV_FLAGS))))
}

fn qualified(package: Option<String>, name: &str) -> String {
    match package {
        Some(package) => format!("{package}::{name}"),
        None => name.to_owned(),
    }
}

/// The name that a sub was made with: that of the glob it was first in.
fn glob_name(memory: &impl Memory, perl: &Perl, gv: u64) -> io::Result<Option<String>> {
    let mut bytes = [0; abi::SV_BYTES];
    if gv == 0 || !memory.bytes(gv, &mut bytes)? {
        return Ok(None);
    }
    let gp = u64_at(&bytes, abi::SV_U);
    let effective = memory.word(gp.wrapping_add(abi::GP_EGV as u64))?.filter(|egv| *egv != 0);
    let Some((body, flags)) = head(memory, effective.unwrap_or(gv))? else { return Ok(None) };
    if flags & abi::TYPE_MASK != abi::TYPE_GV {
        return Ok(None);
    }
    let (mut name, mut stash) = ([0; 8], [0; 8]);
    let mut parts = [
        Part::new(body.wrapping_add(abi::GV_NAMEHEK as u64), &mut name),
        Part::new(body.wrapping_add(abi::GV_STASH as u64), &mut stash),
    ];
    memory.read(&mut parts)?;
    let name = hek(memory, u64_at(&name, 0))?.unwrap_or_default();
    Ok(Some(qualified(stash_name(memory, perl, u64_at(&stash, 0))?, &name)))
}

/// Of a package: the name of its hash.
pub fn stash_name(memory: &impl Memory, perl: &Perl, stash: u64) -> io::Result<Option<String>> {
    let mut bytes = [0; abi::SV_BYTES];
    if stash == 0 || !memory.bytes(stash, &mut bytes)? {
        return Ok(None);
    }
    let flags = u32_at(&bytes, abi::SV_FLAGS);
    if flags & abi::TYPE_MASK != abi::TYPE_HV || flags & abi::FLAG_HAS_AUX == 0 {
        return Ok(None);
    }
    let body = u64_at(&bytes, abi::SV_ANY);
    let aux = match perl.layout.hash_aux_in_body {
        true => body.wrapping_add(abi::HV_AUX as u64),
        false => {
            let max = memory.word(body.wrapping_add(abi::HV_MAX as u64))?.unwrap_or(0);
            u64_at(&bytes, abi::SV_U).wrapping_add(max.wrapping_add(1).wrapping_mul(8))
        }
    };
    let mut bytes = [0; abi::AUX_NAME_COUNT + 4];
    if !memory.bytes(aux, &mut bytes)? {
        return Ok(None);
    }
    let name = u64_at(&bytes, 0);
    let at = match u32_at(&bytes, abi::AUX_NAME_COUNT) as i32 {
        0 => Some(name),
        1.. => memory.word(name)?,
        _ => memory.word(name.wrapping_add(8))?,
    };
    at.map_or(Ok(None), |at| hek(memory, at))
}

/// Perl keeps a name in Latin-1 where it can, and as the bytes of its source without `use utf8`.
fn letters(bytes: &[u8]) -> String {
    let as_latin = |_| bytes.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(bytes).map_or_else(as_latin, str::to_owned)
}

/// The text of a key or a name.
pub fn hek(memory: &impl Memory, at: u64) -> io::Result<Option<String>> {
    let mut bytes = [0; abi::HEK_KEY];
    if at == 0 || !memory.bytes(at, &mut bytes)? {
        return Ok(None);
    }
    let length = u32_at(&bytes, abi::HEK_LENGTH) as usize;
    let mut key = vec![0; length.min(NAME_MAX)];
    let is_read = memory.bytes(at.wrapping_add(abi::HEK_KEY as u64), &mut key)?;
    Ok(is_read.then(|| letters(&key)))
}

fn read_place(memory: &impl Memory, perl: &Perl, cop: u64) -> io::Result<Option<Known<Place>>> {
    let mut bytes = [0; abi::COP_BYTES];
    if cop == 0 || !memory.bytes(cop, &mut bytes)? {
        return Ok(None);
    }
    let (line, file) = (u32_at(&bytes, abi::COP_LINE), u64_at(&bytes, abi::COP_FILE));
    let file = match perl.layout.has_threads {
        true => perl::text(memory, file, FILE_MAX)?,
        false => glob_file(memory, file)?,
    };
    let mark =
        Mark::of(cop.wrapping_add(abi::COP_LINE as u64), &bytes[abi::COP_LINE..], PLACE_MARK);
    let what = Place { file: file.into(), line, code: code_of(memory, perl, cop)? };
    Ok(Some(Known { what, marks: [mark, Mark::default()] }))
}

/// Whose operators this one is among: perl takes those of each sub from slabs of its own.
fn code_of(memory: &impl Memory, perl: &Perl, op: u64) -> io::Result<u64> {
    let mut bytes = [0; abi::SLOT_BYTES + abi::OP_TYPE + 2];
    let slot = op.wrapping_sub(abi::SLOT_BYTES as u64);
    if op == 0 || !perl.layout.has_slot_offsets || !memory.bytes(slot, &mut bytes)? {
        return Ok(0);
    }
    if u16_at(&bytes, abi::SLOT_BYTES + abi::OP_TYPE) & abi::OP_SLABBED == 0 {
        return Ok(0);
    }
    let offset = 8 * u64::from(u16_at(&bytes, abi::SLOT_OFFSET));
    let slab = slot.wrapping_sub(offset).wrapping_sub(abi::SLAB_HEADER);
    Ok(memory.word(slab.wrapping_add(abi::SLAB_HEAD))?.unwrap_or(0))
}

/// The glob of a file is called `_<file`.
fn glob_file(memory: &impl Memory, gv: u64) -> io::Result<String> {
    let Some((body, _)) = head(memory, gv)? else { return Ok(String::new()) };
    let name = memory.word(body.wrapping_add(abi::GV_NAMEHEK as u64))?.unwrap_or(0);
    let name = hek(memory, name)?.unwrap_or_default();
    Ok(name.strip_prefix("_<").unwrap_or(&name).to_owned())
}
