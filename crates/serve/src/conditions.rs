//! Conditional requests: what becomes of an answer with these validators (`ap_meets_conditions`).
//! Pure; for files, for CGI's and for Perl's output. Compared with Apache 2.4.71.

use crate::http::Head;

/// The fields of a request that ask for conditions or for a part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    pub method: &'a [u8],
    pub if_match: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
    pub range: Option<&'a [u8]>,
}

/// What is known of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    pub etag: Option<&'a [u8]>,
    pub mtime_s: i64,
    pub now_s: i64,
}

/// Fields that a client sent in several lines, joined as one list each.
#[derive(Default)]
pub struct Repeated(Vec<(&'static str, Vec<u8>)>);

const NAMES: [&str; 6] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];

impl Repeated {
    #[must_use]
    pub fn of(head: &Head, buffer: &[u8]) -> Repeated {
        let twice = NAMES.iter().filter(|name| head.values(buffer, name).nth(1).is_some());
        let join = |name: &&'static str| {
            let values: Vec<&[u8]> = head.values(buffer, name).collect();
            (*name, values.join(&b", "[..]))
        };
        Repeated(twice.map(join).collect())
    }
}

impl<'a> Conditions<'a> {
    /// Picks the fields out of a request head. The method may be that of an internal redirect.
    #[must_use]
    pub fn of(
        method: &'a [u8],
        head: &Head,
        buffer: &'a [u8],
        repeated: &'a Repeated,
    ) -> Conditions<'a> {
        let value = |name| {
            let joined = repeated.0.iter().find(|(n, _)| *n == name);
            joined.map(|(_, v)| v.as_slice()).or_else(|| head.value(buffer, name))
        };
        Conditions {
            method,
            if_match: value("if-match"),
            if_none_match: value("if-none-match"),
            if_modified_since: value("if-modified-since"),
            if_unmodified_since: value("if-unmodified-since"),
            if_range: value("if-range"),
            range: value("range"),
        }
    }

    /// The status that a failed condition gives: 304 only when both If-None-Match and
    /// If-Modified-Since agree, where both are there.
    #[must_use]
    pub fn verdict(&self, answer: &Validators) -> Option<u16> {
        if self.if_match.is_some_and(|tags| !tag_matches(tags, answer.etag, false)) {
            return Some(412);
        }
        if self.if_unmodified_since.and_then(date).is_some_and(|date| answer.mtime_s > date) {
            return Some(412);
        }
        let reads = matches!(self.method, b"GET" | b"HEAD");
        let weakly = reads && self.range.is_none();
        let tagged = self.if_none_match.map(|tags| tag_matches(tags, answer.etag, weakly));
        if tagged == Some(true) && !reads {
            return Some(412);
        }
        let dated = self.if_modified_since.map(|text| {
            date(text).is_some_and(|date| answer.mtime_s <= date && date <= answer.now_s)
        });
        let unchanged = match (tagged, dated) {
            (None, None) => false,
            (tagged, dated) => tagged.unwrap_or(true) && dated.unwrap_or(true),
        };
        (unchanged && reads).then_some(304)
    }

    /// A range counts only if the file is the one the client has part of.
    #[must_use]
    pub fn if_range_holds(&self, answer: &Validators) -> bool {
        match self.if_range.map(<[u8]>::trim_ascii) {
            None => true,
            Some(tag) if tag.starts_with(b"\"") => answer.etag == Some(tag),
            Some(text) => date(text) == Some(answer.mtime_s),
        }
    }
}

/// Whether a list of tags, or `*`, names the answer's.
fn tag_matches(list: &[u8], etag: Option<&[u8]>, weakly: bool) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let own = etag.strip_prefix(b"W/").unwrap_or(etag);
    list.split(|&c| c == b',').map(<[u8]>::trim_ascii).any(|tag| match tag.strip_prefix(b"W/") {
        Some(tag) => weakly && tag == own,
        None => tag == own && (weakly || own == etag),
    })
}

/// An HTTP date in seconds since 1970, read as Apache reads it (`apr_date_parse_http`): the first
/// word, which should be the weekday, and what follows the time say nothing.
#[must_use]
pub fn date(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let text = &text[memchr::memchr(b' ', text)? + 1..];
    let is = |mask| has_form(text, mask);
    // Where day, month, year (of two or four digits) and time stand.
    let (day, month, year, time) = match () {
        () if is(b"## @$$ #### ##:##:## *") => (0..2, 3, 7..11, 12),
        () if is(b"##-@$$-## ##:##:## *") => (0..2, 3, 7..9, 10),
        () if is(b"@$$ ~# ##:##:## ####*") => (4..6, 0, 16..20, 7),
        () if is(b"# @$$ #### ##:##:## *") => (0..1, 2, 6..10, 11),
        () => return None,
    };
    let number = |at: std::ops::Range<usize>| {
        let digits = std::str::from_utf8(&text[at]).unwrap_or_default();
        digits.trim_start().parse::<i64>().unwrap_or(0)
    };
    let year = match (year.len(), number(year)) {
        (2, year) if year < 70 => 2000 + year,
        (2, year) => 1900 + year,
        (_, year) => year,
    };
    let month = MONTHS.iter().position(|m| text[month..].starts_with(m))?;
    let [hour, minute, second] = [0, 3, 6].map(|at| number(time + at..time + at + 2));
    let day = number(day);
    let good_time = hour < 24 && minute < 60 && second < 62; // as in leap seconds
    let good = good_time && year >= 1970 && (1..=days_of(month, year)).contains(&day);
    let seconds = (days_before(month, year) + day - 1) * 86400 + hour * 3600 + minute * 60 + second;
    good.then_some(seconds)
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `#` a digit, `~` a digit or a blank, `@` a capital, `$` a small letter, `*` the rest.
fn has_form(text: &[u8], mask: &[u8]) -> bool {
    let (mask, open) = mask.strip_suffix(b"*").map_or((mask, false), |mask| (mask, true));
    let fits = |(c, m): (&u8, &u8)| match m {
        b'#' => c.is_ascii_digit(),
        b'~' => c.is_ascii_digit() || *c == b' ',
        b'@' => c.is_ascii_uppercase(),
        b'$' => c.is_ascii_lowercase(),
        m => c == m,
    };
    let long_enough = if open { text.len() >= mask.len() } else { text.len() == mask.len() };
    long_enough && text.iter().zip(mask).all(fits)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(month: usize, year: i64) -> i64 {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS[month] + i64::from(month == 1 && is_leap(year))
}

/// Days from 1970 to the first of a month.
fn days_before(month: usize, year: i64) -> i64 {
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let years = 365 * (year - 1970) + leaps(year - 1) - leaps(1969);
    years + (0..month).map(|m| days_of(m, year)).sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Validators =
        Validators { etag: Some(b"\"a\""), mtime_s: 1_704_164_645, now_s: 1_800_000_000 };
    const SAME: &[u8] = b"Tue, 02 Jan 2024 03:04:05 GMT";

    #[test]
    fn verdicts_are_apaches() {
        let get = Conditions { method: b"GET", ..Conditions::default() };
        let post = Conditions { method: b"POST", ..Conditions::default() };
        let part = Conditions { range: Some(b"bytes=0-1"), ..get };
        let weak: &[u8] = b"W/\"a\"";
        for (asked, want) in [
            (get, None),
            (Conditions { if_none_match: Some(weak), ..get }, Some(304)),
            (Conditions { if_none_match: Some(weak), ..part }, None),
            (Conditions { if_none_match: Some(weak), ..post }, None),
            (Conditions { if_none_match: Some(b"\"a\""), ..post }, Some(412)),
            (Conditions { if_modified_since: Some(SAME), ..get }, Some(304)),
            (Conditions { if_modified_since: Some(SAME), ..post }, None),
            (Conditions { if_modified_since: Some(b"x"), if_none_match: Some(weak), ..get }, None),
            (Conditions { if_unmodified_since: Some(b"x"), ..get }, None),
            (Conditions { if_match: Some(weak), ..get }, Some(412)),
        ] {
            assert_eq!(asked.verdict(&ANSWER), want, "{asked:?}");
        }
    }

    #[test]
    fn dates_may_have_a_tail() {
        assert_eq!(date(b"Tue, 02 Jan 2024 03:04:05 GMT; length=26"), Some(1_704_164_645));
        assert_eq!(date(b"junk"), None);
    }

    #[test]
    fn every_date_that_is_written_is_read() {
        for seconds in (0..253_402_300_799).step_by(12_345_679) {
            let text = crate::http::response::http_date(seconds);
            assert_eq!(date(text.as_bytes()), Some(seconds as i64), "{text}");
        }
        for (text, seconds) in [
            ("Sun, 29 Feb 2004 23:59:59 GMT", Some(1_078_099_199)),
            ("Sun, 29 Feb 2100 00:00:00 GMT", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-69 08:49:37 GMT", Some(3_150_953_377)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("x 6 Nov 1994 08:49:37 ", Some(784_111_777)),
            ("x 06 Nov 1969 08:49:37 GMT", None),
            ("x 00 Nov 1994 08:49:37 GMT", None),
            ("x 31 Nov 1994 08:49:37 GMT", None),
            ("x 06 Xyz 1994 08:49:37 GMT", None),
            ("x 06 Nov 1994 08:49:37", None),
            ("x", None),
            ("x ", None),
            ("", None),
        ] {
            assert_eq!(date(text.as_bytes()), seconds, "{text}");
        }
    }
}
