//! The path of a request target → the path that the configuration is asked about: decoded, slashes
//! merged, dot segments gone. Statuses of refusals are those of Apache 2.4 (observed on 2.4.71).

use std::borrow::Cow;

/// Decodes and normalises a raw path; the error is the status to answer with.
pub fn normalise(raw: &[u8]) -> Result<Cow<'_, [u8]>, u16> {
    if raw.first() != Some(&b'/') {
        return Err(400);
    }
    if is_plain(raw) {
        return Ok(Cow::Borrowed(raw));
    }
    let decoded = if memchr::memchr(b'%', raw).is_some() { decode(raw)? } else { raw.to_vec() };
    resolve_dots(&decoded).map(Cow::Owned)
}

/// Whether a path is its own normal form: no escapes, no empty and no dotted segments.
fn is_plain(raw: &[u8]) -> bool {
    let mut before = 0;
    for &c in raw {
        if c == b'%' || (before == b'/' && (c == b'/' || c == b'.')) {
            return false;
        }
        before = c;
    }
    true
}

/// `%2F` and `%00` are 404, a broken escape is 400.
fn decode(raw: &[u8]) -> Result<Vec<u8>, u16> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&c) = raw.get(at) {
        if c != b'%' {
            out.push(c);
            at += 1;
            continue;
        }
        let digit = |i: usize| raw.get(i).and_then(|&c| (c as char).to_digit(16)).ok_or(400_u16);
        match (digit(at + 1)? * 16 + digit(at + 2)?) as u8 {
            0 | b'/' => return Err(404),
            byte => out.push(byte),
        }
        at += 3;
    }
    Ok(out)
}

/// Removes empty, `.` and `..` segments; leaving the root is 400.
fn resolve_dots(path: &[u8]) -> Result<Vec<u8>, u16> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let mut segments = path[1..].split(|&c| c == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b".." => {
                let parent = out.iter().rposition(|&c| c == b'/').ok_or(400_u16)?;
                out.truncate(parent);
            }
            b"." | b"" => {}
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
                continue;
            }
        }
        if last {
            out.push(b'/');
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nearly_a_path() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            prop::sample::select(vec![
                "/", "//", "/.", "/..", "/...", "%2e", "%2E%2e", "%2f", "%00", "%25", "%", "%4",
                "a", "b c",
            ])
            .prop_map(|w| w.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(word, 0..10).prop_map(|words| [b"/", &words.concat()[..]].concat())
    }

    /// The same by the book: split, decode each segment, walk.
    fn slowly(raw: &[u8]) -> Result<Vec<u8>, u16> {
        let mut walked: Vec<Vec<u8>> = Vec::new();
        let decoded = decode(raw)?;
        let segments: Vec<&[u8]> = decoded[1..].split(|&b| b == b'/').collect();
        for segment in &segments {
            match *segment {
                b"" | b"." => {}
                b".." => drop(walked.pop().ok_or(400_u16)?),
                other => walked.push(other.to_vec()),
            }
        }
        let mut path: Vec<u8> = walked.iter().flat_map(|s| [b"/", &s[..]].concat()).collect();
        if matches!(segments.last(), Some(&(b"" | b"." | b".."))) || path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    proptest! {
        #[test]
        fn any_bytes_are_normal_or_refused(raw in nearly_a_path()) {
            let got = normalise(&raw).map(std::borrow::Cow::into_owned);
            prop_assert_eq!(&got, &slowly(&raw));
            let Ok(path) = got else { return Ok(()) };
            // Nothing climbs; a normal path is its own normal form once its % are escaped again.
            prop_assert!(path.starts_with(b"/"));
            let climbs = |s: &[u8]| s == b"." || s == b"..";
            prop_assert!(!path.split(|&b| b == b'/').any(climbs));
            prop_assert!(!path.windows(2).any(|w| w == b"//"));
            let escaped: Vec<u8> = path
                .iter()
                .flat_map(|&b| if b == b'%' { b"%25".to_vec() } else { vec![b] })
                .collect();
            prop_assert_eq!(normalise(&escaped).map(std::borrow::Cow::into_owned), Ok(path));
        }

        #[test]
        fn random_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = normalise(&raw);
        }
    }

    #[test]
    fn normalises_as_apache_does() {
        for (raw, want) in [
            ("/", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("//dir//sub/../index.html", Ok("/dir/index.html")),
            ("/dir/../../x", Err(400)),
            ("/%2e%2e/x", Err(400)),
            ("/..", Err(400)),
            ("/a/..", Ok("/")),
            ("/a/.", Ok("/a/")),
            ("/a/", Ok("/a/")),
            ("/.x/...", Ok("/.x/...")),
            ("/a%2fb", Err(404)),
            ("/a%00b", Err(404)),
            ("/a%zz", Err(400)),
            ("/a%2", Err(400)),
            ("/a%20b", Ok("/a b")),
            ("a.txt", Err(400)),
            ("", Err(400)),
            ("/.", Ok("/")),
            ("//", Ok("/")),
        ] {
            let got = normalise(raw.as_bytes());
            let got = got.as_deref().map(|p| std::str::from_utf8(p).unwrap()).map_err(|e| *e);
            assert_eq!(got, want, "{raw}");
        }
    }
}
