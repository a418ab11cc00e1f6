//! Where things lie in a perl's memory. A [`Layout`] is one of three, by version; what tells them
//! apart a perl exports itself. x86-64, System V.

/// What a perl says of itself, by symbols that every libperl exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub revision: u8,
    pub version: u8,
    pub subversion: u8,
    /// `USE_ITHREADS`: COPs hold names, in place of globs.
    pub has_threads: bool,
}

/// Offsets in bytes, by the names of the fields in perl's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub interpreter_curcop: usize,
    pub interpreter_curstackinfo: usize,
    pub si_type: usize,
    pub context_size: usize,
    pub context_sub_cv: usize,
    pub context_eval_namesv: usize,
    /// Else the extra part of a hash stands behind its array.
    pub hash_aux_in_body: bool,
    pub hash_aux_bytes: usize,
    /// Where the name of a variable says how long it is; its flags are behind that.
    pub padname_len: usize,
    pub regexp_bytes: usize,
    pub has_threads: bool,
    /// Operators stand in slots of 8 bytes before each, in slabs with a header of
    /// [`SLAB_HEADER`] bytes.
    pub has_slot_offsets: bool,
}

impl Layout {
    /// `None`: nobody has looked at this perl.
    #[must_use]
    pub fn of(perl: &Fingerprint) -> Option<Self> {
        if perl.revision != 5 {
            return None;
        }
        let has_classes = perl.version >= 37;
        let base = Self {
            interpreter_curcop: 0xd0,
            interpreter_curstackinfo: 0xe0,
            si_type: 0x2c,
            context_size: 104,
            context_sub_cv: 0x48,
            context_eval_namesv: 0x40,
            hash_aux_in_body: true,
            hash_aux_bytes: if has_classes { 112 } else { 56 },
            padname_len: if has_classes { 0x30 } else { 0x28 },
            regexp_bytes: if has_classes { 224 } else { 192 },
            has_threads: perl.has_threads,
            has_slot_offsets: true,
        };
        let before_34 = Self {
            interpreter_curcop: 0xe0,
            interpreter_curstackinfo: 0xf0,
            hash_aux_in_body: false,
            has_slot_offsets: false,
            ..base
        };
        match perl.version {
            28..=31 => Some(Self {
                si_type: 0x28,
                context_size: 96,
                context_sub_cv: 0x40,
                context_eval_namesv: 0x38,
                ..before_34
            }),
            32 | 33 => Some(before_34),
            34 => Some(Self { hash_aux_in_body: false, ..base }),
            35..=42 => Some(base),
            _ => None,
        }
    }
}

pub const INTERPRETER_STACK_SP: usize = 0;
pub const INTERPRETER_OP: usize = 8;
/// Enough of an interpreter for a walk.
pub const INTERPRETER_BYTES: usize = 0xf8;

pub const SI_CXSTACK: usize = 8;
pub const SI_PREV: usize = 0x10;
pub const SI_CXIX: usize = 0x20;
pub const SI_CXMAX: usize = 0x24;
pub const SI_BYTES: usize = 0x30;

pub const CONTEXT_TYPE: usize = 0;
pub const CONTEXT_OLDCOP: usize = 0x10;
pub const CONTEXT_MASK: u8 = 0xf;
pub const CONTEXT_SUB: u8 = 9;
pub const CONTEXT_FORMAT: u8 = 10;
pub const CONTEXT_EVAL: u8 = 11;
/// Of a sub or format: code in a regex, which is no call.
pub const CONTEXT_FAKE: u8 = 0x80;
/// Of an eval: a block, or `try`.
pub const CONTEXT_EVAL_BLOCK: u8 = 0x40;
pub const CONTEXT_TRY: u8 = 0x80;

pub const SV_ANY: usize = 0;
pub const SV_FLAGS: usize = 0xc;
pub const SV_U: usize = 0x10;
pub const SV_BYTES: usize = 24;
pub const TYPE_MASK: u32 = 0xff;
pub const TYPE_GV: u32 = 9;
pub const TYPE_HV: u32 = 12;
pub const TYPE_CV: u32 = 13;
/// A format: as a CV.
pub const TYPE_FM: u32 = 14;
pub const FLAG_HAS_AUX: u32 = 0x0200_0000;
pub const FLAG_ROK: u32 = 0x0800;

pub const CV_STASH: usize = 0x20;
pub const CV_START: usize = 0x28;
pub const CV_GV: usize = 0x38;
pub const CV_FLAGS: usize = 0x5c;
pub const CV_BYTES: usize = 0x68;
pub const CV_IS_XSUB: u32 = 0x8;
pub const CV_ANON: u32 = 0x80;
pub const CV_NAMED: u32 = 0x8000;
pub const CV_LEXICAL: u32 = 0x1_0000;

pub const GV_NAMEHEK: usize = 0x20;
pub const GV_STASH: usize = 0x28;
pub const GP_CV: usize = 0x10;
pub const GP_EGV: usize = 0x38;

pub const HEK_LENGTH: usize = 4;
pub const HEK_KEY: usize = 8;

pub const HV_MAX: usize = 0x18;
pub const HV_AUX: usize = 0x20;
pub const AUX_NAME_COUNT: usize = 0x1c;

pub const CV_ROOT: usize = 0x30;

/// Before an operator: how far its slot is from the first one of its slab, in words.
pub const SLOT_OFFSET: usize = 2;
pub const SLOT_BYTES: usize = 8;
pub const SLAB_HEADER: u64 = 40;
/// The first slab of the chain, which is one of a sub's own.
pub const SLAB_HEAD: u64 = 8;
pub const OP_SLABBED: u16 = 1 << 10;
pub const OP_PPADDR: usize = 0x10;
pub const OP_TYPE: usize = 0x20;
pub const OP_TYPE_MASK: u16 = 0x1ff;
pub const COP_LINE: usize = 0x24;
pub const COP_FILE: usize = 0x30;
pub const COP_BYTES: usize = 0x40;

/// glibc's `struct pthread`, from where `fs` points to: the values of keys.
pub const THREAD_VALUES: u64 = 0x310;
/// A stack that perl began with; no other one is the last of its chain.
pub const SI_TYPE_MAIN: i32 = 1;
