//! A request and its answer as somebody saw them pass: a proxy, a browser. The writer turns a list
//! of them into a scenario that does the same again.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    duration, head,
    origin::Parts,
    secrets::{MASKED, Secrets},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// When the request began, on any clock.
    pub at_ns: u64,
    pub took_ns: u64,
    pub method: String,
    /// Absolute.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// 0 when there was no answer.
    pub status: u16,
    pub answer_headers: Vec<(String, String)>,
}

impl Exchange {
    /// A browser keeps what it blocked or gave up, too, and what is not of http (`data:`, `wss:`).
    #[must_use]
    pub fn can_be_asked_again(&self) -> bool {
        self.status != 0 && Parts::of(self.url.as_bytes()).is_ok()
    }
}

#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Replace what looks like a secret by a variable.
    pub mask: bool,
    /// Leave out requests to other hosts than this one; with or without a port.
    pub host: Option<String>,
}

/// Shorter pauses are the recorder's own.
const THINK_NS_MIN: u64 = 10_000_000;

/// Fields that the sender writes itself, or that only make sense on one connection. Not
/// `Accept-Encoding` by name alone: `gzip = true` says it.
const LEFT_OUT: [&str; 12] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
];

/// A scenario, as TOML, that sends these requests in this order with their pauses, and checks that
/// the status is the same.
#[must_use]
pub fn write_scenario(name: &str, exchanges: &[Exchange], options: &WriteOptions) -> String {
    let mut kept: Vec<&Exchange> =
        exchanges.iter().filter(|exchange| is_wanted(exchange, options)).collect();
    kept.sort_by_key(|exchange| exchange.at_ns);
    let mut writer = Writer {
        secrets: Secrets::new(options.mask),
        base: most_common_origin(&kept),
        shared: shared_headers(&kept),
        is_all_gzip: !kept.is_empty() && kept.iter().all(|exchange| asks_for_gzip(exchange)),
        set: BTreeSet::new(),
        steps: String::new(),
    };
    for (at, exchange) in kept.iter().enumerate() {
        writer.step(exchange, kept.get(at + 1).copied());
    }
    writer.file(name)
}

struct Writer {
    secrets: Secrets,
    base: String,
    /// Headers that every request has.
    shared: Vec<(String, String)>,
    /// Every request asks for answers that are packed.
    is_all_gzip: bool,
    /// Names of cookies that an answer has set: the jar sends them.
    set: BTreeSet<String>,
    steps: String,
}

impl Writer {
    fn file(mut self, name: &str) -> String {
        let mut out = format!("name = {}\n", quoted(name));
        if !self.base.is_empty() {
            put(&mut out, format_args!("base = {}\n", quoted(&self.base)));
        }
        if self.is_all_gzip {
            out.push_str("\n[defaults]\ngzip = true\n");
        }
        if !self.shared.is_empty() {
            out.push_str("\n[defaults.headers]\n");
            for (name, value) in std::mem::take(&mut self.shared) {
                let value = self.secrets.header(&name, &value);
                put(&mut out, format_args!("{} = {}\n", key(&name), quoted(&value)));
            }
        }
        let names = self.secrets.names();
        if !names.is_empty() {
            out.push_str("\n# Masked: put the real ones here, written as the requests have them ");
            out.push_str("(%-encoded in a form).\n");
            out.push_str("[variables]\n");
            names.iter().for_each(|name| put(&mut out, format_args!("{name} = \"{MASKED}\"\n")));
        }
        out + &self.steps
    }

    fn step(&mut self, exchange: &Exchange, next: Option<&Exchange>) {
        let mut out = String::from("\n[[step]]\n");
        if exchange.method != "GET" || !exchange.body.is_empty() {
            put(&mut out, format_args!("method = {}\n", quoted(&exchange.method)));
        }
        let url = exchange.url.split('#').next().unwrap_or_default();
        // Two slashes would be read as the beginning of another host.
        let is_path = |path: &&str| path.starts_with('/') && !path.starts_with("//");
        let path = url.strip_prefix(&*self.base).filter(is_path);
        let path = if url == self.base { Some("/") } else { path };
        let url = self.secrets.url(&encoded(path.unwrap_or(url)));
        put(&mut out, format_args!("url = {}\n", quoted(&url)));
        if asks_for_gzip(exchange) && !self.is_all_gzip {
            out.push_str("gzip = true\n");
        }
        self.headers(exchange, &mut out);
        self.body(exchange, &mut out);
        if let Some(pause) = next.and_then(|next| pause(exchange, next)) {
            put(&mut out, format_args!("think = {}\n", quoted(&pause)));
        }
        if (100..=999).contains(&exchange.status) {
            put(&mut out, format_args!("check = {{ status = {} }}\n", exchange.status));
        }
        let fields = exchange.answer_headers.iter();
        let cookies = fields.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        // A browser joins several fields with line ends.
        let cookies = cookies.flat_map(|(_, value)| value.split('\n'));
        let names = cookies.filter_map(|value| Some(value.split_once('=')?.0.trim().to_owned()));
        self.set.extend(names);
        self.steps.push_str(&out);
    }

    fn headers(&mut self, exchange: &Exchange, out: &mut String) {
        let mut merged: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut order = Vec::new();
        for (name, value) in exchange.headers.iter().filter(|field| is_kept(field)) {
            if self.shared.iter().any(|shared| shared.0 == *name) {
                continue;
            }
            let is_cookie = name.eq_ignore_ascii_case("cookie");
            let value = if is_cookie { self.unset_cookies(value) } else { value.clone() };
            if is_cookie && value.is_empty() {
                continue;
            }
            let separator = if is_cookie { "; " } else { ", " };
            let folded = name.to_ascii_lowercase();
            match merged.get_mut(&folded) {
                Some((_, before)) => *before = format!("{before}{separator}{value}"),
                None => {
                    order.push(folded.clone());
                    merged.insert(folded, (name.clone(), value));
                }
            }
        }
        let fields = order.iter().filter_map(|name| merged.remove(name));
        let fields = fields.map(|(name, value)| {
            let value = self.secrets.header(&name, &value);
            format!("{} = {}", key(&name), quoted(&value))
        });
        let fields: Vec<String> = fields.collect();
        if !fields.is_empty() {
            put(out, format_args!("headers = {{ {} }}\n", fields.join(", ")));
        }
    }

    /// The cookies that the user brought along, not those that answers have set since.
    fn unset_cookies(&self, field: &str) -> String {
        let pairs = field.split(';').map(str::trim).filter(|pair| !pair.is_empty());
        let is_unset = |pair: &&str| !self.set.contains(pair.split('=').next().unwrap_or_default());
        pairs.filter(is_unset).collect::<Vec<_>>().join("; ")
    }

    fn body(&mut self, exchange: &Exchange, out: &mut String) {
        if exchange.body.is_empty() {
            return;
        }
        let kind = |field: &&(String, String)| field.0.eq_ignore_ascii_case("content-type");
        let kind = exchange.headers.iter().find(kind).map_or("", |(_, kind)| kind);
        match std::str::from_utf8(&exchange.body) {
            Ok(text) => {
                let body = self.secrets.body(kind, text);
                put(out, format_args!("body = {}\n", quoted(&body)));
            }
            Err(_) => {
                let masked = self.secrets.bytes(kind, &exchange.body);
                if matches!(masked, Cow::Owned(_)) {
                    put(out, format_args!("# {MASKED} stands for a secret in it.\n"));
                }
                let body = STANDARD.encode(masked);
                put(out, format_args!("body_base64 = {}\n", quoted(&body)));
            }
        }
    }
}

fn is_wanted(exchange: &Exchange, options: &WriteOptions) -> bool {
    let Ok(parts) = Parts::of(exchange.url.as_bytes()) else { return false };
    let is_host = |host: &String| {
        let host = host.as_bytes();
        parts.authority.eq_ignore_ascii_case(host) || parts.host.eq_ignore_ascii_case(host)
    };
    head::is_token(exchange.method.as_bytes()) && options.host.as_ref().is_none_or(is_host)
}

fn is_kept((name, value): &(String, String)) -> bool {
    head::is_token(name.as_bytes())
        && head::is_value(value.as_bytes())
        && !LEFT_OUT.iter().any(|out| name.eq_ignore_ascii_case(out))
}

/// Of the codings that clients name it is the one that a scenario has a word for.
fn asks_for_gzip(exchange: &Exchange) -> bool {
    let is_gzip = |coding: &str| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && weight.trim() != "q=0"
    };
    let mut fields = exchange.headers.iter();
    fields.any(|(name, codings)| {
        name.eq_ignore_ascii_case("accept-encoding") && codings.split(',').any(is_gzip)
    })
}

/// Scheme and authority of most requests.
fn most_common_origin(exchanges: &[&Exchange]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for exchange in exchanges {
        let length = Parts::of(exchange.url.as_bytes()).map_or(0, |parts| parts.rest.len());
        *counts.entry(&exchange.url[..exchange.url.len() - length]).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(origin, _)| origin.to_owned())
}

/// Headers that stand in every request with the same value, in the order of the first.
fn shared_headers(exchanges: &[&Exchange]) -> Vec<(String, String)> {
    let Some((first, others)) = exchanges.split_first() else { return Vec::new() };
    let once = |exchange: &Exchange, name: &str| {
        let same = exchange.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.count() == 1
    };
    let is_shared = |field: &&(String, String)| {
        is_kept(field)
            && !field.0.eq_ignore_ascii_case("cookie")
            && once(first, &field.0)
            && others.iter().all(|other| other.headers.contains(field) && once(other, &field.0))
    };
    if others.is_empty() {
        return Vec::new();
    }
    first.headers.iter().filter(is_shared).cloned().collect()
}

/// From the end of one answer to the next request.
fn pause(exchange: &Exchange, next: &Exchange) -> Option<String> {
    let end = exchange.at_ns.saturating_add(exchange.took_ns);
    let ns = next.at_ns.checked_sub(end).filter(|ns| *ns >= THINK_NS_MIN)?;
    let longest = 10_000_000 * 1_000_000_000;
    Some(duration::write(ns.min(longest)))
}

/// What a browser's address may hold and a request line may not.
fn encoded(url: &str) -> Cow<'_, str> {
    if url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(url);
    }
    let mut out = String::new();
    for byte in url.bytes() {
        match byte.is_ascii_graphic() {
            true => out.push(char::from(byte)),
            false => put(&mut out, format_args!("%{byte:02X}")),
        }
    }
    Cow::Owned(out)
}

pub(crate) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A TOML basic string on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => put(&mut out, format_args!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
