//! Where requests go. An [`Origin`] is scheme, host and port; a scenario knows all of its origins
//! before it runs, so that a redirect or a captured URL can never load a server nobody named.

use std::{cmp::Ordering, fmt};

use crate::{escape::put_percent, head};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub secure: bool,
    /// As it stands in `Host`: the port only when it was written.
    pub authority: String,
    /// In lower case, an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// Those of a scenario, found by name without an allocation.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    list: Vec<Origin>,
    /// Places in `list`, by host, port and scheme.
    sorted: Vec<usize>,
}

/// A URL taken apart; `rest` is everything behind the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'u> {
    pub secure: bool,
    pub authority: &'u [u8],
    pub host: &'u [u8],
    pub port: u16,
    pub rest: &'u [u8],
}

impl<'u> Parts<'u> {
    /// # Errors
    /// Why it is no absolute http or https URL.
    pub fn of(url: &'u [u8]) -> Result<Self, &'static str> {
        let (secure, rest) = scheme(url).ok_or("it must begin with http:// or https://")?;
        Self::behind(secure, rest)
    }

    /// The same of what a server says where it knows that its own scheme is meant: `//host/path`,
    /// too (RFC 3986, 4.2).
    ///
    /// # Errors
    /// Why it names no server.
    pub fn of_reference(url: &'u [u8], secure: bool) -> Result<Self, &'static str> {
        match url.strip_prefix(b"//") {
            Some(rest) => Self::behind(secure, rest),
            None => Self::of(url),
        }
    }

    fn behind(secure: bool, rest: &'u [u8]) -> Result<Self, &'static str> {
        let end = memchr::memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains(&b'@') {
            return Err("user names in URLs are not supported; use basic = { user, password }");
        }
        let (host, port) = split_port(authority)?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { secure, authority, host, port, rest })
    }

    fn origin(&self) -> Origin {
        Origin {
            secure: self.secure,
            authority: String::from_utf8_lossy(self.authority).into_owned(),
            host: String::from_utf8_lossy(self.host).to_ascii_lowercase(),
            port: self.port,
        }
    }

    fn compare(&self, other: &Origin) -> Ordering {
        let host = self.host.iter().map(u8::to_ascii_lowercase);
        let by_host = host.cmp(other.host.bytes());
        by_host.then(self.port.cmp(&other.port)).then(self.secure.cmp(&other.secure))
    }
}

impl Origins {
    /// Its number; a new one when it is not there yet.
    pub fn add(&mut self, parts: &Parts<'_>) -> usize {
        match self.search(parts) {
            Ok(at) => self.sorted[at],
            Err(at) => {
                self.list.push(parts.origin());
                self.sorted.insert(at, self.list.len() - 1);
                self.list.len() - 1
            }
        }
    }

    #[must_use]
    pub fn find(&self, parts: &Parts<'_>) -> Option<usize> {
        self.search(parts).ok().map(|at| self.sorted[at])
    }

    #[must_use]
    pub fn list(&self) -> &[Origin] {
        &self.list
    }

    fn search(&self, parts: &Parts<'_>) -> Result<usize, usize> {
        self.sorted.binary_search_by(|at| parts.compare(&self.list[*at]).reverse())
    }
}

/// The request target behind an authority: it begins with `/` and has no fragment.
pub fn put_target(rest: &[u8], out: &mut Vec<u8>) {
    let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
    if !rest.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(rest);
}

/// What no URL may hold and servers send all the same (spaces, letters beyond ASCII), as browsers
/// ask for it.
pub fn escape_target(target: &mut Vec<u8>) {
    if !head::is_target(target) {
        put_percent(&std::mem::take(target), target, |byte| byte.is_ascii_graphic());
    }
}

/// Resolves a reference without an authority against the path it was found at (RFC 3986, 5.3):
/// `/x`, `x`, `../x`, `?x` or nothing.
pub fn put_relative(base: &[u8], reference: &[u8], out: &mut Vec<u8>) {
    let reference = &reference[..memchr::memchr(b'#', reference).unwrap_or(reference.len())];
    let base_path = &base[..memchr::memchr(b'?', base).unwrap_or(base.len())];
    match reference.first() {
        None => return out.extend_from_slice(base),
        Some(b'?') => {
            out.extend_from_slice(base_path);
            return out.extend_from_slice(reference);
        }
        _ => {}
    }
    let start = out.len();
    if reference[0] != b'/' {
        let folder = memchr::memrchr(b'/', base_path).map_or(0, |at| at + 1);
        out.extend_from_slice(&base_path[..folder]);
    }
    let query = memchr::memchr(b'?', reference).unwrap_or(reference.len());
    out.extend_from_slice(&reference[..query]);
    remove_dots(out, start);
    out.extend_from_slice(&reference[query..]);
}

/// Takes `.` and `..` out of the path that begins at `start`, in place.
fn remove_dots(path: &mut Vec<u8>, start: usize) {
    let (mut read, mut kept) = (start, start);
    while read < path.len() {
        let end = memchr::memchr(b'/', &path[read + 1..]).map_or(path.len(), |i| read + 1 + i);
        let is_last = end == path.len();
        match &path[read..end] {
            b"/." | b"/.." => {
                if path[read..end].len() == 3 {
                    kept = start + memchr::memrchr(b'/', &path[start..kept]).unwrap_or(0);
                }
                if is_last {
                    path[kept] = b'/';
                    kept += 1;
                }
            }
            _ => {
                path.copy_within(read..end, kept);
                kept += end - read;
            }
        }
        read = end;
    }
    path.truncate(kept);
}

fn scheme(url: &[u8]) -> Option<(bool, &[u8])> {
    let starts =
        |with: &[u8]| url.len() >= with.len() && url[..with.len()].eq_ignore_ascii_case(with);
    match (starts(b"http://"), starts(b"https://")) {
        (true, _) => Some((false, &url[7..])),
        (_, true) => Some((true, &url[8..])),
        _ => None,
    }
}

fn split_port(authority: &[u8]) -> Result<(&[u8], Option<u16>), &'static str> {
    let (host, after) = if authority.starts_with(b"[") {
        let end = memchr::memchr(b']', authority).ok_or("the ] of an IPv6 address is missing")?;
        (&authority[1..end], &authority[end + 1..])
    } else {
        authority.split_at(memchr::memchr(b':', authority).unwrap_or(authority.len()))
    };
    if host.is_empty() || !host.iter().all(|byte| byte.is_ascii_graphic()) {
        return Err("it names no host");
    }
    match after {
        [] | [b':'] => Ok((host, None)),
        [b':', digits @ ..] => {
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            let number = number.filter(|port| *port != 0 && !digits.starts_with(b"+"));
            Ok((host, Some(number.ok_or("the port is not a number from 1 to 65535")?)))
        }
        _ => Err("only a port can follow an IPv6 address"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_come_apart() {
        let parts = Parts::of(b"HTTPS://A.b:8443/x?y#z").expect("a URL");
        assert_eq!((parts.secure, parts.host, parts.port), (true, &b"A.b"[..], 8443));
        assert_eq!((parts.authority, parts.rest), (&b"A.b:8443"[..], &b"/x?y#z"[..]));
        assert_eq!(Parts::of(b"http://[::1]").expect("a URL").host, b"::1");
        for bad in [
            &b"/x"[..],
            b"ftp://a",
            b"http://",
            b"http://a:0",
            b"http://[::1",
            b"http://u@a",
            b"http://a:+1",
            b"http://a b/",
            b"http://[::1]x",
        ] {
            assert!(Parts::of(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn an_origin_has_one_number() {
        let mut origins = Origins::default();
        let of = |url: &'static str| Parts::of(url.as_bytes()).expect("a URL");
        let first = origins.add(&of("http://b.example/"));
        let second = origins.add(&of("http://a.example/"));
        assert_eq!(origins.add(&of("http://B.example:80/x")), first);
        assert_ne!(origins.add(&of("https://b.example/")), first);
        assert_eq!(origins.find(&of("http://a.example:80")), Some(second));
        assert_eq!(origins.find(&of("http://c.example")), None);
        assert_eq!(origins.list().len(), 3);
    }

    #[test]
    fn references_are_resolved_as_rfc_3986_says() {
        // The examples of its section 5.4 that stay on the authority.
        let cases = [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ];
        for (reference, expected) in cases {
            let mut out = b"kept".to_vec();
            put_relative(b"/b/c/d;p?q", reference.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out[4..]), expected, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(url in "\\PC*|https?://[ -~]{0,40}", base in "/[./a?]{0,9}") {
            let _ = Parts::of(url.as_bytes());
            let mut out = Vec::new();
            put_relative(base.as_bytes(), url.as_bytes(), &mut out);
            put_target(url.as_bytes(), &mut out);
        }
    }
}
