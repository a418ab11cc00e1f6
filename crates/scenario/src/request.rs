//! A request as it goes out, its fields apart: HTTP/1 writes them as text, HTTP/2 compresses them.
//! One [`Request`] is filled again and again; its buffers stay.

use std::ops::Range;

use crate::escape::put_decimal;

#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The step of the scenario that it belongs to.
    pub step: usize,
    /// Where it goes: a place in [`Scenario::origins`](crate::Scenario::origins).
    pub origin: usize,
    pub wants: Wants,
    /// How many redirects of this step led to it.
    pub redirects: u32,
    /// Method, target, authority and fields one after the other.
    text: Vec<u8>,
    method: Span,
    target: Span,
    authority: Span,
    fields: Vec<(Span, Span)>,
    body: Vec<u8>,
    has_length: bool,
}

/// What of the answer is looked at; the rest can be thrown away unseen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    pub head: bool,
    pub body: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Request {
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.slice(self.method)
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        self.slice(self.target)
    }

    /// What `Host` or `:authority` says.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        self.slice(self.authority)
    }

    /// All but `Host`, `Connection` and `Content-Length`.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (self.slice(*name), self.slice(*value)))
    }

    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether it says how long its body is, even if that is 0.
    #[must_use]
    pub fn has_length(&self) -> bool {
        self.has_length
    }

    /// Appends the request as HTTP/1 writes it.
    pub fn write_http1(&self, version: Version, keepalive: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method());
        out.push(b' ');
        out.extend_from_slice(self.target());
        out.extend_from_slice(match version {
            Version::Http10 => b" HTTP/1.0\r\nHost: ",
            Version::Http11 => b" HTTP/1.1\r\nHost: ",
        });
        out.extend_from_slice(self.authority());
        out.extend_from_slice(b"\r\n");
        for (name, value) in self.fields() {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(match (version, keepalive) {
            (Version::Http10, true) => b"Connection: keep-alive\r\n",
            (Version::Http11, false) => b"Connection: close\r\n",
            _ => b"",
        });
        if self.has_length {
            out.extend_from_slice(b"Content-Length: ");
            put_decimal(self.body.len(), out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }

    /// Empties it; the buffers stay.
    pub(crate) fn begin(&mut self, step: usize, wants: Wants) {
        (self.step, self.wants) = (step, wants);
        self.text.clear();
        self.fields.clear();
        self.body.clear();
        self.has_length = false;
        self.redirects = 0;
    }

    pub(crate) fn set_method<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let written;
        (self.method, written) = self.put(write);
        written
    }

    pub(crate) fn set_target<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let written;
        (self.target, written) = self.put(write);
        written
    }

    pub(crate) fn set_authority<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let written;
        (self.authority, written) = self.put(write);
        written
    }

    /// Returns the value that was written, to be looked at.
    pub(crate) fn add_field<E>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let (name, ()) = self.put(|text| text.extend_from_slice(name.as_bytes()));
        let (value, written) = self.put(write);
        written?;
        self.fields.push((name, value));
        Ok(self.slice(value))
    }

    /// Takes the last field back.
    pub(crate) fn drop_field(&mut self) {
        self.fields.pop();
    }

    pub(crate) fn set_body<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.has_length = true;
        write(&mut self.body)
    }

    /// A method that usually has a body says that there is none.
    pub(crate) fn needs_length(&mut self) {
        self.has_length |= matches!(self.method(), b"POST" | b"PUT" | b"PATCH");
    }

    fn put<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> (Span, R) {
        let start = self.text.len() as u32;
        let written = write(&mut self.text);
        (Span { start, end: self.text.len() as u32 }, written)
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.text[Range { start: span.start as usize, end: span.end as usize }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &[u8]) -> Request {
        let mut request = Request::default();
        request.begin(0, Wants::default());
        request.set_method(|out| out.extend_from_slice(method));
        request.set_target(|out| out.extend_from_slice(b"/x?y"));
        request.set_authority(|out| out.extend_from_slice(b"a.example:8080"));
        request
    }

    fn text(request: &Request, version: Version, keepalive: bool) -> String {
        let mut out = Vec::new();
        request.write_http1(version, keepalive, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_get_is_short() {
        let get = request(b"GET");
        let expected = "GET /x?y HTTP/1.1\r\nHost: a.example:8080\r\n\r\n";
        assert_eq!(text(&get, Version::Http11, true), expected);
        assert!(text(&get, Version::Http11, false).contains("\r\nConnection: close\r\n"));
        assert!(text(&get, Version::Http10, true).contains("\r\nConnection: keep-alive\r\n"));
        assert!(!text(&get, Version::Http10, false).contains("Connection"));
    }

    #[test]
    fn a_body_has_a_length() {
        let mut post = request(b"POST");
        post.needs_length();
        assert!(text(&post, Version::Http11, true).ends_with("\r\nContent-Length: 0\r\n\r\n"));
        let field = post.add_field("A", |out| {
            out.push(b'b');
            Ok::<(), ()>(())
        });
        assert_eq!(field, Ok(&b"b"[..]));
        post.set_body(|out| out.extend_from_slice(b"hello"));
        let written = text(&post, Version::Http11, true);
        assert!(written.ends_with("\r\nA: b\r\nContent-Length: 5\r\n\r\nhello"), "{written}");
    }
}
