//! A table of text by case-insensitive key, in order, keys may repeat: what APR calls a table.
//! One arena of bytes and one list of spans, both reused between requests.

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Table {
    text: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Span,
    value: Span,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

impl Table {
    #[must_use]
    pub const fn new() -> Self {
        Self { text: Vec::new(), entries: Vec::new() }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.get_nth(key, 0)
    }

    /// The `nth` value of a key that may stand several times.
    #[must_use]
    pub fn get_nth(&self, key: &[u8], nth: usize) -> Option<&[u8]> {
        let mut matching = self.entries.iter().filter(|e| self.is_key(e, key));
        matching.nth(nth).map(|e| self.slice(e.value))
    }

    #[must_use]
    pub fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.entries.get(index).map(|e| (self.slice(e.key), self.slice(e.value)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|e| (self.slice(e.key), self.slice(e.value)))
    }

    /// Replaces every value of the key, at the place of the first.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let Some(first) = self.entries.iter().position(|e| self.is_key(e, key)) else {
            return self.add(key, value);
        };
        let value = self.store(value);
        self.entries[first].value = value;
        let mut index = 0;
        let (text, keep) = (&self.text, first);
        self.entries.retain(|e| {
            index += 1;
            index - 1 <= keep || !bytes(text, e.key).eq_ignore_ascii_case(key)
        });
    }

    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let entry = Entry { key: self.store(key), value: self.store(value) };
        self.entries.push(entry);
    }

    /// Appends to the first value of the key with ", " between, or adds. Further values stay, as in APR.
    pub fn merge(&mut self, key: &[u8], value: &[u8]) {
        let Some(first) = self.entries.iter().position(|e| self.is_key(e, key)) else {
            return self.add(key, value);
        };
        let joined = [self.slice(self.entries[first].value), b", ", value].concat();
        self.entries[first].value = self.store(&joined);
    }

    pub fn unset(&mut self, key: &[u8]) {
        let text = &self.text;
        self.entries.retain(|e| !bytes(text, e.key).eq_ignore_ascii_case(key));
    }

    pub fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
    }

    fn store(&mut self, text: &[u8]) -> Span {
        let span = Span { start: self.text.len() as u32, len: text.len() as u32 };
        self.text.extend_from_slice(text);
        span
    }

    fn slice(&self, span: Span) -> &[u8] {
        bytes(&self.text, span)
    }

    fn is_key(&self, entry: &Entry, key: &[u8]) -> bool {
        entry.key.len as usize == key.len() && self.slice(entry.key).eq_ignore_ascii_case(key)
    }
}

fn bytes(text: &[u8], span: Span) -> &[u8] {
    &text[span.start as usize..(span.start + span.len) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(table: &Table) -> Vec<(String, String)> {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        table.iter().map(|(k, v)| (text(k), text(v))).collect()
    }

    #[test]
    fn set_replaces_all_values_at_the_place_of_the_first() {
        let mut table = Table::default();
        table.add(b"A", b"1");
        table.add(b"B", b"2");
        table.add(b"a", b"3");
        table.set(b"a", b"4");
        assert_eq!(pairs(&table), [("A".into(), "4".into()), ("B".into(), "2".into())]);
    }

    #[test]
    fn keys_repeat_in_order_and_match_without_case() {
        let mut table = Table::default();
        table.add(b"Set-Cookie", b"a=1");
        table.add(b"set-cookie", b"b=2");
        assert_eq!(table.get_nth(b"SET-COOKIE", 1), Some(&b"b=2"[..]));
        assert_eq!(table.get_nth(b"SET-COOKIE", 2), None);
    }

    #[test]
    fn merge_joins_and_unset_forgets() {
        let mut table = Table::default();
        table.merge(b"Vary", b"Accept");
        table.merge(b"vary", b"Cookie");
        assert_eq!(table.get(b"Vary"), Some(&b"Accept, Cookie"[..]));
        table.unset(b"VARY");
        assert!(table.is_empty());
    }
}
