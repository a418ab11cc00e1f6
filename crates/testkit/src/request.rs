//! Where requests begin and end in the bytes of a connection. Pure, for any split of them.
//!
//! Knows `Content-Length` and nothing else of framing: a load generator sends no chunked bodies. It
//! trusts its client, which is the tests' own.

/// Longest head that is looked at.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first byte of a request; it is not taken yet.
    Begin,
    /// The head is there.
    Head { is_head: bool },
    /// The request is there.
    End,
}

/// One connection's reader.
#[derive(Debug, Default)]
pub struct Requests {
    head: Vec<u8>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Between,
    Head,
    Body(usize),
}

impl Requests {
    /// The next event, if these bytes hold one, and how many of them come before it.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        match self.state {
            State::Between if bytes.is_empty() => (0, None),
            State::Between => {
                self.state = State::Head;
                (0, Some(Event::Begin))
            }
            State::Head => self.head(bytes),
            State::Body(left) if left <= bytes.len() => {
                self.state = State::Between;
                (left, Some(Event::End))
            }
            State::Body(left) => {
                self.state = State::Body(left - bytes.len());
                (bytes.len(), None)
            }
        }
    }

    fn head(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        for (at, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") || self.head.len() == HEAD_BYTES_MAX {
                let text = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
                self.state = State::Body(content_length(&text));
                self.head.clear();
                return (at + 1, Some(Event::Head { is_head: text.starts_with("head ") }));
            }
        }
        (bytes.len(), None)
    }
}

fn content_length(head: &str) -> usize {
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<Event> {
        let (mut requests, mut events) = (Requests::default(), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while let (used, Some(event)) = requests.next(rest) {
                events.push(event);
                rest = &rest[used..];
            }
        }
        events
    }

    #[test]
    fn requests_are_found_whole_and_in_pieces() {
        let wire = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
            POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na=bHEAD / HTTP/1.1\r\n\r\n";
        let (head, to_head) = (Event::Head { is_head: false }, Event::Head { is_head: true });
        let expected = [
            [Event::Begin, head, Event::End],
            [Event::Begin, head, Event::End],
            [Event::Begin, to_head, Event::End],
        ];
        assert_eq!(events(&[wire]), expected.concat());
        for at in 0..wire.len() {
            assert_eq!(events(&[&wire[..at], &wire[at..]]), expected.concat(), "{at}");
        }
        assert_eq!(events(&[&wire[..30]]), [Event::Begin, head, Event::End, Event::Begin]);
    }
}
