//! From bytes to a complete request: heads, bodies, refusals.

use std::os::{fd::AsRawFd, unix::fs::FileExt};

use super::{
    Engine,
    connection::{BodyFraming, BodyRead, Connection, State},
};
use crate::{
    access_log, answer,
    config::LogLevel,
    files,
    http::{self, Chunk, ChunkedDecoder, ChunkedLimits, HeadScratch, Parsed, Target},
    map::uri,
    output,
    request::{Body, Next, Request},
    sys,
};

/// Bodies up to this stay in memory.
pub const BODY_MEMORY_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// Apache's default for LimitRequestBody.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// How far a body came.
enum Progress {
    More,
    Done,
    Bad(u16, &'static str),
}

impl Engine {
    /// Reads once and goes as far as the bytes lead. A job when a request needs Perl.
    pub fn readable(&mut self, index: usize) -> Option<usize> {
        let mut input = match self.connections[index].as_mut()?.input.capacity() {
            0 => self.buffer(),
            _ => std::mem::take(&mut self.connections[index].as_mut()?.input),
        };
        let connection = self.connections[index].as_mut()?;
        let got = read_some(connection.fd.as_raw_fd(), &mut input);
        connection.input = input;
        match got {
            Ok(0) => {
                connection.ended = true;
                self.close(index);
                None
            }
            Ok(_) => {
                self.set_read_deadline(index);
                self.advance(index)
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.close(index);
                None
            }
        }
    }

    /// `Timeout` between bytes, `DromReadTimeout` for a whole head.
    fn set_read_deadline(&mut self, index: usize) {
        let site = self.setup.site;
        let whole_ns = site.config.server.read_timeout.as_nanos() as u64;
        let Some(connection) = self.connections[index].as_mut() else { return };
        connection.deadline_ns = self.now_ns + site.timeout().as_nanos() as u64;
        if connection.state == State::Reading && whole_ns > 0 {
            if connection.head_since_ns == 0 {
                connection.head_since_ns = self.now_ns;
            }
            connection.deadline_ns =
                connection.deadline_ns.min(connection.head_since_ns + whole_ns);
        }
    }

    /// A connection whose next request may be in its buffer already.
    pub fn look_again(&mut self, index: usize) -> Option<usize> {
        match self.connections.get(index)?.as_ref()?.state {
            State::Reading | State::Body => self.advance(index),
            State::Waiting => Some(index),
            _ => None,
        }
    }

    fn advance(&mut self, index: usize) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        if connection.state == State::Body {
            return self.advance_body(index);
        }
        let limits = &self.setup.site.limits;
        let mut request = self.spare.pop().unwrap_or_else(|| {
            Box::new(Request::new(self.setup.site, connection.client, connection.client))
        });
        let mut scratch = HeadScratch { fields: request.take_fields() };
        match http::parse_head(&connection.input, limits, &mut scratch) {
            Parsed::NeedMore => {
                self.spare.push(request);
                self.rest(index);
                None
            }
            Parsed::Reject(status, why) => {
                self.spare.push(request);
                self.refuse(index, status, why);
                None
            }
            Parsed::Head(head) => {
                request.bytes.extend_from_slice(&connection.input[..head.len]);
                connection.input.drain(..head.len);
                self.begin(index, request, head)
            }
        }
    }

    /// An idle connection keeps no buffer.
    fn rest(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if connection.input.is_empty() {
            let buffer = std::mem::take(&mut connection.input);
            self.keep_buffer(buffer);
        }
    }

    /// A head is complete: finds the place it asks for, and whether a body may come.
    pub fn begin(
        &mut self,
        index: usize,
        mut request: Box<Request>,
        head: http::Head,
    ) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        connection.served += 1;
        connection.head_since_ns = 0;
        let local = *connection.local.get_or_insert_with(|| {
            sys::local_address(connection.fd.as_raw_fd()).unwrap_or(connection.client)
        });
        let settings = &self.setup.site.config.server;
        let served_all = settings.max_keep_alive_requests > 0
            && connection.served >= settings.max_keep_alive_requests;
        let wall = crate::site::wall_time();
        self.wall_s = wall.as_secs();
        request.client = connection.client;
        request.local = local;
        request.socket = connection.fd.as_raw_fd();
        request.connection_id = connection.id;
        request.started_ns = self.now_ns;
        request.wall_s = self.wall_s;
        request.wall_us = wall.as_micros() as u64;
        let ends = self.draining && !connection.has_more();
        request.keep = head.keep_alive && settings.keep_alive && !served_all && !ends;
        let (body, expects) = (head.body, head.expects_continue);
        let refused = place(&mut request, head);
        if let Some(refused) = refused {
            request.keep = request.keep && body == http::Body::None;
            request.next = refused;
            connection.request = Some(request);
            return self.dispatch(index);
        }
        let limit = request.mapped().policy.body_limit().unwrap_or(BODY_BYTES_MAX);
        let limit = if limit == 0 { u64::MAX } else { limit };
        connection.request = Some(request);
        self.begin_body(index, body, expects, limit)
    }

    fn begin_body(
        &mut self,
        index: usize,
        body: http::Body,
        expects_continue: bool,
        len_max: u64,
    ) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        let framing = match body {
            http::Body::None | http::Body::Length(0) => return self.dispatch(index),
            http::Body::Length(length) if length > len_max => {
                return self.refuse_body(index, 413);
            }
            http::Body::Length(length) => BodyFraming::Left(length),
            http::Body::Chunked => {
                BodyFraming::Chunked(ChunkedDecoder::new(ChunkedLimits::default()))
            }
        };
        if expects_continue && connection.input.is_empty() {
            // A client that does not read this is told again by the answer itself.
            let _ = output::send(connection.fd.as_raw_fd(), b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        connection.body =
            Some(Box::new(BodyRead { framing, memory: Vec::new(), file: None, len: 0, len_max }));
        connection.state = State::Body;
        self.advance_body(index)
    }

    fn advance_body(&mut self, index: usize) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        let Connection { body, input, .. } = &mut **connection;
        let progress = body.as_mut()?.feed(input);
        match progress {
            Progress::More => {
                self.rest(index);
                None
            }
            Progress::Bad(status, why) => {
                self.log(LogLevel::Info, why);
                self.refuse_body(index, status)
            }
            Progress::Done => {
                connection.state = State::Reading;
                let body = connection.body.take()?;
                connection.request.as_mut()?.body = body.finish();
                self.dispatch(index)
            }
        }
    }

    /// The body will not be read: the answer is an error, and the connection ends after it.
    fn refuse_body(&mut self, index: usize, status: u16) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        connection.state = State::Reading;
        connection.body = None;
        let request = connection.request.as_mut()?;
        request.keep = false;
        request.next = Next::Error(status);
        self.dispatch(index)
    }

    /// What was sent is no request: a plain answer, and the connection ends.
    pub fn refuse(&mut self, index: usize, status: u16, why: &str) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let client = connection.client;
        let wall_s = crate::site::wall_time().as_secs();
        let site = self.setup.site;
        let method = connection.input.split(|&b| b == b' ').next().unwrap_or_default();
        let method = String::from_utf8_lossy(method);
        let wire = answer::refusal(&site.server, status, wall_s, &method);
        // Too small to block in practice; what does not fit is lost with the connection.
        let _ = output::send(connection.fd.as_raw_fd(), &wire);
        site.log_error(LogLevel::Info, Some(client), "http", format!("{why} ({status})"));
        self.log_refused(index, status, &wire);
        self.begin_lingering(index);
    }

    /// The access log has what was refused too: with the line as it came, and nothing made of it.
    fn log_refused(&mut self, index: usize, status: u16, wire: &[u8]) {
        let Some(connection) = self.connections[index].as_ref() else { return };
        if self.setup.site.access_logs.is_empty() {
            return;
        }
        let local = connection.local.unwrap_or(connection.client);
        let mut request = Request::new(self.setup.site, connection.client, local);
        let line = connection.input.split(|&b| b == b'\r' || b == b'\n').next();
        request.bytes = line.filter(|l| !l.is_empty()).unwrap_or(b"-").to_vec();
        request.method = request.bytes.split(|&b| b == b' ').next().unwrap_or(b"-").to_vec();
        let wall = crate::site::wall_time();
        (request.wall_s, request.wall_us) = (wall.as_secs(), wall.as_micros() as u64);
        request.started_ns = self.now_ns;
        request.status = status;
        let head_len = memchr::memmem::find(wire, b"\r\n\r\n").map_or(wire.len(), |at| at + 4);
        request.head_bytes = head_len as u64;
        request.body_sent = (wire.len() - head_len) as u64;
        access_log::write(&request, self.now_ns, connection.served);
    }
}

/// Finds path, query and place of a request. Some when it is answered without looking further.
pub fn place(request: &mut Request, head: http::Head) -> Option<Next> {
    request.method.extend_from_slice(&request.bytes[head.method.clone()]);
    let path = match &head.target {
        Target::Asterisk => None,
        Target::Path { path, query } => {
            request.args = query.clone().map(|q| request.bytes[q].to_vec());
            Some(path.clone())
        }
    };
    request.head = Some(head);
    let Some(path) = path else {
        request.path.extend_from_slice(b"*");
        request.map_root();
        return Some(Next::Options);
    };
    // `http://host` and `http://host?query` ask for the root.
    let raw = if path.is_empty() { b"/" } else { &request.bytes[path] };
    match uri::normalise(raw) {
        Ok(path) => {
            let path = path.into_owned();
            request.path = path;
        }
        Err(status) => {
            request.path.extend_from_slice(b"/");
            request.map_root();
            return Some(Next::Error(status));
        }
    }
    request.map_path();
    if request.method == b"TRACE" {
        request.headers_out.set(b"Allow", files::ALLOW.as_bytes());
        return Some(Next::Error(405));
    }
    None
}

impl BodyRead {
    /// Takes what is in `input`, leaving what belongs to the next request.
    fn feed(&mut self, input: &mut Vec<u8>) -> Progress {
        if let BodyFraming::Left(left) = self.framing {
            let take = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if self.keep(&input[..take]).is_err() {
                return Progress::Bad(507, "no room for the request body");
            }
            input.drain(..take);
            let left = left - take as u64;
            self.framing = BodyFraming::Left(left);
            return if left == 0 { Progress::Done } else { Progress::More };
        }
        self.feed_chunks(input)
    }

    fn feed_chunks(&mut self, input: &mut Vec<u8>) -> Progress {
        let mut at = 0;
        let progress = loop {
            let BodyFraming::Chunked(decoder) = &mut self.framing else { return Progress::Done };
            match decoder.decode(&input[at..]) {
                Chunk::Data { content, used } => {
                    let piece = &input[at + content.start..at + content.end];
                    at += used;
                    if self.len + piece.len() as u64 > self.len_max {
                        break Progress::Bad(
                            413,
                            "the request body is larger than LimitRequestBody",
                        );
                    }
                    let piece = piece.to_vec();
                    if self.keep(&piece).is_err() {
                        break Progress::Bad(507, "no room for the request body");
                    }
                }
                Chunk::NeedMore { used } => {
                    at += used;
                    break Progress::More;
                }
                Chunk::End { used } => {
                    at += used;
                    break Progress::Done;
                }
                Chunk::Invalid(why) => break Progress::Bad(400, why),
            }
        };
        input.drain(..at);
        progress
    }

    fn keep(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= BODY_MEMORY_MAX {
            self.memory.extend_from_slice(bytes);
            self.len += bytes.len() as u64;
            return Ok(());
        }
        if self.file.is_none() {
            let file = sys::scratch_file()?;
            file.write_all_at(&self.memory, 0)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        if let Some(file) = &self.file {
            file.write_all_at(bytes, self.len)?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn finish(self) -> Body {
        match self.file {
            Some(file) => Body::File { file: file.into(), len: self.len, read: 0 },
            None => Body::Memory { bytes: self.memory, read: 0 },
        }
    }
}

fn read_some(fd: i32, into: &mut Vec<u8>) -> std::io::Result<usize> {
    if into.capacity() - into.len() < 4096 {
        into.reserve(READ_BYTES);
    }
    let room = into.capacity() - into.len();
    // SAFETY: reads into the vector's spare room, then counts what was written there.
    unsafe {
        let at = into.as_mut_ptr().add(into.len());
        let got = libc::recv(fd, at.cast(), room, 0);
        if got < 0 {
            return Err(std::io::Error::last_os_error());
        }
        into.set_len(into.len() + got as usize);
        Ok(got as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(framing: BodyFraming) -> BodyRead {
        BodyRead { framing, memory: Vec::new(), file: None, len: 0, len_max: 1 << 20 }
    }

    #[test]
    fn a_body_leaves_the_next_request_alone() {
        let mut read = body(BodyFraming::Left(5));
        let mut input = b"helloGET / HTTP/1.1".to_vec();
        assert!(matches!(read.feed(&mut input), Progress::Done));
        assert_eq!(input, b"GET / HTTP/1.1");
        assert_eq!(read.memory, b"hello");
    }

    #[test]
    fn a_large_body_moves_to_a_file() {
        let mut read = body(BodyFraming::Left(200_000));
        for _ in 0..20 {
            read.feed(&mut vec![b'x'; 10_000]);
        }
        assert!(read.memory.is_empty());
        let mut body = read.finish();
        assert_eq!(body.len(), 200_000);
        let mut bytes = [0; 70_000];
        assert!(body.read(&mut bytes).unwrap() > 0);
        assert_eq!(bytes[0], b'x');
    }
}
