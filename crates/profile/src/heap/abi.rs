//! Where things lie in what a perl has allocated: values, globs, hashes, pads and operators, by the
//! names of the fields in perl's headers. Offsets in bytes; x86-64, perl 5.34 to 5.42.

use crate::abi::Layout;

pub const SV_REFCNT: usize = 8;

pub const IV: u32 = 1;
pub const NV: u32 = 2;
pub const PV: u32 = 3;
pub const INVLIST: u32 = 4;
pub const PVIV: u32 = 5;
pub const PVNV: u32 = 6;
pub const PVMG: u32 = 7;
pub const REGEXP: u32 = 8;
pub const PVGV: u32 = 9;
pub const PVLV: u32 = 10;
pub const PVAV: u32 = 11;
pub const PVHV: u32 = 12;
pub const PVCV: u32 = 13;
pub const PVFM: u32 = 14;
pub const PVIO: u32 = 15;
/// Instances of `class`, since 5.38.
pub const PVOBJ: u32 = 16;
/// The type of a head that holds no value.
pub const FREED: u32 = 0xff;

/// `SvFLAGS`.
pub const POK: u32 = 0x400 | 0x4000;
pub const ROK: u32 = 0x800;
pub const OBJECT: u32 = 0x10_0000;
pub const HAS_GP: u32 = 0x8000;
/// Of a hash: it has the extra part; of a string: its buffer begins before what is used.
pub const OOK: u32 = 0x200_0000;
pub const IS_COW: u32 = 0x1000_0000;
/// Of a glob: a copy.
pub const FAKE: u32 = 0x100_0000;
pub const WEAK: u32 = 0x8000_0000;
pub const REAL: u32 = 0x4000_0000;

/// Of bodies.
pub const MAGIC: u64 = 8;
pub const PV_CUR: u64 = 0x10;
pub const PV_LEN: u64 = 0x18;
pub const AV_FILL: u64 = 0x10;
pub const AV_MAX: u64 = 0x18;
pub const AV_ALLOC: u64 = 0x20;
pub const HV_KEYS: u64 = 0x10;
pub const HV_MAX: u64 = 0x18;
pub const CV_XSUBANY: u64 = 0x28;
pub const CV_ROOT: u64 = 0x30;
pub const CV_FILE: u64 = 0x40;
pub const CV_PADLIST: u64 = 0x48;
pub const CV_OUTSIDE: u64 = 0x50;
pub const CV_FLAGS: u64 = 0x5c;
pub const CV_WEAK_OUTSIDE: u32 = 0x10;
pub const CV_UNIQUE: u32 = 0x100;
pub const CV_GV_COUNTED: u32 = 0x400;
pub const CV_DYNFILE: u32 = 0x1000;

pub const MG_BYTES: usize = 0x30;
pub const MG_TYPE: usize = 0x12;
pub const MG_FLAGS: usize = 0x13;
pub const MG_LEN: usize = 0x18;
pub const MG_OBJ: usize = 0x20;
pub const MG_PTR: usize = 0x28;
pub const MG_REFCOUNTED: u8 = 2;
/// `mg_len` where `mg_ptr` is a value.
pub const MG_IS_SV: i64 = -2;

pub const GP_BYTES: usize = 0x50;

pub const AUX_NAME: u64 = 0;
pub const AUX_BACKREFERENCES: u64 = 8;
pub const AUX_NAME_COUNT: u64 = 0x1c;
pub const AUX_MRO_META: u64 = 0x20;

pub const PADLIST_BYTES: usize = 24;
pub const PADNAME_OUTER: u8 = 1;

/// Of an operator.
pub const OP_TYPE: usize = 0x20;
pub const OP_FLAGS: usize = 0x22;
pub const OP_BYTES: usize = 0x28;
pub const OP_FIRST: usize = 0x28;
pub const OP_KIDS: u8 = 4;
pub const OP_MORESIB: u16 = 1 << 14;
pub const OP_SIBPARENT: usize = 8;
pub const COP_LINE: usize = 0x24;

/// Of a slab of operators.
pub const SLAB_NEXT: usize = 0;
pub const SLAB_HEAD: usize = 8;
pub const SLAB_FREED: usize = 0x10;
pub const SLAB_SIZE: usize = 0x22;
pub const SLAB_FREE_SPACE: usize = 0x24;
pub const SLAB_BYTES: usize = 0x28;

/// Of the interpreter, where all of 5.34 to 5.42 have it.
pub const I_STRTAB: u64 = 0x90;
pub const I_DEFSTASH: u64 = 0xc0;
pub const I_CURSTACKINFO: u64 = 0xe0;
pub const I_ARENAROOT: u64 = 0x100;

/// Bytes of a body that are allocated, and how many in front of them are not: perl lets the
/// pointer of a small body begin before it.
#[must_use]
pub fn body(kind: u32, has_aux: bool, layout: &Layout) -> Option<(u64, u64)> {
    let aux_bytes = if has_aux { layout.hash_aux_bytes as u64 } else { 0 };
    Some(match kind {
        PV => (16, 16),
        INVLIST => (16, 40),
        PVIV => (16, 24),
        PVNV => (16, 32),
        PVMG | PVGV => (0, 48),
        REGEXP => (0, layout.regexp_bytes as u64),
        PVLV => (0, 80),
        PVAV | PVOBJ => (0, 40),
        PVHV => (0, 32 + aux_bytes),
        PVCV => (0, 104),
        PVFM => (0, 104),
        PVIO => (0, 136),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, env, fs, path::PathBuf, process::Command};

    use super::*;
    use crate::abi::Fingerprint;

    const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/abi.c");

    /// By perl's headers: those of the machine's perl, or of the system whose folder
    /// `DROM_TEST_ROOT` names.
    fn headers() -> HashMap<String, u64> {
        let said = |words: &[&str]| {
            let output = Command::new("perl").args(words).output().expect("perl is there");
            String::from_utf8(output.stdout).expect("text")
        };
        let own = said(&["-MConfig", "-e", "print $Config{archlibexp}"]);
        let root = env::var("DROM_TEST_ROOT").ok();
        let core = root.map_or(PathBuf::from(own), |root| of_other(&root)).join("CORE");
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("abi");
        let flags = said(&["-MExtUtils::Embed", "-e", "ccopts"]);
        let flags = flags.split_whitespace().filter(|flag| !flag.starts_with("-I"));
        let mut compiler = Command::new("cc");
        compiler.arg("-w").arg("-I").arg(core).args(flags).args(["-O2", PROGRAM, "-o"]);
        compiler.arg(&program).arg("-Wl,--unresolved-symbols=ignore-all");
        let built = compiler.output().expect("a compiler");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let output = Command::new(program).output().expect("it runs").stdout;
        let text = String::from_utf8(output).expect("text");
        let line = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    fn of_other(root: &str) -> PathBuf {
        let perls = PathBuf::from(root).join("usr/lib/x86_64-linux-gnu/perl");
        let folders = fs::read_dir(perls).expect("a perl").flatten().map(|entry| entry.path());
        folders.into_iter().find(|path| path.join("CORE").exists()).expect("headers")
    }

    /// Of this file, as it stands in it.
    fn constants() -> Vec<(String, u64)> {
        let text = include_str!("abi.rs");
        let number = |word: &str| {
            let word = word.trim().replace('_', "");
            let hex = word.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16).ok());
            hex.unwrap_or_else(|| word.parse().ok())
        };
        let value = |text: &str| match text.split_once("<<") {
            Some((a, b)) => Some(number(a)? << number(b)?),
            None => text.split('|').map(number).try_fold(0, |sum, part| Some(sum | part?)),
        };
        let one = |line: &str| {
            let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
            let (_, text) = rest.strip_suffix(';')?.split_once('=')?;
            Some((name.to_owned(), value(text)?))
        };
        text.lines().filter_map(one).collect()
    }

    #[test]
    fn everything_lies_where_perls_headers_have_it() {
        let headers = headers();
        let mut compared = 0;
        for (name, value) in constants() {
            if let Some(said) = headers.get(&name) {
                assert_eq!(value, *said, "{name}");
                compared += 1;
            }
        }
        assert!(compared > 60, "{compared} of {}", headers.len());
        let version = headers["VERSION"] as u8;
        let perl = Fingerprint { revision: 5, version, subversion: 0, has_threads: true };
        let layout = Layout::of(&perl).expect("known");
        let sizes = [
            (PV, "B_PV"),
            (INVLIST, "B_INVLIST"),
            (PVNV, "B_PVNV"),
            (PVMG, "B_PVMG"),
            (REGEXP, "B_REGEXP"),
            (PVLV, "B_PVLV"),
            (PVAV, "B_PVAV"),
            (PVCV, "B_PVCV"),
            (PVFM, "B_PVFM"),
            (PVIO, "B_PVIO"),
        ];
        for (kind, name) in sizes {
            let (before, bytes) = body(kind, false, &layout).expect("a body");
            assert_eq!(before + bytes, headers[name], "{name}");
        }
        assert_eq!(layout.hash_aux_bytes as u64, headers["AUX_BYTES"]);
        assert_eq!(layout.padname_len as u64, headers["PADNAME_LEN"]);
        assert_eq!(layout.padname_len as u64 + 1, headers["PADNAME_FLAGS"]);
        assert_eq!(layout.context_size as u64, headers["CONTEXT"]);
        assert_eq!(layout.interpreter_curstackinfo as u64, headers["I_CURSTACKINFO"]);
    }
}
