//! The head that a script prints: CGI's header lines up to an empty line, met piece by piece.
//!
//! Pure: bytes in, [`ScriptHead`] out. Used by the CGI tier and by Perl handlers under `ParseHeaders`.

use crate::http;

/// Longest head; a script that prints more without an empty line is broken.
pub const SCRIPT_HEAD_BYTES_MAX: usize = 256 * 1024;

/// What the script said before its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptHead {
    /// `Status: 404 Not Found`, as a number and as text.
    pub status: Option<(u16, Vec<u8>)>,
    /// What stood there when it was no status.
    pub bad_status: Option<String>,
    pub content_type: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    /// Everything else, in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a head is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHead {
    #[error("malformed header from script: Bad header={0}")]
    Line(String),
    #[error("End of script output before headers")]
    Missing,
    #[error(
        "script printed {SCRIPT_HEAD_BYTES_MAX} bytes without an empty line to end its headers"
    )]
    TooLong,
}

/// Collects output until the head is whole.
#[derive(Debug, Default)]
pub struct HeadScan {
    bytes: Vec<u8>,
    /// mod_perl looks for two line ends, mod_cgi for an empty line: one more belongs to a head
    /// without headers.
    two_lines: bool,
}

impl HeadScan {
    pub fn of_perl() -> Self {
        Self { bytes: Vec::new(), two_lines: true }
    }

    /// Takes the next piece. `Some` once: the head, and the part of the piece that is body already.
    pub fn feed<'a>(&mut self, piece: &'a [u8]) -> Option<Result<(ScriptHead, &'a [u8]), BadHead>> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        if self.is_empty_line() {
            return None;
        }
        let Some((head_end, body_start)) = find_end(&self.bytes, before, self.two_lines) else {
            return (self.bytes.len() > SCRIPT_HEAD_BYTES_MAX).then_some(Err(BadHead::TooLong));
        };
        if head_end > SCRIPT_HEAD_BYTES_MAX {
            return Some(Err(BadHead::TooLong)); // as when it comes in pieces
        }
        let head = parse(&self.bytes[..head_end]);
        Some(head.map(|head| (head, &piece[body_start - before..])))
    }

    /// The output ended before an empty line.
    pub fn end(&self) -> BadHead {
        let first = self.bytes.split(|&b| b == b'\n').next().unwrap_or_default();
        if first.is_empty() || parse_line(first).is_ok() {
            return BadHead::Missing;
        }
        BadHead::Line(shown(first))
    }

    /// What came may be half of the two line ends: if nothing follows, it is the head.
    pub fn is_empty_line(&self) -> bool {
        self.two_lines && matches!(self.bytes[..], [b'\n'] | [b'\r', b'\n'])
    }

    pub fn is_untouched(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The end of the last header line and the start of the body; an empty line may end in CR LF or LF.
fn find_end(bytes: &[u8], from: usize, two_lines: bool) -> Option<(usize, usize)> {
    // An empty first line: a head without headers.
    match bytes {
        [b'\n', b'\n', ..] if two_lines => return Some((0, 2)),
        [b'\n', b'\r', b'\n', ..] | [b'\r', b'\n', b'\n', ..] if two_lines => return Some((0, 3)),
        [b'\r', b'\n', b'\r', b'\n', ..] if two_lines => return Some((0, 4)),
        [b'\n', ..] => return Some((0, 1)),
        [b'\r', b'\n', ..] => return Some((0, 2)),
        _ => {}
    }
    let start = from.saturating_sub(3);
    for at in memchr::memchr_iter(b'\n', &bytes[start..]).map(|i| i + start) {
        let rest = &bytes[at + 1..];
        if rest.first() == Some(&b'\n') && at + 2 > from {
            return Some((at + 1, at + 2));
        }
        if rest.starts_with(b"\r\n") && at + 3 > from {
            return Some((at + 1, at + 3));
        }
    }
    None
}

fn parse(head: &[u8]) -> Result<ScriptHead, BadHead> {
    let mut parsed = ScriptHead::default();
    for line in head.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let (name, value) = parse_line(line)?;
        if name.eq_ignore_ascii_case(b"Status") {
            let status = parse_status(value);
            parsed.bad_status = status.is_none().then(|| shown(value));
            parsed.status = Some(status.unwrap_or((500, Vec::new())));
        } else if name.eq_ignore_ascii_case(b"Content-Type") {
            parsed.content_type = Some(value.to_vec());
        } else if name.eq_ignore_ascii_case(b"Location") {
            parsed.location = Some(value.to_vec());
        } else {
            parsed.headers.push((name.to_vec(), value.to_vec()));
        }
    }
    Ok(parsed)
}

/// A name is a token: what follows cannot smuggle a second header or response.
fn parse_line(line: &[u8]) -> Result<(&[u8], &[u8]), BadHead> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let bad = || BadHead::Line(shown(line));
    let colon = memchr::memchr(b':', line).ok_or_else(bad)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty() || !name.iter().all(token) || !is_value(name, value) {
        return Err(bad());
    }
    Ok((name, value))
}

/// The words of a Status are not sent when they cannot be.
fn is_value(name: &[u8], value: &[u8]) -> bool {
    match name.eq_ignore_ascii_case(b"Status") {
        true => !value.contains(&b'\r') && !value.contains(&0),
        false => http::response::is_value(value),
    }
}

/// The number, and the whole as a status line when it can be one. As in Apache, what is no status
/// takes the place of none: the answer goes out as 500.
fn parse_status(value: &[u8]) -> Option<(u16, Vec<u8>)> {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let code = std::str::from_utf8(&value[..digits]).ok()?.parse().ok()?;
    let is_line = matches!(value.get(digits), None | Some(b' '));
    let line = if is_line { value } else { &value[..digits] };
    // 1xx announces an answer and is none: its client would wait for the answer for ever.
    (200..=999).contains(&code).then(|| (code, line.to_vec()))
}

fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().take(120).collect();
    text.trim_end().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &[u8]) -> Result<(ScriptHead, Vec<u8>), BadHead> {
        let mut scan = HeadScan::default();
        match scan.feed(text) {
            Some(found) => found.map(|(head, body)| (head, body.to_vec())),
            None => Err(scan.end()),
        }
    }

    #[test]
    fn a_head_without_headers_is_two_line_ends_under_mod_perl() {
        for (pieces, cgi, perl) in [
            (&["\n\nbody"][..], "\nbody", "body"),
            (&["\r\n\r\nbody"], "\r\nbody", "body"),
            (&["\n", "\n", "\n", "body"], "\n\nbody", "\nbody"),
            (&["\r\n", "\nbody"], "\nbody", "body"),
            (&["\n", "body\n\n"], "body\n\n", "body\n\n"),
            (&["\n\r", "body"], "\rbody", "\rbody"),
        ] {
            let pieces: Vec<&[u8]> = pieces.iter().map(|p| p.as_bytes()).collect();
            for (scan, body) in [(HeadScan::default(), cgi), (HeadScan::of_perl(), perl)] {
                let (head, rest) = from_pieces(scan, &pieces).unwrap();
                assert_eq!(
                    (head, &rest[..]),
                    (ScriptHead::default(), body.as_bytes()),
                    "{pieces:?}"
                );
            }
        }
        let mut scan = HeadScan::of_perl();
        assert!(scan.feed(b"\n").is_none() && scan.is_empty_line());
    }

    #[test]
    fn a_usual_head() {
        let (head, body) =
            whole(b"Content-type: text/plain\r\nStatus: 404 Gone fishing\nX-A: 1\n\nbody\n\n")
                .unwrap();
        assert_eq!(head.content_type.as_deref(), Some(&b"text/plain"[..]));
        assert_eq!(head.status, Some((404, b"404 Gone fishing".to_vec())));
        assert_eq!(head.headers, [(b"X-A".to_vec(), b"1".to_vec())]);
        assert_eq!(body, b"body\n\n");
    }

    #[test]
    fn every_split_gives_the_same_head_and_body() {
        let text = b"Content-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n\r\nbody";
        let expected = whole(text).unwrap();
        for cut in 0..text.len() {
            let mut scan = HeadScan::default();
            let mut body = Vec::new();
            let mut head = None;
            for piece in [&text[..cut], &text[cut..]] {
                if head.is_some() {
                    body.extend_from_slice(piece);
                } else if let Some(found) = scan.feed(piece) {
                    let (h, rest) = found.unwrap();
                    head = Some(h);
                    body.extend_from_slice(rest);
                }
            }
            assert_eq!((head.unwrap(), body), expected, "cut at {cut}");
        }
    }

    /// What comes out of these pieces: the head, and how much of all of them is body.
    fn in_pieces(pieces: &[&[u8]]) -> Result<(ScriptHead, Vec<u8>), BadHead> {
        from_pieces(HeadScan::default(), pieces)
    }

    fn from_pieces(mut scan: HeadScan, pieces: &[&[u8]]) -> Result<(ScriptHead, Vec<u8>), BadHead> {
        let mut pieces = pieces.iter();
        for piece in pieces.by_ref() {
            if let Some(found) = scan.feed(piece) {
                let (head, rest) = found?;
                let rest = [rest.to_vec(), pieces.copied().collect::<Vec<_>>().concat()].concat();
                return Ok((head, rest));
            }
        }
        Err(scan.end())
    }

    fn nearly_a_head() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            prop::sample::select(vec![
                &b"Status: 404 No\n"[..],
                b"Status: ",
                b"Content-Type: text/html\r\n",
                b"Location: /x\n",
                b"X-A: b\n",
                b"\n",
                b"\r\n",
                b"\r",
                b":",
                b" ",
            ])
            .prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 0..6),
        ];
        prop::collection::vec(word, 0..10).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn noise_never_panics_and_pieces_say_what_the_whole_says(
            text in nearly_a_head(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &text[w[0]..w[1]]).collect();
            prop_assert_eq!(in_pieces(&pieces), in_pieces(&[&text]));
        }

        #[test]
        fn random_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = in_pieces(&[&text]);
        }

        /// What is printed as a head is read as that head, and what follows is untouched.
        #[test]
        fn good_heads_come_out_as_they_went_in(
            status in prop::option::of(200u16..1000),
            headers in prop::collection::vec(("X-[A-Za-z0-9]{1,8}", "[ -~]{0,20}"), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut text: String = headers.iter().map(|(n, v)| format!("{n}: {v}\n")).collect();
            text += &status.map_or(String::new(), |s| format!("Status: {s}\n"));
            text += "\n";
            let (head, rest) = in_pieces(&[text.as_bytes(), &body]).unwrap();
            prop_assert_eq!(head.status.map(|(code, _)| code), status);
            let told: Vec<_> = headers
                .iter()
                .map(|(n, v)| (n.as_bytes().to_vec(), v.trim().as_bytes().to_vec()))
                .collect();
            prop_assert_eq!(head.headers, told);
            prop_assert_eq!(rest, body);
        }
    }

    #[test]
    fn what_is_no_header_is_named() {
        assert!(
            matches!(whole(b"Hello, world!\n\n"), Err(BadHead::Line(l)) if l == "Hello, world!")
        );
        assert_eq!(whole(b""), Err(BadHead::Missing));
        assert_eq!(whole(b"Content-type: text/plain\n"), Err(BadHead::Missing));
        assert!(matches!(whole(b"no header"), Err(BadHead::Line(_))));
        assert!(matches!(whole(b"X-A : 1\n\n"), Err(BadHead::Line(_))));
    }

    #[test]
    fn what_is_no_status_is_500() {
        for status in ["ok", "", "-5", "100", "101", "99", "1000", "99999"] {
            let head = whole(format!("Status: {status}\n\n").as_bytes()).unwrap().0;
            assert_eq!(head.status, Some((500, Vec::new())), "{status}");
            assert_eq!(head.bad_status.as_deref(), Some(status));
        }
        let head = whole(b"Status: 404Gone\n\n").unwrap().0;
        assert_eq!((head.status, head.bad_status), (Some((404, b"404".to_vec())), None));
    }

    #[test]
    fn a_head_may_be_empty() {
        assert_eq!(whole(b"\n\nbody").unwrap(), (ScriptHead::default(), b"\nbody".to_vec()));
        assert_eq!(whole(b"\r\nbody").unwrap(), (ScriptHead::default(), b"body".to_vec()));
    }

    #[test]
    fn a_head_longer_than_eight_kilobytes_is_fine_and_an_endless_one_is_not() {
        let long = [b"X-Long: ".as_slice(), &[b'a'; 20_000], b"\n\nbody"].concat();
        assert_eq!(whole(&long).unwrap().1, b"body");
        let mut scan = HeadScan::default();
        assert_eq!(scan.feed(&vec![b'a'; SCRIPT_HEAD_BYTES_MAX + 1]), Some(Err(BadHead::TooLong)));
    }
}
