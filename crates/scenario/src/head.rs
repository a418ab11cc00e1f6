//! The header block of an answer as it came. Reads, never copies.

/// The values of this field, in order. Only a name that its colon follows at once is one (RFC 9112,
/// 5.1), so that a line is passed over by its first letters.
pub fn values<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    split(head, b'\n').filter_map(move |line| {
        let (field, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        field.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

/// The parts between these bytes; much faster than `slice::split` where parts are long.
pub fn split(text: &[u8], at: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = memchr::memchr(at, text) else { return rest.take() };
        rest = Some(&text[end + 1..]);
        Some(&text[..end])
    })
}

/// RFC 9110, section 5.6.2.
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    let one = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(one)
}

/// What can stand in a field's value: no line end, no other control character.
#[must_use]
pub fn is_value(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

/// What can stand in a request line.
#[must_use]
pub fn is_target(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let head = b"HTTP/1.1 200 OK: fine\r\nA: 1\r\nno colon\r\nb:2 \r\nB:3\r\n\r\n";
        assert_eq!(values(head, "B").collect::<Vec<_>>(), [b"2", b"3"]);
        assert_eq!(values(head, "a").collect::<Vec<_>>(), [b"1"]);
        assert_eq!(values(b"", "B").count(), 0);
        assert_eq!(values(b"B", "B").count(), 0);
        assert_eq!(split(b"a,,b,", b',').collect::<Vec<_>>(), [&b"a"[..], b"", b"b", b""]);
    }
}
