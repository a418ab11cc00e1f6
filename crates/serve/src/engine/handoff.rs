//! Connections that move to another worker: one message with the connection's descriptor, what was read
//! from it, and the body's scratch file when there is one. The receiver reads the head again.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use super::{
    Engine,
    connection::{Connection, State},
};
use crate::{
    http::{self, HeadScratch, Parsed},
    request::Body,
    sys,
};

/// The fixed part of a message; both ends are the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    served: u64,
    /// Bytes of the complete request's head at the start; 0: no complete request.
    head_len: u32,
    /// Bytes of its body that follow the head.
    body_len: u32,
    /// Length of its body in a file of its own; 0: none.
    file_len: u64,
}

const HEADER_BYTES: usize = 24;
/// What a message can carry besides descriptors: a head, a body in memory, and what was read after.
const MESSAGE_BYTES_MAX: usize = 192 * 1024;

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.served.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.head_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.file_len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let number = |from: usize, to: usize| {
            fixed[from..to].iter().rev().fold(0u64, |sum, &b| sum << 8 | u64::from(b))
        };
        let header = Self {
            served: number(0, 8),
            head_len: number(8, 12) as u32,
            body_len: number(12, 16) as u32,
            file_len: number(16, 24),
        };
        let whole = header.head_len as usize + header.body_len as usize <= rest.len();
        whole.then_some((header, rest))
    }
}

impl Engine {
    /// Gives a connection to whoever reads the inbox next; see [`Self::hand_to`].
    pub fn hand_off(&mut self, index: usize) -> bool {
        self.hand_to(self.setup.inbox.1, index)
    }

    /// Gives a connection to whoever reads that inbox next. False when the inbox is full or the
    /// connection cannot move; it is still ours then.
    pub fn hand_to(&mut self, inbox: RawFd, index: usize) -> bool {
        let Some(connection) = self.connections[index].as_ref() else { return false };
        let Some((header, bytes, file)) = message(connection) else { return false };
        let fd = connection.fd.as_raw_fd();
        let fds: &[RawFd] = match file {
            Some(file) => &[fd, file],
            None => &[fd],
        };
        if sys::send_fds(inbox, &header.encode(), &bytes, fds).is_err() {
            return false;
        }
        // Closing our descriptor does not end epoll's interest: the connection lives on in the message,
        // and would be reported here for ever, or refused when it comes back under the same number.
        self.detach(index);
        self.close(index);
        true
    }

    /// Every connection that is between requests, or waits for Perl, goes to others.
    pub fn hand_off_idle(&mut self) {
        for index in 0..self.connections.len() {
            let movable =
                self.is_state(index, State::Reading) || self.is_state(index, State::Waiting);
            if movable && !self.master_gone && !self.hand_off(index) {
                break;
            }
            if movable && self.master_gone && self.is_state(index, State::Reading) {
                self.close(index);
            }
        }
    }

    /// Takes one connection out of an inbox.
    pub fn receive(&mut self, inbox: RawFd) -> Option<usize> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let mut fds = Vec::new();
        let got = sys::receive_fds(inbox, &mut buffer, &mut fds);
        let Ok(Some(len)) = got else { return None };
        let (header, rest) = Header::decode(&buffer[..len])?;
        let mut fds = fds.into_iter();
        let fd = fds.next()?;
        let client = sys::peer_address(fd.as_raw_fd()).ok()?;
        let mut connection = Connection::new(fd, client);
        connection.served = header.served;
        connection.deadline_ns = self.now_ns + self.setup.site.timeout().as_nanos() as u64;
        let index = self.insert(connection);
        self.restore(index, header, rest, fds.next())
    }

    fn restore(
        &mut self,
        index: usize,
        header: Header,
        rest: &[u8],
        file: Option<OwnedFd>,
    ) -> Option<usize> {
        let (request, left) = rest.split_at(header.head_len as usize + header.body_len as usize);
        let connection = self.connections[index].as_mut()?;
        if header.head_len == 0 {
            connection.input = rest.to_vec();
            return if rest.is_empty() { None } else { self.look_again(index) };
        }
        connection.input = left.to_vec();
        let (head_bytes, body) = request.split_at(header.head_len as usize);
        let mut request = self.spare.pop().unwrap_or_else(|| {
            Box::new(crate::request::Request::new(
                self.setup.site,
                connection.client,
                connection.client,
            ))
        });
        request.bytes.extend_from_slice(head_bytes);
        let mut scratch = HeadScratch::default();
        let Parsed::Head(mut head) =
            http::parse_head(head_bytes, &self.setup.site.limits, &mut scratch)
        else {
            self.close(index); // it was a head in the worker that sent it
            return None;
        };
        head.body = http::Body::None; // it is here already
        request.body = match (file, body) {
            (Some(file), _) => {
                Body::File { file: File::from(file).into(), len: header.file_len, read: 0 }
            }
            (None, []) => Body::Empty,
            (None, bytes) => Body::Memory { bytes: bytes.to_vec(), read: 0 },
        };
        self.begin(index, request, head)
    }
}

/// What to send for a connection: its bytes, and its body's file.
fn message(connection: &Connection) -> Option<(Header, Vec<u8>, Option<RawFd>)> {
    let mut header = Header { served: connection.served, head_len: 0, body_len: 0, file_len: 0 };
    let mut bytes = Vec::new();
    let mut file = None;
    if let (State::Waiting, Some(request)) = (connection.state, &connection.request) {
        if request.redirects > 0 {
            return None; // what led here is not in the bytes
        }
        header.served -= 1; // `begin` counts it again
        bytes.extend_from_slice(&request.bytes);
        header.head_len = request.bytes.len() as u32;
        match &request.body {
            Body::Empty => {}
            Body::Memory { bytes: body, .. } => {
                header.body_len = body.len() as u32;
                bytes.extend_from_slice(body);
            }
            Body::File { file: body, len, .. } => {
                header.file_len = *len;
                file = Some(body.as_raw_fd());
            }
        }
    }
    bytes.extend_from_slice(&connection.input);
    (bytes.len() + HEADER_BYTES <= MESSAGE_BYTES_MAX).then_some((header, bytes, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_trip_and_a_cut_message_is_refused() {
        let header = Header { served: 3, head_len: 4, body_len: 2, file_len: 1 << 40 };
        let message = [&header.encode()[..], b"headbdrest"].concat();
        assert_eq!(Header::decode(&message), Some((header, &b"headbdrest"[..])));
        assert_eq!(Header::decode(&message[..HEADER_BYTES + 5]), None);
        assert_eq!(Header::decode(&message[..10]), None);
    }
}
