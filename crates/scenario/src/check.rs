//! What an answer must be, and what is taken out of it. A [`Check`] is a question with yes or no;
//! a [`Capture`] is one too ("found something"), and sets a variable.

use std::borrow::Cow;

use memchr::memmem;
use regex::bytes::{CaptureLocations, Regex};

use crate::{
    head,
    json_path::{JsonPath, put_plain},
    template::{Slot, Template, Values},
};

/// What is in the first element of this name.
pub const TITLE: &str = r"(?is-u)<title(?:\s[^>]*)?>(.*?)</title";

/// An answer, complete.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub status: u16,
    /// The header block as it came; may be empty when [`Wants::head`](crate::Wants) is false.
    pub head: &'a [u8],
    /// As sent, without transfer coding; may be empty when [`Wants::body`](crate::Wants) is false.
    pub body: &'a [u8],
    /// How long the body was, whether it was kept or not.
    pub body_bytes: u64,
    /// From the request to the last byte.
    pub after_ns: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// First and last of each range.
    Status(Vec<(u16, u16)>),
    Header {
        name: String,
        value: Option<Needle>,
        wanted: bool,
    },
    Text {
        needle: Needle,
        wanted: bool,
    },
    Regex {
        regex: usize,
        wanted: bool,
    },
    Bytes {
        least: u64,
        most: u64,
    },
    Time {
        least_ns: u64,
        most_ns: u64,
    },
    Title {
        regex: usize,
        text: Template,
        ignore_case: bool,
    },
    Json {
        path: JsonPath,
        value: Json,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Json {
    There {
        wanted: bool,
    },
    Text(Template),
    Number(f64),
    /// `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// A text to be found.
#[derive(Clone, Debug)]
pub(crate) enum Needle {
    Fixed(Box<memmem::Finder<'static>>),
    Folded(Vec<u8>),
    Template { text: Template, ignore_case: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub name: String,
    pub variable: usize,
    pub from: From,
    /// What the variable is when nothing was found; then that is no failure.
    pub default: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) enum From {
    Header(String),
    Regex { regex: usize, group: usize },
    Json(JsonPath),
    Cookie(Vec<u8>),
}

/// A pattern with the memory that a search needs. Each thread has its own: a clone of a `Regex`
/// brings its own scratch space, so threads do not wait for each other.
#[derive(Debug)]
pub(crate) struct Tool {
    regex: Regex,
    places: CaptureLocations,
}

/// What a check looks with.
pub(crate) struct Eye<'e> {
    pub answer: Answer<'e>,
    pub tools: &'e mut [Tool],
    pub scratch: &'e mut Vec<u8>,
}

impl Tool {
    pub fn new(regex: &Regex) -> Self {
        Self { regex: regex.clone(), places: regex.capture_locations() }
    }

    fn group<'t>(&mut self, text: &'t [u8], group: usize) -> Option<&'t [u8]> {
        self.regex.captures_read(&mut self.places, text)?;
        self.places.get(group).map(|(start, end)| &text[start..end])
    }
}

impl Check {
    pub fn holds(&self, eye: &mut Eye<'_>, values: &mut Values<'_>) -> bool {
        let answer = eye.answer;
        match &self.kind {
            Kind::Status(ranges) => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&answer.status))
            }
            Kind::Header { name, value, wanted } => {
                let mut found = head::values(answer.head, name);
                *wanted
                    == found.any(|field| {
                        value.as_ref().is_none_or(|needle| needle.is_in(field, eye.scratch, values))
                    })
            }
            Kind::Text { needle, wanted } => {
                *wanted == needle.is_in(answer.body, eye.scratch, values)
            }
            Kind::Regex { regex, wanted } => {
                *wanted == eye.tools[*regex].regex.is_match(answer.body)
            }
            Kind::Bytes { least, most } => (*least..=*most).contains(&answer.body_bytes),
            Kind::Time { least_ns, most_ns } => (*least_ns..=*most_ns).contains(&answer.after_ns),
            Kind::Title { regex, text, ignore_case } => {
                let title = title(eye.tools[*regex].group(answer.body, 1));
                title.is_some_and(|title| equals(&title, text, *ignore_case, eye.scratch, values))
            }
            Kind::Json { path, value } => value.is(path.find(answer.body), eye.scratch, values),
        }
    }

    /// What it compares with, when that has to be written first.
    pub fn template(&self) -> Option<&Template> {
        match &self.kind {
            Kind::Text { needle: Needle::Template { text, .. }, .. }
            | Kind::Header { value: Some(Needle::Template { text, .. }), .. }
            | Kind::Title { text, .. }
            | Kind::Json { value: Json::Text(text), .. } => Some(text),
            _ => None,
        }
    }

    pub fn wants_head(&self) -> bool {
        matches!(self.kind, Kind::Header { .. })
    }

    pub fn wants_body(&self) -> bool {
        let of_body = matches!(self.kind, Kind::Text { .. } | Kind::Regex { .. });
        of_body || matches!(self.kind, Kind::Title { .. } | Kind::Json { .. })
    }

    /// What the answer was instead, for a person.
    pub fn found(&self, answer: &Answer<'_>) -> String {
        match &self.kind {
            Kind::Status(_) => format!("the status is {}", answer.status),
            Kind::Header { name, .. } => {
                let values = head::values(answer.head, name);
                let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
                match values.is_empty() {
                    true => format!("there is no {name}"),
                    false => format!("{name} is {:?}", values.join(", ")),
                }
            }
            Kind::Bytes { .. } => format!("the body has {} bytes", answer.body_bytes),
            Kind::Time { .. } => {
                format!("it took {:.3} ms", answer.after_ns as f64 / 1e6)
            }
            Kind::Json { path, .. } => match path.find(answer.body) {
                Some(value) => format!("the value is {}", excerpt(value)),
                None => format!("nothing is there; the body is {}", excerpt(answer.body)),
            },
            Kind::Text { wanted: false, .. } | Kind::Regex { wanted: false, .. } => {
                format!("it is in the body: {}", excerpt(answer.body))
            }
            Kind::Title { .. } => match title(first_title(answer.body)) {
                Some(title) => format!("the title is {}", excerpt(&title)),
                None => format!("there is no title; the body is {}", excerpt(answer.body)),
            },
            Kind::Text { .. } | Kind::Regex { .. } => {
                format!("the body is {}", excerpt(answer.body))
            }
        }
    }
}

impl Capture {
    /// Sets the variable; whether something was found. Cookies are the jar's affair.
    pub fn take(&self, eye: &mut Eye<'_>, cookie: Option<&[u8]>, slot: &mut Slot) -> bool {
        slot.text.clear();
        slot.is_set = self.find(eye, cookie, &mut slot.text);
        match &self.default {
            Some(default) if !slot.is_set => {
                slot.text.extend_from_slice(default);
                slot.is_set = true;
            }
            _ => {}
        }
        slot.is_set
    }

    pub fn wants_head(&self) -> bool {
        matches!(self.from, From::Header(_) | From::Cookie(_))
    }

    pub fn wants_body(&self) -> bool {
        matches!(self.from, From::Regex { .. } | From::Json(_))
    }

    fn find(&self, eye: &mut Eye<'_>, cookie: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
        let found = match &self.from {
            From::Header(name) => head::values(eye.answer.head, name).next(),
            From::Regex { regex, group } => eye.tools[*regex].group(eye.answer.body, *group),
            From::Cookie(_) => cookie,
            From::Json(path) => {
                let found = path.find(eye.answer.body);
                found.inspect(|value| put_plain(value, out));
                return found.is_some();
            }
        };
        found.inspect(|text| out.extend_from_slice(text));
        found.is_some()
    }
}

impl Needle {
    pub fn new(text: Template, ignore_case: bool) -> Self {
        match text.constant() {
            Some(text) if ignore_case => Self::Folded(text.to_owned()),
            Some(text) => Self::Fixed(Box::new(memmem::Finder::new(text).into_owned())),
            None => Self::Template { text, ignore_case },
        }
    }

    fn is_in(&self, hay: &[u8], scratch: &mut Vec<u8>, values: &mut Values<'_>) -> bool {
        match self {
            Self::Fixed(finder) => finder.find(hay).is_some(),
            Self::Folded(text) => holds_folded(hay, text),
            Self::Template { text, ignore_case } => {
                scratch.clear();
                let written = text.write(values, scratch).is_ok();
                written
                    && match ignore_case {
                        true => holds_folded(hay, scratch),
                        false => memmem::find(hay, scratch).is_some(),
                    }
            }
        }
    }
}

impl Json {
    fn is(&self, found: Option<&[u8]>, scratch: &mut Vec<u8>, values: &mut Values<'_>) -> bool {
        match (self, found) {
            (Self::There { wanted }, found) => *wanted == found.is_some(),
            (_, None) => false,
            (Self::Word(word), Some(found)) => found == *word,
            (Self::Number(number), Some(found)) => {
                let found = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
                found == Some(*number)
            }
            (Self::Text(text), Some(found)) => {
                scratch.clear();
                put_plain(found, scratch);
                let split = scratch.len();
                text.write(values, scratch).is_ok() && scratch[..split] == scratch[split..]
            }
        }
    }
}

fn equals(
    text: &[u8],
    expected: &Template,
    ignore_case: bool,
    scratch: &mut Vec<u8>,
    values: &mut Values<'_>,
) -> bool {
    scratch.clear();
    let written = expected.write(values, scratch).is_ok();
    written && if ignore_case { scratch.eq_ignore_ascii_case(text) } else { scratch == text }
}

/// For a person: the regex of the check is not at hand.
fn first_title(body: &[u8]) -> Option<&[u8]> {
    let regex = Regex::new(TITLE).ok()?;
    Some(regex.captures(body)?.get(1)?.as_bytes())
}

/// As a browser shows it.
fn title(found: Option<&[u8]>) -> Option<Cow<'_, [u8]>> {
    let title = found?.trim_ascii();
    Some(match std::str::from_utf8(title) {
        Ok(text) if text.contains('&') => {
            Cow::Owned(html_escape::decode_html_entities(text).into_owned().into_bytes())
        }
        _ => Cow::Borrowed(title),
    })
}

/// Case is that of ASCII; finds by the first letter in either case.
fn holds_folded(hay: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let mut found = memchr::memchr2_iter(lower, upper, hay);
    found.any(|at| hay[at..].get(..needle.len()).is_some_and(|h| h.eq_ignore_ascii_case(needle)))
}

/// The beginning of a text on one line.
fn excerpt(text: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    let cut = &text[..text.len().min(BYTES_MAX)];
    let more = if text.len() > BYTES_MAX { "..." } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_ignored_where_it_is_asked_for() {
        assert!(holds_folded(b"<B>Wel WELCOME</b>", b"welcome"));
        assert!(!holds_folded(b"Welcom", b"welcome"));
        assert!(holds_folded(b"", b""));
    }

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        assert_eq!(excerpt(b"a\nb"), "\"a\\nb\"");
        assert!(excerpt(&[b'x'; 500]).len() < 130);
    }
}
