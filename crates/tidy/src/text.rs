//! Rust text without what is not code: comments, strings and test modules become spaces, so that a
//! word in them is no call and a brace in them opens nothing. Lines keep their numbers.

/// Blanks comments, strings and character literals.
#[must_use]
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment(bytes, at),
            b'"' => string(bytes, at),
            b'r' if is_raw_string(bytes, at) => raw_string(bytes, at),
            b'\'' => character(bytes, at),
            _ => at,
        };
        blank(&mut out[at..end]);
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// [`code`] without the items under `#[cfg(test)]`.
#[must_use]
pub fn code_without_tests(text: &str) -> String {
    let mut out = code(text).into_bytes();
    let marker = b"#[cfg(test)]";
    let mut at = 0;
    while let Some(start) = position(&out, at, marker) {
        let end = item_end(&out, start + marker.len());
        blank(&mut out[start..end]);
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the item that begins at `at`: its `;`, or the brace that closes its first one.
/// Expects code from [`code`].
#[must_use]
pub fn item_end(code: &[u8], mut at: usize) -> usize {
    let (mut braces, mut others) = (0_i32, 0_i32);
    while at < code.len() {
        match code[at] {
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return at + 1;
                }
            }
            b'(' | b'[' => others += 1,
            b')' | b']' => others -= 1,
            b';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
}

fn position(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(what.len()).position(|w| w == what).map(|i| from + i)
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    position(bytes, from, what).unwrap_or(bytes.len())
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    (find(bytes, start + 2, b"*/") + 2).min(bytes.len())
}

fn string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn is_raw_string(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map_or(b' ', |i| bytes[i]);
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    let starts_word = !(before.is_ascii_alphanumeric() || before == b'_') || before == b'b';
    starts_word && bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw_string(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    (find(bytes, at + hashes + 2, &end) + end.len()).min(bytes.len())
}

/// A character literal; a lifetime is left alone.
fn character(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        return (find(bytes, at + 3, b"'") + 1).min(bytes.len());
    }
    // A character of up to four bytes, then the quote; `'a` of a lifetime has none so near.
    let limit = (at + 6).min(bytes.len());
    let first = bytes.get(at + 1).copied().unwrap_or_default();
    let near = if first.is_ascii() { (at + 3).min(limit) } else { limit };
    match bytes[(at + 2).min(near)..near].iter().position(|b| *b == b'\'') {
        Some(i) => at + 2 + i + 1,
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_strings_are_no_code() {
        let text = "let a = \"x.unwrap()\"; // .unwrap()\nb.unwrap() /* { */";
        let code = code(text);
        assert_eq!(code.matches(".unwrap()").count(), 1);
        assert!(!code.contains('{'));
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn quotes_of_every_kind_end_where_they_end() {
        for literal in
            ["'\"'", "'\\''", "'{'", "b'{'", "'\\u{7f}'", "r#\"a\"{\"#", "\"\\\"{\"", "'é'"]
        {
            assert_eq!(code(&format!("f({literal}) x")).trim_end(), {
                let width = literal.trim_start_matches('b').len();
                let kept = literal.len() - width;
                format!("f({}{}) x", &literal[..kept], " ".repeat(width))
            });
        }
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn test_modules_go_and_what_follows_stays() {
        let code = code_without_tests("a();\n#[cfg(test)]\nmod t { fn x() { b() } }\nc();");
        assert!(code.contains("a();") && code.contains("c();") && !code.contains("b()"));
        let code = code_without_tests("#[cfg(test)]\nmod files_tests;\nc();");
        assert!(code.contains("c();") && !code.contains("files_tests"));
    }
}
