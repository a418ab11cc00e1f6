//! What should not stand in a file that is passed on: passwords, keys, sessions. A [`Secrets`]
//! puts a variable in their place, the same one for the same secret, and makes every other text
//! safe for a template. By name, not by look: a random string may be just data.

use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Secrets {
    is_on: bool,
    /// Secret -> the variable's name.
    known: BTreeMap<String, String>,
}

/// Parts of names of headers, parameters and JSON keys whose value is a secret.
const NAMES: [&str; 16] = [
    "auth",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "session",
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
    pub fn body(&mut self, body: &str) -> String {
        if !self.is_on {
            return literal(body);
        }
        if let Ok(tree) = serde_json::from_str::<serde_json::Value>(body) {
            let mut found = Vec::new();
            collect(&tree, &mut found);
            let written = found.iter().map(|secret| serde_json::Value::from(*secret).to_string());
            let written: Vec<String> = written.collect();
            // A text can be written in several ways; in ours when the given one is another.
            return match written.iter().all(|secret| body.contains(secret)) {
                true => self.replaced(body, &written),
                false => self.replaced(&tree.to_string(), &written),
            };
        }
        match body.contains('=') && !body.contains(['\n', '<', '{']) {
            true => self.parameters(body),
            false => literal(body),
        }
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

    /// The text with each of these JSON strings replaced, wherever they stand as a value in it.
    fn replaced(&mut self, text: &str, found: &[String]) -> String {
        let mut parts = vec![(text, false)];
        for secret in found {
            parts = parts.into_iter().flat_map(|part| split(part, secret)).collect();
        }
        let put = |(part, is_secret): (&str, bool)| match is_secret {
            true => format!("\"{}\"", self.mask(&part[1..part.len() - 1])),
            false => literal(part),
        };
        parts.into_iter().map(put).collect()
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

fn split<'t>((text, is_secret): (&'t str, bool), secret: &str) -> Vec<(&'t str, bool)> {
    if is_secret {
        return vec![(text, true)];
    }
    let (mut parts, mut from) = (Vec::new(), 0);
    for (at, found) in text.match_indices(secret) {
        let is_key = text[at + found.len()..].trim_start().starts_with(':');
        if is_key {
            continue;
        }
        parts.push((&text[from..at], false));
        parts.push((found, true));
        from = at + found.len();
    }
    parts.push((&text[from..], false));
    parts
}

/// Texts behind keys that name a secret.
fn collect<'j>(tree: &'j serde_json::Value, found: &mut Vec<&'j str>) {
    match tree {
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value {
                    serde_json::Value::String(text) if is_secret(key) => found.push(text),
                    other => collect(other, found),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(secrets.body("user=ann&password=pw"), "user=ann&password={{secret_6}}");
        let json = "{\"user\": \"ann\", \"login\": {\"password\": \"p\\\"w\"}, \"n\": \"{{\"}";
        let masked = "{\"user\": \"ann\", \"login\": {\"password\": \"{{secret_7}}\"}, \
                      \"n\": \"{{\"{{\"}}\"}";
        assert_eq!(secrets.body(json), masked);
        let json = "{\"password\": \"password\", \"token\": \"\\u0061\"}";
        let masked = "{\"password\":\"{{secret_8}}\",\"token\":\"{{secret_9}}\"}";
        assert_eq!(secrets.body(json), masked);
        assert_eq!(secrets.names().len(), 9);
    }

    #[test]
    fn without_a_mask_texts_stay_and_are_safe_for_templates() {
        let mut secrets = Secrets::new(false);
        assert_eq!(secrets.header("Authorization", "Bearer abc"), "Bearer abc");
        assert_eq!(secrets.url("/x?token={{a}}"), "/x?token={{\"{{\"}}a}}");
        assert_eq!(secrets.body("password=pw"), "password=pw");
        assert!(secrets.names().is_empty());
    }
}
