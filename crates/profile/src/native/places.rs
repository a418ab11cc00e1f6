//! Addresses of a process, named: the file that is mapped there and the function in it. [`Places`]
//! are one process's; [`Files`] are read once for all of them.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use drom_observe::smaps::Mapping;

use super::symbols::{Found, Symbols};
use crate::program::maps;

pub struct Places {
    pid: i32,
    /// Whose names of files it goes by.
    namespace: PathBuf,
    /// By address.
    mapped: Vec<Mapping>,
    /// Nothing was there, as of the last time.
    unknown: HashSet<u64>,
}

/// Symbols of files, and the kernel's.
#[derive(Default)]
pub struct Files {
    /// By namespace and name.
    known: HashMap<(PathBuf, String), Arc<Symbols>>,
    kernel: Option<Symbols>,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A file's last name, in brackets: `[libc.so.6]`, or what the kernel calls it: `[vdso]`.
    pub library: String,
    /// The file; empty of what is none.
    pub file: String,
    pub function: String,
}

impl Places {
    pub fn of(pid: i32) -> Self {
        let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap_or_default();
        let mut places = Self { pid, namespace, mapped: Vec::new(), unknown: HashSet::new() };
        places.look();
        places
    }

    /// What is mapped now. Nothing changes when the process is gone.
    pub fn look(&mut self) {
        let Ok(mut mapped) = maps(self.pid) else { return };
        if !mapped.is_empty() {
            mapped.sort_by_key(|mapping| mapping.start);
            self.mapped = mapped;
            self.unknown.clear();
        }
    }

    /// Of the program.
    pub fn at(&mut self, address: u64, files: &mut Files) -> Place {
        if self.mapping(address).is_none() && !self.unknown.contains(&address) {
            self.look();
            self.unknown.insert(address);
        }
        let Some(mapping) = self.mapping(address).cloned() else { return nowhere() };
        let name = mapping.name.trim_end_matches(" (deleted)").to_owned();
        if !name.starts_with('/') {
            return no_file(&name);
        }
        let offset = (address - mapping.start).wrapping_add(mapping.offset);
        let symbols = self.symbols(&mapping, &name, files);
        let last = Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let function = match symbols.at_offset(offset) {
            Found::Named(name) => name.to_owned(),
            Found::Begins(address) => format!("{last}+{address:#x}"),
            Found::Nothing => format!("no symbol in {last}"),
        };
        Place { function, library: format!("[{last}]"), file: name }
    }

    /// How many of them are in code, before one that is not.
    pub fn code(&self, chain: &[u64]) -> usize {
        let is_code =
            |address: &&u64| self.mapping(**address).is_some_and(|mapping| mapping.is_executable);
        chain.iter().take_while(is_code).count()
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let next = self.mapped.partition_point(|mapping| mapping.start <= address);
        self.mapped.get(next.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    fn symbols(&self, mapping: &Mapping, name: &str, files: &mut Files) -> Arc<Symbols> {
        let key = (self.namespace.clone(), name.to_owned());
        let read = || Arc::new(self.read(mapping, name));
        Arc::clone(files.known.entry(key).or_insert_with(read))
    }

    fn read(&self, mapping: &Mapping, name: &str) -> Symbols {
        // What was replaced since is still there for who has it mapped.
        let inside = |path: &str| PathBuf::from(format!("/proc/{}/{path}", self.pid));
        let paths = [
            inside(&format!("map_files/{:x}-{:x}", mapping.start, mapping.end)),
            inside(&format!("root{name}")),
            PathBuf::from(name),
        ];
        let read = paths.iter().find_map(|path| fs::read(path).ok());
        let mut symbols = read.and_then(|bytes| Symbols::of_elf(&bytes)).unwrap_or_default();
        let apart = symbols.debug_file().and_then(|path| fs::read(path).ok());
        if let Some(apart) = apart.and_then(|bytes| Symbols::of_elf(&bytes)) {
            symbols.add(apart);
        }
        symbols
    }
}

impl Files {
    pub fn in_kernel(&mut self, address: u64) -> Place {
        let read = || fs::read("/proc/kallsyms").unwrap_or_default();
        let kernel = self
            .kernel
            .get_or_insert_with(|| Symbols::of_kernel(&String::from_utf8_lossy(&read())));
        let function = kernel.at(address).unwrap_or("no symbol in the kernel").to_owned();
        Place { library: "[kernel]".to_owned(), file: String::new(), function }
    }
}

fn nowhere() -> Place {
    no_file("unmapped")
}

/// Code that was made while the program ran, or that the kernel lends it.
fn no_file(name: &str) -> Place {
    let name = name.trim_matches(['[', ']']);
    let name = if name.is_empty() { "anonymous" } else { name };
    Place {
        library: format!("[{name}]"),
        file: String::new(),
        function: format!("no symbol in {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_program_has_its_name() {
        let mut places = Places::of(std::process::id() as i32);
        let mut files = Files::default();
        let here = places.at(Places::of as fn(i32) -> Places as usize as u64, &mut files);
        assert!(here.function.contains("Places"), "{here:?}");
        assert!(here.library.starts_with("[drom_profile"), "{here:?}");
        let data = Box::new(7_u8);
        let there = places.at(std::ptr::from_ref(&*data) as u64, &mut files);
        assert!(there.function.starts_with("no symbol in "), "{there:?}");
        let there = std::ptr::from_ref(&*data) as u64;
        let here = Places::of as fn(i32) -> Places as usize as u64;
        assert_eq!((places.code(&[here, there, here]), places.code(&[there])), (1, 0));
        assert_eq!(places.at(8, &mut files).library, "[unmapped]");
        assert_eq!(no_file("[vdso]").library, "[vdso]");
    }
}
