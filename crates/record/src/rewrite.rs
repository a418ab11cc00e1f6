//! What a proxy changes in heads on their way, so that the server sees a client of its own and the
//! client stays at the proxy. Pure.
//!
//! Not changed: bodies. A page that names its server in full leads the browser away from here.

use std::{io::Write as _, net::IpAddr};

use drom_load::{
    Target,
    protocol::{Framing, Head},
};

use crate::{
    body::Coding,
    head::{Field, Request, values},
};

/// Fields of one connection (RFC 9110, 7.6.1), and those that are written anew.
const OWN_FIELDS: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "content-length",
    "host",
];

/// The server that requests are passed on to.
#[derive(Clone, Debug)]
pub struct Place {
    pub secure: bool,
    /// Host, and port when it was given, as in `Host`.
    pub authority: String,
    pub host: String,
    pub port: u16,
    /// Leave `Host` (and with it `Origin` and `Referer`) as the client sent it.
    pub keep_host: bool,
}

/// A head of an answer, read for its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<Field>,
}

/// How an answer goes to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub coding: Coding,
    /// The end of the connection is the end of the body.
    pub until_close: bool,
}

impl Place {
    pub fn origin(&self) -> String {
        format!("http{}://{}", if self.secure { "s" } else { "" }, self.authority)
    }

    /// Whether a client that believes this to be its proxy means this server; `here` is the port
    /// that it has come to.
    pub fn is_meant(&self, authority: &str, here: u16) -> bool {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (authority, None),
        };
        let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let is_same = match (address(host), address(&self.host)) {
            (Some(named), Some(own)) => named == own,
            (None, Some(own)) => host.eq_ignore_ascii_case("localhost") && own.is_loopback(),
            _ => host.eq_ignore_ascii_case(&self.host),
        };
        let own_port = port.unwrap_or(if self.secure { 443 } else { 80 });
        port == Some(here) || is_same && own_port == self.port
    }

    /// The client's fields as the server gets them, but for `Host` and framing.
    pub fn request_fields(&self, request: &Request) -> Vec<Field> {
        let mut fields = end_to_end(&request.fields);
        let here = format!("http://{}", request.host);
        for (name, value) in &mut fields {
            let says_where =
                name.eq_ignore_ascii_case("origin") || name.eq_ignore_ascii_case("referer");
            if says_where && !self.keep_host {
                moved(value, &here, &self.origin());
            }
        }
        fields
    }

    pub fn request_head(&self, request: &Request, fields: &[Field]) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", request.method, request.target).into_bytes();
        let keeps = self.keep_host && !request.host.is_empty();
        let host = if keeps { &request.host } else { &self.authority };
        put(&mut out, "Host", host.as_bytes());
        fields.iter().for_each(|(name, value)| put(&mut out, name, value));
        match request.framing {
            Framing::Length(length) => put(&mut out, "Content-Length", length.to_string().as_ref()),
            Framing::Chunked => put(&mut out, "Transfer-Encoding", b"chunked"),
            // The client said 0: a server may ask for that much.
            _ if values(&request.fields, "content-length").next().is_some() => {
                put(&mut out, "Content-Length", b"0");
            }
            _ => {}
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    /// A whole head for the client.
    pub fn answer_head(
        &self,
        answer: &Answer,
        head: &Head,
        request: &Request,
        keep: bool,
    ) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {} {}\r\n", answer.status, answer.reason).into_bytes();
        for (name, value) in end_to_end(&answer.fields) {
            if let Some(value) = self.answer_field(&name, value, &request.host) {
                put(&mut out, &name, &value);
            }
        }
        if head.is_interim() {
            out.extend_from_slice(b"\r\n");
            return out;
        }
        let way = way(head.framing, request.modern);
        match (head.framing, values(&answer.fields, "content-length").next()) {
            (Framing::Length(length), _) => {
                put(&mut out, "Content-Length", length.to_string().as_bytes());
            }
            // What a GET would have brought.
            (Framing::Empty, Some(length)) if answer.status != 204 => {
                put(&mut out, "Content-Length", length);
            }
            _ if way.coding == Coding::Chunked => put(&mut out, "Transfer-Encoding", b"chunked"),
            _ => {}
        }
        match (keep, request.modern) {
            (false, _) => put(&mut out, "Connection", b"close"),
            (true, false) => put(&mut out, "Connection", b"keep-alive"),
            (true, true) => {}
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    fn answer_field(&self, name: &str, mut value: Vec<u8>, here: &str) -> Option<Vec<u8>> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("location") || is("content-location") {
            self.stay(&mut value, here);
        } else if is("set-cookie") {
            value = self.cookie(&value);
        } else if is("alt-svc") {
            // It would lead the browser past the proxy.
            return None;
        }
        Some(value)
    }

    /// A URL of the server becomes the same of the proxy.
    fn stay(&self, url: &mut Vec<u8>, here: &str) {
        let Ok(text) = std::str::from_utf8(url) else { return };
        let relative = text.starts_with("//");
        let scheme = if self.secure { "https:" } else { "http:" };
        let absolute = if relative { format!("{scheme}{text}") } else { text.to_owned() };
        let is_ours = absolute.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme))
            && Target::place(&absolute).is_ok_and(|(host, port)| {
                host.eq_ignore_ascii_case(&self.host) && port == self.port
            });
        if !is_ours || here.is_empty() {
            return;
        }
        let behind = absolute.find("://").map_or(0, |at| at + 3);
        let rest =
            absolute[behind..].find(['/', '?', '#']).map_or("", |at| &absolute[behind + at..]);
        *url = format!("http://{here}{rest}").into_bytes();
    }

    /// Without a `Domain` that the server is in, and, as the proxy speaks plain http, without
    /// `Secure` and what only goes with it.
    fn cookie(&self, value: &[u8]) -> Vec<u8> {
        let mut parts = value.split(|byte| *byte == b';');
        let mut out = parts.next().unwrap_or_default().to_vec();
        for part in parts.filter(|part| self.is_kept(&String::from_utf8_lossy(part))) {
            out.push(b';');
            out.extend_from_slice(part);
        }
        out
    }

    fn is_kept(&self, attribute: &str) -> bool {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let value = value.trim().to_ascii_lowercase();
        match &*name.trim().to_ascii_lowercase() {
            "domain" => !self.is_in(value.trim_start_matches('.')),
            "secure" => !self.secure,
            "samesite" => !(self.secure && value == "none"),
            "partitioned" => !self.secure,
            _ => true,
        }
    }

    fn is_in(&self, domain: &str) -> bool {
        let host = self.host.to_ascii_lowercase();
        host.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    }
}

impl Answer {
    /// Of a head that was judged to be one.
    pub fn parse(raw: &[u8]) -> Self {
        // The shortest field is `a:` and its line end.
        let mut storage = vec![httparse::EMPTY_HEADER; raw.len() / 4 + 1];
        let mut parsed = httparse::Response::new(&mut storage);
        let mut config = httparse::ParserConfig::default();
        config.allow_obsolete_multiline_headers_in_responses(true);
        if !matches!(config.parse_response(&mut parsed, raw), Ok(httparse::Status::Complete(_))) {
            return Self::default();
        }
        let field = |field: &httparse::Header<'_>| (field.name.to_owned(), unfolded(field.value));
        Self {
            status: parsed.code.unwrap_or(0),
            reason: parsed.reason.unwrap_or_default().to_owned(),
            fields: parsed.headers.iter().map(field).collect(),
        }
    }

    /// A field's first value, as far as it is text.
    pub fn text(&self, name: &str) -> String {
        let value = values(&self.fields, name).next().unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    }
}

pub fn way(framing: Framing, modern: bool) -> Way {
    let has_end = matches!(framing, Framing::Empty | Framing::Length(_));
    let coding = if has_end || !modern { Coding::Plain } else { Coding::Chunked };
    Way { coding, until_close: !has_end && !modern }
}

/// Without the fields of one connection, and those that `Connection` names.
fn end_to_end(fields: &[Field]) -> Vec<Field> {
    let named: Vec<Vec<u8>> = values(fields, "connection")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|word| word.trim_ascii().to_ascii_lowercase())
        .collect();
    let is_own = |name: &str| {
        let name = name.to_ascii_lowercase();
        OWN_FIELDS.contains(&&*name) || named.iter().any(|word| word == name.as_bytes())
    };
    fields.iter().filter(|(name, _)| !is_own(name)).cloned().collect()
}

/// What begins with one origin begins with another.
fn moved(url: &mut Vec<u8>, from: &str, to: &str) {
    let Some((front, rest)) = url.split_at_checked(from.len()) else { return };
    let is_end = matches!(rest.first(), None | Some(b'/' | b'?' | b'#'));
    if front.eq_ignore_ascii_case(from.as_bytes()) && is_end {
        *url = [to.as_bytes(), rest].concat();
    }
}

/// A folded value on one line (RFC 9112, 5.2).
fn unfolded(value: &[u8]) -> Vec<u8> {
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(&b' ')
}

fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    write!(out, "{name}: ").expect("writing to memory cannot fail");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use drom_load::protocol::Heads;

    use super::*;
    use crate::head;

    fn place(secure: bool) -> Place {
        let (authority, host) = ("shop.example:8443".to_owned(), "shop.example".to_owned());
        Place { secure, authority, host, port: 8443, keep_host: false }
    }

    fn request(text: &str) -> Request {
        head::parse(text.as_bytes()).expect("good").expect("whole").0
    }

    fn sent(place: &Place, text: &str) -> String {
        let request = request(text);
        let fields = place.request_fields(&request);
        String::from_utf8(place.request_head(&request, &fields)).expect("text")
    }

    fn answered(place: &Place, asked: &str, raw: &str) -> String {
        let request = request(asked);
        let (head, length) =
            Heads::new(&request.method).parse(raw.as_bytes()).expect("good").expect("whole");
        assert_eq!(length, raw.len());
        let head = place.answer_head(&Answer::parse(raw.as_bytes()), &head, &request, true);
        String::from_utf8(head).expect("text")
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: here:81\r\n\r\n";

    #[test]
    fn a_request_is_the_server_s_own() {
        let text = "POST /a HTTP/1.1\r\nHost: here:81\r\nOrigin: http://here:81\r\n\
                    Referer: http://here:81/x?y\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\n\
                    TE: gzip\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        let expected = "POST /a HTTP/1.1\r\nHost: shop.example:8443\r\n\
                        Origin: https://shop.example:8443\r\n\
                        Referer: https://shop.example:8443/x?y\r\n\
                        Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(sent(&place(true), text), expected);
        let kept = sent(&Place { keep_host: true, ..place(true) }, text);
        assert!(kept.contains("Host: here:81\r\nOrigin: http://here:81\r\n"), "{kept}");
        let other = "GET / HTTP/1.1\r\nHost: here:81\r\nReferer: http://here:812/\r\n\r\n";
        assert!(sent(&place(true), other).contains("Referer: http://here:812/"));
        let empty = "POST / HTTP/1.1\r\nHost: here:81\r\nContent-Length: 0\r\n\r\n";
        assert!(sent(&place(true), empty).contains("Content-Length: 0\r\n"));
        let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n";
        assert!(sent(&place(true), chunked).ends_with("Transfer-Encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn a_redirect_stays_at_the_proxy() {
        let of = |secure, url: &str| {
            let raw = format!("HTTP/1.1 302 F\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
            let head = answered(&place(secure), GET, &raw);
            let line = head.lines().find_map(|line| line.strip_prefix("Location: "));
            line.expect("a Location").to_owned()
        };
        assert_eq!(of(true, "https://shop.example:8443/a?b#c"), "http://here:81/a?b#c");
        assert_eq!(of(true, "HTTPS://Shop.Example:8443"), "http://here:81");
        assert_eq!(of(true, "//shop.example:8443/a"), "http://here:81/a");
        assert_eq!(of(false, "https://shop.example:8443/a"), "https://shop.example:8443/a");
        for other in ["/a", "a", "https://shop.example/a", "https://xshop.example:8443/"] {
            assert_eq!(of(true, other), other);
        }
    }

    #[test]
    fn a_cookie_is_the_proxy_s() {
        let of = |secure, cookie: &str| {
            String::from_utf8(place(secure).cookie(cookie.as_bytes())).expect("text")
        };
        assert_eq!(of(false, "a=b; Domain=.example; Path=/; Secure"), "a=b; Path=/; Secure");
        assert_eq!(of(false, "a=b; domain=Shop.example; HttpOnly"), "a=b; HttpOnly");
        assert_eq!(of(false, "a=b; Domain=other.example"), "a=b; Domain=other.example");
        assert_eq!(of(false, "a=b; Domain=op.example"), "a=b; Domain=op.example");
        assert_eq!(of(true, "a=b; Secure; SameSite=None; Max-Age=9"), "a=b; Max-Age=9");
        assert_eq!(of(true, "a=b; SameSite=Lax"), "a=b; SameSite=Lax");
    }

    #[test]
    fn framing_is_written_anew() {
        let of = |asked: &str, raw: &str| answered(&place(false), asked, raw);
        let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let chunked =
            "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nAlt-Svc: h3\r\nA: 1\r\n\r\n";
        assert_eq!(
            of(GET, chunked),
            "HTTP/1.1 200 Fine\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        assert_eq!(of(old, chunked), "HTTP/1.1 200 Fine\r\nA: 1\r\nConnection: keep-alive\r\n\r\n");
        let until_close = "HTTP/1.0 200 OK\r\nA: b\r\n c\r\n\r\n";
        assert_eq!(
            of(GET, until_close),
            "HTTP/1.1 200 OK\r\nA: b c\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let known = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: timeout=5\r\n\r\n";
        assert_eq!(of(GET, known), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        let to_head = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
        assert_eq!(of(to_head, known), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(of(to_head, chunked), "HTTP/1.1 200 Fine\r\nA: 1\r\n\r\n");
        let nothing = "HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(of(GET, nothing), "HTTP/1.1 204 None\r\n\r\n");
        assert_eq!(of(GET, "HTTP/1.1 100 Go\r\n\r\n"), "HTTP/1.1 100 Go\r\n\r\n");
    }
}
