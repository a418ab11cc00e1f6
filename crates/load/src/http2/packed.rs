//! Strings of a header block that are packed by Huffman's code (RFC 7541, section 5.2), unpacked in
//! place: what comes out is a block that says the same in plain strings. Where a block's strings
//! are is said by [`Fields`]; what fields mean and what they do to the table is the library's
//! business that reads the block. It would build the code's table anew for each string, which is
//! most of the time of a client whose answers are not all the same.

use std::ops::Range;

use httlib_huffman::{DecoderSpeed, decode, encode};
use loona_hpack::encoder::encode_integer_into;

/// How a field begins, and where its strings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The bits of its first integer: 7 an index, 6 one that goes into the table, 5 a change of the
    /// table's size, 4 one that does not go into it.
    pub bits: u8,
    pub first: Range<usize>,
    pub texts: [Option<Text>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// With its length.
    pub whole: Range<usize>,
    pub bytes: Range<usize>,
    pub is_packed: bool,
}

/// The fields of a block one after the other; `None` is one that is cut off, and the last.
pub struct Fields<'b> {
    block: &'b [u8],
    at: usize,
}

impl<'b> Fields<'b> {
    pub fn of(block: &'b [u8]) -> Self {
        Self { block, at: 0 }
    }

    fn field(&mut self) -> Option<Field> {
        let (bits, has_text) = match self.block[self.at] {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let begin = self.at;
        let index = integer(self.block, &mut self.at, bits)?;
        let first = begin..self.at;
        let name = if has_text && index == 0 { Some(self.text()?) } else { None };
        let value = if has_text { Some(self.text()?) } else { None };
        Some(Field { bits, first, texts: [name, value] })
    }

    fn text(&mut self) -> Option<Text> {
        let begin = self.at;
        let is_packed = *self.block.get(self.at)? >= 0x80;
        let length = integer(self.block, &mut self.at, 7)?;
        let from = self.at;
        self.at = self.at.checked_add(length).filter(|end| *end <= self.block.len())?;
        Some(Text { whole: begin..self.at, bytes: from..self.at, is_packed })
    }
}

impl Iterator for Fields<'_> {
    type Item = Option<Field>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.block.len() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.at = self.block.len();
        }
        Some(field)
    }
}

/// Room for blocks, used again and again.
#[derive(Default)]
pub struct Unpacker {
    plain: Vec<u8>,
    text: Vec<u8>,
    again: Vec<u8>,
}

impl Unpacker {
    /// The block in plain strings; `None` where it is none.
    pub fn unpack<'a>(&'a mut self, block: &'a [u8]) -> Option<&'a [u8]> {
        let is_packed = |field: &Option<Field>| {
            let texts = field.iter().flat_map(|field| &field.texts).flatten();
            texts.into_iter().any(|text| text.is_packed)
        };
        if !Fields::of(block).any(|field| is_packed(&field)) {
            return Some(block);
        }
        self.plain.clear();
        for field in Fields::of(block) {
            let field = field?;
            self.plain.extend_from_slice(&block[field.first]);
            for text in field.texts.into_iter().flatten() {
                self.put(block, text)?;
            }
        }
        Some(&self.plain)
    }

    fn put(&mut self, block: &[u8], text: Text) -> Option<()> {
        if !text.is_packed {
            self.plain.extend_from_slice(&block[text.whole]);
            return Some(());
        }
        self.text.clear();
        decode(&block[text.bytes.clone()], &mut self.text, DecoderSpeed::FourBits).ok()?;
        // The decoder takes zeroes for padding, which are an error; there is one right form.
        self.again.clear();
        encode(&self.text, &mut self.again).ok()?;
        if self.again != block[text.bytes] {
            return None;
        }
        encode_integer_into(self.text.len(), 7, 0, &mut self.plain).ok()?;
        self.plain.extend_from_slice(&self.text);
        Some(())
    }
}

/// The integer there (section 5.1); `at` goes on behind it.
fn integer(block: &[u8], at: &mut usize, bits: u8) -> Option<usize> {
    let mask = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(*at)?) & mask;
    *at += 1;
    if value < mask {
        return Some(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = usize::from(*block.get(*at)?);
        *at += 1;
        value += (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use loona_hpack::Decoder;
    use proptest::prelude::*;

    use super::*;

    /// As the library reads it alone.
    fn alone(block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        Decoder::new().decode(block).ok()
    }

    fn unpacked(block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        alone(Unpacker::default().unpack(block)?)
    }

    /// A literal with both strings packed.
    fn packed(name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut block = vec![0x40];
        for text in [name, value] {
            let mut bytes = Vec::new();
            httlib_huffman::encode(text, &mut bytes).expect("every byte has a code");
            let at = block.len();
            encode_integer_into(bytes.len(), 7, 0x80, &mut block).expect("a vector");
            assert!(block[at] >= 0x80);
            block.extend(bytes);
        }
        block
    }

    proptest! {
        #[test]
        fn it_says_the_same(
            name in proptest::collection::vec(any::<u8>(), 0..40),
            value in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let block = [&packed(&name, &value)[..], &[0x88], &packed(b"x-y", b"12")].concat();
            let expected = vec![
                (name, value),
                (b":status".to_vec(), b"200".to_vec()),
                (b"x-y".to_vec(), b"12".to_vec()),
            ];
            prop_assert_eq!(unpacked(&block), Some(expected));
        }

        /// What the library refuses is refused, and what it reads is read the same.
        #[test]
        fn noise_is_read_as_the_library_reads_it(
            noise in proptest::collection::vec(any::<u8>(), 0..40),
            length in 0u8..30,
        ) {
            let text: Vec<u8> = noise.iter().copied().take(length.into()).collect();
            let block = [&[0x10, 1, b'x', 0x80 | text.len() as u8], &text[..]].concat();
            prop_assert_eq!(unpacked(&block), alone(&block), "{:?}", block);
            let _ = unpacked(&noise);
        }
    }

    #[test]
    fn padding_is_of_ones_and_less_than_a_byte() {
        // "0" is five zeroes.
        let literal = |text: &[u8]| [&[0x10, 1, b'x', 0x80 | text.len() as u8], text].concat();
        assert_eq!(unpacked(&literal(&[0b0000_0111])), Some(vec![(b"x".into(), b"0".into())]));
        assert_eq!(unpacked(&literal(&[0b0000_0000])), None);
        assert_eq!(unpacked(&literal(&[0b0000_0111, 0xff])), None);
    }

    #[test]
    fn a_plain_block_is_itself_and_one_that_is_cut_off_is_none() {
        let plain = [0x88, 0x40, 1, b'a', 1, b'b'];
        assert_eq!(Unpacker::default().unpack(&plain), Some(&plain[..]));
        let packed = packed(b"name", b"value");
        for end in 3..packed.len() {
            assert_eq!(unpacked(&packed[..end]), None, "{end}");
        }
    }
}
