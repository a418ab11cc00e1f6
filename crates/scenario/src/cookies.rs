//! A user's cookies, as far as a load test needs RFC 6265: domain, path, expiry, secure, overwrite
//! and delete. The central noun is the [`Jar`]. Time comes in as seconds of the calendar, so that
//! the tests decide what it is. An emptied jar keeps its memory for the next session.

use crate::{cookie_date, head};

#[derive(Clone, Debug, Default)]
pub struct Jar {
    /// Those in use come first, longest path first and then oldest first, as they are sent.
    cookies: Vec<Cookie>,
    used: usize,
}

#[derive(Clone, Debug, Default)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    /// Without a dot at the beginning.
    domain: Vec<u8>,
    path: Vec<u8>,
    /// Seconds of the calendar; none ends with the session.
    expires_s: Option<i64>,
    host_only: bool,
    secure: bool,
}

/// A `Set-Cookie` taken apart, nothing copied.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parsed<'h> {
    name: &'h [u8],
    value: &'h [u8],
    domain: &'h [u8],
    path: Option<&'h [u8]>,
    expires_s: Option<i64>,
    secure: bool,
}

/// More than that a browser does not keep either (RFC 6265, 6.1 asks for 50 a domain).
pub const COOKIES_MAX: usize = 100;
/// Of name and value together.
pub const COOKIE_BYTES_MAX: usize = 4096;

/// Where a request goes, as far as cookies care.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// In lower case.
    pub host: &'p [u8],
    /// Path and query.
    pub target: &'p [u8],
    pub secure: bool,
}

impl Jar {
    pub fn clear(&mut self) {
        self.used = 0;
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes up every `Set-Cookie` of an answer; how many were refused.
    pub fn take(&mut self, place: Place<'_>, head: &[u8], now_s: i64) -> u32 {
        let fields = head::values(head, "set-cookie");
        fields.map(|field| u32::from(!self.set(place, field, now_s))).sum()
    }

    /// Whether there is a cookie to send.
    #[must_use]
    pub fn any_for(&self, place: Place<'_>, now_s: i64) -> bool {
        self.live().iter().any(|cookie| cookie.goes_to(place, now_s))
    }

    /// Appends what the `Cookie` field says.
    pub fn write(&self, place: Place<'_>, now_s: i64, out: &mut Vec<u8>) {
        let mut separator: &[u8] = b"";
        for cookie in self.live().iter().filter(|cookie| cookie.goes_to(place, now_s)) {
            out.extend_from_slice(separator);
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
            separator = b"; ";
        }
    }

    /// The value of the first cookie of this name that would be sent there.
    #[must_use]
    pub fn value(&self, place: Place<'_>, name: &[u8], now_s: i64) -> Option<&[u8]> {
        let mut live = self.live().iter().filter(|cookie| cookie.goes_to(place, now_s));
        live.find(|cookie| cookie.name == name).map(|cookie| &*cookie.value)
    }

    fn live(&self) -> &[Cookie] {
        &self.cookies[..self.used]
    }

    fn set(&mut self, place: Place<'_>, field: &[u8], now_s: i64) -> bool {
        let Some(parsed) = parse(field, now_s) else { return false };
        let host_only = parsed.domain.is_empty() || place.host.eq_ignore_ascii_case(parsed.domain);
        let is_foreign = !host_only && !covers(parsed.domain, place.host);
        // A cookie for "com" would be for everybody; the list of such suffixes is not ours to keep.
        let is_suffix = !host_only && !parsed.domain.contains(&b'.');
        let is_large = parsed.name.len() + parsed.value.len() > COOKIE_BYTES_MAX;
        if is_foreign || is_suffix || is_large || (parsed.secure && !place.secure) {
            return false;
        }
        let domain = if parsed.domain.is_empty() { place.host } else { parsed.domain };
        let host_only = parsed.domain.is_empty();
        let path = parsed.path.unwrap_or_else(|| default_path(place.target));
        let found = self.live().iter().position(|cookie| {
            cookie.name == parsed.name
                && cookie.domain.eq_ignore_ascii_case(domain)
                && cookie.path == path
                && cookie.host_only == host_only
        });
        let is_gone = parsed.expires_s.is_some_and(|end| end <= now_s);
        match found {
            Some(at) if is_gone => self.remove(at),
            Some(at) => self.cookies[at].refresh(&parsed),
            None if is_gone => {}
            None => return self.insert(&parsed, domain, path, host_only, now_s),
        }
        true
    }

    fn insert(
        &mut self,
        parsed: &Parsed<'_>,
        domain: &[u8],
        path: &[u8],
        host_only: bool,
        now_s: i64,
    ) -> bool {
        if self.used == COOKIES_MAX {
            self.remove_expired(now_s);
        }
        if self.used == COOKIES_MAX {
            return false;
        }
        if self.used == self.cookies.len() {
            self.cookies.push(Cookie::default());
        }
        let cookie = &mut self.cookies[self.used];
        replace(&mut cookie.name, parsed.name);
        replace(&mut cookie.domain, domain);
        cookie.domain.make_ascii_lowercase();
        replace(&mut cookie.path, path);
        cookie.host_only = host_only;
        cookie.refresh(parsed);
        let at = self.live().iter().position(|other| other.path.len() < path.len());
        self.used += 1;
        self.cookies[at.unwrap_or(self.used - 1)..self.used].rotate_right(1);
        true
    }

    /// The cookie's memory goes behind those in use.
    fn remove(&mut self, at: usize) {
        self.cookies[at..self.used].rotate_left(1);
        self.used -= 1;
    }

    fn remove_expired(&mut self, now_s: i64) {
        for at in (0..self.used).rev() {
            if self.cookies[at].expires_s.is_some_and(|end| end <= now_s) {
                self.remove(at);
            }
        }
    }
}

impl Cookie {
    fn refresh(&mut self, parsed: &Parsed<'_>) {
        replace(&mut self.value, parsed.value);
        (self.expires_s, self.secure) = (parsed.expires_s, parsed.secure);
    }

    fn goes_to(&self, place: Place<'_>, now_s: i64) -> bool {
        let right_host = if self.host_only {
            self.domain == place.host
        } else {
            covers(&self.domain, place.host)
        };
        right_host
            && (!self.secure || place.secure)
            && self.expires_s.is_none_or(|end| end > now_s)
            && path_matches(&self.path, path_of(place.target))
    }
}

fn replace(text: &mut Vec<u8>, with: &[u8]) {
    text.clear();
    text.extend_from_slice(with);
}

/// RFC 6265, section 5.2. `None`: to be ignored.
fn parse(field: &[u8], now_s: i64) -> Option<Parsed<'_>> {
    let mut parts = head::split(field, b';');
    let pair = parts.next()?;
    let equals = memchr::memchr(b'=', pair)?;
    let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
    // What would end the line or the cookie in a request is no name and no value.
    if name.is_empty() || !head::is_value(name) || !head::is_value(value) {
        return None;
    }
    let mut parsed = Parsed { name, value, ..Parsed::default() };
    let mut max_age = None;
    for part in parts {
        let equals = memchr::memchr(b'=', part).unwrap_or(part.len());
        let key = part[..equals].trim_ascii();
        let value = part.get(equals + 1..).unwrap_or_default().trim_ascii();
        if key.eq_ignore_ascii_case(b"expires") {
            parsed.expires_s = cookie_date::parse(value).or(parsed.expires_s);
        } else if key.eq_ignore_ascii_case(b"max-age") {
            max_age = std::str::from_utf8(value).ok().and_then(|age| age.parse().ok()).or(max_age);
        } else if key.eq_ignore_ascii_case(b"domain") {
            parsed.domain = value.strip_prefix(b".").unwrap_or(value);
        } else if key.eq_ignore_ascii_case(b"path") {
            parsed.path = value.starts_with(b"/").then_some(value);
        } else if key.eq_ignore_ascii_case(b"secure") {
            parsed.secure = true;
        }
    }
    let after = |age: i64| if age <= 0 { i64::MIN } else { now_s.saturating_add(age) };
    parsed.expires_s = max_age.map(after).or(parsed.expires_s);
    Some(parsed)
}

/// Whether `host` is the domain or below it; an address is below nothing.
fn covers(domain: &[u8], host: &[u8]) -> bool {
    let Some(at) = host.len().checked_sub(domain.len()) else { return false };
    if !host[at..].eq_ignore_ascii_case(domain) {
        return false;
    }
    let is_address = host.contains(&b':') || host.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    at == 0 || (host[at - 1] == b'.' && !is_address)
}

fn path_of(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

/// RFC 6265, section 5.1.4.
fn default_path(target: &[u8]) -> &[u8] {
    let path = path_of(target);
    match memchr::memrchr(b'/', path) {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

fn path_matches(cookie: &[u8], path: &[u8]) -> bool {
    match path.strip_prefix(cookie) {
        Some(rest) => rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn place<'p>(host: &'p str, target: &'p str) -> Place<'p> {
        Place { host: host.as_bytes(), target: target.as_bytes(), secure: false }
    }

    fn sent(jar: &Jar, place: Place<'_>) -> String {
        let mut out = Vec::new();
        jar.write(place, NOW, &mut out);
        assert_eq!(jar.any_for(place, NOW), !out.is_empty());
        String::from_utf8(out).expect("text")
    }

    fn jar(host: &str, target: &str, fields: &[&str]) -> (Jar, u32) {
        let mut jar = Jar::default();
        let head: String = fields.iter().map(|field| format!("Set-Cookie: {field}\r\n")).collect();
        let refused = jar.take(place(host, target), head.as_bytes(), NOW);
        (jar, refused)
    }

    #[test]
    fn cookies_go_where_they_belong() {
        let fields = ["a=1", "b=2; Domain=.example.org; Path=/", "c=3; path=/x/y", "s=4; secure"];
        let (jar, refused) = jar("www.example.org", "/x/page?q=/z", &fields);
        assert_eq!(refused, 1, "a secure one over http");
        assert_eq!(sent(&jar, place("www.example.org", "/x/y/z")), "c=3; a=1; b=2");
        assert_eq!(sent(&jar, place("www.example.org", "/x")), "a=1; b=2");
        assert_eq!(sent(&jar, place("www.example.org", "/xy")), "b=2");
        assert_eq!(sent(&jar, place("example.org", "/x")), "b=2");
        assert_eq!(sent(&jar, place("notexample.org", "/x")), "");
        assert_eq!(jar.value(place("www.example.org", "/x"), b"a", NOW), Some(&b"1"[..]));
    }

    #[test]
    fn a_cookie_is_overwritten_and_deleted() {
        let (mut jar, _) = jar("h", "/", &["a=1", "b=2", "a=3"]);
        assert_eq!(sent(&jar, place("h", "/")), "a=3; b=2");
        jar.take(place("h", "/"), b"Set-Cookie: a=; Max-Age=0\r\n", NOW);
        assert_eq!(sent(&jar, place("h", "/")), "b=2");
        let past = b"set-cookie: b=; expires=Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        jar.take(place("h", "/"), past, NOW);
        assert!(jar.is_empty());
    }

    #[test]
    fn a_cookie_ends_when_its_time_has_come() {
        let fields = ["a=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "b=2"];
        let (jar, _) = jar("h", "/", &fields);
        assert_eq!(sent(&jar, place("h", "/")), "a=1; b=2");
        let mut out = Vec::new();
        jar.write(place("h", "/"), NOW + 10, &mut out);
        assert_eq!(out, b"b=2");
    }

    #[test]
    fn what_is_not_ones_own_or_too_large_is_refused() {
        let large = format!("a={}", "x".repeat(COOKIE_BYTES_MAX));
        let refused = ["a=1; domain=other.org", "a=1; domain=org", "=1", "a", &large];
        assert_eq!(jar("www.example.org", "/", &refused).1, 5);
        assert_eq!(jar("127.0.0.1", "/", &["a=1; domain=0.0.1"]).1, 1);
        assert_eq!(jar("localhost", "/", &["a=1; domain=localhost"]).1, 0);
        let many: Vec<String> = (0..COOKIES_MAX + 3).map(|n| format!("n{n}=1")).collect();
        let many: Vec<&str> = many.iter().map(|field| &**field).collect();
        assert_eq!(jar("h", "/", &many).1, 3);
    }

    #[test]
    fn a_cleared_jar_sends_nothing_of_before() {
        let (mut jar, _) = jar("h", "/", &["a=1; secure", "b=long value; Max-Age=9", "c=3"]);
        jar.clear();
        jar.take(place("h", "/"), b"Set-Cookie: z=1\r\n", NOW);
        assert_eq!(sent(&jar, place("h", "/")), "z=1");
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic(fields in proptest::collection::vec(
            "[a-c]?=?[ -~]{0,6}(; ?(domain|path|expires|max-age|secure)=?[ -~]{0,12}){0,3}", 0..9)
        ) {
            let mut jar = Jar::default();
            for field in &fields {
                let head = format!("Set-Cookie: {field}\r\n");
                jar.take(place("a.b", "/c/d"), head.as_bytes(), NOW);
            }
            let mut out = Vec::new();
            jar.write(place("a.b", "/c/d"), NOW, &mut out);
            prop_assert!(head::is_value(&out));
        }
    }
}
