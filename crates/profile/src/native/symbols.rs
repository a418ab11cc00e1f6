//! Functions of compiled code by name: those of an ELF file, and the kernel's. Pure.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

/// A file's, or the kernel's.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Of the file: where it begins and ends there, and the address of that beginning.
    segments: Vec<(u64, u64, u64)>,
    /// By address.
    functions: Vec<Function>,
    /// Where functions begin, those without a name with them; sorted.
    begins: Vec<u64>,
    /// By which a file of symbols that was kept apart is found, in hexadecimal digits.
    build_id: Option<String>,
}

/// What is known of a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'s> {
    Named(&'s str),
    /// A function without a name, by its address in the file.
    Begins(u64),
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    address: u64,
    /// 0: up to the next one.
    size: u64,
    name: String,
}

impl Symbols {
    /// `None` where it is no ELF file.
    #[must_use]
    pub fn of_elf(bytes: &[u8]) -> Option<Self> {
        let elf = object::File::parse(bytes).ok()?;
        let segment = |segment: object::Segment<'_, '_>| {
            let (from, size) = segment.file_range();
            (from, from.saturating_add(size), segment.address())
        };
        let segments = elf.segments().map(segment).collect();
        let all = elf.symbols().chain(elf.dynamic_symbols());
        let code = all.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
        let function = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Function { address: symbol.address(), size: symbol.size(), name: demangled(name) })
        };
        let build_id = elf.build_id().ok().flatten().filter(|id| id.len() > 1);
        let digits = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self {
            segments,
            functions: ordered(code.filter_map(function).collect()),
            begins: begins(&elf).unwrap_or_default(),
            build_id: build_id.map(digits),
        })
    }

    /// Where debuggers look for its symbols when it has been stripped of them.
    #[must_use]
    pub fn debug_file(&self) -> Option<String> {
        let (first, rest) = self.build_id.as_ref()?.split_at_checked(2)?;
        Some(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"))
    }

    /// Adds the functions of a file that was kept apart.
    pub fn add(&mut self, other: Self) {
        self.functions.extend(other.functions);
        self.functions = ordered(std::mem::take(&mut self.functions));
    }

    /// Of `/proc/kallsyms`, which has zeros for addresses where they are not for everybody.
    #[must_use]
    pub fn of_kernel(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at > 0)?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?.to_owned();
            is_code.then_some(Function { address, size: 0, name })
        };
        let functions = ordered(text.lines().filter_map(function).collect());
        Self { functions, ..Self::default() }
    }

    /// The function at this place of the file.
    #[must_use]
    pub fn at_offset(&self, offset: u64) -> Found<'_> {
        let holds = |segment: &&(u64, u64, u64)| (segment.0..segment.1).contains(&offset);
        let Some((from, _, address)) = self.segments.iter().find(holds) else {
            return Found::Nothing;
        };
        let address = address.wrapping_add(offset - from);
        let next = self.begins.partition_point(|begin| *begin <= address);
        let begin = next.checked_sub(1).and_then(|at| self.begins.get(at));
        match (self.at(address), begin) {
            (Some(name), _) => Found::Named(name),
            (None, Some(begin)) => Found::Begins(*begin),
            (None, None) => Found::Nothing,
        }
    }

    #[must_use]
    pub fn at(&self, address: u64) -> Option<&str> {
        let next = self.functions.partition_point(|function| function.address <= address);
        let Function { address: begin, size, name } = self.functions.get(next.checked_sub(1)?)?;
        (*size == 0 || address - begin < *size).then_some(name.as_str())
    }
}

/// Of the table that unwinding searches (`.eh_frame_hdr`, the Linux Standard Base's), in the form
/// that linkers write: a count, then pairs of distances from the table itself, four bytes each.
fn begins(elf: &object::File<'_>) -> Option<Vec<u64>> {
    const VERSION_AND_FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let section = elf.section_by_name(".eh_frame_hdr")?;
    let data = section.data().ok()?;
    let words = data.strip_prefix(&VERSION_AND_FORM)?.get(8..)?;
    let begin = |pair: &[u8]| {
        let distance = i32::from_le_bytes(*pair.first_chunk::<4>()?);
        Some(section.address().wrapping_add_signed(i64::from(distance)))
    };
    let mut begins: Vec<u64> = words.chunks_exact(8).filter_map(begin).collect();
    begins.sort_unstable();
    Some(begins)
}

/// One name an address: of several the one without underscores in front, the shorter one.
fn ordered(mut functions: Vec<Function>) -> Vec<Function> {
    let rank = |function: &Function| {
        let underscores = function.name.len() - function.name.trim_start_matches('_').len();
        (function.size == 0, underscores, function.name.len())
    };
    functions.sort_by(|a, b| (a.address, rank(a), &a.name).cmp(&(b.address, rank(b), &b.name)));
    functions.dedup_by_key(|function| function.address);
    functions
}

/// A name of Rust's or C++'s as its source has it, without a hash at its end.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::default().no_params().no_return_type();
    let cpp = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z"));
    cpp.and_then(|symbol| symbol.demangle_with_options(&options).ok()).unwrap_or(name.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn function(address: u64, size: u64, name: &str) -> Function {
        Function { address, size, name: name.to_owned() }
    }

    #[test]
    fn an_address_is_in_the_function_around_it() {
        let functions = vec![
            function(0x300, 0, "rest"),
            function(0x100, 0x40, "__read"),
            function(0x100, 0x40, "read"),
            function(0x200, 0x10, "write"),
        ];
        let symbols = Symbols {
            segments: vec![(0x1000, 0x2000, 0x100)],
            functions: ordered(functions),
            begins: vec![0x100, 0x180, 0x200],
            build_id: Some("ab12".to_owned()),
        };
        let at = |address| symbols.at(address);
        assert_eq!((at(0x100), at(0x13f), at(0x140)), (Some("read"), Some("read"), None));
        assert_eq!((at(0x20f), at(0x9999), at(0xff)), (Some("write"), Some("rest"), None));
        assert_eq!(symbols.at_offset(0x1100), Found::Named("write"));
        assert_eq!(symbols.at_offset(0x1090), Found::Begins(0x180));
        let outside = [0x2000, 0xfff].map(|offset| symbols.at_offset(offset));
        assert_eq!(outside, [Found::Nothing; 2]);
        let file = symbols.debug_file();
        assert_eq!(file.as_deref(), Some("/usr/lib/debug/.build-id/ab/12.debug"));
        let mut stripped = Symbols { functions: Vec::new(), ..symbols.clone() };
        assert_eq!(stripped.at_offset(0x1000), Found::Begins(0x100));
        stripped.add(symbols);
        assert_eq!(stripped.at_offset(0x1000), Found::Named("read"));
    }

    #[test]
    fn the_kernels_are_read_where_they_may_be() {
        let text = "ffffffff81000000 T _text\nffffffff81000000 T entry\n\
                    ffffffff81000100 t do_work\nffffffff81000180 D data\n\
                    ffffffffc0000000 t of_module\t[module]\n";
        let kernel = Symbols::of_kernel(text);
        assert_eq!(kernel.at(0xffff_ffff_8100_0005), Some("entry"));
        assert_eq!(kernel.at(0xffff_ffff_8100_0190), Some("do_work"));
        assert_eq!(kernel.at(0xffff_ffff_c000_0001), Some("of_module"));
        let hidden = Symbols::of_kernel("0000000000000000 T _text\n0000000000000000 t do_work\n");
        assert_eq!(hidden.at(0xffff_ffff_8100_0190), None);
    }

    #[test]
    fn names_are_as_the_source_has_them() {
        assert_eq!(demangled("_ZN3app6Parser4readEPKcm"), "app::Parser::read");
        assert_eq!(demangled("_RNvC3app4main"), "app::main");
        assert_eq!(demangled("_ZN3app4main17h0123456789abcdefE"), "app::main");
        assert_eq!(demangled("Perl_pp_entersub"), "Perl_pp_entersub");
        assert_eq!(demangled("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn this_program_knows_its_own() {
        let bytes = std::fs::read("/proc/self/exe").expect("it runs");
        let symbols = Symbols::of_elf(&bytes).expect("ELF");
        let is_own = |function: &Function| function.name.contains("symbols::tests::");
        let own = symbols.functions.iter().find(|function| is_own(function)).expect("one");
        assert!(symbols.begins.binary_search(&own.address).is_ok(), "{own:?}");
        assert!(Symbols::of_elf(b"#!/bin/sh\n").is_none());
    }

    proptest! {
        #[test]
        fn no_file_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200),
                                  text in "\\PC*", at in any::<u64>()) {
            let elf = [b"\x7fELF\x02\x01\x01", &bytes[..]].concat();
            let nothing = |symbols: Symbols| symbols.at_offset(at) == Found::Nothing;
            let _ = (Symbols::of_elf(&bytes), Symbols::of_elf(&elf).map(nothing));
            let _ = (Symbols::of_kernel(&text).at(at).is_some(), demangled(&format!("_Z{text}")));
        }
    }
}
