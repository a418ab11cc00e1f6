//! What should not stand in a file that is passed on: passwords, keys, sessions. A [`Secrets`]
//! puts a variable in their place, the same one for the same secret, and makes every other text
//! safe for a template. By name, not by look (a random string may be just data), but for the one
//! look that is a secret's own: a signed token, `eyJ....eyJ....sig` (RFC 7519).

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use percent_encoding::percent_decode;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Nobody nests deeper, but to make a program run out of stack.
const DEPTH_MAX: usize = 128;
/// `{"alg":""}` in base64.
const TOKEN_HEAD_MIN: usize = 14;
/// A URL in a URL in a URL is looked into.
const URLS_IN_URLS: usize = 3;
/// What stands for a secret until somebody puts the real one there.
pub const MASKED: &str = "MASKED";

#[derive(Debug)]
pub struct Secrets {
    is_on: bool,
    /// Secret -> the variable's name.
    known: BTreeMap<String, String>,
}

/// Words in names of headers, parameters and JSON keys whose value is a secret.
const WORDS: [&str; 13] = [
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "mfa",
    "otp",
    "pass",
    "passkey",
    "pin",
    "pw",
    "signature",
    "ssn",
    "totp",
];
/// Ends of words: `accesstoken`, `csrfmiddlewaretoken`, `PHPSESSID`, `oauth`.
const ENDS: [&str; 12] = [
    "auth",
    "jwt",
    "nonce",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "sessid",
    "session",
    "sessionid",
    "token",
];
/// Anywhere in a name without its signs.
const PARTS: [&str; 13] = [
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "licensekey",
    "samlresponse",
    "assertion",
    "codeverifier",
    "verificationcode",
    "cardnumber",
    "xsrf",
    "csrf",
    "credential",
];
/// A name that ends so is of something about the secret: `max_tokens` is none either.
const ABOUT: [&str; 15] = [
    "count", "length", "type", "method", "hint", "provider", "date", "expires", "expiry", "url",
    "list", "size", "limit", "timeout", "strength",
];
/// Names that are short enough to be words of harmless ones.
const WHOLE_NAMES: [&str; 9] =
    ["sid", "key", "sig", "code", "cvv", "cvc", "tokens", "secrets", "passwords"];

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
        let is_url = ["referer", "origin", "link", "x-original-url", "x-forwarded-uri", "location"];
        if has_password(value.as_bytes()) {
            return self.mask(value);
        }
        match is_url.iter().any(|header| name.eq_ignore_ascii_case(header)) {
            true => self.url(value),
            false => self.replaced(value, &of_tokens(value.as_bytes(), 0..value.len())),
        }
    }

    /// In its path (`;jsessionid=`) and in its query.
    pub fn url(&mut self, url: &str) -> String {
        let found = if self.is_on { of_url(url.as_bytes()) } else { Vec::new() };
        self.replaced(url, &found)
    }

    /// Of a form or JSON.
    pub fn body(&mut self, content_type: &str, body: &str) -> String {
        let found = if self.is_on { of_body(content_type, body.as_bytes()) } else { Vec::new() };
        self.replaced(body, &found)
    }

    /// Of a body that is no text: bytes have no place for a variable, so that a word stands there.
    pub fn bytes<'b>(&self, content_type: &str, body: &'b [u8]) -> Cow<'b, [u8]> {
        let found = if self.is_on { of_body(content_type, body) } else { Vec::new() };
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

/// A URL for people, with [`MASKED`] in place of its secrets.
#[must_use]
pub fn masked_url(url: &str) -> String {
    let (mut out, mut from) = (String::new(), 0);
    for secret in of_url(url.as_bytes()) {
        out += &url[from..secret.start];
        out += MASKED;
        from = secret.end;
    }
    out + &url[from..]
}

/// For a template: `{{` is written as a value.
fn literal(text: &str) -> String {
    text.replace("{{", "{{\"{{\"}}")
}

/// Whether a value of this name (of a header, a parameter, a variable) should not be shown.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let words = words(name);
    let is_about = words.len() > 1 && words.last().is_some_and(|last| ABOUT.contains(&&**last));
    let is_one = |word: &String| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
        WORDS.contains(&word) || ENDS.iter().any(|end| word.ends_with(end))
    };
    let whole = words.concat();
    let has_part = PARTS.iter().any(|part| whole.contains(part));
    let is_whole = words.len() == 1 && WHOLE_NAMES.contains(&&*whole);
    !is_about && (words.iter().any(is_one) || has_part || is_whole)
}

/// `user[newPassword]` is `user`, `new`, `password`; `PHPSESSID` is one word.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = c.is_uppercase() && was_lower;
        was_lower = c.is_lowercase();
        // A `%` that is left is no sign between words: it was none of an escape.
        let is_sign = !c.is_alphanumeric() && c != '%';
        if begins || is_sign {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| !is_sign) {
            last.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Where secrets stand in a URL, in their order.
fn of_url(url: &[u8]) -> Vec<Range<usize>> {
    let (path_end, query) = match memchr::memchr(b'?', url) {
        Some(at) => (at, at + 1),
        None => (url.len(), url.len()),
    };
    let mut found = of_pairs(url, 0..path_end, b";/");
    found.extend(of_pairs(url, query..url.len(), b"&;"));
    with_tokens(url, found)
}

fn of_body(content_type: &str, body: &[u8]) -> Vec<Range<usize>> {
    with_tokens(body, of_named(content_type, body))
}

fn of_named(content_type: &str, body: &[u8]) -> Vec<Range<usize>> {
    if let Some(boundary) = boundary(content_type) {
        return of_parts(body, &boundary);
    }
    let json = std::str::from_utf8(body).ok().and_then(of_json);
    match json {
        Some(found) => found,
        None if body.iter().any(|byte| b"\n<".contains(byte)) => Vec::new(),
        // What begins so is no form, nor JSON, but a query language, say.
        None if body.first().is_some_and(|byte| b"{[".contains(byte)) => Vec::new(),
        None => of_pairs(body, 0..body.len(), b"&"),
    }
}

/// `name=value` in this part of it, between these.
fn of_pairs(text: &[u8], part: Range<usize>, between: &[u8]) -> Vec<Range<usize>> {
    let mut start = part.start;
    let pair = |pair: &[u8]| {
        let to = start + pair.len();
        start = to + 1;
        let name = memchr::memchr(b'=', pair)?;
        let (name, value) = (&pair[..name], &pair[name + 1..]);
        let is_meant = names_one(name) && !value.is_empty() || holds_one(value);
        is_meant.then_some(to - value.len()..to)
    };
    text[part].split(|byte| between.contains(byte)).filter_map(pair).collect()
}

/// `http://user:password@host`.
fn has_password(text: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(text, b"://") else { return false };
    let authority = text[at + 3..].split(|byte| b"/?#".contains(byte)).next().unwrap_or_default();
    let user = memchr::memrchr(b'@', authority).map(|at| &authority[..at]);
    user.is_some_and(|user| user.contains(&b':'))
}

/// A value that is a URL itself (`next=%2Fa%3Ftoken%3Dt`), or JSON, with a secret in it.
fn holds_one(value: &[u8]) -> bool {
    let mut text = Cow::Borrowed(value);
    for depth in 0..=URLS_IN_URLS {
        let is_url = depth > 0
            || text.starts_with(b"/")
            || memchr::memchr(b'?', &text).is_some()
            || memchr::memmem::find(&text, b"://").is_some();
        if has_password(&text) || is_json_with_one(&text) || is_url && has_named(&text) {
            return true;
        }
        if memchr::memchr(b'%', &text).is_none() {
            return false;
        }
        text = Cow::Owned(decoded(&text).into_bytes());
    }
    false
}

fn has_named(text: &[u8]) -> bool {
    let mut pairs = text.split(|byte| b"?&;/".contains(byte));
    pairs.any(|pair| {
        let at = memchr::memchr(b'=', pair);
        at.is_some_and(|at| at + 1 < pair.len() && names_one(&pair[..at]))
    })
}

fn is_json_with_one(value: &[u8]) -> bool {
    let is_json = matches!(value.first(), Some(b'{' | b'['));
    let text = std::str::from_utf8(value).ok().filter(|_| is_json);
    text.and_then(of_json).is_some_and(|found| !found.is_empty())
}

fn names_one(name: &[u8]) -> bool {
    is_secret(&decoded(name))
}

/// Those and, between them, signed tokens.
fn with_tokens(text: &[u8], named: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    for secret in named {
        found.extend(of_tokens(text, from..secret.start));
        from = secret.end;
        found.push(secret);
    }
    found.extend(of_tokens(text, from..text.len()));
    found
}

/// Where signed or encrypted tokens stand in this part: JSON in base64url, which begins with `{"`,
/// and two parts or more behind points.
fn of_tokens(text: &[u8], part: Range<usize>) -> Vec<Range<usize>> {
    let is_of_one = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let (mut found, mut from) = (Vec::new(), part.start);
    while let Some(at) = memchr::memmem::find(&text[from..part.end], b"eyJ") {
        let start = from + at;
        let length = text[start..part.end].iter().take_while(|byte| is_of_one(byte)).count();
        let parts: Vec<usize> =
            text[start..start + length].split(|byte| *byte == b'.').map(<[u8]>::len).collect();
        let is_apart = start == part.start || !is_of_one(&text[start - 1]);
        if is_apart && parts.len() >= 3 && parts[0] >= TOKEN_HEAD_MIN {
            found.push(start..start + length);
        }
        from = start + length;
    }
    found
}

/// A name in a form or a query without its `%77`.
fn decoded(name: &[u8]) -> String {
    percent_decode(name).decode_utf8_lossy().into_owned()
}

/// Where secrets stand in JSON (a document, or one a line), in their order; `None` when it is none.
fn of_json(text: &str) -> Option<Vec<Range<usize>>> {
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let values = serde_json::Deserializer::from_str(json).into_iter::<&RawValue>();
    let mut found = Vec::new();
    for value in values {
        collect(value.ok()?, (false, DEPTH_MAX), &mut |secret| {
            // The same memory: what was parsed borrows from `text`.
            let start = secret.as_ptr() as usize - text.as_ptr() as usize;
            found.push(start..start + secret.len());
        });
    }
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
            let names_one = fields.iter().any(|(key, value)| {
                let name = || serde_json::from_str::<String>(value.get()).unwrap_or_default();
                matches!(&**key, "name" | "key") && is_secret(&name())
            });
            let has_value = fields.iter().any(|(key, _)| key == "value");
            for (key, value) in fields {
                let is_value = names_one && matches!(&*key, "value" | "values");
                // What names another is no secret itself.
                let is_named = is_secret(&key) && !(has_value && key == "key");
                collect(value, (is_behind || is_value || is_named, levels), found);
            }
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
            items.into_iter().for_each(|item| collect(item, (is_behind, levels), found));
        }
        Some(b'"') if is_behind && text.len() > 2 => found(&text[1..text.len() - 1]),
        // JSON or a URL in a text: all of it, for there is no place for a variable in its quotes.
        Some(b'"') => {
            let inner = serde_json::from_str::<String>(text).unwrap_or_default();
            if holds_one(inner.trim_start().as_bytes()) {
                found(&text[1..text.len() - 1]);
            }
        }
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
pub fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
    let given = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let mut given = given.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let value = given.next()?.1.trim().trim_matches('"');
    (is_form && !value.is_empty()).then(|| format!("--{value}"))
}

/// Where the contents of fields stand whose names name a secret, and secrets in JSON parts.
fn of_parts(body: &[u8], boundary: &str) -> Vec<Range<usize>> {
    let mut marks: Vec<usize> = memchr::memmem::find_iter(body, boundary.as_bytes()).collect();
    marks.push(body.len());
    let secrets = |part: &[usize]| {
        let (start, end) = (part[0] + boundary.len(), part[1]);
        let part = body.get(start..end)?;
        let head = memchr::memmem::find(part, b"\r\n\r\n")?;
        let name = field_name(&String::from_utf8_lossy(&part[..head]))?;
        let content = part[head + 4..].strip_suffix(b"\r\n").unwrap_or(&part[head + 4..]);
        let start = start + head + 4;
        let whole = Some(0..content.len()).filter(|whole| !whole.is_empty());
        let found = match is_secret(&name) {
            true => Vec::from_iter(whole),
            false => of_json(std::str::from_utf8(content).ok()?)?,
        };
        Some(found.into_iter().map(move |at| start + at.start..start + at.end))
    };
    marks.windows(2).filter_map(secrets).flatten().collect()
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
    fn secrets_are_found_in_the_less_usual_places() {
        let mut secrets = Secrets::new(true);
        let url = "/a;jsessionid=A1/b;v=2;jsessionid=A1?page=1;sid=A1&pass%77ord=p%20w#top";
        let masked = "/a;jsessionid={{secret_1}}/b;v=2;jsessionid={{secret_1}}\
                      ?page=1;sid={{secret_1}}&pass%77ord={{secret_2}}";
        assert_eq!(secrets.url(url.split('#').next().unwrap()), masked);
        assert_eq!(secrets.url("/a;jsessionid=A1"), "/a;jsessionid={{secret_1}}");
        assert_eq!(secrets.url("/pass%zzword=x%7"), "/pass%zzword=x%7");
        let lines = "{\"a\":1,\"pin\":7}\n{\"pin\":8}\n";
        let masked = "{\"a\":1,\"pin\":{{secret_3}}}\n{\"pin\":{{secret_4}}}\n";
        assert_eq!(secrets.body("application/x-ndjson", lines), masked);
        let marked = "\u{feff}{\"pin\":7}";
        assert_eq!(secrets.body("application/json", marked), "\u{feff}{\"pin\":{{secret_3}}}");
        let latin1 = b"name=M\xfcller&password=gr\xfcn";
        assert_eq!(*secrets.bytes("", latin1), *b"name=M\xfcller&password=MASKED");
        let part = "--B\r\nContent-Disposition: form-data; name=\"data\"\r\n\
                    Content-Type: application/json\r\n\r\n{\"pin\":7}\r\n--B--\r\n";
        let kind = "multipart/form-data; boundary=B";
        assert_eq!(secrets.body(kind, part), part.replace('7', "{{secret_3}}"));
    }

    #[test]
    fn signed_tokens_are_known_by_their_look_and_urls_in_urls_are_looked_into() {
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
        let mut secrets = Secrets::new(true);
        assert_eq!(secrets.url(&format!("/reset/{token}/now")), "/reset/{{secret_1}}/now");
        assert_eq!(
            secrets.url(&format!("/a?b={token}&sid={token}")).matches("secret_1").count(),
            2
        );
        assert_eq!(secrets.header("X-Id", &format!("id {token}")), "id {{secret_1}}");
        let json = format!("{{\"id\":\"{token}\",\"pin\":\"7\"}}");
        assert_eq!(secrets.body("", &json), "{\"id\":\"{{secret_1}}\",\"pin\":\"{{secret_2}}\"}");
        assert_eq!(secrets.url("/in?next=%2Fa%3Ftoken%3DT&b=1"), "/in?next={{secret_3}}&b=1");
        assert_eq!(secrets.url("/in?u=%252Fa%253Ftoken%253DT"), "/in?u={{secret_4}}");
        for plain in
            ["/eyJ", "/eyJa.b.c", "/eyes/x.y.z", "/x?u=%2Fa%3Fb%3DT", "/heyJhbGciOiJIUzI1.b.c"]
        {
            assert_eq!(secrets.url(plain), plain);
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_is_none() {
        for name in [
            "author",
            "authors",
            "author_id",
            "authentic",
            "token_count",
            "max_tokens",
            "prompt_tokens",
            "tokenizer",
            "session_count",
            "sessions",
            "session_length",
            "secretary",
            "designature",
            "passwordless",
            "password_hint",
            "authType",
            "auth_method",
            "X-Author",
            "reset_password_url",
            "keyboard",
            "passenger",
            "pins",
            "coder",
            "monkey",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        for name in [
            "auth",
            "X-Auth-Token",
            "Authorization",
            "access_token",
            "csrfmiddlewaretoken",
            "PHPSESSID",
            "jsessionid",
            "user[newPassword]",
            "password2",
            "apiKey",
            "x-api-key",
            "client_secret",
            "session",
            "session_id",
            "JWT",
            "code_verifier",
            "SAMLResponse",
            "new-pass",
            "totp",
            "sid",
            "X-CSRF-Token",
            "xsrf",
            "signature",
            "cardNumber",
            "private_key",
            "pin_code",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_found_in_what_values_hold() {
        let mut secrets = Secrets::new(true);
        let redirect = "/api?redirect=http%3A%2F%2Fu%3Apw%40host%2F&b=1";
        assert_eq!(secrets.url(redirect), "/api?redirect={{secret_1}}&b=1");
        assert_eq!(secrets.header("Origin", "http://u:pw@host"), "{{secret_2}}");
        assert_eq!(secrets.header("Link", "<http://x/?token=t>"), "<http://x/?token={{secret_3}}");
        assert_eq!(secrets.body("", "data={\"password\":\"p\"}&b=1"), "data={{secret_4}}&b=1");
        assert_eq!(secrets.url("/x?f=%7B%22token%22%3A%22t%22%7D"), "/x?f={{secret_5}}");
        let inner = "{\"variables\":\"{\\\"password\\\":\\\"p\\\"}\",\"n\":\"{}\"}";
        assert_eq!(secrets.body("", inner), "{\"variables\":\"{{secret_6}}\",\"n\":\"{}\"}");
        let pairs = "[{\"name\":\"password\",\"value\":\"p\"},{\"name\":\"n\",\"value\":\"v\"}]";
        let masked = pairs.replace("\"p\"", "\"{{secret_7}}\"");
        assert_eq!(secrets.body("", pairs), masked);
        for text in
            ["https://h/cb?token=S", "/cb?token=S", "https://h/x;jsessionid=S", "//u:S@h/ ://u:S@h"]
        {
            let body = format!("{{\"next\":\"{text}\",\"n\":1}}");
            let masked = secrets.body("", &body);
            assert!(!masked.contains('S') && masked.ends_with(",\"n\":1}"), "{masked}");
            assert!(!secrets.body("", &format!("a=1&next={text}")).contains('S'), "{text}");
        }
        let plain = "{\"key\":\"color\",\"value\":\"red\",\"max_tokens\":9}";
        assert_eq!(secrets.body("", plain), plain);
        let body = "{\"privateKey\":\"k\",\"url\":\"http://u@h/\"}";
        assert_eq!(secrets.body("", body), body.replace("\"k\"", "\"{{secret_12}}\""));
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
    fn people_see_no_secret_of_a_url() {
        let seen = masked_url("/a;jsessionid=X?token=T&b=1&otp=9");
        assert_eq!(seen, "/a;jsessionid=MASKED?token=MASKED&b=1&otp=MASKED");
        assert_eq!(masked_url("/plain?q=1"), "/plain?q=1");
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
