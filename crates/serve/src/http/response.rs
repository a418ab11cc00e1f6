//! A response head as bytes: status line, Date, Server, framing, Connection, then the caller's
//! fields. Noun: `ResponseHead`. Writes into the caller's buffer without allocating; the Date is
//! formatted once a second. Fields with line breaks are cut there, so that no value can add a
//! field or a response of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::head::Version;

/// How the body's end is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body and no length: 1xx, 204, 304.
    None,
    Length(u64),
    Chunked,
    /// The connection closes after the body.
    UntilClose,
}

impl Framing {
    /// The framing of a response whose length may be unknown. `head_only` is a HEAD request: its
    /// fields are those of GET, its body is empty in any case.
    #[must_use]
    pub fn choose(status: u16, length: Option<u64>, version: Version, head_only: bool) -> Framing {
        match (status, length, version) {
            (100..=199 | 204 | 304, _, _) => Framing::None,
            (_, Some(length), _) => Framing::Length(length),
            (_, None, _) if head_only => Framing::None,
            (_, None, Version::Http11) => Framing::Chunked,
            (_, None, Version::Http10) => Framing::UntilClose,
        }
    }
}

/// What stands before a body.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    pub status: u16,
    /// Text after the status; `None` for the standard one.
    pub reason: Option<&'a [u8]>,
    /// Of the request: decides how keep-alive is said.
    pub version: Version,
    pub keep_alive: bool,
    pub framing: Framing,
    /// The `Server` field; empty for none.
    pub server: &'a str,
}

impl ResponseHead<'_> {
    /// Writes the head. Connection, Keep-Alive, Content-Length, Transfer-Encoding and Date of
    /// `fields` are left out: the server knows them better. So is Server when one is configured.
    pub fn write<'f>(
        &self,
        out: &mut Vec<u8>,
        date: &str,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        self.status_line(out);
        field(out, b"Date", date.as_bytes());
        if !self.server.is_empty() {
            field(out, b"Server", self.server.as_bytes());
        }
        for (name, value) in fields {
            if !self.is_ours(name) && is_name(name) {
                field(out, name, value);
            }
        }
        match self.framing {
            Framing::Length(length) => {
                out.extend_from_slice(b"Content-Length: ");
                decimal(out, length);
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunked => field(out, b"Transfer-Encoding", b"chunked"),
            Framing::None | Framing::UntilClose => {}
        }
        match (self.stays_open(), self.version) {
            (false, _) => field(out, b"Connection", b"close"),
            (true, Version::Http10) => field(out, b"Connection", b"Keep-Alive"),
            (true, Version::Http11) => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Whether the connection survives this response.
    #[must_use]
    pub fn stays_open(&self) -> bool {
        self.keep_alive && self.framing != Framing::UntilClose
    }

    fn status_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        decimal(out, u64::from(self.status));
        out.push(b' ');
        let reason = self.reason.unwrap_or_else(|| status_text(self.status).as_bytes());
        out.extend_from_slice(one_line(reason));
        out.extend_from_slice(b"\r\n");
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        let ours: &[&[u8]] = match name.len() {
            4 => &[b"date"],
            6 => return !self.server.is_empty() && name.eq_ignore_ascii_case(b"server"),
            10 => &[b"connection", b"keep-alive"],
            14 => &[b"content-length"],
            17 => &[b"transfer-encoding"],
            _ => &[],
        };
        ours.iter().any(|own| name.eq_ignore_ascii_case(own))
    }
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(one_line(value));
    out.extend_from_slice(b"\r\n");
}

/// The part before the first line break or NUL.
fn one_line(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|c| matches!(c, b'\r' | b'\n' | 0));
    &value[..end.unwrap_or(value.len())]
}

/// Whether a field may have this value: no control character but tabs.
pub fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|&c| (c < 32 && c != b'\t') || c == 127)
}

fn is_name(name: &[u8]) -> bool {
    let token = |c: &u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.iter().all(token)
}

/// Writes a number without going through `format!`.
fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The Date field's text, formatted anew when the second changes.
#[derive(Debug, Default)]
pub struct DateCache {
    second: u64,
    text: String,
}

impl DateCache {
    /// The text for a time in seconds since 1970.
    pub fn at(&mut self, unix_s: u64) -> &str {
        if self.second != unix_s || self.text.is_empty() {
            self.second = unix_s;
            self.text = http_date(unix_s);
        }
        &self.text
    }
}

/// An HTTP date.
#[must_use]
pub fn http_date(unix_s: u64) -> String {
    // httpdate knows the years up to 9999 and panics beyond them.
    const LAST: u64 = 253_402_300_799;
    let time: SystemTime = UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST));
    httpdate::fmt_http_date(time)
}

/// The standard text of a status, in Apache's words.
#[must_use]
pub fn status_text(status: u16) -> &'static str {
    let found = STATUS_TEXTS.binary_search_by_key(&status, |(code, _)| *code);
    found.map_or("Unknown", |at| STATUS_TEXTS[at].1)
}

/// Apache 2.4's texts (`http_protocol.c`), sorted.
const STATUS_TEXTS: [(u16, &str); 60] = [
    (100, "Continue"),
    (101, "Switching Protocols"),
    (102, "Processing"),
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (203, "Non-Authoritative Information"),
    (204, "No Content"),
    (205, "Reset Content"),
    (206, "Partial Content"),
    (207, "Multi-Status"),
    (208, "Already Reported"),
    (226, "IM Used"),
    (300, "Multiple Choices"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (305, "Use Proxy"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (407, "Proxy Authentication Required"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (412, "Precondition Failed"),
    (413, "Request Entity Too Large"),
    (414, "Request-URI Too Long"),
    (415, "Unsupported Media Type"),
    (416, "Requested Range Not Satisfiable"),
    (417, "Expectation Failed"),
    (418, "I'm A Teapot"),
    (421, "Misdirected Request"),
    (422, "Unprocessable Entity"),
    (423, "Locked"),
    (424, "Failed Dependency"),
    (425, "Too Early"),
    (426, "Upgrade Required"),
    (428, "Precondition Required"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (451, "Unavailable For Legal Reasons"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
    (506, "Variant Also Negotiates"),
    (507, "Insufficient Storage"),
    (508, "Loop Detected"),
    (511, "Network Authentication Required"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn head(framing: Framing, version: Version, keep_alive: bool) -> String {
        let head = ResponseHead {
            status: 200,
            reason: None,
            version,
            keep_alive,
            framing,
            server: "Drom",
        };
        let fields: [(&[u8], &[u8]); 4] = [
            (b"Content-Type", b"text/plain\r\nX-Evil: 1"),
            (b"content-length", b"99"),
            (b"Bad Name", b"x"),
            (b"Server", b"other"),
        ];
        let mut out = Vec::new();
        head.write(&mut out, "DATE", fields.into_iter());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_one_head_and_lets_no_value_break_out() {
        let want = "HTTP/1.1 200 OK\r\nDate: DATE\r\nServer: Drom\r\nContent-Type: text/plain\r\n\
                    Content-Length: 5\r\n\r\n";
        assert_eq!(head(Framing::Length(5), Version::Http11, true), want);
    }

    #[test]
    fn says_how_the_connection_goes_on() {
        let tail = |f, v, k| head(f, v, k).split("text/plain\r\n").nth(1).unwrap().to_string();
        let chunked = "Transfer-Encoding: chunked\r\n\r\n";
        assert_eq!(tail(Framing::Chunked, Version::Http11, true), chunked);
        assert_eq!(tail(Framing::UntilClose, Version::Http10, true), "Connection: close\r\n\r\n");
        assert_eq!(tail(Framing::None, Version::Http10, true), "Connection: Keep-Alive\r\n\r\n");
        assert_eq!(tail(Framing::None, Version::Http11, false), "Connection: close\r\n\r\n");
    }

    #[test]
    fn framing_follows_status_and_version() {
        let choose = Framing::choose;
        assert_eq!(choose(304, Some(5), Version::Http11, false), Framing::None);
        assert_eq!(choose(200, None, Version::Http11, false), Framing::Chunked);
        assert_eq!(choose(200, None, Version::Http10, false), Framing::UntilClose);
        assert_eq!(choose(200, Some(3), Version::Http11, true), Framing::Length(3));
        assert_eq!(choose(200, None, Version::Http11, true), Framing::None);
    }

    #[test]
    fn status_texts_are_sorted_and_dates_right() {
        assert!(STATUS_TEXTS.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!((status_text(404), status_text(299)), ("Not Found", "Unknown"));
        let mut cache = DateCache::default();
        assert_eq!(cache.at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.at(784_111_778), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert!(http_date(u64::MAX).ends_with("9999 23:59:59 GMT"));
    }
}
