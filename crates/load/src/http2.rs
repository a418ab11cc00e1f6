//! One HTTP/2 connection, the client's side: requests to bytes, bytes to events. Pure.
//!
//! Frames are RFC 9113's; header blocks are `blocks.rs`. A request's block is the same each time,
//! so it is made once a run ([`Template`]): the first on a connection fills the server's table,
//! all others only point into it. Windows are opened so wide that they do not hold answers up;
//! those of the server are kept. What an event means for a request is decided in
//! `lane/streams.rs`.

mod blocks;
mod packed;

use std::sync::Arc;

use drom_scenario::Request;

use crate::fault::Fault;
use blocks::Reader;
pub use blocks::Template;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
/// The largest frame that we allow: the protocol's default.
const FRAME_BYTES_MAX: usize = 16_384;
/// The longest header block, as in HTTP/1.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// What a stream may send before it is told that it may send more.
const WINDOW: u32 = 1 << 30;
/// A window, of a stream or of the connection, is opened anew when so much of it is used.
pub const WINDOW_STEP: u32 = 1 << 29;
const WINDOW_DEFAULT: i64 = 65_535;
/// The table size of a server that says nothing of it.
const TABLE_DEFAULT: u32 = 4_096;
/// Streams are numbered by odd numbers up to 2^31; a new connection is due well before.
const STREAM_MAX: u32 = 0x7fff_0000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 0x20;

const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// What the bytes meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The final head of an answer; `length` when it tells one.
    Head {
        stream: u32,
        status: u16,
        length: Option<u64>,
    },
    Body {
        stream: u32,
        bytes: &'a [u8],
    },
    End {
        stream: u32,
    },
    /// The server gives the stream up; `refused`: it has not looked at the request.
    Reset {
        stream: u32,
        refused: bool,
    },
}

/// Where a connection stands.
pub struct Http2 {
    /// Bytes to be written.
    pub out: Vec<u8>,
    /// The beginning of a frame that no read has finished yet.
    partial: Vec<u8>,
    data: Option<Data>,
    /// A header block that goes on in the next frame.
    block: Option<Block>,
    /// A stream whose head was its end, too.
    ended: Option<u32>,
    reader: Reader,
    next_stream: u32,
    /// Header blocks sent, and whether the server's table is too small for them.
    blocks: Blocks,
    peer: Peer,
    /// What we may still send on all streams.
    window: i64,
    uploads: Vec<Upload>,
    /// A block that is being made.
    scratch: Vec<u8>,
    /// Bytes of bodies since the connection's window was opened.
    received: u32,
    greeted: bool,
    /// The last stream that the server answers on this connection.
    last: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    None,
    InTable,
    /// The server is still to be told that nothing is in its table.
    Forgone,
    Plain,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    streams_max: u32,
    window: i64,
    frame_bytes_max: usize,
}

/// A DATA frame that is being read.
#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    left: usize,
    padding: usize,
    is_last: bool,
}

struct Block {
    stream: u32,
    is_last: bool,
    bytes: Vec<u8>,
}

/// A request body that is not sent as a whole.
struct Upload {
    stream: u32,
    body: Arc<[u8]>,
    sent: usize,
    window: i64,
}

#[derive(Clone, Copy)]
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        let mut out = PREFACE.to_vec();
        put_frame(&mut out, SETTINGS, 0, 0, 12);
        for (name, value) in [(2u16, 0u32), (4, WINDOW)] {
            out.extend_from_slice(&name.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        put_number_frame(&mut out, WINDOW_UPDATE, 0, WINDOW);
        let peer = Peer {
            streams_max: u32::MAX,
            window: WINDOW_DEFAULT,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        Self {
            out,
            partial: Vec::new(),
            data: None,
            block: None,
            ended: None,
            reader: Reader::default(),
            next_stream: 1,
            blocks: Blocks::None,
            peer,
            window: WINDOW_DEFAULT,
            uploads: Vec::new(),
            scratch: Vec::new(),
            received: 0,
            greeted: false,
            last: None,
        }
    }
}

impl Http2 {
    /// Puts a request into `out`; its stream.
    pub fn request(&mut self, template: &Template) -> u32 {
        let block = match self.blocks {
            Blocks::None => &template.first,
            Blocks::InTable => &template.again,
            Blocks::Forgone => &template.forgoing,
            Blocks::Plain => &template.plain,
        };
        self.blocks = match self.blocks {
            Blocks::None | Blocks::InTable => Blocks::InTable,
            Blocks::Forgone | Blocks::Plain => Blocks::Plain,
        };
        let body = &template.body;
        self.put_request(block, (!body.is_empty()).then(|| Arc::clone(body)))
    }

    /// Puts a request that is like no other into `out`; its stream. The server's table stays empty.
    pub fn send(&mut self, request: &Request, is_secure: bool) -> u32 {
        let mut block = std::mem::take(&mut self.scratch);
        block.clear();
        blocks::put_request(&mut block, request, is_secure);
        let body = request.body();
        let stream = self.put_request(&block, (!body.is_empty()).then(|| body.into()));
        self.scratch = block;
        stream
    }

    fn put_request(&mut self, block: &[u8], body: Option<Arc<[u8]>>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let end = if body.is_none() { END_STREAM } else { 0 };
        let mut kind = HEADERS;
        let mut pieces = block.chunks(self.peer.frame_bytes_max).peekable();
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            let flags = if kind == HEADERS { end | last } else { last };
            put_frame(&mut self.out, kind, flags, stream, piece.len());
            self.out.extend_from_slice(piece);
            kind = CONTINUATION;
        }
        if let Some(body) = body {
            let window = self.peer.window;
            self.uploads.push(Upload { stream, body, sent: 0, window });
            self.upload();
        }
        stream
    }

    /// Whether heads of answers are to be kept as a text.
    pub fn keep_heads(&mut self, keeps: bool) {
        self.reader.keeps = keeps;
    }

    /// The last one: `name: value` and a line end for each field.
    #[must_use]
    pub fn last_head(&self) -> &[u8] {
        &self.reader.text
    }

    /// Requests that may be under way at once.
    #[must_use]
    pub fn places(&self) -> usize {
        let is_worn = self.last.is_some() || self.next_stream > STREAM_MAX;
        if is_worn { 0 } else { self.peer.streams_max as usize }
    }

    /// So many the server allows at once (SETTINGS_MAX_CONCURRENT_STREAMS).
    #[must_use]
    pub fn streams_max(&self) -> u32 {
        self.peer.streams_max
    }

    /// The server has said what it allows.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// The server takes no more requests here, and answers none after this stream.
    #[must_use]
    pub fn last_stream(&self) -> Option<u32> {
        self.last
    }

    /// Gives a request up.
    pub fn cancel(&mut self, stream: u32) {
        self.uploads.retain(|upload| upload.stream != stream);
        put_number_frame(&mut self.out, RST_STREAM, stream, CANCEL);
    }

    /// Lets the server send so much more on a stream.
    pub fn widen(&mut self, stream: u32, bytes: u32) {
        put_number_frame(&mut self.out, WINDOW_UPDATE, stream, bytes);
    }

    /// The next event and the rest of `input`. Ask again with the rest until there is no event.
    pub fn next<'a>(
        &mut self,
        mut input: &'a [u8],
    ) -> Result<(Option<Event<'a>>, &'a [u8]), Fault> {
        loop {
            if let Some(stream) = self.ended.take() {
                return Ok((Some(Event::End { stream }), input));
            }
            if self.data.is_some() {
                let (event, rest) = self.data(input);
                if event.is_some() || self.data.is_some() {
                    return Ok((event, rest));
                }
                input = rest;
                continue;
            }
            let (event, rest, is_whole) = self.frame(input)?;
            if event.is_some() || !is_whole {
                return Ok((event, rest));
            }
            input = rest;
        }
    }

    /// One frame, or for DATA its beginning; false when it goes on past the end of `input`.
    fn frame<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<(Option<Event<'static>>, &'a [u8], bool), Fault> {
        if self.partial.is_empty() {
            if let Some(length) = whole(input) {
                let (frame, rest) = input.split_at(length);
                return self.act(frame).map(|event| (event, rest, true));
            }
            check_head(input, self.greeted)?;
            self.partial.extend_from_slice(input);
            return Ok((None, &[], false));
        }
        let mut rest = input;
        while whole(&self.partial).is_none() {
            let lacks = lacking(&self.partial).min(rest.len());
            if lacks == 0 {
                check_head(&self.partial, self.greeted)?;
                return Ok((None, rest, false));
            }
            self.partial.extend_from_slice(&rest[..lacks]);
            rest = &rest[lacks..];
        }
        let mut frame = std::mem::take(&mut self.partial);
        let event = self.act(&frame)?;
        frame.clear();
        self.partial = frame;
        Ok((event, rest, true))
    }

    /// Of a DATA frame only the head and the length of its padding are here.
    fn act(&mut self, frame: &[u8]) -> Result<Option<Event<'static>>, Fault> {
        let head = FrameHead::read(frame);
        check_head(frame, self.greeted)?;
        let payload = &frame[FRAME_HEAD..];
        if self.block.is_some() != (head.kind == CONTINUATION) {
            return Err(Fault::BadFrame);
        }
        match head.kind {
            DATA => self.begin_data(head, payload)?,
            HEADERS => return self.headers(head, payload),
            CONTINUATION => return self.continuation(head, payload),
            RST_STREAM => {
                let refused = number(payload)? == REFUSED_STREAM;
                self.uploads.retain(|upload| upload.stream != head.stream);
                return Ok(Some(Event::Reset { stream: head.stream, refused }));
            }
            SETTINGS => self.settings(head, payload)?,
            PING if head.flags & ACK == 0 => {
                put_frame(&mut self.out, PING, ACK, 0, payload.len());
                self.out.extend_from_slice(payload);
            }
            GOAWAY => self.last = Some(number(payload)? & 0x7fff_ffff),
            WINDOW_UPDATE => self.open(head.stream, number(payload)?)?,
            PUSH_PROMISE => return Err(Fault::BadFrame),
            PRIORITY | PING => {}
            // Frames of unknown kinds are ignored (RFC 9113, section 5.5).
            _ => {}
        }
        Ok(None)
    }

    fn begin_data(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let is_padded = head.flags & PADDED != 0;
        let padding = if is_padded { usize::from(payload[0]) } else { 0 };
        let around = padding + usize::from(is_padded);
        let left = head.length.checked_sub(around).ok_or(Fault::BadFrame)?;
        let is_last = head.flags & END_STREAM != 0;
        self.data = Some(Data { stream: head.stream, left, padding, is_last });
        self.received += head.length as u32;
        if self.received >= WINDOW_STEP {
            put_number_frame(&mut self.out, WINDOW_UPDATE, 0, self.received);
            self.received = 0;
        }
        Ok(())
    }

    /// Goes on with the DATA frame.
    fn data<'a>(&mut self, input: &'a [u8]) -> (Option<Event<'a>>, &'a [u8]) {
        let Some(data) = &mut self.data else { return (None, input) };
        if data.left > 0 {
            if input.is_empty() {
                return (None, input);
            }
            let (bytes, rest) = input.split_at(data.left.min(input.len()));
            data.left -= bytes.len();
            return (Some(Event::Body { stream: data.stream, bytes }), rest);
        }
        let padding = data.padding.min(input.len());
        data.padding -= padding;
        let rest = &input[padding..];
        if data.padding > 0 {
            return (None, rest);
        }
        let end = data.is_last.then_some(Event::End { stream: data.stream });
        self.data = None;
        (end, rest)
    }

    fn headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        let mut block = payload;
        let mut padding = 0;
        if head.flags & PADDED != 0 {
            let (length, rest) = block.split_first().ok_or(Fault::BadFrame)?;
            (padding, block) = (usize::from(*length), rest);
        }
        if head.flags & WITH_PRIORITY != 0 {
            block = block.get(5..).ok_or(Fault::BadFrame)?;
        }
        let length = block.len().checked_sub(padding).ok_or(Fault::BadFrame)?;
        let (stream, is_last) = (head.stream, head.flags & END_STREAM != 0);
        if head.flags & END_HEADERS != 0 {
            return self.decode(stream, is_last, &block[..length]);
        }
        self.block = Some(Block { stream, is_last, bytes: block[..length].to_vec() });
        Ok(None)
    }

    fn continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        let mut block = self.block.take().ok_or(Fault::BadFrame)?;
        if head.stream != block.stream {
            return Err(Fault::BadFrame);
        }
        block.bytes.extend_from_slice(payload);
        if block.bytes.len() > BLOCK_BYTES_MAX {
            return Err(Fault::HeadTooLong);
        }
        if head.flags & END_HEADERS != 0 {
            return self.decode(block.stream, block.is_last, &block.bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    fn decode(
        &mut self,
        stream: u32,
        is_last: bool,
        block: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        let head = self.reader.read(block)?;
        if is_last {
            self.ended = Some(stream);
        }
        // Without a status they are trailers; with 1xx the answer is still to come.
        let is_final = |(status, _): &(u16, Option<u64>)| *status >= 200;
        Ok(head.filter(is_final).map(|(status, length)| Event::Head { stream, status, length }))
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        self.greeted = true;
        if head.flags & ACK != 0 {
            return Ok(());
        }
        for setting in payload.chunks(6) {
            let [a, b, value @ ..] = setting else { return Err(Fault::BadFrame) };
            let value = number(value)?;
            match u16::from_be_bytes([*a, *b]) {
                1 if value < TABLE_DEFAULT => self.blocks = Blocks::Forgone,
                3 => self.peer.streams_max = value,
                4 => self.resize(i64::from(value)),
                5 => self.peer.frame_bytes_max = value as usize,
                _ => {}
            }
        }
        put_frame(&mut self.out, SETTINGS, ACK, 0, 0);
        self.upload();
        Ok(())
    }

    fn resize(&mut self, window: i64) {
        let more = window - self.peer.window;
        self.peer.window = window;
        self.uploads.iter_mut().for_each(|upload| upload.window += more);
    }

    fn open(&mut self, stream: u32, more: u32) -> Result<(), Fault> {
        let more = i64::from(more & 0x7fff_ffff);
        if stream == 0 {
            self.window += more;
            if self.window > i64::from(i32::MAX) {
                return Err(Fault::BadFrame);
            }
        } else if let Some(upload) = self.uploads.iter_mut().find(|u| u.stream == stream) {
            upload.window += more;
        }
        self.upload();
        Ok(())
    }

    /// Sends of the bodies what the windows allow.
    fn upload(&mut self) {
        let (out, window) = (&mut self.out, &mut self.window);
        for upload in &mut self.uploads {
            loop {
                let left = upload.body.len() - upload.sent;
                let allowed = usize::try_from((*window).min(upload.window)).unwrap_or(0);
                let length = left.min(allowed).min(self.peer.frame_bytes_max);
                if length == 0 {
                    break;
                }
                let end = if length == left { END_STREAM } else { 0 };
                put_frame(out, DATA, end, upload.stream, length);
                out.extend_from_slice(&upload.body[upload.sent..upload.sent + length]);
                upload.sent += length;
                upload.window -= length as i64;
                *window -= length as i64;
            }
        }
        self.uploads.retain(|upload| upload.sent < upload.body.len());
    }
}

impl FrameHead {
    fn read(bytes: &[u8]) -> Self {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & 0x7fff_ffff;
        Self { length, kind: bytes[3], flags: bytes[4], stream }
    }

    /// What is needed of the frame before it can be acted on.
    fn needed(self) -> usize {
        match self.kind {
            DATA => FRAME_HEAD + usize::from(self.flags & PADDED != 0),
            _ => FRAME_HEAD + self.length,
        }
    }
}

/// How much of `bytes` is the next frame, if that is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let needed =
        if bytes.len() < FRAME_HEAD { FRAME_HEAD } else { FrameHead::read(bytes).needed() };
    (bytes.len() >= needed).then_some(needed)
}

fn lacking(bytes: &[u8]) -> usize {
    let needed =
        if bytes.len() < FRAME_HEAD { FRAME_HEAD } else { FrameHead::read(bytes).needed() };
    needed - bytes.len()
}

/// A server that speaks something else shows in its first bytes: it would be waited for in vain.
fn check_head(bytes: &[u8], greeted: bool) -> Result<(), Fault> {
    if !greeted && bytes.len() >= 4 && bytes[3] != SETTINGS {
        return Err(Fault::NotHttp2);
    }
    if bytes.len() < FRAME_HEAD {
        return Ok(());
    }
    let head = FrameHead::read(bytes);
    let of_stream = matches!(head.kind, DATA | HEADERS | RST_STREAM | CONTINUATION);
    let is_padded = head.kind == DATA && head.flags & PADDED != 0;
    let bad = head.length > FRAME_BYTES_MAX
        || of_stream && head.stream == 0
        || is_padded && head.length == 0
        || head.kind == PING && head.length != 8;
    if bad { Err(Fault::BadFrame) } else { Ok(()) }
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    let length = (length as u32).to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

fn put_number_frame(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    put_frame(out, kind, 0, stream, 4);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The first four bytes of a payload.
fn number(payload: &[u8]) -> Result<u32, Fault> {
    let four = payload.get(..4).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or(Fault::BadFrame)
}
