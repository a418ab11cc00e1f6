//! The chunked transfer coding, decoded piece by piece (RFC 9112, section 7.1). Pure; keeps no
//! bytes.
//!
//! Strict: sizes are 1 to 15 hexadecimal digits, every line ends in CR LF, nothing else is guessed.
//! Extensions and trailers are skipped, within a limit.

use crate::fault::Fault;

/// Most bytes of extensions and trailers in one body.
const EXTRAS_BYTES_MAX: u32 = 64 * 1024;
/// 15 digits cannot overflow 64 bits.
const SIZE_DIGITS_MAX: u8 = 15;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// At the start of a trailer line.
    Trailer,
    TrailerText,
    TrailerFeed,
    EndFeed,
    End,
}

/// One body's decoder.
#[derive(Clone, Debug)]
pub struct Chunked {
    state: State,
    size: u64,
    digits: u8,
    extras: u32,
}

/// What a piece of input meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes were framing; ask again with the rest.
    Framing(usize),
    /// So many bytes at the front are body.
    Data(usize),
    /// The last line ended after so many bytes.
    End(usize),
}

impl Default for Chunked {
    fn default() -> Self {
        Self { state: State::Size, size: 0, digits: 0, extras: 0 }
    }
}

impl Chunked {
    pub fn next(&mut self, input: &[u8]) -> Result<Piece, Fault> {
        if self.state == State::Data && !input.is_empty() {
            return Ok(self.data(input));
        }
        for (at, byte) in input.iter().enumerate() {
            self.state = self.step(*byte)?;
            match self.state {
                State::Data => return Ok(Piece::Framing(at + 1)),
                State::End => return Ok(Piece::End(at + 1)),
                _ => {}
            }
        }
        Ok(Piece::Framing(input.len()))
    }

    fn data(&mut self, input: &[u8]) -> Piece {
        let length = usize::try_from(self.size).map_or(input.len(), |size| size.min(input.len()));
        self.size -= length as u64;
        if self.size == 0 {
            self.state = State::DataReturn;
        }
        Piece::Data(length)
    }

    fn step(&mut self, byte: u8) -> Result<State, Fault> {
        match (self.state, byte) {
            (State::Size, _) => self.size_byte(byte),
            (State::Extension, b'\r') => Ok(State::SizeFeed),
            (State::Extension, _) => self.extra(byte, State::Extension),
            (State::SizeFeed, b'\n') => Ok(self.after_size()),
            (State::DataReturn, b'\r') => Ok(State::DataFeed),
            (State::DataFeed, b'\n') => Ok(State::Size),
            (State::Trailer, b'\r') => Ok(State::EndFeed),
            (State::Trailer | State::TrailerText, b'\n') => Err(Fault::BadChunk),
            (State::TrailerText, b'\r') => Ok(State::TrailerFeed),
            (State::Trailer | State::TrailerText, _) => self.extra(byte, State::TrailerText),
            (State::TrailerFeed, b'\n') => Ok(State::Trailer),
            (State::EndFeed, b'\n') => Ok(State::End),
            _ => Err(Fault::BadChunk),
        }
    }

    fn size_byte(&mut self, byte: u8) -> Result<State, Fault> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.digits == SIZE_DIGITS_MAX {
                return Err(Fault::BadChunk);
            }
            self.digits += 1;
            self.size = self.size * 16 + u64::from(digit);
            return Ok(State::Size);
        }
        match byte {
            _ if self.digits == 0 => Err(Fault::BadChunk),
            b'\r' => Ok(State::SizeFeed),
            b';' | b' ' | b'\t' => self.extra(byte, State::Extension),
            _ => Err(Fault::BadChunk),
        }
    }

    fn after_size(&mut self) -> State {
        self.digits = 0;
        if self.size == 0 { State::Trailer } else { State::Data }
    }

    fn extra(&mut self, byte: u8, then: State) -> Result<State, Fault> {
        self.extras += 1;
        if self.extras > EXTRAS_BYTES_MAX {
            return Err(Fault::TrailersTooLong);
        }
        if byte == b'\n' { Err(Fault::BadChunk) } else { Ok(then) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoded body and how many bytes belonged to it.
    fn decode(mut input: &[u8]) -> Result<(Vec<u8>, Option<usize>), Fault> {
        let (mut chunked, mut body, whole) = (Chunked::default(), Vec::new(), input.len());
        while !input.is_empty() {
            let used = match chunked.next(input)? {
                Piece::Framing(used) => used,
                Piece::Data(used) => {
                    body.extend_from_slice(&input[..used]);
                    used
                }
                Piece::End(used) => return Ok((body, Some(whole - input.len() + used))),
            };
            input = &input[used..];
        }
        Ok((body, None))
    }

    #[test]
    fn bodies_are_put_together() {
        let wire = b"4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\nX: y\r\n\r\nrest";
        assert_eq!(decode(wire), Ok((b"Wikipedia".to_vec(), Some(wire.len() - 4))));
        assert_eq!(decode(b"0\r\n\r\n"), Ok((Vec::new(), Some(5))));
        assert_eq!(decode(b"00A\r\n0123456789\r\n0\r\n\r\n").expect("good").0, b"0123456789");
        assert_eq!(decode(b"5\r\nab"), Ok((b"ab".to_vec(), None)));
    }

    #[test]
    fn sloppy_chunks_are_faults() {
        let bad: [&[u8]; 11] = [
            b"\r\n",
            b"g\r\n",
            b"-1\r\n",
            b"0x4\r\nabcd\r\n",
            b"4\nWiki\r\n",
            b"4\r\nWikipedia",
            b"4\r\nWiki\n",
            b"1234567890123456\r\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\n\n",
            b"4;a\nWiki",
        ];
        for wire in bad {
            assert_eq!(decode(wire), Err(Fault::BadChunk), "{}", wire.escape_ascii());
        }
        let long = [b"0\r\nX: ".as_slice(), &vec![b'x'; 70_000]].concat();
        assert_eq!(decode(&long), Err(Fault::TrailersTooLong));
    }
}
