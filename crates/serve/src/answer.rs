//! The answer's head and its end: framing, fields, error pages. Bytes go into buffers; no I/O.

use std::cell::RefCell;

use crate::{
    config::{ErrorDocument, LogLevel},
    error_page,
    files::ALLOW,
    http::{
        DateCache, ResponseHead,
        response::{http_date, is_value},
        status_text,
    },
    request::{Because, Next, Request},
};

pub use crate::http::Framing;

thread_local! {
    static DATE: RefCell<DateCache> = RefCell::default();
}

/// Fields that the server itself writes: a script cannot.
pub fn is_ours(name: &[u8]) -> bool {
    const OURS: [&[u8]; 4] = [b"Connection", b"Keep-Alive", b"Transfer-Encoding", b"Date"];
    OURS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether an answer of this status has neither body nor words about one.
pub fn is_bare(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Whether HTTP gives the status a meaning.
pub fn is_known(status: u16) -> bool {
    status_text(status) != "Unknown"
}

/// The framing of a body whose end is not known yet.
pub fn streaming(request: &Request) -> Framing {
    Framing::choose(request.status, request.content_length, request.version(), request.is_head())
}

/// Writes the head with the request's framing.
pub fn write_head(request: &mut Request, wire: &mut Vec<u8>) {
    // An error document that says nothing of a status has that of the error. Its framing is the
    // same.
    if let Some(status) = request.error_status.take().filter(|_| request.status == 200) {
        request.status = status;
    }
    if request.ass_backwards {
        request.keep = false;
        request.framing = Framing::UntilClose;
        return;
    }
    if request.no_cache && request.headers_out.get(b"Expires").is_none() {
        let now = http_date(request.wall_s);
        request.headers_out.set(b"Expires", now.as_bytes());
    }
    let has_body = !is_bare(request.status);
    if has_body {
        request.settle_media();
    }
    let reason = reason(request);
    let head = ResponseHead {
        status: request.status,
        reason: reason.as_deref(),
        version: request.version(),
        keep_alive: request.keep,
        framing: request.framing,
        server: &request.site.server,
    };
    let content_type = content_type(request).filter(|_| has_body);
    let typed = content_type.as_deref().map(|t| (b"Content-Type".as_slice(), t));
    let encoded = request
        .content_encoding()
        .filter(|_| has_body)
        .map(|e| (b"Content-Encoding".as_slice(), e));
    let language = request
        .content_languages()
        .filter(|_| has_body && request.headers_out.get(b"Content-Language").is_none())
        .map(|l| (b"Content-Language".as_slice(), l));
    let fields =
        request.headers_out.iter().filter(|(n, _)| !n.eq_ignore_ascii_case(b"Content-Type"));
    let fields = fields.chain(request.err_headers_out.iter()).chain(encoded).chain(language);
    let fields = fields.chain(typed);
    DATE.with_borrow_mut(|date| head.write(wire, date.at(request.wall_s), fields));
    request.keep = head.stays_open();
    request.head_bytes = wire.len() as u64;
}

/// The whole of an answer whose body is in hand: its length is known.
pub fn finish(request: &mut Request, wire: &mut Vec<u8>) {
    if !request.head_sent {
        check_head(request);
        let length = match request.is_head() || request.file_body {
            true => request.content_length.or((request.body_sent > 0).then_some(request.body_sent)),
            false => Some(request.held.len() as u64),
        };
        request.framing =
            Framing::choose(request.status, length, request.version(), request.is_head());
        write_head(request, wire);
        request.head_sent = true;
        let has_body = !request.is_head() || request.ass_backwards;
        if has_body && request.framing != Framing::None {
            wire.extend_from_slice(&request.held);
        }
        return;
    }
    match request.framing {
        Framing::Chunked => {
            push_chunk_bytes(wire, &request.held);
            wire.extend_from_slice(b"0\r\n\r\n");
        }
        // A body shorter than its Content-Length cannot be repaired: the connection ends.
        Framing::Length(length) if length != request.body_sent => {
            wire.extend_from_slice(&request.held);
            request.keep = false;
        }
        Framing::None => {}
        _ => wire.extend_from_slice(&request.held),
    }
}

/// A handler can set what is no status, or no value of a field: nothing of that goes out, and the
/// answer is an error page. True then.
pub fn check_head(request: &mut Request) -> bool {
    let fields = request.headers_out.iter().chain(request.err_headers_out.iter());
    let typed = request.content_type.as_deref().map(|t| (b"Content-Type".as_slice(), t));
    let bad = fields.chain(typed).find(|(_, value)| !is_value(value));
    let bad = bad.map(|(name, value)| {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "Response header '{}' value of '{}' contains invalid characters, aborting request",
            shown(name),
            shown(value)
        )
    });
    if let Some(text) = &bad {
        request.note("core", LogLevel::Error, text);
        request.err_headers_out.clear();
    }
    let is_bad = bad.is_some() || !(100..1000).contains(&request.status);
    if is_bad {
        error_without_document(request, 500);
    }
    is_bad
}

fn push_chunk_bytes(wire: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        wire.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        wire.extend_from_slice(bytes);
        wire.extend_from_slice(b"\r\n");
    }
}

/// Makes the answer an error page, or names the path that answers instead.
pub fn error(request: &mut Request, status: u16) -> Next {
    // An error document failed: the client hears of the first error, and of this one beside it.
    if let Some(first) = request.error_status.filter(|_| status >= 400) {
        request.second_error = Some(status);
        return error_with(request, first, None);
    }
    let document = error_document(request, status);
    error_with(request, status, document)
}

/// The same with the standard page, whatever the configuration says: for errors of error documents.
pub fn error_without_document(request: &mut Request, status: u16) -> Next {
    error_with(request, status, None)
}

fn error_with(request: &mut Request, status: u16, document: Option<ErrorDocument>) -> Next {
    if request.head_sent {
        request.keep = false; // too late for another answer: the client sees a cut one
        request.aborted = true;
        return Next::Finish;
    }
    if matches!(status, 204 | 304) {
        // No page: the fields of the answer stay, validators first among them.
        request.forget_body();
        request.status = status;
        return Next::Finish;
    }
    let location = (300..400)
        .contains(&status)
        .then(|| request.headers_out.get(b"Location").map(<[u8]>::to_vec));
    let mapped = request.mapped.take();
    let allow = request.headers_out.get(b"Allow").map(<[u8]>::to_vec);
    let status_line = request.status_line.take(); // its words count if its number is the status
    request.forget_answer();
    request.mapped = mapped;
    request.status = status;
    request.status_line = status_line;
    if let Some(location) = location.flatten() {
        request.headers_out.set(b"Location", &location);
    }
    if let Some(allow) = allow {
        request.headers_out.set(b"Allow", &allow);
    }
    match document {
        Some(ErrorDocument::Local(path)) => {
            request.status_line = None;
            return Next::Redirect(path.into_bytes(), Because::Error);
        }
        Some(ErrorDocument::Url(url)) => {
            request.status = 302;
            request.headers_out.set(b"Location", url.as_bytes());
            standard_page(request);
        }
        Some(ErrorDocument::Text(text)) => {
            request.content_type = Some(b"text/html; charset=iso-8859-1".to_vec());
            request.set_body(text.as_bytes());
        }
        _ => standard_page(request),
    }
    Next::Finish
}

fn error_document(request: &Request, status: u16) -> Option<ErrorDocument> {
    let custom = request.custom_responses.iter().rev().find(|(s, _)| *s == status);
    if let Some((_, text)) = custom {
        let text = String::from_utf8_lossy(text).into_owned();
        return Some(match text {
            t if t.starts_with('/') => ErrorDocument::Local(t),
            t if t.starts_with("http://") || t.starts_with("https://") => ErrorDocument::Url(t),
            t => ErrorDocument::Text(t),
        });
    }
    let policy = request.mapped.as_ref().map(|m| &m.policy);
    let policy = policy.map_or(&request.site.config.base, |p| p);
    match policy.error_documents.get(&status) {
        Some(ErrorDocument::Default) => None,
        found => found.cloned(),
    }
}

fn standard_page(request: &mut Request) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let location = request.headers_out.get(b"Location");
    let location = location.or_else(|| request.err_headers_out.get(b"Location"));
    let location = location.map(text).unwrap_or_default();
    let method = text(&request.method);
    let reason = reason(request).map(|words| text(&words));
    let settings = &request.site.config.server;
    let detail = error_page::Detail {
        method: &method,
        location: &location,
        admin: settings.server_admin.as_deref().unwrap_or("[no address given]"),
        signature: "",
        reason: reason.as_deref(),
        second: request.second_error,
    };
    let page = error_page::html(request.status, &detail);
    request.content_type = Some(b"text/html; charset=iso-8859-1".to_vec());
    request.set_body(page.as_bytes());
}

/// A whole answer for a connection whose request could not be read.
pub fn refusal(server: &str, status: u16, wall_s: u64, method: &str) -> Vec<u8> {
    let detail = error_page::Detail { method, ..error_page::Detail::default() };
    let page = error_page::html(status, &detail);
    let head = ResponseHead {
        status,
        reason: None,
        version: crate::http::Version::Http11,
        keep_alive: false,
        framing: Framing::Length(page.len() as u64),
        server,
    };
    let mut wire = Vec::with_capacity(512);
    let typed = (b"Content-Type".as_slice(), b"text/html; charset=iso-8859-1".as_slice());
    let allow = (b"Allow".as_slice(), ALLOW.as_bytes());
    let fields = [typed].into_iter().chain((status == 405).then_some(allow));
    DATE.with_borrow_mut(|date| head.write(&mut wire, date.at(wall_s), fields));
    wire.extend_from_slice(page.as_bytes());
    wire
}

/// The words after the status code: the script's own, when it gave some.
fn reason(request: &Request) -> Option<Vec<u8>> {
    let line = request.status_line.as_deref()?;
    let words = line.get(3..)?.trim_ascii();
    let matches = line.get(..3)? == request.status.to_string().as_bytes() && is_value(words);
    (matches && !words.is_empty() && words != status_text(request.status).as_bytes())
        .then(|| words.to_vec())
}

/// The media type with `AddDefaultCharset` applied.
fn content_type(request: &Request) -> Option<Vec<u8>> {
    let own =
        request.content_type.as_deref().or_else(|| request.headers_out.get(b"Content-Type"))?;
    let policy = request.mapped.as_ref().map(|m| &m.policy)?;
    let plain = own.eq_ignore_ascii_case(b"text/html") || own.eq_ignore_ascii_case(b"text/plain");
    match &policy.default_charset {
        Some(Some(charset)) if plain => Some([own, b"; charset=", charset.as_bytes()].concat()),
        _ => Some(own.to_vec()),
    }
}
