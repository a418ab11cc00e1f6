//! The head of an answer: its bytes in, status, framing and persistence out. Pure.
//!
//! Framing is strict (RFC 9112, section 6): what two readers could read in two ways is a fault,
//! never a guess. A server sends the same head thousands of times a second (its `Date` changes
//! once), so `Heads` keeps the last good one: bytes equal to bytes that were judged need no second
//! judgement. The body is not this file's business.

use crate::fault::Fault;

/// Longest head that is read; Apache and nginx send at most 8 KiB by default.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Fields that a head has room for on the usual way; one with more takes a way of its own.
const FIELDS_USUAL: usize = 128;
/// As many as fit at all: the shortest is `a:` and its line end.
const FIELDS_MAX: usize = HEAD_BYTES_MAX / 4;
/// A longer head is parsed each time: copying it would cost more than it saves.
const KNOWN_BYTES_MAX: usize = 2 * 1024;
const PREFIX: &[u8] = b"HTTP/1.";

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body can follow: 204, 304, an answer to HEAD.
    Empty,
    Length(u64),
    Chunked,
    UntilClose,
}

/// What the rest of the machinery needs to know of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub framing: Framing,
    /// The server keeps the connection open after this answer.
    pub keepalive: bool,
}

impl Head {
    /// 1xx: the final answer is still to come.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }
}

/// Parses heads of answers to one kind of request.
#[derive(Clone, Debug)]
pub struct Heads {
    request_is_head: bool,
    /// Only a head that says `keep-alive` keeps its connection, as clients of HTTP/1.0 have it.
    keeps_when_told: bool,
    known: Vec<u8>,
    /// The first one that was not interim, as it came.
    first: Vec<u8>,
    known_head: Head,
    /// Whether somebody wants to see the heads, and the last one then.
    keeps: bool,
    last: Vec<u8>,
}

impl Heads {
    #[must_use]
    pub fn new(method: &str) -> Self {
        let known_head = Head { status: 0, framing: Framing::Empty, keepalive: false };
        Self {
            request_is_head: method == "HEAD",
            keeps_when_told: false,
            known: Vec::new(),
            first: Vec::new(),
            known_head,
            keeps: false,
            last: Vec::new(),
        }
    }

    #[must_use]
    pub fn keeping_when_told(self, keeps_when_told: bool) -> Self {
        Self { keeps_when_told, ..self }
    }

    /// The next answer is to a HEAD request or not, and its head is to be kept or not.
    pub fn expect(&mut self, request_is_head: bool, keeps: bool) {
        if self.request_is_head != request_is_head {
            self.request_is_head = request_is_head;
            self.known.clear();
        }
        self.keeps = keeps;
    }

    /// The last head as it came, if it was to be kept.
    #[must_use]
    pub fn last(&self) -> &[u8] {
        &self.last
    }

    /// The head at the start of `bytes` and its length; `None` when it goes on past their end.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
        if !self.known.is_empty() && bytes.starts_with(&self.known) {
            self.keep(&bytes[..self.known.len()]);
            return Ok(Some((self.known_head, self.known.len())));
        }
        let Some(length) = head_length(bytes)? else { return Ok(None) };
        let head = parse_whole(&bytes[..length], self.asked())?;
        self.keep(&bytes[..length]);
        if self.first.is_empty() && !head.is_interim() {
            self.first.extend_from_slice(&bytes[..length]);
        }
        if length <= KNOWN_BYTES_MAX {
            self.known.clear();
            self.known.extend_from_slice(&bytes[..length]);
            self.known_head = head;
        }
        Ok(Some((head, length)))
    }

    fn asked(&self) -> Asked {
        Asked { to_head: self.request_is_head, keeps_when_told: self.keeps_when_told }
    }

    #[inline]
    fn keep(&mut self, head: &[u8]) {
        if self.keeps {
            self.last.clear();
            self.last.extend_from_slice(head);
        }
    }

    /// The bytes of the first head that was parsed; none were, it is empty.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        &self.first
    }
}

/// What of the request an answer's head depends on.
#[derive(Clone, Copy)]
struct Asked {
    to_head: bool,
    keeps_when_told: bool,
}

/// The offset after the empty line. Faults show as early as they can: a server that speaks
/// something else than HTTP would otherwise be waited for until the timeout.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let prefix = bytes.len().min(PREFIX.len());
    if bytes[..prefix] != PREFIX[..prefix] {
        return Err(Fault::NotHttp);
    }
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    for feed in memchr::memchr_iter(b'\n', window) {
        if feed == 0 || window[feed - 1] != b'\r' {
            return Err(Fault::BareLineFeed);
        }
        if feed >= 3 && window[feed - 2] == b'\n' {
            return Ok(Some(feed + 1));
        }
    }
    if bytes.len() >= HEAD_BYTES_MAX { Err(Fault::HeadTooLong) } else { Ok(None) }
}

fn parse_whole(bytes: &[u8], asked: Asked) -> Result<Head, Fault> {
    parse_with::<FIELDS_USUAL>(bytes, asked)
        .or_else(|| parse_crowded(bytes, asked))
        .unwrap_or(Err(Fault::BadHead))
}

/// Half a megabyte of stack that most runs never touch; a heap would be asked for each answer.
#[cold]
#[inline(never)]
fn parse_crowded(bytes: &[u8], asked: Asked) -> Option<Result<Head, Fault>> {
    parse_with::<FIELDS_MAX>(bytes, asked)
}

/// `None`: there are more than `N` fields.
fn parse_with<const N: usize>(bytes: &[u8], asked: Asked) -> Option<Result<Head, Fault>> {
    let mut storage = [const { std::mem::MaybeUninit::uninit() }; N];
    let mut answer = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    // RFC 9112, 5.2: a user agent reads a folded line as a space.
    config.allow_obsolete_multiline_headers_in_responses(true);
    match config.parse_response_with_uninit_headers(&mut answer, bytes, &mut storage) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return None,
        _ => return Some(Err(Fault::BadHead)),
    }
    Some(judge(&answer, asked))
}

fn judge(answer: &httparse::Response<'_, '_>, asked: Asked) -> Result<Head, Fault> {
    let status = answer.code.filter(|code| *code >= 100).ok_or(Fault::BadHead)?;
    if status == 101 {
        return Err(Fault::Upgraded);
    }
    let fields = Fields::collect(answer.headers)?;
    let persistent = answer.version == Some(1);
    let framing = fields.framing(status, asked.to_head, persistent)?;
    let by_itself = persistent && !asked.keeps_when_told;
    let keepalive = !fields.close && (by_itself || fields.keepalive);
    Ok(Head { status, framing, keepalive: keepalive && framing != Framing::UntilClose })
}

/// The header fields that decide framing and persistence.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    /// Any Transfer-Encoding; it is accepted only when it ends in one `chunked`.
    coded: bool,
    chunked: bool,
    close: bool,
    keepalive: bool,
}

impl Fields {
    fn collect(headers: &[httparse::Header<'_>]) -> Result<Self, Fault> {
        let mut fields = Self::default();
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                fields.take_length(header.value)?;
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                fields.take_coding(header.value)?;
            } else if header.name.eq_ignore_ascii_case("connection") {
                fields.take_connection(header.value);
            }
        }
        Ok(fields)
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        // What is left of a line that was folded before or after the number.
        let value = value.trim_ascii();
        if self.length.is_some() || value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Fault::BadLength);
        }
        let text = std::str::from_utf8(value).map_err(|_| Fault::BadLength)?;
        self.length = Some(text.parse().map_err(|_| Fault::BadLength)?);
        Ok(())
    }

    fn take_coding(&mut self, value: &[u8]) -> Result<(), Fault> {
        self.coded = true;
        for coding in tokens(value) {
            if self.chunked {
                return Err(Fault::BadTransferCoding);
            }
            self.chunked = coding.eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in tokens(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keepalive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn framing(&self, status: u16, to_head: bool, persistent: bool) -> Result<Framing, Fault> {
        if self.coded && self.length.is_some() {
            return Err(Fault::BothLengths);
        }
        if self.coded && (!self.chunked || !persistent) {
            return Err(Fault::BadTransferCoding);
        }
        Ok(if to_head || status < 200 || status == 204 || status == 304 {
            Framing::Empty
        } else if self.chunked {
            Framing::Chunked
        } else {
            self.length.map_or(Framing::UntilClose, Framing::Length)
        })
    }
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(Head, usize)>, Fault> {
        Heads::new("GET").parse(text.as_bytes())
    }

    fn head(text: &str) -> Head {
        parse(text).expect("a good head").expect("a whole head").0
    }

    fn fault(text: &str) -> Fault {
        parse(text).expect_err("a fault")
    }

    #[test]
    fn framing_follows_the_fields() {
        let of = |fields: &str| head(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).framing;
        assert_eq!(of("Content-Length: 12\r\n"), Framing::Length(12));
        assert_eq!(of("content-length:0\r\n"), Framing::Length(0));
        assert_eq!(of("Transfer-Encoding: Chunked\r\n"), Framing::Chunked);
        assert_eq!(of("Transfer-Encoding: gzip, chunked\r\n"), Framing::Chunked);
        assert_eq!(
            of("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
            Framing::Chunked
        );
        assert_eq!(of(""), Framing::UntilClose);
    }

    #[test]
    fn some_answers_have_no_body_whatever_they_say() {
        assert_eq!(head("HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n").framing, Framing::Empty);
        assert_eq!(head("HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n").framing, Framing::Empty);
        assert_eq!(head("HTTP/1.1 100 Go\r\n\r\n").framing, Framing::Empty);
        let to_head = Heads::new("HEAD").parse(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
        assert_eq!(to_head.expect("good").expect("whole").0.framing, Framing::Empty);
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        let of = |version, fields| {
            head(&format!("HTTP/1.{version} 200 OK\r\nContent-Length: 1\r\n{fields}\r\n")).keepalive
        };
        assert!(of(1, ""));
        assert!(!of(1, "Connection: Close\r\n"));
        assert!(!of(1, "Connection: foo, close\r\n"));
        assert!(!of(0, ""));
        assert!(of(0, "Connection: keep-alive\r\n"));
        assert!(!of(0, "Connection: keep-alive, close\r\n"));
        let mut strict = Heads::new("GET").keeping_when_told(true);
        let mut told = |fields: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{fields}\r\n");
            strict.parse(head.as_bytes()).expect("good").expect("whole").0.keepalive
        };
        assert!(!told("") && told("Connection: Keep-Alive\r\n"));
        assert!(!head("HTTP/1.1 200 OK\r\n\r\n").keepalive, "the close is the end of the body");
    }

    #[test]
    fn ambiguous_framing_is_a_fault() {
        let of = |fields: &str| fault(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        assert_eq!(of("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), Fault::BothLengths);
        assert_eq!(of("Content-Length: 1\r\nContent-Length: 1\r\n"), Fault::BadLength);
        for bad in ["+1", "-1", "0x1", "1 2", "", "99999999999999999999", "1,1"] {
            assert_eq!(of(&format!("Content-Length: {bad}\r\n")), Fault::BadLength, "{bad}");
        }
        for bad in ["gzip", "chunked, gzip", "chunked, chunked", "xchunked"] {
            let fields = format!("Transfer-Encoding: {bad}\r\n");
            assert_eq!(of(&fields), Fault::BadTransferCoding, "{bad}");
        }
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(fault(old), Fault::BadTransferCoding);
    }

    #[test]
    fn what_is_not_http_is_a_fault_at_once() {
        assert_eq!(fault("SSH-2.0-OpenSSH_9.2"), Fault::NotHttp);
        assert_eq!(fault("HTTP/2.0 200 OK\r\n\r\n"), Fault::NotHttp);
        assert_eq!(fault("\x15\x03\x01"), Fault::NotHttp);
        assert_eq!(fault("HTTP/1.1 200 OK\n"), Fault::BareLineFeed);
        assert_eq!(fault("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n"), Fault::BareLineFeed);
        assert_eq!(fault("HTTP/1.1 200 OK\r\nA : b\r\n\r\n"), Fault::BadHead);
        assert_eq!(fault("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n"), Fault::BadHead);
        assert_eq!(fault("HTTP/1.1 099 No\r\n\r\n"), Fault::BadHead);
        assert_eq!(fault("HTTP/1.1 20 No\r\n\r\n"), Fault::BadHead);
        assert_eq!(fault("HTTP/1.1 101 Switch\r\n\r\n"), Fault::Upgraded);
    }

    #[test]
    fn fields_are_as_many_as_the_head_has_room_for() {
        let with = |count: usize| {
            let fields: String = (0..count).map(|n| format!("X-{n}: a\r\n")).collect();
            parse(&format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 5\r\n\r\n"))
        };
        for count in [126, 127, 128, 129, 300, 5_000] {
            let (head, _) = with(count).expect("a good head").expect("a whole head");
            assert_eq!(head.framing, Framing::Length(5), "{count}");
        }
        assert_eq!(with(10_000), Err(Fault::HeadTooLong));
        let shortest = "a:\r\n".repeat((HEAD_BYTES_MAX - 20) / 4);
        let crowded = format!("HTTP/1.1 200 OK\r\n{shortest}\r\n");
        assert_eq!(head(&crowded).framing, Framing::UntilClose);
        let bad_at_the_end = format!("HTTP/1.1 200 OK\r\n{}A : b\r\n\r\n", "a:\r\n".repeat(300));
        assert_eq!(fault(&bad_at_the_end), Fault::BadHead);
    }

    #[test]
    fn a_folded_line_is_a_space() {
        let of = |fields: &str| parse(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        let framing = |fields: &str| of(fields).expect("good").expect("whole").0.framing;
        assert_eq!(framing("A: b\r\n c\r\n\td\r\nContent-Length: 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Content-Length:\r\n 5\r\n"), Framing::Length(5));
        assert_eq!(framing("Transfer-Encoding: gzip,\r\n\tchunked\r\n"), Framing::Chunked);
        assert_eq!(of("Content-Length: 1\r\n 2\r\n"), Err(Fault::BadLength));
        assert_eq!(of("Transfer-Encoding: chun\r\n ked\r\n"), Err(Fault::BadTransferCoding));
        assert_eq!(of(" A: b\r\nContent-Length: 5\r\n"), Err(Fault::BadHead), "nothing to fold");
        // A field that only looks like one is a part of the line before.
        assert_eq!(framing("A: b\r\n Content-Length: 5\r\n"), Framing::UntilClose);
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(fault(&long), Fault::HeadTooLong);
        assert_eq!(parse("HTTP/1.1 200 OK\r\nA: x"), Ok(None));
        assert_eq!(parse("HTT"), Ok(None));
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn a_known_head_is_recognised_only_when_equal() {
        let mut heads = Heads::new("GET");
        let first = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
        for (bytes, length) in [(first, 5), (first, 5), (other, 6), (first, 5)] {
            let (head, end) = heads.parse(bytes).expect("good").expect("whole");
            assert_eq!((head.framing, end), (Framing::Length(length), bytes.len()));
        }
        assert_eq!(heads.first(), first);
    }
}
