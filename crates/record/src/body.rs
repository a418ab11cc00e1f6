//! A body on its way: taken out of one side's framing, put into the other's. Pure.

use std::io::Write as _;

use drom_load::protocol::{Chunked, Fault, Framing, Piece};

/// What is still to come of a body.
#[derive(Clone, Debug)]
pub enum Body {
    Done,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Body {
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty | Framing::Length(0) => Self::Done,
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunked::default()),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// The body's bytes at the front of `input`, behind so many bytes of framing. Ask again with
    /// what is behind both, as long as something was there.
    pub fn next<'i>(&mut self, input: &'i [u8]) -> Result<(usize, &'i [u8]), Fault> {
        match self {
            Self::Done => Ok((0, &[])),
            Self::UntilClose => Ok((0, input)),
            Self::Length(left) => {
                let length = usize::try_from(*left).map_or(input.len(), |l| l.min(input.len()));
                *left -= length as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok((0, &input[..length]))
            }
            Self::Chunked(chunked) => match chunked.next(input)? {
                Piece::Framing(length) => Ok((length, &[])),
                Piece::Data(length) => Ok((0, &input[..length])),
                Piece::End(length) => {
                    *self = Self::Done;
                    Ok((length, &[]))
                }
            },
        }
    }

    /// The sender closed.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self {
            Self::Done => Ok(()),
            Self::UntilClose => {
                *self = Self::Done;
                Ok(())
            }
            Self::Length(_) | Self::Chunked(_) => Err(Fault::Truncated),
        }
    }
}

/// How a body goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Its length, or its end, is known otherwise.
    Plain,
    Chunked,
}

impl Coding {
    pub fn put(self, piece: &[u8], out: &mut Vec<u8>) {
        if self == Self::Plain || piece.is_empty() {
            return out.extend_from_slice(piece);
        }
        write!(out, "{:x}\r\n", piece.len()).expect("writing to memory cannot fail");
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }

    pub fn finish(self, out: &mut Vec<u8>) {
        if self == Self::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body, and how many bytes of `input` belong to it when it ends there.
    fn take(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<usize>), Fault> {
        let (mut body, mut out, mut used) = (Body::new(framing), Vec::new(), 0);
        for piece in pieces {
            let mut input = *piece;
            while !body.is_done() && !input.is_empty() {
                let (skipped, data) = body.next(input)?;
                out.extend_from_slice(data);
                used += skipped + data.len();
                input = &input[skipped + data.len()..];
            }
        }
        Ok((out, body.is_done().then_some(used)))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let of = |framing, text: &str| take(framing, &[text.as_bytes()]).expect("well framed");
        assert_eq!(of(Framing::Length(3), "abcd"), (b"abc".to_vec(), Some(3)));
        assert_eq!(of(Framing::Length(3), "ab"), (b"ab".to_vec(), None));
        assert_eq!(of(Framing::Empty, "ab"), (Vec::new(), Some(0)));
        assert_eq!(of(Framing::Chunked, "2\r\nab\r\n0\r\n\r\nx"), (b"ab".to_vec(), Some(12)));
        assert_eq!(of(Framing::UntilClose, "ab"), (b"ab".to_vec(), None));
        assert!(Body::new(Framing::UntilClose).end().is_ok());
        assert_eq!(Body::new(Framing::Length(1)).end(), Err(Fault::Truncated));
        assert_eq!(take(Framing::Chunked, &[b"x\r\n"]), Err(Fault::BadChunk));
    }

    proptest! {
        #[test]
        fn chunks_are_read_as_they_were_written(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 0usize..200,
        ) {
            let mut wire = Vec::new();
            pieces.iter().for_each(|piece| Coding::Chunked.put(piece, &mut wire));
            Coding::Chunked.finish(&mut wire);
            let (front, back) = wire.split_at(cut.min(wire.len()));
            let (body, end) = take(Framing::Chunked, &[front, back]).expect("well framed");
            prop_assert_eq!(body, pieces.concat());
            prop_assert_eq!(end, Some(wire.len()));
        }
    }
}
