//! Bodies that came packed, for checks and captures. Only gzip, which is all that a scenario asks
//! for; the memory stays from answer to answer.

use flate2::{Decompress, FlushDecompress, Status};

#[derive(Debug)]
pub struct Unpacker {
    state: Decompress,
}

/// Longer texts are looked at as far as this.
const BYTES_MAX: usize = 16 << 20;

impl Default for Unpacker {
    fn default() -> Self {
        Self { state: Decompress::new(false) }
    }
}

impl Unpacker {
    /// Fills `out`; false when this is no gzip, or broken.
    pub fn unpack(&mut self, packed: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(mut rest) = behind_head(packed) else { return false };
        self.state.reset(false);
        loop {
            if out.len() == out.capacity() {
                out.reserve(packed.len().max(4096));
            }
            let before = (self.state.total_in(), out.len());
            let Ok(status) = self.state.decompress_vec(rest, out, FlushDecompress::None) else {
                return false;
            };
            let read = self.state.total_in() - before.0;
            rest = &rest[read as usize..];
            if status == Status::StreamEnd || out.len() >= BYTES_MAX {
                return true;
            }
            if read == 0 && out.len() == before.1 {
                return false;
            }
        }
    }
}

/// What stands behind the head of a gzip member (RFC 1952, 2.3).
fn behind_head(packed: &[u8]) -> Option<&[u8]> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = packed else { return None };
    let mut rest = rest;
    if flags & EXTRA != 0 {
        let [low, high, after @ ..] = rest else { return None };
        rest = after.get(usize::from(u16::from_le_bytes([*low, *high]))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            rest = &rest[memchr::memchr(0, rest)? + 1..];
        }
    }
    rest.get(if flags & CHECKSUM != 0 { 2 } else { 0 }..)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, GzBuilder};
    use proptest::{prelude::any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn packed(text: &[u8], builder: GzBuilder) -> Vec<u8> {
        let mut writer = builder.write(Vec::new(), Compression::default());
        writer.write_all(text).expect("writing to memory");
        writer.finish().expect("writing to memory")
    }

    #[test]
    fn every_kind_of_head_is_passed_over() {
        let mut unpacker = Unpacker::default();
        let mut out = Vec::new();
        let builder = GzBuilder::new().filename("a").comment("b").extra(vec![1, 2, 3]);
        assert!(unpacker.unpack(&packed(b"hello", builder), &mut out));
        assert_eq!(out, b"hello");
        assert!(!unpacker.unpack(b"hello", &mut out));
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            text in proptest::collection::vec(any::<u8>(), 0..20_000),
            cut in 1usize..20,
        ) {
            let mut unpacker = Unpacker::default();
            let mut out = Vec::new();
            let packed = packed(&text, GzBuilder::new());
            prop_assert!(unpacker.unpack(&packed, &mut out));
            prop_assert_eq!(&out, &text);
            // The last 8 bytes are a checksum, which is not looked at.
            let whole = packed.len() - 8;
            prop_assert!(!unpacker.unpack(&packed[..whole.saturating_sub(cut)], &mut out));
        }

        #[test]
        fn no_bytes_make_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..60)) {
            let packed = [&[0x1f, 0x8b, 8][..], &tail].concat();
            Unpacker::default().unpack(&packed, &mut Vec::new());
        }
    }
}
