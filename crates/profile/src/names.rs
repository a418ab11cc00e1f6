//! Names for addresses: of subs and of places in files. What was found is kept, with when it was
//! looked at last: memory is used again, and another sub may lie where one was.

use std::{collections::HashMap, io, sync::Arc};

use crate::{
    abi,
    memory::{Memory, Part},
    perl::{self, Perl, u16_at, u32_at, u64_at},
};

/// A sub as people know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sub {
    /// `Package::name`, `Package::__ANON__[file:line]`.
    pub name: Arc<str>,
    pub is_xs: bool,
}

/// Where a statement is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u32,
}

/// Known for so many looks, then looked at again.
const TRUSTED_LOOKS: u64 = 16;
const NAME_MAX: usize = 256;
const FILE_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub struct Names {
    subs: HashMap<u64, (Option<Sub>, u64)>,
    places: HashMap<u64, (Option<Place>, u64)>,
    look: u64,
}

impl Names {
    /// Another look begins.
    pub fn next_look(&mut self) {
        self.look += 1;
    }

    /// Of a CV; `None` where there is none.
    pub fn sub(&mut self, memory: &impl Memory, perl: &Perl, cv: u64) -> io::Result<Option<Sub>> {
        if let Some((sub, at)) = self.subs.get(&cv)
            && self.look - at < TRUSTED_LOOKS
        {
            return Ok(sub.clone());
        }
        let sub = self.read_sub(memory, perl, cv)?;
        self.subs.insert(cv, (sub.clone(), self.look));
        Ok(sub)
    }

    /// Of a COP.
    pub fn place(
        &mut self,
        memory: &impl Memory,
        perl: &Perl,
        cop: u64,
    ) -> io::Result<Option<Place>> {
        if let Some((place, at)) = self.places.get(&cop)
            && self.look - at < TRUSTED_LOOKS
        {
            return Ok(place.clone());
        }
        let place = read_place(memory, perl, cop)?;
        self.places.insert(cop, (place.clone(), self.look));
        Ok(place)
    }

    fn read_sub(&mut self, memory: &impl Memory, perl: &Perl, cv: u64) -> io::Result<Option<Sub>> {
        let Some((body, flags)) = head(memory, cv)? else { return Ok(None) };
        let mut bytes = [0; abi::CV_BYTES];
        if flags & abi::TYPE_MASK != abi::TYPE_CV || !memory.bytes(body, &mut bytes)? {
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
        Ok(Some(Sub { name: name.into(), is_xs }))
    }
}

/// Type and number of an operator, where it is one.
pub fn op_type(memory: &impl Memory, op: u64) -> io::Result<Option<u16>> {
    let mut bytes = [0; 2];
    let is_read = op != 0 && memory.bytes(op + abi::OP_TYPE as u64, &mut bytes)?;
    Ok(is_read.then(|| u16_at(&bytes, 0) & abi::OP_TYPE_MASK))
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
        abi::TYPE_GV => memory.word(inner + abi::GP_CV as u64),
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
    let effective = memory.word(gp + abi::GP_EGV as u64)?.filter(|egv| *egv != 0);
    let Some((body, flags)) = head(memory, effective.unwrap_or(gv))? else { return Ok(None) };
    if flags & abi::TYPE_MASK != abi::TYPE_GV {
        return Ok(None);
    }
    let (mut name, mut stash) = ([0; 8], [0; 8]);
    let mut parts = [
        Part::new(body + abi::GV_NAMEHEK as u64, &mut name),
        Part::new(body + abi::GV_STASH as u64, &mut stash),
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
        true => body + abi::HV_AUX as u64,
        false => {
            let max = memory.word(body + abi::HV_MAX as u64)?.unwrap_or(0);
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
        _ => memory.word(name + 8)?,
    };
    at.map_or(Ok(None), |at| hek(memory, at))
}

fn hek(memory: &impl Memory, at: u64) -> io::Result<Option<String>> {
    let mut bytes = [0; abi::HEK_KEY];
    if at == 0 || !memory.bytes(at, &mut bytes)? {
        return Ok(None);
    }
    let length = u32_at(&bytes, abi::HEK_LENGTH) as usize;
    let mut key = vec![0; length.min(NAME_MAX)];
    let is_read = memory.bytes(at + abi::HEK_KEY as u64, &mut key)?;
    Ok(is_read.then(|| String::from_utf8_lossy(&key).into_owned()))
}

fn read_place(memory: &impl Memory, perl: &Perl, cop: u64) -> io::Result<Option<Place>> {
    let mut bytes = [0; abi::COP_BYTES];
    if cop == 0 || !memory.bytes(cop, &mut bytes)? {
        return Ok(None);
    }
    let (line, file) = (u32_at(&bytes, abi::COP_LINE), u64_at(&bytes, abi::COP_FILE));
    let file = match perl.layout.has_threads {
        true => perl::text(memory, file, FILE_MAX)?,
        false => glob_file(memory, file)?,
    };
    Ok(Some(Place { file: file.into(), line }))
}

/// The glob of a file is called `_<file`.
fn glob_file(memory: &impl Memory, gv: u64) -> io::Result<String> {
    let Some((body, _)) = head(memory, gv)? else { return Ok(String::new()) };
    let name = memory.word(body + abi::GV_NAMEHEK as u64)?.unwrap_or(0);
    let name = hek(memory, name)?.unwrap_or_default();
    Ok(name.strip_prefix("_<").unwrap_or(&name).to_owned())
}
