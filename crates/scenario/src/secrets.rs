//! What should not stand in a file that is passed on: passwords, keys, sessions. A [`Secrets`]
//! puts a variable in their place, the same one for the same secret, and makes every other text
//! safe for a template. By name, not by look: a random string may be just data.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Nobody nests deeper, but to make a program run out of stack.
const DEPTH_MAX: usize = 128;
/// What stands for a secret until somebody puts the real one there.
pub const MASKED: &str = "MASKED";

#[derive(Debug)]
pub struct Secrets {
    is_on: bool,
    /// Secret -> the variable's name.
    known: BTreeMap<String, String>,
}

/// Parts of names of headers, parameters and JSON keys whose value is a secret.
const NAMES: [&str; 18] = [
    "auth",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "session",
    "sessid",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "signature",
    "csrf",
    "xsrf",
    "credential",
    "jwt",
];
/// Names that are short enough to be part of harmless ones.
const WHOLE_NAMES: [&str; 6] = ["sid", "key", "sig", "pass", "pin", "code"];

impl Secrets {
    pub fn new(is_on: bool) -> Self {
        Self { is_on, known: BTreeMap::new() }
    }

    /// The variables, in the order of their numbers.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.known.values().map(|name| &**name).collect();
        names.sort_by_key(|name| (name.len(), *name));
        names
    }

    pub fn header(&mut self, name: &str, value: &str) -> String {
        if !self.is_on {
            return literal(value);
        }
        if name.eq_ignore_ascii_case("cookie") {
            return self.pairs(value, "; ");
        }
        if name.eq_ignore_ascii_case("authorization") {
            // The scheme is no secret.
            return match value.split_once(' ') {
                Some((scheme, secret)) => format!("{} {}", literal(scheme), self.mask(secret)),
                None => self.mask(value),
            };
        }
        if is_secret(name) {
            return self.mask(value);
        }
        match (name.eq_ignore_ascii_case("referer"), value.contains('?')) {
            (true, true) => self.url(value),
            _ => literal(value),
        }
    }

    /// Secrets in a query, and a password in front of a host.
    pub fn url(&mut self, url: &str) -> String {
        match url.split_once('?') {
            Some((path, query)) if self.is_on => {
                format!("{}?{}", literal(path), self.parameters(query))
            }
            _ => literal(url),
        }
    }

    /// Of a form or a JSON document.
    pub fn body(&mut self, content_type: &str, body: &str) -> String {
        if !self.is_on {
            return literal(body);
        }
        let found = match boundary(content_type) {
            Some(boundary) => of_parts(body.as_bytes(), &boundary),
            None => of_json(body).unwrap_or_default(),
        };
        if !found.is_empty() {
            return self.replaced(body, &found);
        }
        match body.contains('=') && !body.contains(['\n', '<', '{']) {
            true => self.parameters(body),
            false => literal(body),
        }
    }

    /// Of a form with files: bytes have no place for a variable, so that a word stands there.
    pub fn bytes<'b>(&self, content_type: &str, body: &'b [u8]) -> Cow<'b, [u8]> {
        let boundary = boundary(content_type).filter(|_| self.is_on);
        let found = boundary.map_or_else(Vec::new, |boundary| of_parts(body, &boundary));
        if found.is_empty() {
            return Cow::Borrowed(body);
        }
        let (mut out, mut from) = (Vec::new(), 0);
        for secret in found {
            out.extend_from_slice(&body[from..secret.start]);
            out.extend_from_slice(MASKED.as_bytes());
            from = secret.end;
        }
        out.extend_from_slice(&body[from..]);
        Cow::Owned(out)
    }

    /// `name=value` between `&`.
    fn parameters(&mut self, text: &str) -> String {
        let part = |part: &str| match part.split_once('=') {
            Some((name, value)) if is_secret(name) && !value.is_empty() => {
                format!("{}={}", literal(name), self.mask(value))
            }
            _ => literal(part),
        };
        text.split('&').map(part).collect::<Vec<_>>().join("&")
    }

    /// Cookies: every value is one.
    fn pairs(&mut self, text: &str, separator: &str) -> String {
        let pair = |pair: &str| match pair.trim().split_once('=') {
            Some((name, value)) => format!("{}={}", literal(name), self.mask(value)),
            None => literal(pair.trim()),
        };
        text.split(';').map(pair).collect::<Vec<_>>().join(separator)
    }

    /// The text with these parts of it replaced.
    fn replaced(&mut self, text: &str, found: &[Range<usize>]) -> String {
        let (mut out, mut from) = (String::new(), 0);
        for secret in found {
            out += &literal(&text[from..secret.start]);
            out += &self.mask(&text[secret.clone()]);
            from = secret.end;
        }
        out + &literal(&text[from..])
    }

    fn mask(&mut self, secret: &str) -> String {
        let next = format!("secret_{}", self.known.len() + 1);
        let name = self.known.entry(secret.to_owned()).or_insert(next);
        format!("{{{{{name}}}}}")
    }
}

/// For a template: `{{` is written as a value.
fn literal(text: &str) -> String {
    text.replace("{{", "{{\"{{\"}}")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part)) || WHOLE_NAMES.contains(&&*name)
}

/// Where secrets stand in a JSON document, in their order; `None` when it is none.
fn of_json(text: &str) -> Option<Vec<Range<usize>>> {
    let whole = serde_json::from_str::<&RawValue>(text).ok()?;
    let mut found = Vec::new();
    collect(whole, (false, DEPTH_MAX), &mut |secret| {
        // The same memory: what was parsed borrows from `text`.
        let start = secret.as_ptr() as usize - text.as_ptr() as usize;
        found.push(start..start + secret.len());
    });
    Some(found)
}

/// Texts (without their quotes) and numbers behind keys that name a secret, so many levels deep.
fn collect<'j>(
    value: &'j RawValue,
    (is_behind, levels): (bool, usize),
    found: &mut impl FnMut(&'j str),
) {
    let text = value.get();
    let levels = levels.saturating_sub(1);
    match text.as_bytes().first() {
        _ if levels == 0 => {}
        Some(b'{') => {
            let fields = serde_json::from_str::<Fields<'_>>(text).map_or_else(|_| vec![], |f| f.0);
            for (key, value) in fields {
                collect(value, (is_behind || is_secret(&key), levels), found);
            }
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
            items.into_iter().for_each(|item| collect(item, (is_behind, levels), found));
        }
        Some(b'"') if is_behind && text.len() > 2 => found(&text[1..text.len() - 1]),
        Some(b'-' | b'0'..=b'9') if is_behind => found(text),
        _ => {}
    }
}

/// An object as it is written: a key may stand in it twice.
struct Fields<'j>(Vec<(String, &'j RawValue)>);

impl<'j> Deserialize<'j> for Fields<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'j> Visitor<'j> for InOrder {
    type Value = Fields<'j>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Fields<'j>, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

/// What is between the parts of a form with files (RFC 7578).
fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
    let given = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let mut given = given.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let value = given.next()?.1.trim().trim_matches('"');
    (is_form && !value.is_empty()).then(|| format!("--{value}"))
}

/// Where the contents of fields stand whose names name a secret.
fn of_parts(body: &[u8], boundary: &str) -> Vec<Range<usize>> {
    let mut marks: Vec<usize> = memchr::memmem::find_iter(body, boundary.as_bytes()).collect();
    marks.push(body.len());
    let secret = |part: &[usize]| {
        let (start, end) = (part[0] + boundary.len(), part[1]);
        let part = body.get(start..end)?;
        let head = memchr::memmem::find(part, b"\r\n\r\n")?;
        let name = field_name(&String::from_utf8_lossy(&part[..head]))?;
        let content = part[head + 4..].strip_suffix(b"\r\n").unwrap_or(&part[head + 4..]);
        let (from, to) = (start + head + 4, start + head + 4 + content.len());
        (is_secret(&name) && from < to).then_some(from..to)
    };
    marks.windows(2).filter_map(secret).collect()
}

/// Of `Content-Disposition: form-data; name="pass"`; a file has a second name, which is not meant.
fn field_name(head: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.get(..20).is_some_and(|name| name.eq_ignore_ascii_case("content-disposition:"))
    })?;
    let parameters = line.split(';').filter_map(|parameter| parameter.split_once('='));
    let mut names = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("name"));
    Some(names.next()?.1.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        let mut secrets = Secrets::new(true);
        assert_eq!(secrets.header("Authorization", "Bearer abc"), "Bearer {{secret_1}}");
        assert_eq!(secrets.header("X-Auth-Token", "abc"), "{{secret_1}}");
        assert_eq!(secrets.header("Accept", "abc"), "abc");
        assert_eq!(secrets.header("Cookie", "a=1; b=2"), "a={{secret_2}}; b={{secret_3}}");
        let url = "/x?page=2&access_token=t0&sid=s&empty_token=";
        let masked = "/x?page=2&access_token={{secret_4}}&sid={{secret_5}}&empty_token=";
        assert_eq!(secrets.url(url), masked);
        assert_eq!(secrets.body("", "user=ann&password=pw"), "user=ann&password={{secret_6}}");
        let json = "{\"user\": \"ann\", \"login\": {\"password\": \"p\\\"w\"}, \"n\": \"{{\"}";
        let masked = "{\"user\": \"ann\", \"login\": {\"password\": \"{{secret_7}}\"}, \
                      \"n\": \"{{\"{{\"}}\"}";
        assert_eq!(secrets.body("", json), masked);
        let json = "{\"password\": \"password\", \"token\": \"\\u0061\"}";
        let masked = "{\"password\": \"{{secret_8}}\", \"token\": \"{{secret_9}}\"}";
        assert_eq!(secrets.body("", json), masked);
        let json =
            "{\"pin\":1234,\"n\":1234,\"tokens\":[\"t\",{\"a\":\"u\"}],\"key\":null,\"pin\":5}";
        let masked = "{\"pin\":{{secret_10}},\"n\":1234,\"tokens\":[\"{{secret_11}}\",\
                      {\"a\":\"{{secret_12}}\"}],\"key\":null,\"pin\":{{secret_13}}}";
        assert_eq!(secrets.body("", json), masked);
        let deep = "[{\"pin\":".repeat(100_000) + "1" + &"}]".repeat(100_000);
        assert_eq!(secrets.body("", &deep), literal(&deep));
        assert_eq!(secrets.url("/x?PHPSESSID=s9"), "/x?PHPSESSID={{secret_14}}");
        assert_eq!(secrets.names().len(), 14);
    }

    #[test]
    fn fields_of_a_form_with_files_are_masked() {
        let field = |name: &str, value: &str| {
            format!("--B\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"password\"\r\n\
                    Content-Type: text/plain\r\n\r\npassword=x\r\n";
        let form = |password: &str| {
            field("user", "ann") + &field("password", password) + file + "--B--\r\n"
        };
        let kind = "multipart/form-data; boundary=\"B\"";
        let mut secrets = Secrets::new(true);
        assert_eq!(secrets.body(kind, &form("p w")), form("{{secret_1}}"));
        assert_eq!(*secrets.bytes(kind, form("p w").as_bytes()), *form(MASKED).as_bytes());
        assert_eq!(*secrets.bytes("image/png", form("pw").as_bytes()), *form("pw").as_bytes());
        assert_eq!(secrets.body(kind, "--B"), "--B");
    }

    const PIECES: &str = "(--B|\r\n|\r\n\r\n|Content-Disposition: x; name=pin|\
                          [{}\\[\\]\":,a]|\\PC){0,40}";

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in PIECES) {
            let mut secrets = Secrets::new(true);
            for kind in ["", "multipart/form-data; boundary=B"] {
                let _ = secrets.body(kind, &body);
                let _ = secrets.bytes(kind, body.as_bytes());
            }
        }
    }

    #[test]
    fn without_a_mask_texts_stay_and_are_safe_for_templates() {
        let mut secrets = Secrets::new(false);
        assert_eq!(secrets.header("Authorization", "Bearer abc"), "Bearer abc");
        assert_eq!(secrets.url("/x?token={{a}}"), "/x?token={{\"{{\"}}a}}");
        assert_eq!(secrets.body("", "password=pw"), "password=pw");
        assert!(secrets.names().is_empty());
    }
}
