//! Static files: what to send, decided without touching a file. `plan` takes the facts of the file
//! and the conditional and range fields of the request and answers with a `FilePlan`: status,
//! fields, and the parts to send. Behaviour was compared with Apache 2.4.71. Statuses from 400 up
//! come without a body: the caller adds the error page.

use std::collections::HashMap;

use crate::conditions::{Conditions, Validators};
use crate::config::{FileETag, Policy};
use crate::environment::method_number;
use crate::http::response::http_date;
use crate::map::files::Stat;

/// What may be asked of a file.
pub const ALLOW: &str = "HEAD,GET,POST,OPTIONS";
/// Apache's MaxRanges, MaxRangeOverlaps and MaxRangeReversals: beyond them the whole file is sent.
const MAX_RANGES: usize = 200;
const MAX_OVERLAPS: usize = 20;
const MAX_REVERSALS: usize = 20;

/// One piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Bytes(Vec<u8>),
    FileRange { offset: u64, len: u64 },
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::FileRange { len, .. } => *len,
        }
    }
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlan {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// Length of the body as GET would have it; `None` when the status has no body of the file's.
    pub length: Option<u64>,
    /// Empty for HEAD.
    pub parts: Vec<Part>,
}

/// The file, and when it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct FileFacts<'a> {
    pub stat: &'a Stat,
    /// The last component of its name.
    pub name: &'a [u8],
    pub now_unix_s: i64,
    /// Makes the boundary between several ranges: anything that differs between responses.
    pub boundary: u64,
}

/// Decides what a request for a file gets.
#[must_use]
pub fn plan(
    request: &Conditions,
    file: &FileFacts,
    policy: &Policy,
    types: &MediaTypes,
) -> FilePlan {
    match request.method {
        b"GET" | b"HEAD" | b"POST" => {}
        b"OPTIONS" => return bare(200, vec![("Allow", ALLOW.to_string())], Some(0)),
        method => return bare(unserved(method), vec![("Allow", ALLOW.to_string())], None),
    }
    let etag = etag(file, policy.file_etag);
    let mut headers = vec![("Last-Modified", http_date(file.stat.mtime_s.max(0) as u64))];
    if let Some(tag) = &etag {
        headers.push(("ETag", tag.clone()));
    }
    headers.push(("Accept-Ranges", "bytes".to_string()));
    let kind = types.of(file.name, policy);
    let facts = Validators {
        etag: etag.as_deref().map(str::as_bytes),
        mtime_s: file.stat.mtime_s,
        now_s: file.now_unix_s,
    };
    match request.verdict(&facts) {
        Some(304) => return bare(304, headers, None),
        Some(status) => {
            headers.extend(kind.content_type.map(|t| ("Content-Type", t)));
            return bare(status, headers, Some(0)); // Apache sends no page here
        }
        None => {}
    }
    let ranges = match request.range.filter(|_| request.if_range_holds(&facts)) {
        Some(range) => parse_ranges(range, file.stat.size),
        None => Ranges::Whole,
    };
    let mut plan = body(ranges, kind.content_type.as_deref(), file, headers);
    plan.headers.extend(kind.encoding.map(|e| ("Content-Encoding", e)));
    plan.headers.extend(kind.language.map(|l| ("Content-Language", l)));
    if request.method == b"HEAD" {
        plan.parts.clear();
    }
    plan
}

/// What a method gets that no file answers: 501 when the server does not know it.
#[must_use]
pub fn unserved(method: &[u8]) -> u16 {
    let invalid = method_number(b"\0");
    if method_number(method) == invalid { 501 } else { 405 }
}

fn bare(status: u16, headers: Vec<(&'static str, String)>, length: Option<u64>) -> FilePlan {
    FilePlan { status, headers, length, parts: Vec::new() }
}

/// Apache's tag: size and time of change in microseconds, in hexadecimal; weak while the file is
/// so young that it could change again within the same second.
fn etag(file: &FileFacts, parts: Option<FileETag>) -> Option<String> {
    let parts = parts.unwrap_or(FileETag { inode: false, mtime: true, size: true });
    let stat = file.stat;
    let mtime_us = stat.mtime_s.wrapping_mul(1_000_000).wrapping_add(stat.mtime_ns / 1000) as u64;
    let used = [(parts.inode, stat.inode), (parts.size, stat.size), (parts.mtime, mtime_us)];
    let words: Vec<String> =
        used.iter().filter(|(on, _)| *on).map(|(_, value)| format!("{value:x}")).collect();
    let weak = if file.now_unix_s - stat.mtime_s > 1 { "" } else { "W/" };
    (!words.is_empty()).then(|| format!("{weak}\"{}\"", words.join("-")))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ranges {
    Whole,
    Unsatisfiable,
    /// First and last byte of each.
    Some(Vec<(u64, u64)>),
}

/// `ap_set_byterange`: any malformed part makes the field void; parts beyond the end are dropped;
/// neighbours that touch or overlap become one.
fn parse_ranges(text: &[u8], size: u64) -> Ranges {
    let Some((unit, list)) = text.split_at_checked(6) else { return Ranges::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return Ranges::Whole;
    }
    let (mut ranges, mut overlaps, mut reversals) = (Vec::<(u64, u64)>::new(), 0, 0);
    let mut beyond = false;
    for spec in range_specs(list) {
        let Some(range) = parse_range(spec, size) else { return Ranges::Whole };
        let Some((first, last)) = range else {
            beyond = true;
            continue;
        };
        match ranges.last_mut() {
            Some(before)
                if first <= before.1.saturating_add(1) && last.saturating_add(1) >= before.0 =>
            {
                overlaps += 1;
                *before = (before.0.min(first), before.1.max(last));
            }
            before => {
                reversals += usize::from(before.is_some_and(|b| first < b.0));
                ranges.push((first, last));
            }
        }
    }
    let total: u64 =
        ranges.iter().map(|(first, last)| last - first + 1).fold(0, u64::saturating_add);
    let too_many =
        ranges.len() > MAX_RANGES || overlaps > MAX_OVERLAPS || reversals > MAX_REVERSALS;
    match ranges.is_empty() {
        true if beyond => Ranges::Unsatisfiable,
        true => Ranges::Whole,
        false if too_many || total > size => Ranges::Whole,
        false => Ranges::Some(ranges),
    }
}

/// As `ap_getword` cuts them: several commas are one, and nothing before the first is the end.
fn range_specs(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let leading = list.starts_with(b",");
    list.split(|&c| c == b',').filter(|spec| !spec.is_empty()).take_while(move |_| !leading)
}

/// One range: `None` when malformed, `Some(None)` when it lies beyond the file.
#[allow(clippy::option_option)]
fn parse_range(spec: &[u8], size: u64) -> Option<Option<(u64, u64)>> {
    let spec = std::str::from_utf8(spec).ok()?;
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        let suffix: u64 = number(last).filter(|&n| n > 0)?;
        return Some((size > 0).then(|| (size.saturating_sub(suffix), size - 1)));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if first > last {
        return None;
    }
    Some((first < size).then(|| (first, last.min(size - 1))))
}

fn body(
    ranges: Ranges,
    content_type: Option<&str>,
    file: &FileFacts,
    mut headers: Vec<(&'static str, String)>,
) -> FilePlan {
    let size = file.stat.size;
    let (status, parts, content_type) = match ranges {
        Ranges::Whole => {
            (200, vec![Part::FileRange { offset: 0, len: size }], content_type.map(str::to_string))
        }
        Ranges::Unsatisfiable => {
            headers.push(("Content-Range", format!("bytes */{size}")));
            return bare(416, headers, None);
        }
        Ranges::Some(ranges) => match ranges.as_slice() {
            [(first, last)] => {
                headers.push(("Content-Range", format!("bytes {first}-{last}/{size}")));
                let part = Part::FileRange { offset: *first, len: last - first + 1 };
                (206, vec![part], content_type.map(str::to_string))
            }
            several => {
                let boundary = format!("{:016x}", file.boundary);
                let parts = multipart(several, &boundary, content_type, size);
                (206, parts, Some(format!("multipart/byteranges; boundary={boundary}")))
            }
        },
    };
    headers.extend(content_type.map(|t| ("Content-Type", t)));
    FilePlan { status, headers, length: Some(parts.iter().map(Part::len).sum()), parts }
}

fn multipart(ranges: &[(u64, u64)], boundary: &str, kind: Option<&str>, size: u64) -> Vec<Part> {
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    let kind = kind.map(|k| format!("Content-type: {k}\r\n")).unwrap_or_default();
    for (first, last) in ranges {
        let head =
            format!("\r\n--{boundary}\r\n{kind}Content-range: bytes {first}-{last}/{size}\r\n\r\n");
        parts.push(Part::Bytes(head.into_bytes()));
        parts.push(Part::FileRange { offset: *first, len: last - first + 1 });
    }
    parts.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    parts
}

/// Media types by extension.
#[derive(Debug, Clone, Default)]
pub struct MediaTypes {
    by_extension: HashMap<String, String>,
}

/// What a file's name says about its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediaType {
    /// With the charset; `None` when nothing is known: then no Content-Type is sent, as by Apache.
    pub content_type: Option<String>,
    pub encoding: Option<String>,
    pub language: Option<String>,
}

impl MediaTypes {
    /// Reads a `mime.types` file.
    #[must_use]
    pub fn parse(text: &str) -> MediaTypes {
        let mut by_extension = HashMap::new();
        for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
            let mut words = line.split_whitespace();
            if let Some(kind) = words.next() {
                by_extension.extend(words.map(|e| (e.to_ascii_lowercase(), kind.to_string())));
            }
        }
        MediaTypes { by_extension }
    }

    /// The common types, for machines without such a file.
    #[must_use]
    pub fn built_in() -> MediaTypes {
        MediaTypes::parse(BUILT_IN)
    }

    /// What a file is, by its extensions and the policy there (mod_mime).
    #[must_use]
    pub fn of(&self, name: &[u8], policy: &Policy) -> MediaType {
        let found = self.named(name, policy);
        let kind = found.content_type.map(|kind| with_default_charset(kind, policy));
        MediaType { content_type: kind, ..found }
    }

    /// The same without `AddDefaultCharset`, which is added to what handlers set too.
    #[must_use]
    pub fn named(&self, name: &[u8], policy: &Policy) -> MediaType {
        let (mut kind, mut found, mut charset) = (None, MediaType::default(), None);
        for extension in name.split(|&c| c == b'.').skip(1) {
            let extension = String::from_utf8_lossy(extension).to_ascii_lowercase();
            kind = match policy.add_type.get(&extension) {
                Some(Some(own)) => Some(own),
                Some(None) => kind,
                None => self.by_extension.get(&extension).or(kind),
            };
            charset = policy.add_charset.get(&extension).or(charset);
            found.encoding = policy.add_encoding.get(&extension).cloned().or(found.encoding);
            found.language = policy.add_language.get(&extension).cloned().or(found.language);
        }
        let kind = match &policy.force_type {
            Some(Some(forced)) => Some(forced),
            _ => kind,
        };
        let kind = kind.map(|kind| match charset {
            Some(charset) if !kind.contains("charset=") => format!("{kind}; charset={charset}"),
            _ => kind.clone(),
        });
        MediaType { content_type: kind, ..found }
    }
}

fn with_default_charset(kind: String, policy: &Policy) -> String {
    let is_text = kind == "text/plain" || kind == "text/html";
    match policy.default_charset.as_ref().and_then(Option::as_ref).filter(|_| is_text) {
        Some(charset) => format!("{kind}; charset={charset}"),
        None => kind,
    }
}

const BUILT_IN: &str = "text/html html htm shtml\ntext/plain txt text log conf pl pm\ntext/css \
 css\n\
    text/csv csv\ntext/markdown md\ntext/xml xml\ntext/javascript js mjs\napplication/json json \
    map\n\
    application/pdf pdf\napplication/zip zip\napplication/gzip gz tgz\napplication/x-tar tar\n\
    application/wasm wasm\napplication/rss+xml rss\napplication/atom+xml atom\n\
    application/manifest+json webmanifest\napplication/octet-stream bin exe iso\n\
    image/png png\nimage/jpeg jpg jpeg\nimage/gif gif\nimage/svg+xml svg svgz\nimage/webp webp\n\
    image/avif avif\nimage/vnd.microsoft.icon ico\nimage/bmp bmp\nimage/tiff tif tiff\n\
    font/woff woff\nfont/woff2 woff2\nfont/ttf ttf\nfont/otf otf\n\
    audio/mpeg mp3\naudio/ogg ogg oga\naudio/wav wav\nvideo/mp4 mp4\nvideo/webm webm\nvideo/ogg \
    ogv\n";

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
