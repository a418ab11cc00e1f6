//! A chunked body, decoded as it arrives. `ChunkedDecoder` keeps only its state between calls:
//! each call answers how many bytes it used and which of them are content. Strict: hexadecimal
//! sizes without signs or blanks, CRLF only, bounded extensions and trailers. Trailers are checked
//! and dropped.

use std::ops::Range;

/// Bounds on what surrounds the content.
#[derive(Debug, Clone, Copy)]
pub struct ChunkedLimits {
    /// Bytes of all chunk extensions of a body.
    pub extensions: usize,
    /// Bytes of the trailer section.
    pub trailers: usize,
}

impl Default for ChunkedLimits {
    fn default() -> ChunkedLimits {
        ChunkedLimits { extensions: 4096, trailers: 8190 }
    }
}

/// Hexadecimal digits of a chunk size; more would not fit 64 bits.
const SIZE_DIGITS: u8 = 15;

/// What one call found. Ranges are offsets into its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Content; call again with the input after `used`.
    Data { content: Range<usize>, used: usize },
    /// All input was framing; more is needed.
    NeedMore { used: usize },
    /// The body ended; what follows `used` is the next request.
    End { used: usize },
    /// Answer 400 and close; the text is for the error log.
    Invalid(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    Extension {
        quoted: bool,
        escaped: bool,
    },
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a trailer line.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
    Failed(&'static str),
}

/// Decodes one body.
#[derive(Debug, Clone)]
pub struct ChunkedDecoder {
    state: State,
    left: u64,
    limits: ChunkedLimits,
}

impl ChunkedDecoder {
    #[must_use]
    pub fn new(limits: ChunkedLimits) -> ChunkedDecoder {
        ChunkedDecoder { state: State::Size { digits: 0 }, left: 0, limits }
    }

    /// Reads on. Never gives content across a chunk's end, so call until it needs more or ends.
    pub fn decode(&mut self, input: &[u8]) -> Chunk {
        let mut at = 0;
        while at < input.len() && !matches!(self.state, State::Done | State::Failed(_)) {
            if self.state == State::Data {
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - at);
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Chunk::Data { content: at..at + take, used: at + take };
            }
            self.state = self.step(input[at]).unwrap_or_else(State::Failed);
            at += 1;
        }
        match self.state {
            State::Done => Chunk::End { used: at },
            State::Failed(why) => Chunk::Invalid(why),
            _ => Chunk::NeedMore { used: at },
        }
    }

    fn step(&mut self, c: u8) -> Result<State, &'static str> {
        match self.state {
            State::Size { digits } => self.size(c, digits),
            State::Extension { quoted, escaped } => self.extension(c, quoted, escaped),
            State::SizeLf if c == b'\n' && self.left == 0 => Ok(State::TrailerStart),
            State::SizeLf if c == b'\n' => Ok(State::Data),
            State::DataCr if c == b'\r' => Ok(State::DataLf),
            State::DataLf if c == b'\n' => Ok(State::Size { digits: 0 }),
            State::TrailerStart if c == b'\r' => Ok(State::EndLf),
            State::EndLf if c == b'\n' => Ok(State::Done),
            State::TrailerLf if c == b'\n' => Ok(State::TrailerStart),
            State::TrailerStart | State::TrailerName | State::TrailerValue => self.trailer(c),
            State::DataCr | State::DataLf => Err("a chunk is longer than its size"),
            _ => Err("a chunk line does not end in CRLF"),
        }
    }

    fn size(&mut self, c: u8, digits: u8) -> Result<State, &'static str> {
        match ((c as char).to_digit(16), c) {
            (Some(_), _) if digits == SIZE_DIGITS => Err("a chunk size is too large"),
            (Some(digit), _) => {
                self.left = self.left * 16 + u64::from(digit);
                Ok(State::Size { digits: digits + 1 })
            }
            (None, b'\r') if digits > 0 => Ok(State::SizeLf),
            (None, b';') if digits > 0 => Ok(State::Extension { quoted: false, escaped: false }),
            _ => Err("a chunk size is malformed"),
        }
    }

    fn extension(&mut self, c: u8, quoted: bool, escaped: bool) -> Result<State, &'static str> {
        let spent = self.limits.extensions.checked_sub(1);
        self.limits.extensions = spent.ok_or("the chunk extensions are too long")?;
        match c {
            b'\r' if !quoted => Ok(State::SizeLf),
            b'\t' | b' '..=b'~' | 0x80.. => Ok(State::Extension {
                quoted: quoted != (c == b'"' && !escaped),
                escaped: quoted && c == b'\\' && !escaped,
            }),
            _ => Err("a chunk extension has forbidden characters"),
        }
    }

    fn trailer(&mut self, c: u8) -> Result<State, &'static str> {
        let spent = self.limits.trailers.checked_sub(1);
        self.limits.trailers = spent.ok_or("the trailers are too long")?;
        let in_name = c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        match (self.state, c) {
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if in_name => Ok(State::TrailerName),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::TrailerValue),
            _ => Err("a trailer is malformed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds pieces; gives content and what followed the body, or why it failed.
    fn run(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), &'static str> {
        let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
        let mut content = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            loop {
                match decoder.decode(rest) {
                    Chunk::Data { content: range, used } => {
                        content.extend_from_slice(&rest[range]);
                        rest = &rest[used..];
                    }
                    Chunk::NeedMore { .. } => break,
                    Chunk::End { .. } => return Ok((content, true)),
                    Chunk::Invalid(why) => return Err(why),
                }
            }
        }
        Ok((content, false))
    }

    #[test]
    fn decodes_well_formed_bodies() {
        for (body, want) in [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("A;x=y\r\n0123456789\r\n000\r\n\r\n", "0123456789"),
            ("1;a=\"q;\\\"\"\r\nx\r\n0;z\r\nT: v\r\nU:\r\n\r\n", "x"),
        ] {
            assert_eq!(run(&[body.as_bytes()]), Ok((want.as_bytes().to_vec(), true)), "{body:?}");
        }
    }

    #[test]
    fn refuses_what_others_might_read_differently() {
        for body in [
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhelloX\r\n",
            " 5\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "+5\r\nhello\r\n",
            "-1\r\n",
            "0x5\r\nhello\r\n",
            "\r\nhello\r\n",
            ";a\r\n",
            "5\r\rhello",
            "5;a\nhello\r\n",
            "5;a\rX\nhello\r\n",
            "5;a=\"\r\nhello\r\n",
            "1_0\r\n",
            "FFFFFFFFFFFFFFFFF\r\n",
            "0000000000000000\r\n",
            "0\r\n\n",
            "0\r\n: v\r\n\r\n",
            "0\r\nT : v\r\n\r\n",
            "0\r\n T: v\r\n\r\n",
            "0\r\nT: a\rb\r\n\r\n",
            "0\r\nT\r\n\r\n",
            "5;\0\r\n",
        ] {
            assert!(run(&[body.as_bytes()]).is_err(), "{body:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let extension = format!("1;{}\r\n", "a".repeat(5000));
        assert_eq!(run(&[extension.as_bytes()]), Err("the chunk extensions are too long"));
        let trailer = format!("0\r\nT: {}\r\n\r\n", "a".repeat(9000));
        assert_eq!(run(&[trailer.as_bytes()]), Err("the trailers are too long"));
        let many = "1;aaaaaaaaaaaaaaa\r\nx\r\n".repeat(400);
        assert_eq!(run(&[many.as_bytes()]), Err("the chunk extensions are too long"));
    }

    #[test]
    fn what_follows_the_body_is_left() {
        let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
        assert_eq!(decoder.decode(b"0\r\n\r\nGET /"), Chunk::End { used: 5 });
        assert_eq!(decoder.decode(b"GET /"), Chunk::End { used: 0 });
    }

    proptest! {
        #[test]
        fn splits_change_nothing(
            body in prop::collection::vec(
                prop::sample::select(b"0159aF\r\n;:\"= x".to_vec()), 0..60),
            cut in 0usize..60,
        ) {
            let cut = cut.min(body.len());
            prop_assert_eq!(run(&[&body]), run(&[&body[..cut], &body[cut..]]));
        }

        #[test]
        fn valid_bodies_survive_any_split(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            step in 1usize..7,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let pieces: Vec<&[u8]> = wire.chunks(step).collect();
            prop_assert_eq!(run(&pieces), Ok((chunks.concat(), true)));
        }
    }
}
