//! From a complete request to a written answer: which tier answers, redirects inside the server, files,
//! the end of an answer and what becomes of its connection.

use std::{
    collections::HashMap,
    fs::File,
    os::{
        fd::{AsRawFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::Arc,
};

use super::{Engine, connection::State};
use crate::{
    access_log, answer,
    conditions::{Conditions, Repeated},
    config::LogLevel,
    files::{self, FileFacts, Part},
    map::{
        HandlerKind,
        files::{Disk, FileKind, Stat},
    },
    output::{self, Output, Progress},
    request::{Because, Next, Request},
};

/// Apache's LimitInternalRecursion.
const REDIRECTS_MAX: u32 = 10;
/// Files up to this size are kept in memory while they do not change.
const CACHED_FILE_BYTES_MAX: u64 = 64 * 1024;
const CACHED_FILES_MAX: usize = 512;
const LINGER_NS: u64 = 2_000_000_000;

/// Small files as they were when they were last read.
#[derive(Default)]
pub struct FileCache(HashMap<PathBuf, (Stat, Arc<[u8]>)>);

impl Engine {
    /// Finds who answers the connection's request and lets them, except Perl: then it is a job.
    pub fn dispatch(&mut self, index: usize) -> Option<usize> {
        loop {
            let connection = self.connections[index].as_mut()?;
            let request = connection.request.as_mut()?;
            match std::mem::take(&mut request.next) {
                Next::Finish => {}
                next => {
                    self.conclude(index, next)?;
                    continue;
                }
            }
            if request.answered {
                self.complete(index);
                return None;
            }
            let mapped = request.mapped();
            if !mapped.policy.allows(request.client.ip(), &request.method) {
                request.note_file("client denied by server configuration");
                request.next = Next::Error(403);
                continue;
            }
            match &mapped.handler {
                HandlerKind::PerlScript { .. } | HandlerKind::ModPerl { .. } => {
                    return self.needs_perl(index);
                }
                HandlerKind::CgiScript => {
                    connection.state = State::Cgi;
                    self.start_cgi(index);
                    return None;
                }
                HandlerKind::Static => self.serve_file(index),
                HandlerKind::Refuse(status, why) => {
                    let (status, why) = (*status, *why);
                    request.note_file(why);
                    request.next = Next::Error(status);
                }
                HandlerKind::NoFile(status) => {
                    let status = *status;
                    request.next = no_file(request, status);
                }
                HandlerKind::Redirect(path) => {
                    let location = external(request, path);
                    request.next = match request.error_status {
                        // An error document that is elsewhere is none.
                        Some(first) => Next::Error(first),
                        None => {
                            request.headers_out.set(b"Location", &location);
                            Next::Error(301)
                        }
                    };
                }
            }
        }
    }

    /// Acts on what a handler left to do; `None` when the connection is gone.
    fn conclude(&mut self, index: usize, next: Next) -> Option<()> {
        let request = self.connections[index].as_mut()?.request.as_mut()?;
        match next {
            Next::Finish => request.answered = true,
            Next::Error(status) => {
                // As in Apache: whoever sent this may not be understood a second time either.
                request.keep &= !matches!(status, 400 | 413 | 414 | 501);
                request.next = answer::error(request, status);
                request.answered = request.next == Next::Finish;
            }
            Next::Redirect(path, because) => redirect(request, &path, because),
            Next::Decline => self.serve_file(index),
            Next::Options => request.answered = true,
        }
        Some(())
    }

    fn needs_perl(&mut self, index: usize) -> Option<usize> {
        let connection = self.connections[index].as_mut()?;
        connection.state = State::Waiting;
        connection.deadline_ns = u64::MAX;
        if self.can_run_perl {
            return Some(index);
        }
        self.waiting.push_back(index);
        self.place_waiting();
        None
    }

    /// Takes the request of a job; the connection is `Running` until it comes back.
    pub fn begin_job(&mut self, index: usize) -> Option<Box<Request>> {
        let connection = self.connections[index].as_mut()?;
        connection.state = State::Running;
        connection.request.take()
    }

    /// Takes a job back and goes on with its answer. `Some` when the answer needs Perl again.
    pub fn finish_job(&mut self, index: usize, mut request: Box<Request>) -> Option<usize> {
        request.answered = request.next == Next::Finish;
        self.retire |= request.retire;
        let Some(connection) = self.connections[index].as_mut() else {
            self.recycle(request);
            return None;
        };
        connection.request = Some(request);
        self.dispatch(index)
    }

    /// As `finish_job`, for a request that has more to do once its answer left; gives it back.
    pub fn answer_job(&mut self, index: usize, mut request: Box<Request>) -> Box<Request> {
        request.answered = true;
        self.retire |= request.retire;
        self.answer(index, &mut request);
        request
    }

    /// The connections whose request was with a thread that died: their clients were told.
    pub fn drop_running(&mut self) {
        for index in 0..self.connections.len() {
            if self.is_state(index, State::Running) {
                self.close(index);
            }
        }
    }

    /// The answer is whole: writes it, logs it, and turns to the connection's next request.
    pub fn complete(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let Some(mut request) = connection.request.take() else { return };
        self.answer(index, &mut request);
        self.recycle(request);
    }

    fn answer(&mut self, index: usize, request: &mut Request) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        // A client that was told to go on is not cut off: its connection moves to another worker.
        request.keep &= !self.draining || request.head_sent || connection.has_more();
        let mut wire = std::mem::take(&mut request.wire);
        wire.clear();
        answer::finish(request, &mut wire);
        let progress = match connection.detached || request.aborted {
            true => Err(libc::EPIPE),
            false => write_answer(connection.fd.as_raw_fd(), &wire, request),
        };
        request.wire = wire;
        request.aborted |= progress.is_err();
        access_log::write(request, self.now_ns, connection.served - 1);
        let slot = &self.setup.board.slots[self.setup.me];
        let body_bytes = if request.is_head() { 0 } else { request.body_sent };
        slot.count_answer(request.head_bytes + body_bytes);
        connection.keep = request.keep && progress.is_ok();
        let blocked = progress == Ok(Progress::Blocked);
        if blocked {
            connection.output = Some(Box::new(std::mem::take(&mut request.output)));
        }
        match progress {
            Ok(Progress::Done) => self.next_request(index),
            Ok(Progress::Blocked) => self.begin_writing(index),
            Err(_) => self.close(index),
        }
    }

    fn begin_writing(&mut self, index: usize) {
        let deadline = self.now_ns + self.setup.site.timeout().as_nanos() as u64;
        if let Some(connection) = self.connections[index].as_mut() {
            connection.state = State::Writing;
            connection.deadline_ns = deadline;
        }
        self.listen_for(index, crate::sys::OUT);
    }

    /// The socket takes bytes again.
    pub fn writable(&mut self, index: usize) {
        let deadline = self.now_ns + self.setup.site.timeout().as_nanos() as u64;
        let Some(connection) = self.connections[index].as_mut() else { return };
        let Some(output) = connection.output.as_mut() else { return };
        connection.deadline_ns = deadline;
        match output.write_to(connection.fd.as_raw_fd()) {
            Ok(Progress::Blocked) => {}
            Ok(Progress::Done) => {
                connection.output = None;
                self.next_request(index);
            }
            Err(_) => self.close(index),
        }
    }

    /// After an answer: the next request, the wait for one, or the end.
    fn next_request(&mut self, index: usize) {
        let keep_ns = self.setup.site.config.server.keep_alive_timeout.as_nanos() as u64;
        let now_ns = self.now_ns;
        let Some(connection) = self.connections[index].as_mut() else { return };
        if !connection.keep {
            // Bytes that wait unread would turn our close into a reset that eats the answer.
            let unread = connection.has_more() || connection.body.is_some();
            return if unread { self.begin_lingering(index) } else { self.close(index) };
        }
        connection.state = State::Reading;
        connection.deadline_ns = now_ns + keep_ns;
        if connection.input.is_empty() {
            let buffer = std::mem::take(&mut connection.input);
            self.keep_buffer(buffer);
        } else {
            self.again.push_back(index);
        }
        self.listen_for(index, crate::sys::IN | crate::sys::RDHUP);
    }

    pub fn begin_lingering(&mut self, index: usize) {
        let deadline = self.now_ns + LINGER_NS;
        let Some(connection) = self.connections[index].as_mut() else { return };
        // SAFETY: the descriptor is open; a connection that is gone already makes this fail, harmlessly.
        unsafe { libc::shutdown(connection.fd.as_raw_fd(), libc::SHUT_WR) };
        connection.state = State::Lingering;
        connection.deadline_ns = deadline;
        connection.input = Vec::new();
        connection.body = None;
        if let Some(request) = connection.request.take() {
            self.recycle(request);
        }
        self.listen_for(index, crate::sys::IN | crate::sys::RDHUP);
        self.linger(index);
    }

    pub fn linger(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_ref() else { return };
        let mut waste = [0; 4096];
        for _ in 0..16 {
            match crate::sys::receive(connection.fd.as_raw_fd(), &mut waste) {
                Ok(0) => return self.close(index),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.close(index),
            }
        }
    }

    // ---- files ---------------------------------------------------------------------------------

    fn serve_file(&mut self, index: usize) {
        let Self { connections, files, setup, wall_s, .. } = self;
        let Some(request) = connections[index].as_mut().and_then(|c| c.request.as_mut()) else {
            return;
        };
        if is_no_file(request) {
            request.next = no_file(request, 404); // a Perl handler declined
            return;
        }
        request.next = match file_answer(request, files, &setup.site.types, *wall_s) {
            Ok(()) => {
                request.answered = true;
                Next::Finish
            }
            Err(status) => {
                if status == 403 {
                    request.note_file("file permissions deny server access");
                }
                Next::Error(status)
            }
        };
    }
}

/// Fills the answer with a file, or tells the status that refuses it.
fn file_answer(
    request: &mut Request,
    cache: &mut FileCache,
    types: &files::MediaTypes,
    wall_s: u64,
) -> Result<(), u16> {
    let mapped = request.mapped.as_ref().expect("a dispatched request is mapped");
    let target = mapped.target(&Disk);
    let stat = target.finfo.ok_or(404u16)?;
    let name = target.filename.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let facts = FileFacts {
        stat: &stat,
        name,
        now_unix_s: wall_s as i64,
        boundary: request.started_ns ^ request.connection_id,
    };
    let head = request.head.as_ref().expect("a dispatched request has a head");
    let repeated = Repeated::of(head, &request.bytes);
    let wanted = Conditions::of(&request.method, head, &request.bytes, &repeated);
    let plan = files::plan(&wanted, &facts, &mapped.policy, types);
    let path = target.filename.clone();
    if plan.status >= 400 && plan.status != 412 {
        if let Some((name, value)) = plan.headers.iter().find(|(n, _)| *n == "Allow") {
            request.headers_out.set(name.as_bytes(), value.as_bytes());
        }
        return Err(plan.status);
    }
    request.forget_media();
    request.status = plan.status;
    request.content_length = plan.length;
    for (name, value) in &plan.headers {
        request.headers_out.set(name.as_bytes(), value.as_bytes());
    }
    request.body_sent = plan.length.unwrap_or(0);
    request.file_body = true;
    put_parts(request, cache, &path, &stat, plan.parts)
}

fn put_parts(
    request: &mut Request,
    cache: &mut FileCache,
    path: &std::path::Path,
    stat: &Stat,
    parts: Vec<Part>,
) -> Result<(), u16> {
    if parts.is_empty() {
        // HEAD and 304 say what GET would: whether the file may be read too.
        return if asks_only(request) { Ok(()) } else { cache.may_read(path, stat) };
    }
    if stat.size <= CACHED_FILE_BYTES_MAX {
        let bytes = cache.bytes(path, stat).map_err(|e| status_of(&e))?;
        for part in parts {
            match part {
                Part::Bytes(text) => request.held.extend_from_slice(&text),
                Part::FileRange { offset, len } => {
                    let range = offset as usize..(offset + len) as usize;
                    request.held.extend_from_slice(bytes.get(range).unwrap_or_default());
                }
            }
        }
        return Ok(());
    }
    let file = Arc::new(File::open(path).map_err(|e| status_of(&e))?);
    let mut files = Output::new(usize::MAX);
    for part in parts {
        match part {
            Part::Bytes(text) => files.push(&text).map_err(|_| 500u16)?,
            Part::FileRange { offset, len } => files.push_file(Arc::clone(&file), offset, len),
        }
    }
    request.tail = Some(files);
    Ok(())
}

/// Nothing, a directory, or more path than the file has.
fn is_no_file(request: &Request) -> bool {
    let mapped = request.mapped();
    let target = mapped.target(&Disk);
    let takes_more = mapped.policy.accept_path_info == Some(crate::config::AcceptPathInfo::On);
    target.finfo.is_none_or(|stat| stat.kind != FileKind::File)
        || (!target.path_info.is_empty() && !takes_more)
}

/// OPTIONS says what can be done, not with what success.
fn asks_only(request: &Request) -> bool {
    request.method == b"OPTIONS"
}

/// The status for a file that is none: methods that no file answers are refused as such.
fn no_file(request: &mut Request, status: u16) -> Next {
    match &request.method[..] {
        b"GET" | b"HEAD" | b"POST" => return Next::Error(status),
        b"OPTIONS" => {
            request.headers_out.set(b"Allow", files::ALLOW.as_bytes());
            request.answered = true;
            return Next::Finish;
        }
        _ => request.headers_out.set(b"Allow", files::ALLOW.as_bytes()),
    }
    Next::Error(files::unserved(&request.method))
}

fn status_of(error: &std::io::Error) -> u16 {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => 403,
        std::io::ErrorKind::NotFound => 404,
        _ => 500,
    }
}

impl FileCache {
    fn may_read(&self, path: &std::path::Path, stat: &Stat) -> Result<(), u16> {
        if self.0.get(path).is_some_and(|(known, _)| same_file(known, stat)) {
            return Ok(());
        }
        File::open(path).map(drop).map_err(|e| status_of(&e))
    }

    fn bytes(&mut self, path: &std::path::Path, stat: &Stat) -> std::io::Result<Arc<[u8]>> {
        if let Some((known, bytes)) = self.0.get(path)
            && same_file(known, stat)
        {
            return Ok(Arc::clone(bytes));
        }
        let bytes: Arc<[u8]> = std::fs::read(path)?.into();
        if self.0.len() >= CACHED_FILES_MAX {
            self.0.clear();
        }
        self.0.insert(path.to_path_buf(), (*stat, Arc::clone(&bytes)));
        Ok(bytes)
    }
}

fn same_file(a: &Stat, b: &Stat) -> bool {
    (a.mtime_s, a.mtime_ns, a.size, a.inode, a.device)
        == (b.mtime_s, b.mtime_ns, b.size, b.inode, b.device)
}

/// One write where that is possible; the rest stays in the request's output.
fn write_answer(socket: RawFd, wire: &[u8], request: &mut Request) -> Result<Progress, i32> {
    let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EPIPE);
    let mut sent = 0;
    if request.output.is_empty() {
        sent = match output::send(socket, wire) {
            Ok(sent) => sent,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(errno(e)),
        };
        if sent == wire.len() && request.tail.is_none() {
            return Ok(Progress::Done);
        }
    }
    request.output.push(&wire[sent..]).map_err(errno)?;
    if let Some(tail) = request.tail.take() {
        request.output.append(tail);
    }
    request.output.write_to(socket).map_err(errno)
}

/// Makes the request another one, for a path of this server, with `REDIRECT_*` variables.
fn redirect(request: &mut Request, to: &[u8], because: Because) {
    if request.redirects >= REDIRECTS_MAX {
        request.note(
            "core",
            LogLevel::Error,
            "Request exceeded the limit of 10 internal redirects",
        );
        request.mapped.get_or_insert_with(|| request.site.mapper.map(b"/", &Disk));
        request.next = answer::error_without_document(request, 500);
        request.answered = true;
        return;
    }
    let status = request.status;
    access_log::note_original(request);
    if because != Because::Handler && request.method != b"HEAD" {
        request.method = b"GET".to_vec();
    }
    request.note_previous(to);
    let env = crate::environment::redirected(request, status);
    request.forget_answer();
    request.forget_env();
    if because == Because::Error {
        request.error_status = Some(status);
    }
    request.redirects += 1;
    request.redirect_env = env;
    if because == Because::Location {
        request.forget_request_body();
    }
    let (path, query) = match to.iter().position(|&b| b == b'?') {
        Some(at) => (&to[..at], Some(to[at + 1..].to_vec())),
        None => (to, None),
    };
    request.args = query;
    request.path = match crate::map::uri::normalise(path) {
        Ok(path) => path.into_owned(),
        Err(_) => path.to_vec(),
    };
    request.map_path();
    request.answered = false;
}

/// A path of this server as a client would ask for it.
fn external(request: &Request, path: &[u8]) -> Vec<u8> {
    let host = request.header(b"Host").map(<[u8]>::to_vec);
    let host = host.unwrap_or_else(|| request.local.to_string().into_bytes());
    let mut location = [b"http://", &host[..]].concat();
    for &byte in path {
        match byte {
            b if b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b) => {
                location.push(b)
            }
            b => location.extend_from_slice(format!("%{b:02x}").as_bytes()),
        }
    }
    if let Some(args) = &request.args {
        location.push(b'?');
        location.extend_from_slice(args);
    }
    location
}
