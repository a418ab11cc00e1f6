//! What was read of perls that stood still, kept for tests: an [`Album`] has pages of the memory of
//! processes that ran a perl that this machine does not have, and what `caller` said in them.
//! `examples/album.rs` makes one. It has what a look at a stack reads, not what a heap is made of.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{self, Read, Write},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    interpreter::Interpreter,
    memory::{Memory, Part, Remote},
    perl::{Perl, gone},
    profile::Frame,
    program::Symbols,
};

/// So much around each byte that is read, for code that will read a little more.
const PAGE: u64 = 512;

/// Pages are kept once, in however many processes they are.
#[derive(Default, Serialize, Deserialize)]
pub struct Album {
    /// As `$^V` says it.
    pub perl: String,
    pub pictures: Vec<Picture>,
    #[serde(skip)]
    pages: Vec<Vec<u8>>,
    #[serde(skip)]
    known: HashMap<Vec<u8>, usize>,
}

/// A process at one moment.
#[derive(Serialize, Deserialize)]
pub struct Picture {
    pub name: String,
    /// Its stack, outermost frame first, as whoever took the picture tells it.
    pub stack: Vec<String>,
    symbols: Symbols,
    /// Addresses, and numbers of pages.
    pages: BTreeMap<u64, usize>,
}

impl Album {
    #[must_use]
    pub fn of(perl: String) -> Self {
        Self { perl, ..Self::default() }
    }

    /// Takes a picture of a process that stands still. What was seen.
    ///
    /// # Errors
    /// As of a [`crate::Sampler`].
    pub fn take(&mut self, pid: i32, name: &str, stack: Vec<String>) -> Result<Vec<Frame>, Error> {
        let camera = Camera { remote: Remote { pid }, pages: RefCell::default() };
        let symbols = Symbols::of(pid)?;
        let seen = look(&camera, &symbols, pid)?;
        let mut pages = BTreeMap::new();
        for at in camera.pages.into_inner() {
            let mut bytes = vec![0; PAGE as usize];
            if camera.remote.bytes(at, &mut bytes).map_err(|error| gone(pid, error))? {
                pages.insert(at, self.keep(bytes));
            }
        }
        self.pictures.push(Picture { name: name.to_owned(), stack, symbols, pages });
        Ok(seen)
    }

    /// What is seen in a picture, outermost frame first.
    ///
    /// # Errors
    /// What a process with this memory would be refused for.
    pub fn look(&self, picture: &Picture) -> Result<Vec<Frame>, Error> {
        look(&Shown { album: self, picture }, &picture.symbols, 0)
    }

    /// With other bytes, for what must hold whatever a memory has in it.
    pub fn spoil(&mut self, mut spoil: impl FnMut(&mut [u8])) {
        self.pages.iter_mut().for_each(|page| spoil(page));
    }

    fn keep(&mut self, bytes: Vec<u8>) -> usize {
        let next = self.pages.len();
        let number = *self.known.entry(bytes.clone()).or_insert(next);
        if number == next {
            self.pages.push(bytes);
        }
        number
    }

    /// # Errors
    /// That it is no album.
    pub fn read(bytes: &[u8]) -> io::Result<Self> {
        let mut all = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut all)?;
        let (length, rest) = all.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = u64::from_le_bytes(*length) as usize;
        let (head, pages) = rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut album: Self = serde_json::from_slice(head)?;
        album.pages = pages.chunks_exact(PAGE as usize).map(<[u8]>::to_vec).collect();
        Ok(album)
    }

    /// # Errors
    /// Never: it is written to memory.
    pub fn write(&self) -> io::Result<Vec<u8>> {
        let head = serde_json::to_vec(self)?;
        let mut into = GzEncoder::new(Vec::new(), Compression::best());
        into.write_all(&(head.len() as u64).to_le_bytes())?;
        into.write_all(&head)?;
        self.pages.iter().try_for_each(|page| into.write_all(page))?;
        into.finish()
    }
}

/// The second look finds the stack where the first one did.
fn look(memory: &impl Memory, symbols: &Symbols, pid: i32) -> Result<Vec<Frame>, Error> {
    let perl = Perl::of(memory, symbols, pid)?;
    let mut interpreter = Interpreter::new(memory, perl);
    for _ in 0..2 {
        let looked = interpreter.look().map_err(|error| gone(pid, error))?;
        looked.map_err(|_| Error::NoInterpreter { pid })?;
    }
    Ok(interpreter.frames())
}

/// Reads a process, and knows what was read.
struct Camera {
    remote: Remote,
    pages: RefCell<BTreeSet<u64>>,
}

impl Memory for Camera {
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()> {
        self.remote.read(parts)?;
        let mut pages = self.pages.borrow_mut();
        for part in parts.iter().filter(|part| part.is_read) {
            pages.extend(pages_of(part));
        }
        Ok(())
    }
}

fn pages_of(part: &Part<'_>) -> impl Iterator<Item = u64> + use<> {
    let end = part.at.saturating_add(part.into.len() as u64);
    (part.at - part.at % PAGE..end).step_by(PAGE as usize)
}

struct Shown<'a> {
    album: &'a Album,
    picture: &'a Picture,
}

impl Memory for Shown<'_> {
    fn read(&self, parts: &mut [Part<'_>]) -> io::Result<()> {
        parts.iter_mut().for_each(|part| part.is_read = self.copy(part).is_some());
        Ok(())
    }
}

impl Shown<'_> {
    fn copy(&self, part: &mut Part<'_>) -> Option<()> {
        let end = part.at.checked_add(part.into.len() as u64)?;
        for page in pages_of(part) {
            let bytes = self.album.pages.get(*self.picture.pages.get(&page)?)?;
            let (from, to) = (part.at.max(page), end.min(page + PAGE));
            let into = (from - part.at) as usize..(to - part.at) as usize;
            part.into[into].copy_from_slice(&bytes[(from - page) as usize..(to - page) as usize]);
        }
        Some(())
    }
}
