//! A client's connection and what it is in the middle of. Small while it is idle: buffers and the request
//! come from the engine's pools and go back to them.

use std::{
    fs::File,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
};

use super::cgi_run::CgiRun;
use crate::{http::ChunkedDecoder, output::Output, request::Request, sys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Between requests, or in the middle of a head.
    Reading,
    /// In the middle of a request's body.
    Body,
    /// The request is complete and needs Perl.
    Waiting,
    /// Perl runs it.
    Running,
    Cgi,
    /// The answer is complete and not all of it is with the kernel.
    Writing,
    /// Answered and shut: reads what the client still sends, so that it can read the answer.
    Lingering,
}

pub struct Connection {
    pub fd: OwnedFd,
    pub id: u64,
    pub token: u64,
    pub client: SocketAddr,
    /// Looked up when the first request asks.
    pub local: Option<SocketAddr>,
    pub state: State,
    pub interest: u32,
    /// No longer under epoll: the client went away.
    pub detached: bool,
    /// Bytes read and not yet understood.
    pub input: Vec<u8>,
    pub request: Option<Box<Request>>,
    pub body: Option<Box<BodyRead>>,
    pub cgi: Option<Box<CgiRun>>,
    pub output: Option<Box<Output>>,
    pub keep: bool,
    /// The client sent its end of file.
    pub ended: bool,
    pub served: u64,
    pub deadline_ns: u64,
    /// When the first byte of the head being read came; 0: none came yet.
    pub head_since_ns: u64,
}

/// A request's body on its way in.
pub struct BodyRead {
    pub framing: BodyFraming,
    pub memory: Vec<u8>,
    pub file: Option<File>,
    pub len: u64,
    pub len_max: u64,
}

pub enum BodyFraming {
    /// Bytes still to come.
    Left(u64),
    Chunked(ChunkedDecoder),
}

impl Connection {
    /// Whether the client sent more than the request at hand: it is answered before the connection
    /// ends.
    pub fn has_more(&self) -> bool {
        !self.input.is_empty() || sys::has_unread(self.fd.as_raw_fd())
    }

    pub fn new(fd: OwnedFd, client: SocketAddr) -> Self {
        Self {
            fd,
            id: 0,
            token: 0,
            client,
            local: None,
            state: State::Reading,
            interest: 0,
            detached: false,
            input: Vec::new(),
            request: None,
            body: None,
            cgi: None,
            output: None,
            keep: false,
            ended: false,
            served: 0,
            deadline_ns: u64::MAX,
            head_since_ns: 0,
        }
    }
}
