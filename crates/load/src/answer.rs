//! The protocol core: bytes of a connection in, events of its answers out. Pure: no sockets, no
//! clock.
//!
//! `Answer` is the state of one connection between two reads. The events, their order and the fault
//! do not depend on where the reads split the stream (only bodies come in other pieces). A head
//! that one read brings whole is parsed in place; only a split one is kept. Interim answers (1xx)
//! are skipped. It does not decide what a fault means for the run.

use crate::chunked::{Chunked, Piece};
use crate::fault::Fault;
use crate::head::{Framing, HEAD_BYTES_MAX, Head, Heads};

/// What the bytes meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Head(Head),
    Body(&'a [u8]),
    /// The answer is whole; `reusable` when the connection can carry another request.
    Complete {
        reusable: bool,
    },
}

/// Where in an answer the stream stands.
#[derive(Clone, Debug)]
enum State {
    Head,
    Body(u64),
    Chunked(Chunked),
    UntilClose,
}

/// One connection's reader of answers.
#[derive(Clone, Debug)]
pub struct Answer {
    state: State,
    keepalive: bool,
    /// The beginning of a head that no read has finished yet.
    partial: Vec<u8>,
}

impl Default for Answer {
    fn default() -> Self {
        Self { state: State::Head, keepalive: false, partial: Vec::new() }
    }
}

impl Answer {
    /// The next event and the rest of `input`. Ask again with the rest until there is no event: an
    /// empty rest can still hold one (a body of length 0 is complete without a further byte).
    #[inline]
    pub fn next<'a>(
        &mut self,
        heads: &mut Heads,
        input: &'a [u8],
    ) -> Result<(Option<Event<'a>>, &'a [u8]), Fault> {
        match &mut self.state {
            State::Head => self.head(heads, input),
            State::Body(0) => Ok((Some(self.complete()), input)),
            _ if input.is_empty() => Ok((None, input)),
            State::Body(left) => {
                let length = usize::try_from(*left).map_or(input.len(), |l| l.min(input.len()));
                *left -= length as u64;
                let (body, rest) = input.split_at(length);
                Ok((Some(Event::Body(body)), rest))
            }
            State::Chunked(_) => self.chunk(input),
            State::UntilClose => Ok((Some(Event::Body(input)), &[])),
        }
    }

    /// Bytes that the body of a known length still lacks; 0 for other bodies.
    #[inline]
    #[must_use]
    pub fn left(&self) -> u64 {
        if let State::Body(left) = self.state { left } else { 0 }
    }

    /// So many of those bytes have come and were thrown away.
    pub fn skip(&mut self, length: u64) {
        if let State::Body(left) = &mut self.state {
            *left = left.saturating_sub(length);
        }
    }

    /// The peer closed: the end of a body that only the close ends, else a fault.
    pub fn end(&mut self) -> Result<Event<'static>, Fault> {
        match self.state {
            State::UntilClose | State::Body(0) => Ok(self.complete()),
            _ => Err(Fault::Truncated),
        }
    }

    /// Forgets everything: the connection was replaced.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial.clear();
    }

    fn head<'a>(
        &mut self,
        heads: &mut Heads,
        mut input: &'a [u8],
    ) -> Result<(Option<Event<'a>>, &'a [u8]), Fault> {
        while !input.is_empty() {
            let (head, rest) = match self.one_head(heads, input)? {
                (Some(head), rest) => (head, rest),
                (None, rest) => return Ok((None, rest)),
            };
            if !head.is_interim() {
                self.begin_body(head);
                return Ok((Some(Event::Head(head)), rest));
            }
            input = rest;
        }
        Ok((None, input))
    }

    fn one_head<'a>(
        &mut self,
        heads: &mut Heads,
        input: &'a [u8],
    ) -> Result<(Option<Head>, &'a [u8]), Fault> {
        if self.partial.is_empty() {
            if let Some((head, length)) = heads.parse(input)? {
                return Ok((Some(head), &input[length..]));
            }
            self.partial.extend_from_slice(input);
            return Ok((None, &[]));
        }
        let before = self.partial.len();
        let taken = input.len().min(HEAD_BYTES_MAX - before);
        self.partial.extend_from_slice(&input[..taken]);
        let Some((head, length)) = heads.parse(&self.partial)? else {
            return Ok((None, &input[taken..]));
        };
        self.partial.clear();
        Ok((Some(head), &input[length - before..]))
    }

    fn begin_body(&mut self, head: Head) {
        self.keepalive = head.keepalive;
        self.state = match head.framing {
            Framing::Empty => State::Body(0),
            Framing::Length(length) => State::Body(length),
            Framing::Chunked => State::Chunked(Chunked::default()),
            Framing::UntilClose => State::UntilClose,
        };
    }

    fn chunk<'a>(&mut self, mut input: &'a [u8]) -> Result<(Option<Event<'a>>, &'a [u8]), Fault> {
        let State::Chunked(chunked) = &mut self.state else { unreachable!("asked in this state") };
        while !input.is_empty() {
            match chunked.next(input)? {
                Piece::Framing(used) => input = &input[used..],
                Piece::Data(used) => {
                    let (body, rest) = input.split_at(used);
                    return Ok((Some(Event::Body(body)), rest));
                }
                Piece::End(used) => return Ok((Some(self.complete()), &input[used..])),
            }
        }
        Ok((None, input))
    }

    fn complete(&mut self) -> Event<'static> {
        self.state = State::Head;
        Event::Complete { reusable: self.keepalive }
    }
}
