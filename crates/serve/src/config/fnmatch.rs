//! Shell wildcards as Apache's `apr_fnmatch` reads them: `*`, `?`, `[a-z]`, `[!a-z]`, `\x`. With
//! `pathname` set no wildcard matches a slash (`FNM_PATHNAME`). Works on bytes; never fails: an
//! unclosed bracket is a plain character.

/// Whether `text` as a whole matches `pattern`.
#[must_use]
pub fn fnmatch(pattern: &[u8], text: &[u8], pathname: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume when a match fails: after the last star, one character of text further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if let Some(next) = text.get(t).and_then(|&c| one(&pattern[p..], c, pathname)) {
            p += next;
            t += 1;
            continue;
        }
        match retry {
            Some((_, from)) if from >= text.len() || (pathname && text[from] == b'/') => {
                return false;
            }
            Some((star, from)) => {
                retry = Some((star, from + 1));
                (p, t) = (star, from + 1);
            }
            None => return false,
        }
    }
}

/// Whether `text` contains wildcard characters (`apr_fnmatch_test`).
#[must_use]
pub fn has_wildcards(text: &str) -> bool {
    text.bytes().any(|c| matches!(c, b'*' | b'?' | b'['))
}

/// Matches one character against the head of `pattern`; gives how much of the pattern it used.
fn one(pattern: &[u8], c: u8, pathname: bool) -> Option<usize> {
    match *pattern.first()? {
        b'?' => (!(pathname && c == b'/')).then_some(1),
        b'[' => match bracket(&pattern[1..], c) {
            Some((hit, used)) => (hit && !(pathname && c == b'/')).then_some(used + 1),
            None => (c == b'[').then_some(1),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == c).then_some(2),
        other => (other == c).then_some(1),
    }
}

/// Reads a bracket expression after its `[`: whether `c` is in it, and its length with the `]`.
fn bracket(set: &[u8], c: u8) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut i = usize::from(negated);
    let (first, mut hit) = (i, false);
    while i < set.len() && (set[i] != b']' || i == first) {
        let low = set[i];
        let is_range = set.get(i + 1) == Some(&b'-') && set.get(i + 2).is_some_and(|&e| e != b']');
        let high = if is_range { set[i + 2] } else { low };
        hit |= (low..=high).contains(&c);
        i += if is_range { 3 } else { 1 };
    }
    (i < set.len()).then_some((hit != negated, i + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying everything: what the loop above must agree with.
    fn slowly(pattern: &[u8], text: &[u8], pathname: bool) -> bool {
        match (pattern.first(), text.first()) {
            (None, _) => text.is_empty(),
            (Some(b'*'), first) => {
                let more = first.is_some_and(|&c| !(pathname && c == b'/'));
                slowly(&pattern[1..], text, pathname)
                    || (more && slowly(pattern, &text[1..], pathname))
            }
            (Some(_), Some(&c)) => one(pattern, c, pathname)
                .is_some_and(|used| slowly(&pattern[used..], &text[1..], pathname)),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn the_fast_way_agrees_with_trying_everything(
            pattern in "[ab/*?\\[\\]!\\\\-]{0,8}",
            text in "[ab/\\[!-]{0,8}",
            pathname in any::<bool>(),
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(fnmatch(pattern, text, pathname), slowly(pattern, text, pathname));
        }

        #[test]
        fn random_bytes_never_panic(
            pattern in prop::collection::vec(any::<u8>(), 0..40),
            text in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = fnmatch(&pattern, &text, true);
        }
    }

    #[test]
    fn matches_like_apr_fnmatch() {
        for (pattern, text, pathname, expected) in [
            ("*.conf", "a.conf", true, true),
            ("*", "a/b", true, false),
            ("*", "a/b", false, true),
            ("/home/*/public_html", "/home/joe/public_html", true, true),
            ("/home/*/public_html", "/home/a/b/public_html", true, false),
            ("?.ht*", "a.html", false, true),
            (".??*", ".a", false, false),
            ("[a-c]x", "bx", false, true),
            ("[!a-c]x", "bx", false, false),
            ("[]x]", "]", false, true),
            ("[", "[", false, true),
            ("a\\*b", "a*b", false, true),
            ("a\\*b", "axb", false, false),
            ("*a*b*c", "xxaxxbxxc", false, true),
            ("", "", false, true),
            ("", "x", false, false),
            ("**", "", false, true),
            ("a?b", "a/b", true, false),
        ] {
            let got = fnmatch(pattern.as_bytes(), text.as_bytes(), pathname);
            assert_eq!(got, expected, "{pattern} against {text}");
        }
    }
}
