//! Header blocks (HPACK, RFC 7541): a request's, made once; answers', read by a library.
//!
//! A server's blocks change when its `Date` does. Between two changes they are equal bytes, and the
//! table that they work on settles: then what they say is known without a look into them.

use std::sync::Arc;

use drom_scenario::Request;
use loona_hpack::{Decoder, encoder::encode_integer_into};

use super::packed::{Fields, Unpacker};
use crate::fault::Fault;

/// Size of either side's table unless one of them says otherwise, and what an entry costs in it
/// beside its bytes (RFC 7541, section 4).
const TABLE_BYTES: usize = 4_096;
const ENTRY_BYTES: usize = 32;
/// The first index of the dynamic table.
const DYNAMIC: usize = 62;
/// Sets the size of the table to 0 (section 6.3).
const TABLE_EMPTY: u8 = 0x20;
/// Fields of the static table that requests have (appendix A).
const STATIC: [(&str, &str, usize); 5] = [
    (":method", "GET", 2),
    (":method", "POST", 3),
    (":path", "/", 4),
    (":scheme", "http", 6),
    (":scheme", "https", 7),
];
/// Names of it.
const STATIC_NAMES: [(&str, usize); 12] = [
    (":authority", 1),
    (":method", 2),
    (":path", 4),
    ("accept-encoding", 16),
    ("accept-language", 17),
    ("accept", 19),
    ("authorization", 23),
    ("content-length", 28),
    ("content-type", 31),
    ("cookie", 32),
    ("referer", 51),
    ("user-agent", 58),
];

/// A request, ready to be sent on any connection.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Its block on a connection that has not seen it, and on one that has.
    pub(super) first: Vec<u8>,
    pub(super) again: Vec<u8>,
    /// For servers with a smaller table: nothing is put into it, which is said once.
    pub(super) plain: Vec<u8>,
    pub(super) forgoing: Vec<u8>,
    pub(super) body: Arc<[u8]>,
}

impl Template {
    /// `fields` begin with the pseudo-header fields; names are lower case.
    #[must_use]
    pub fn new(fields: &[(String, String)], body: &[u8]) -> Self {
        let mut made = Self { body: body.into(), ..Self::default() };
        let (mut room, mut entries) = (TABLE_BYTES, 0);
        let places: Vec<Place> = fields
            .iter()
            .map(|(name, value)| {
                let size = name.len() + value.len() + ENTRY_BYTES;
                if let Some(index) = static_field(name.as_bytes(), value.as_bytes()) {
                    return Place::Static(index);
                }
                if size > room {
                    return Place::Outside;
                }
                (room, entries) = (room - size, entries + 1);
                Place::Entry(entries)
            })
            .collect();
        for ((name, value), place) in fields.iter().zip(places) {
            made.put(name.as_bytes(), value.as_bytes(), place, entries);
        }
        made.forgoing = [&[TABLE_EMPTY], &made.plain[..]].concat();
        made
    }

    fn put(&mut self, name: &[u8], value: &[u8], place: Place, entries: usize) {
        match place {
            Place::Static(index) => {
                for block in [&mut self.first, &mut self.again, &mut self.plain] {
                    put_integer(block, index, 7, 0x80);
                }
            }
            Place::Entry(number) => {
                put_literal(&mut self.first, name, value, (6, 0x40));
                // The last one that came is the first of the table.
                put_integer(&mut self.again, DYNAMIC + entries - number, 7, 0x80);
                put_literal(&mut self.plain, name, value, (4, 0));
            }
            Place::Outside => {
                for block in [&mut self.first, &mut self.again, &mut self.plain] {
                    put_literal(block, name, value, (4, 0));
                }
            }
        }
    }
}

/// The block of a request that comes once; it puts nothing into the server's table.
pub fn put_request(block: &mut Vec<u8>, request: &Request, is_secure: bool) {
    let mut put = |name: &[u8], value: &[u8]| match static_field(name, value) {
        Some(index) => put_integer(block, index, 7, 0x80),
        None => put_literal(block, name, value, (4, 0)),
    };
    put(b":method", request.method());
    put(b":scheme", if is_secure { b"https" } else { b"http" });
    put(b":authority", request.authority());
    put(b":path", request.target());
    request.fields().for_each(|(name, value)| put(name, value));
    if request.has_length() {
        put(b"content-length", request.body().len().to_string().as_bytes());
    }
}

/// Where a field is once the first block was read.
#[derive(Clone, Copy)]
enum Place {
    Static(usize),
    /// The number of its entry, from 1, in the order that they came.
    Entry(usize),
    /// Too large for the table.
    Outside,
}

fn static_field(name: &[u8], value: &[u8]) -> Option<usize> {
    let found = STATIC.iter().find(|(n, v, _)| (n.as_bytes(), v.as_bytes()) == (name, value));
    found.map(|(_, _, index)| *index)
}

/// A literal field, its name in lower case; how its first byte begins says what becomes of it.
fn put_literal(block: &mut Vec<u8>, name: &[u8], value: &[u8], (bits, leading): (u8, u8)) {
    let known = STATIC_NAMES
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
        .map(|(_, index)| *index);
    put_integer(block, known.unwrap_or(0), bits, leading);
    if known.is_none() {
        put_integer(block, name.len(), 7, 0);
        block.extend(name.iter().map(u8::to_ascii_lowercase));
    }
    put_integer(block, value.len(), 7, 0);
    block.extend_from_slice(value);
}

fn put_integer(block: &mut Vec<u8>, value: usize, bits: u8, leading: u8) {
    encode_integer_into(value, bits, leading, block).expect("a vector takes all");
}

/// Status and Content-Length; `None` for trailers.
type Head = Option<(u16, Option<u64>)>;

/// Reads the blocks of a connection's answers.
pub struct Reader {
    decoder: Decoder<'static>,
    unpacker: Unpacker,
    known: Vec<u8>,
    known_head: Head,
    /// How often it was read in a row, and after how often the table does not change any more.
    times: usize,
    settles_after: usize,
    /// Whether somebody wants to see the fields, and those of the last head then.
    pub keeps: bool,
    pub text: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        let decoder = Decoder::new();
        Self {
            decoder,
            unpacker: Unpacker::default(),
            known: Vec::new(),
            known_head: None,
            times: 0,
            settles_after: 0,
            keeps: false,
            text: Vec::new(),
        }
    }
}

impl Reader {
    pub fn read(&mut self, block: &[u8]) -> Result<Head, Fault> {
        let is_known = self.times > 0 && self.known == block;
        if is_known && self.times >= self.settles_after {
            return Ok(self.known_head);
        }
        let head = self.decode(block)?;
        if !is_known {
            self.known.clear();
            self.known.extend_from_slice(block);
            self.times = 0;
            self.settles_after = settles_after(block).unwrap_or(usize::MAX);
        }
        self.known_head = head;
        self.times += 1;
        Ok(head)
    }

    fn decode(&mut self, block: &[u8]) -> Result<Head, Fault> {
        let (mut status, mut length, mut is_bad) = (None, None, false);
        let (keeps, text) = (self.keeps, &mut self.text);
        text.clear();
        let block = self.unpacker.unpack(block).ok_or(Fault::BadHeaderBlock)?;
        let decoded = self.decoder.decode_with_cb(block, |name, value| {
            if keeps {
                [&*name, b": ", &*value, b"\r\n"].iter().for_each(|part| text.extend(*part));
            }
            match &*name {
                b":status" => {
                    is_bad |= status.is_some();
                    status = digits(&value).filter(|code| (100..1000).contains(code));
                    is_bad |= status.is_none();
                }
                b"content-length" => {
                    is_bad |= length.is_some();
                    length = digits(&value);
                    is_bad |= length.is_none();
                }
                _ => {}
            }
        });
        if decoded.is_err() || is_bad {
            return Err(Fault::BadHeaderBlock);
        }
        Ok(status.map(|code| (code as u16, length)))
    }
}

/// How often a block must be read until reading it once more leaves the table as it is: at once
/// when it puts nothing into it, else when the table holds nothing but what it has put there.
fn settles_after(block: &[u8]) -> Option<usize> {
    let mut entries = 0;
    for field in Fields::of(block) {
        match field?.bits {
            6 => entries += 1,
            // A change of the table's size.
            5 => return None,
            _ => {}
        }
    }
    let smallest = entries * ENTRY_BYTES;
    Some(if entries == 0 { 1 } else { TABLE_BYTES.div_ceil(smallest) + 1 })
}

fn digits(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// As a server reads them, one after the other.
    fn read(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let decoded = decoder.decode(block).unwrap();
        decoded.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    proptest! {
        #[test]
        fn a_server_reads_what_was_meant(
            path in "/[a-z]{0,200}",
            more in proptest::collection::vec(("[a-z-]{1,20}", "[ -~]{0,1500}"), 0..6),
        ) {
            let mut list = fields(&[(":method", "GET"), (":scheme", "https"), (":path", &path)]);
            list.extend(more);
            let template = Template::new(&list, b"");
            let mut decoder = Decoder::new();
            for block in [&template.first, &template.again, &template.again, &template.plain] {
                prop_assert_eq!(&read(&mut decoder, block), &list);
            }
            prop_assert_eq!(&read(&mut decoder, &template.forgoing), &list);
            prop_assert_eq!(&read(&mut decoder, &template.plain), &list);
        }

        #[test]
        fn noise_never_panics(blocks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..60), 0..6)
        ) {
            let mut reader = Reader::default();
            for block in blocks {
                let _ = (reader.read(&block), settles_after(&block));
            }
        }

        /// Whatever a server does with its table: what is known is what would have been read.
        #[test]
        fn what_is_known_is_what_a_reader_without_memory_reads(
            dates in proptest::collection::vec((0u8..3, 1usize..300), 1..6),
            refers in any::<bool>(),
        ) {
            let (mut reader, mut plain) = (Reader::default(), Reader::default());
            let mut server = loona_hpack::Encoder::new();
            for (date, times) in dates {
                for _ in 0..times {
                    let length = date.to_string();
                    let mut block = Vec::new();
                    if refers {
                        block = server.encode([
                            (&b":status"[..], &b"200"[..]),
                            (b"content-length", length.as_bytes()),
                            (b"x-one", b"1"),
                        ]);
                    } else {
                        put_integer(&mut block, 8, 7, 0x80);
                        put_literal(&mut block, b"content-length", length.as_bytes(), (6, 0x40));
                        put_literal(&mut block, b"date", b"now and then", (6, 0x40));
                    }
                    plain.times = 0;
                    prop_assert_eq!(reader.read(&block), plain.read(&block));
                }
            }
            // The tables are the same, too: an index into them means the same field.
            for index in DYNAMIC..DYNAMIC + 4 {
                let mut block = Vec::new();
                put_integer(&mut block, index, 7, 0x80);
                prop_assert_eq!(reader.decode(&block), plain.decode(&block));
            }
        }
    }

    #[test]
    fn a_block_settles_when_it_fills_the_table() {
        let mut block = vec![0x88];
        assert_eq!(settles_after(&block), Some(1), "only pointers");
        put_literal(&mut block, b"x-plain", &b"y".repeat(300), (4, 0));
        assert_eq!(settles_after(&block), Some(1), "nothing is put into the table");
        put_literal(&mut block, b"content-length", b"12", (6, 0x40));
        assert_eq!(settles_after(&block), Some(129));
        put_literal(&mut block, b"x-name", b"y", (6, 0x40));
        assert_eq!(settles_after(&block), Some(65));
        block.push(TABLE_EMPTY);
        assert_eq!(settles_after(&block), None);
    }

    #[test]
    fn the_second_request_is_short() {
        let list = fields(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "127.0.0.1:8080"),
            (":path", "/index.html"),
            ("user-agent", "x"),
        ]);
        assert_eq!(Template::new(&list, b"").again, [0x82, 0x86, 0xc0, 0xbf, 0xbe]);
    }
}
