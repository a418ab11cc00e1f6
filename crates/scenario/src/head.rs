//! The header block of an answer as it came. Reads, never copies.

/// Name and value of each line, in order. A status line at the beginning is passed over, and so is
/// a line without a colon.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|byte| *byte == b'\n');
    let lines = lines.enumerate().filter(|(at, line)| *at > 0 || !line.starts_with(b"HTTP/"));
    lines.filter_map(|(_, line)| {
        let colon = memchr::memchr(b':', line)?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// The values of this field.
pub fn values<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    fields(head).filter(move |(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|f| f.1)
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
        let all: Vec<_> = fields(head).collect();
        assert_eq!(all, [(&b"A"[..], &b"1"[..]), (b"b", b"2"), (b"B", b"3")]);
        assert_eq!(values(head, "B").collect::<Vec<_>>(), [b"2", b"3"]);
        assert_eq!(values(b"", "B").count(), 0);
    }
}
