//! How a value is written where it would break something as it is.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    None,
    Url,
    Json,
    Base64,
}

impl Escape {
    /// # Errors
    /// That there is no such way.
    pub fn of(word: &str) -> Result<Self, String> {
        match word {
            "url" => Ok(Self::Url),
            "json" => Ok(Self::Json),
            "base64" => Ok(Self::Base64),
            _ => Err(format!(
                "unknown way to write a value: `|{word}`; there is |url, |json, |base64"
            )),
        }
    }

    pub fn put(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::None => out.extend_from_slice(text),
            Self::Url => put_url(text, out),
            Self::Json => put_json(text, out),
            Self::Base64 => {
                let start = out.len();
                out.extend_from_slice(text);
                base64_from(start, out);
            }
        }
    }

    pub fn put_number(self, number: i128, out: &mut Vec<u8>) {
        let start = out.len();
        put_decimal(number, out);
        if self == Self::Base64 {
            base64_from(start, out);
        }
    }
}

pub fn put_decimal(number: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("writing to memory cannot fail");
}

/// Replaces everything from `start` on by its Base64, without a buffer of its own.
pub fn base64_from(start: usize, out: &mut Vec<u8>) {
    let plain = out.len() - start;
    let encoded = plain.div_ceil(3) * 4;
    out.resize(start + plain + encoded, 0);
    let (from, to) = out[start..].split_at_mut(plain);
    STANDARD.encode_slice(from, to).expect("there is room for four bytes of every three");
    out.copy_within(start + plain.., start);
    out.truncate(start + encoded);
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
fn put_url(text: &[u8], out: &mut Vec<u8>) {
    put_percent(text, out, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
}

/// Percent-encodes all but what may stand there.
pub fn put_percent(text: &[u8], out: &mut Vec<u8>, may_stand: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if may_stand(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

/// The inside of a JSON string.
fn put_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                write!(out, "\\u{byte:04x}").expect("writing to memory cannot fail");
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn json_reads_back_what_was_written(text in "\\PC{0,20}[\\x00-\\x7f]{0,9}") {
            let mut out = vec![b'"'];
            Escape::Json.put(text.as_bytes(), &mut out);
            out.push(b'"');
            let read: String = serde_json::from_slice(&out).expect("a JSON string");
            prop_assert_eq!(read, text);
        }

        #[test]
        fn base64_in_place_is_base64(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = b"kept ".to_vec();
            Escape::Base64.put(&text, &mut out);
            prop_assert_eq!(&out[..5], b"kept ");
            prop_assert_eq!(STANDARD.decode(&out[5..]).expect("Base64"), text);
        }
    }
}
