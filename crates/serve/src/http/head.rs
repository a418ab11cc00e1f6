//! A request head: `parse_head` answers with a `Head`, with "more bytes are needed", or with the
//! status that refuses it. Strict where RFC 9112 lets a server choose, since leniency is what
//! request smuggling lives on. Fields are kept as offsets into the caller's buffer: a head that is
//! read again costs no allocation.

use std::ops::Range;

/// What a client may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the request line (LimitRequestLine).
    pub line: usize,
    /// Number of fields, 0 for any number (LimitRequestFields).
    pub fields: usize,
    /// Bytes of one field (LimitRequestFieldSize).
    pub field_size: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 8190, fields: 100, field_size: 8190 }
    }
}

/// More fields than this are refused even when `LimitRequestFields` is 0.
const MOST_FIELDS: usize = 4096;
/// Content-Length beyond this is refused as no number, as by Apache: others may read it wrapped.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// HTTP/1.0 or 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http10,
    Http11,
}

/// The form of the request target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `/path?query`, or the same out of an absolute URI, where the path may be empty.
    Path { path: Range<usize>, query: Option<Range<usize>> },
    /// `*`, with OPTIONS only.
    Asterisk,
}

/// How the body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    None,
    Length(u64),
    Chunked,
}

/// One field, as offsets into the buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Range<usize>,
    pub value: Range<usize>,
}

/// A complete, unambiguous request head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Where the body begins.
    pub len: usize,
    pub method: Range<usize>,
    /// The target as sent.
    pub raw_target: Range<usize>,
    pub target: Target,
    pub version: Version,
    /// The host asked for (of the absolute URI, else of the Host field), with its port.
    pub host: Option<Range<usize>>,
    pub body: Body,
    /// The client may send another request on this connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    pub fields: Vec<Field>,
}

impl Head {
    /// The value of the first field of this name.
    #[must_use]
    pub fn value<'a>(&self, buffer: &'a [u8], name: &str) -> Option<&'a [u8]> {
        self.values(buffer, name).next()
    }

    /// The undecoded path; `*` for that target, `/` for a URL without a path.
    #[must_use]
    pub fn path<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        match &self.target {
            Target::Path { path, .. } if path.is_empty() => b"/",
            Target::Path { path, .. } => &buffer[path.clone()],
            Target::Asterisk => b"*",
        }
    }

    /// What follows the question mark.
    #[must_use]
    pub fn query<'a>(&self, buffer: &'a [u8]) -> Option<&'a [u8]> {
        match &self.target {
            Target::Path { query: Some(query), .. } => Some(&buffer[query.clone()]),
            _ => None,
        }
    }

    /// All values of this name, in order.
    pub fn values<'a>(&self, buffer: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
        let matching = self
            .fields
            .iter()
            .filter(move |f| buffer[f.name.clone()].eq_ignore_ascii_case(name.as_bytes()));
        matching.map(|f| &buffer[f.value.clone()])
    }
}

/// The answer to a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    Head(Head),
    NeedMore,
    /// Answer with this status and close; the text is for the error log.
    Reject(u16, &'static str),
}

/// Memory that parsing uses again.
#[derive(Debug, Default)]
pub struct HeadScratch {
    /// Give the fields of a finished head back here.
    pub fields: Vec<Field>,
}

/// A reason to refuse: status, and words for the log.
type Reject = (u16, &'static str);

/// Reads a request head from the beginning of `buffer`. Two empty lines before it are skipped (RFC
/// 9112 2.2 allows at least one; left-overs of old clients' bodies).
pub fn parse_head(buffer: &[u8], limits: &Limits, scratch: &mut HeadScratch) -> Parsed {
    let start = leading_blank_lines(buffer);
    let Some(end) = head_end(&buffer[start..]) else {
        return unfinished(&buffer[start..], limits);
    };
    match parse(buffer, start, start + end, limits, std::mem::take(&mut scratch.fields)) {
        Ok(head) => Parsed::Head(head),
        Err((status, why)) => Parsed::Reject(status, why),
    }
}

fn leading_blank_lines(buffer: &[u8]) -> usize {
    let mut start = 0;
    while start < 4 && buffer[start..].starts_with(b"\r\n") {
        start += 2;
    }
    start
}

/// The length of the head with its last empty line.
fn head_end(buffer: &[u8]) -> Option<usize> {
    memchr::memmem::find(buffer, b"\r\n\r\n").map(|at| at + 4)
}

/// Bytes that do not make a head yet: refused when no continuation could make it acceptable.
fn unfinished(bytes: &[u8], limits: &Limits) -> Parsed {
    if let Some(at) = memchr::memchr(b'\n', bytes)
        && (at == 0 || bytes[at - 1] != b'\r')
    {
        return Parsed::Reject(400, "a line ends in a bare line feed");
    }
    let end = memchr::memchr(b'\n', bytes);
    let line = end.unwrap_or(bytes.len());
    if line > limits.line + 1 {
        return Parsed::Reject(414, "the request line is too long");
    }
    // A line of HTTP/0.9 is a whole request: its client sends no more.
    if let Some(Err((status, why))) = end.map(|at| request_line(bytes, 0..at - 1, limits)) {
        return Parsed::Reject(status, why);
    }
    let fields = if limits.fields == 0 { MOST_FIELDS } else { limits.fields };
    let most =
        limits.line.saturating_add(fields.saturating_mul(limits.field_size.saturating_add(2)));
    if bytes.len() > most.saturating_add(4) {
        return Parsed::Reject(400, "the head is too long");
    }
    let rest = bytes.get(line + 1..).unwrap_or(&[]);
    match check_lines(rest, limits, false) {
        Err((status, why)) => Parsed::Reject(status, why),
        Ok(()) => Parsed::NeedMore,
    }
}

/// Checks the field lines that are there: ends, folding, sizes, number. With `whole` unset the last
/// line may be unfinished.
fn check_lines(fields: &[u8], limits: &Limits, whole: bool) -> Result<(), Reject> {
    let (mut start, mut count) = (0, 0);
    while start < fields.len() {
        let end = memchr::memchr(b'\n', &fields[start..]).map(|at| start + at);
        let line = &fields[start..end.unwrap_or(fields.len())];
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err((400, "a field is folded over lines"));
        }
        let Some(end) = end else {
            return if line.len() > limits.field_size + 1 {
                Err((400, "a field is too long"))
            } else if whole {
                Err((400, "a line is not ended"))
            } else {
                Ok(())
            };
        };
        let line = line.strip_suffix(b"\r").ok_or((400, "a line ends in a bare line feed"))?;
        check_line(line, limits)?;
        count += usize::from(!line.is_empty());
        let most = if limits.fields == 0 { MOST_FIELDS } else { limits.fields };
        if count > most {
            return Err((400, "there are too many fields"));
        }
        start = end + 1;
    }
    Ok(())
}

fn check_line(line: &[u8], limits: &Limits) -> Result<(), Reject> {
    if line.len() > limits.field_size {
        return Err((400, "a field is too long"));
    }
    if memchr::memchr(b'\r', line).is_some() {
        return Err((400, "a field contains a bare carriage return"));
    }
    Ok(())
}

fn parse(
    buffer: &[u8],
    start: usize,
    end: usize,
    limits: &Limits,
    mut fields: Vec<Field>,
) -> Result<Head, Reject> {
    let line_end = start + memchr::memchr(b'\n', &buffer[start..end]).unwrap_or(0);
    let line = start..line_end.saturating_sub(1);
    if buffer.get(line.end) != Some(&b'\r') {
        return Err((400, "a line ends in a bare line feed"));
    }
    let (method, raw_target, version) = request_line(buffer, line, limits)?;
    check_lines(&buffer[line_end + 1..end], limits, true)?;
    fields.clear();
    read_fields(buffer, line_end + 1..end, &mut fields)?;
    let facts = Facts::gather(buffer, &fields)?;
    let (target, authority) = target(buffer, &method, raw_target.clone())?;
    let host = host(buffer, &facts, version, authority)?;
    Ok(Head {
        len: end,
        body: facts.body(version)?,
        keep_alive: facts.keep_alive(version),
        expects_continue: facts.expects_continue(version)?,
        method,
        raw_target,
        target,
        version,
        host,
        fields,
    })
}

/// Splits `METHOD target HTTP/x.y` at exactly two single spaces.
fn request_line(
    buffer: &[u8],
    line: Range<usize>,
    limits: &Limits,
) -> Result<(Range<usize>, Range<usize>, Version), Reject> {
    if line.len() > limits.line {
        return Err((414, "the request line is too long"));
    }
    let text = &buffer[line.clone()];
    let mut spaces = memchr::memchr_iter(b' ', text);
    let (Some(first), Some(second), None) = (spaces.next(), spaces.next(), spaces.next()) else {
        return Err((400, "the request line has not three parts"));
    };
    let (method, target) = (&text[..first], &text[first + 1..second]);
    if method.is_empty() || !method.iter().all(|&c| is_token(c)) {
        return Err((400, "the method is no token"));
    }
    let plain = |c: &u8| *c > b' ' && *c != 0x7f && *c != b'#';
    if target.is_empty() || !target.iter().all(plain) {
        return Err((400, "the request target has forbidden characters"));
    }
    let version = match &text[second + 1..] {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', a, b'.', b] if a.is_ascii_digit() && b.is_ascii_digit() => {
            return Err((505, "the HTTP version is not 1.0 or 1.1"));
        }
        _ => return Err((400, "the protocol is not HTTP")),
    };
    let at = line.start;
    Ok((at..at + first, at + first + 1..at + second, version))
}

/// Parses fields with httparse, which is vectorised, and keeps their offsets.
fn read_fields(buffer: &[u8], span: Range<usize>, out: &mut Vec<Field>) -> Result<(), Reject> {
    const ON_STACK: usize = 128;
    let lines = memchr::memchr_iter(b'\n', &buffer[span.clone()]).count();
    let mut few = [httparse::EMPTY_HEADER; ON_STACK];
    let mut many = Vec::new();
    let headers: &mut [httparse::Header] = if lines <= ON_STACK {
        &mut few
    } else {
        many.resize(lines, httparse::EMPTY_HEADER);
        &mut many
    };
    let parsed = httparse::parse_headers(&buffer[span.clone()], headers);
    let Ok(httparse::Status::Complete((used, headers))) = parsed else {
        return Err((400, "a field is malformed"));
    };
    if used != span.len() {
        return Err((400, "a field is malformed"));
    }
    let base = buffer.as_ptr() as usize;
    let range = |bytes: &[u8]| {
        let start = bytes.as_ptr() as usize - base;
        start..start + bytes.len()
    };
    for header in headers {
        // httparse answers an empty value with a slice of its own, outside of the buffer.
        let value =
            if header.value.is_empty() { span.start..span.start } else { range(header.value) };
        out.push(Field { name: range(header.name.as_bytes()), value });
    }
    Ok(())
}

/// What the fields say about framing and the connection.
#[derive(Default)]
struct Facts {
    length: Option<u64>,
    chunked: bool,
    /// A coding other than `chunked` is there.
    other_coding: bool,
    host: Option<Range<usize>>,
    close: bool,
    keep: bool,
    expects: Option<bool>,
}

impl Facts {
    fn gather(buffer: &[u8], fields: &[Field]) -> Result<Facts, Reject> {
        let mut facts = Facts::default();
        for field in fields {
            let (name, value) = (&buffer[field.name.clone()], &buffer[field.value.clone()]);
            match name.len() {
                4 if name.eq_ignore_ascii_case(b"host") => facts.host(field.value.clone())?,
                6 if name.eq_ignore_ascii_case(b"expect") => {
                    facts.expects = Some(value.eq_ignore_ascii_case(b"100-continue"));
                }
                10 if name.eq_ignore_ascii_case(b"connection") => facts.connection(value),
                14 if name.eq_ignore_ascii_case(b"content-length") => facts.length(value)?,
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => facts.coding(value)?,
                _ => {}
            }
        }
        Ok(facts)
    }

    fn host(&mut self, value: Range<usize>) -> Result<(), Reject> {
        match self.host.replace(value) {
            Some(_) => Err((400, "there are two Host fields")),
            None => Ok(()),
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&c| c == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Only digits; a second Content-Length is refused even when it says the same, as Apache does.
    fn length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err((400, "Content-Length is no number"));
        }
        let digit = |n: u64, c: &u8| n.checked_mul(10)?.checked_add(u64::from(c - b'0'));
        let length = value.iter().try_fold(0, digit).filter(|&n| n <= LENGTH_MAX);
        match self.length.replace(length.ok_or((400, "Content-Length is too large"))?) {
            Some(_) => Err((400, "there are two Content-Length fields")),
            None => Ok(()),
        }
    }

    /// `chunked` must come last, and once: what follows it cannot be read one way only.
    fn coding(&mut self, value: &[u8]) -> Result<(), Reject> {
        for coding in value.split(|&c| c == b',').map(<[u8]>::trim_ascii) {
            if coding.is_empty() || !coding.iter().all(|&c| is_token(c)) {
                return Err((400, "Transfer-Encoding is malformed"));
            }
            if self.chunked {
                return Err((400, "there is a transfer coding after chunked"));
            }
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.chunked = is_chunked;
            self.other_coding |= !is_chunked;
        }
        Ok(())
    }

    /// RFC 9112 6.3: a body whose last coding is not `chunked` has no known end.
    fn body(&self, version: Version) -> Result<Body, Reject> {
        let coded = self.chunked || self.other_coding;
        match self.length {
            Some(_) if coded => Err((400, "both Content-Length and Transfer-Encoding are there")),
            None if coded && version == Version::Http10 => {
                Err((400, "HTTP/1.0 has no Transfer-Encoding"))
            }
            None if coded && !self.chunked => Err((400, "the last transfer coding is not chunked")),
            None if self.other_coding => {
                Err((501, "a transfer coding before chunked is not known"))
            }
            None if self.chunked => Ok(Body::Chunked),
            None | Some(0) => Ok(Body::None),
            Some(length) => Ok(Body::Length(length)),
        }
    }

    fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep)
    }

    fn expects_continue(&self, version: Version) -> Result<bool, Reject> {
        match self.expects {
            Some(false) => Err((417, "the expectation is not known")),
            Some(true) => Ok(version == Version::Http11),
            None => Ok(false),
        }
    }
}

/// Reads the target; gives also the authority of an absolute URI.
#[allow(clippy::type_complexity)]
fn target(
    buffer: &[u8],
    method: &Range<usize>,
    raw: Range<usize>,
) -> Result<(Target, Option<Range<usize>>), Reject> {
    let (method, text) = (&buffer[method.clone()], &buffer[raw.clone()]);
    match method {
        b"CONNECT" if is_host(text) => return Err((405, "CONNECT is not served")),
        b"CONNECT" => return Err((400, "CONNECT names no host")),
        b"OPTIONS" if text == b"*" => return Ok((Target::Asterisk, None)),
        _ => {}
    }
    if text[0] == b'/' {
        return Ok((path_and_query(buffer, raw), None));
    }
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|s| text.len() > s.len() && text[..s.len()].eq_ignore_ascii_case(s));
    let Some(scheme) = scheme else {
        return Err((400, "the request target is neither a path nor a URL"));
    };
    let start = raw.start + scheme.len();
    let length = buffer[start..raw.end].iter().position(|c| matches!(c, b'/' | b'?'));
    let end = length.map_or(raw.end, |at| start + at);
    if !is_host(&buffer[start..end]) {
        return Err((400, "the host of the URL is malformed"));
    }
    Ok((path_and_query(buffer, end..raw.end), Some(start..end)))
}

fn path_and_query(buffer: &[u8], span: Range<usize>) -> Target {
    match memchr::memchr(b'?', &buffer[span.clone()]) {
        Some(at) => {
            let mark = span.start + at;
            Target::Path { path: span.start..mark, query: Some(mark + 1..span.end) }
        }
        None => Target::Path { path: span, query: None },
    }
}

fn host(
    buffer: &[u8],
    facts: &Facts,
    version: Version,
    authority: Option<Range<usize>>,
) -> Result<Option<Range<usize>>, Reject> {
    match &facts.host {
        None if version == Version::Http11 => Err((400, "there is no Host field")),
        Some(host) if !is_host(&buffer[host.clone()]) => Err((400, "the Host field is malformed")),
        field => Ok(authority.or_else(|| field.clone())),
    }
}

/// `name`, `name:port`, `1.2.3.4`, `[::1]:80`; nothing that could be read as two.
fn is_host(text: &[u8]) -> bool {
    let (name, port) = match text {
        [b'[', rest @ ..] => match memchr::memchr(b']', rest) {
            Some(at) => (&text[..at + 2], &text[at + 2..]),
            None => return false,
        },
        _ => text.split_at(memchr::memchr(b':', text).unwrap_or(text.len())),
    };
    let in_name =
        |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~' | b'%');
    let good_name = match name {
        [b'[', inner @ .., b']'] => {
            !inner.is_empty()
                && inner.iter().all(|c| c.is_ascii_hexdigit() || matches!(c, b':' | b'.'))
        }
        _ => {
            let dots = name == b"." || memchr::memmem::find(name, b"..").is_some();
            !name.is_empty() && !dots && name.iter().all(in_name)
        }
    };
    let good_port = match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    };
    good_name && good_port
}

/// 1 to 65535; Apache refuses 0 and an empty port too.
fn is_port(digits: &[u8]) -> bool {
    let plain = digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().and_then(|d| d.parse::<u16>().ok());
    plain && number.is_some_and(|n| n > 0)
}

fn is_token(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
