//! The head of a request: its bytes in; method, target, fields and framing out. Pure.
//!
//! Framing is strict, as for answers: what two readers could read in two ways is refused, with the
//! status and the words that the client gets.

use drom_load::protocol::{Framing, HEAD_BYTES_MAX};

/// A name, and a value without the space around it.
pub type Field = (String, Vec<u8>);

const FIELDS_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query, or `*`.
    pub target: String,
    /// What the client calls this server.
    pub host: String,
    /// It believes this to be its proxy: for this authority.
    pub proxied: Option<String>,
    pub fields: Vec<Field>,
    /// Never until close.
    pub framing: Framing,
    /// It speaks HTTP/1.1: knows chunks and interim answers.
    pub modern: bool,
    /// The client sends its next request on the same connection.
    pub keepalive: bool,
    /// It waits for 100 Continue before it sends the body.
    pub expects: bool,
}

/// What a client hears whose request is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub words: String,
}

impl Refusal {
    pub fn new(status: u16, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }
}

fn bad(words: &str) -> Refusal {
    Refusal::new(400, words)
}

/// The head at the start of `bytes` and its length; `None` when it goes on past their end.
pub fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let skipped = empty_lines(bytes);
    let Some(length) = head_length(&bytes[skipped..])? else { return Ok(None) };
    let end = skipped + length;
    let mut storage = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut storage);
    match request.parse(&bytes[skipped..end]) {
        Ok(httparse::Status::Complete(read)) if read == length => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(431, "the request has more than 1024 header fields"));
        }
        Err(httparse::Error::Version) => {
            return Err(Refusal::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"));
        }
        _ => return Err(bad("the request line or a header field is malformed")),
    }
    judge(&request).map(|request| Some((request, end)))
}

/// A client may send empty lines before its request line (RFC 9112, 2.2).
fn empty_lines(bytes: &[u8]) -> usize {
    let mut skipped = 0;
    while bytes[skipped..].starts_with(b"\r\n") && skipped < 64 {
        skipped += 2;
    }
    skipped
}

/// The offset after the empty line. What is no HTTP shows at its first bytes or line end.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    if bytes.first().is_some_and(|byte| *byte == 0x16) {
        return Err(bad("this proxy speaks plain http: use http:// for its address"));
    }
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    for feed in memchr::memchr_iter(b'\n', window) {
        if feed == 0 || window[feed - 1] != b'\r' {
            return Err(bad("a line of the head ends in a bare line feed"));
        }
        if feed >= 3 && window[feed - 2] == b'\n' {
            return Ok(Some(feed + 1));
        }
    }
    if bytes.len() >= HEAD_BYTES_MAX {
        return Err(Refusal::new(431, "the head is longer than 64 KiB"));
    }
    Ok(None)
}

fn judge(request: &httparse::Request<'_, '_>) -> Result<Request, Refusal> {
    let fields: Vec<Field> = request
        .headers
        .iter()
        .map(|field| (field.name.to_owned(), field.value.trim_ascii().to_vec()))
        .collect();
    let modern = request.version == Some(1);
    let method = request.method.unwrap_or_default().to_owned();
    let (target, named) = target(&method, request.path.unwrap_or_default())?;
    let host = host(&fields, modern)?;
    refuse_upgrade(&fields)?;
    Ok(Request {
        framing: framing(&fields, modern)?,
        keepalive: match modern {
            true => !has_token(&fields, "connection", "close"),
            false => has_token(&fields, "connection", "keep-alive"),
        },
        expects: modern && has_token(&fields, "expect", "100-continue"),
        host: named.clone().unwrap_or(host),
        proxied: named,
        method,
        target,
        fields,
        modern,
    })
}

/// Path and query; and the authority of a client that believes this to be its proxy.
fn target(method: &str, target: &str) -> Result<(String, Option<String>), Refusal> {
    if method == "CONNECT" {
        let words = "CONNECT is for proxies of any server, this one has one: open its address as \
                     if it was the server";
        return Err(Refusal::new(405, words));
    }
    if target.starts_with('/') || (method == "OPTIONS" && target == "*") {
        return Ok((target.to_owned(), None));
    }
    let scheme = ["http://", "https://"];
    let rest = scheme.iter().find_map(|scheme| {
        let (front, rest) = target.split_at_checked(scheme.len())?;
        front.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let rest = rest.ok_or_else(|| bad("the target of the request is neither a path nor a URL"))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((path, Some(authority.to_owned())))
}

fn host(fields: &[Field], modern: bool) -> Result<String, Refusal> {
    let mut hosts = values(fields, "host");
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.iter().all(u8::is_ascii_graphic) => {
            Ok(String::from_utf8_lossy(host).into_owned())
        }
        (None, _) if !modern => Ok(String::new()),
        _ => Err(bad("a request has one Host field")),
    }
}

/// `h2c` is an offer, which a server may pass over; what else is asked for cannot be recorded.
fn refuse_upgrade(fields: &[Field]) -> Result<(), Refusal> {
    if !has_token(fields, "connection", "upgrade") || has_token(fields, "upgrade", "h2c") {
        return Ok(());
    }
    let Some(protocol) = values(fields, "upgrade").next() else { return Ok(()) };
    let words = "is another protocol than HTTP, which a scenario cannot hold: it is not passed on";
    Err(Refusal::new(501, format!("{:?} {words}", String::from_utf8_lossy(protocol))))
}

fn framing(fields: &[Field], modern: bool) -> Result<Framing, Refusal> {
    let mut codings = values(fields, "transfer-encoding");
    let coding = codings.next();
    let mut lengths = values(fields, "content-length");
    let length = lengths.next();
    match (length, coding) {
        (None, None) => Ok(Framing::Empty),
        (Some(_), Some(_)) => Err(bad("both Content-Length and Transfer-Encoding are given")),
        (None, Some(_)) if !modern => Err(bad("HTTP/1.0 has no Transfer-Encoding")),
        (None, Some(coding)) => {
            if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() {
                return Ok(Framing::Chunked);
            }
            Err(Refusal::new(501, "no other Transfer-Encoding than one chunked is understood"))
        }
        (Some(length), None) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(length).ok().filter(|_| is_number);
            let number = text.and_then(|text| text.parse().ok());
            number
                .filter(|_| lengths.next().is_none())
                .map(|length| if length == 0 { Framing::Empty } else { Framing::Length(length) })
                .ok_or_else(|| bad("Content-Length is repeated or is not a plain number"))
        }
    }
}

/// The values of the fields of this name.
pub fn values<'f>(fields: &'f [Field], name: &str) -> impl Iterator<Item = &'f [u8]> {
    let same = fields.iter().filter(move |field| field.0.eq_ignore_ascii_case(name));
    same.map(|field| &*field.1)
}

/// Whether a list of words has this one.
pub fn has_token(fields: &[Field], name: &str, token: &str) -> bool {
    values(fields, name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Request {
        parse(text.as_bytes()).expect("a good head").expect("a whole head").0
    }

    fn refused(text: &str) -> u16 {
        parse(text.as_bytes()).expect_err("a bad head").status
    }

    #[test]
    fn a_head_says_what_was_asked() {
        let text = "\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        let (request, length) = parse(text.as_bytes()).expect("good").expect("whole");
        assert_eq!(&text[length..], "abc");
        assert_eq!((&*request.method, &*request.target, &*request.host), ("POST", "/a?b", "x"));
        assert_eq!(request.framing, Framing::Length(3));
        assert!(request.keepalive && request.modern && !request.expects);
        let request = of("GET http://y/z HTTP/1.1\r\nHost: x\r\nConnection: a, Close\r\n\r\n");
        assert_eq!((&*request.target, &*request.host, request.keepalive), ("/z", "y", false));
        assert_eq!(of("GET http://y HTTP/1.1\r\nHost: x\r\n\r\n").target, "/");
        assert!(!of("GET / HTTP/1.0\r\n\r\n").keepalive);
        assert!(of("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keepalive);
        assert_eq!(of("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").target, "*");
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let with = |fields: &str| refused(&format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        assert_eq!(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400);
        assert_eq!(with("Content-Length: 1\r\nContent-Length: 1\r\n"), 400);
        for length in ["+1", "-1", "1,1", "", "0x1", "99999999999999999999"] {
            assert_eq!(with(&format!("Content-Length: {length}\r\n")), 400, "{length}");
        }
        assert_eq!(with("Transfer-Encoding: gzip, chunked\r\n"), 501);
        assert_eq!(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 501);
        assert_eq!(with("Host: y\r\n"), 400);
        assert_eq!(with("A : b\r\n"), 400);
        assert_eq!(with("A: b\r\n folded\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\nHost: x\r\n\r\n"), 400);
        assert_eq!(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
        assert_eq!(refused("\x16\x03\x01"), 400);
        assert_eq!(refused("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 405);
        assert_eq!(refused("GET x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
    }

    #[test]
    fn websockets_are_refused_and_h2c_is_passed_over() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        assert_eq!(refused(&with("Connection: Upgrade\r\nUpgrade: websocket\r\n")), 501);
        of(&with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"));
        of(&with("Upgrade-Insecure-Requests: 1\r\n"));
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(refused(&long), 431);
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "a: b\r\n".repeat(2000));
        assert_eq!(refused(&many), 431);
    }

    proptest! {
        #[test]
        fn a_split_head_waits_for_its_end(cut in 0usize..52) {
            let text = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n";
            prop_assert_eq!(parse(&text[..cut.min(text.len() - 1)]), Ok(None));
        }

        #[test]
        fn nothing_makes_it_panic(
            text in "(GET|\\PC*) [ -~]{0,20}( HTTP/1.1)?\r\n[ -~\r\n]{0,60}",
        ) {
            let _ = parse(text.as_bytes());
        }
    }
}
