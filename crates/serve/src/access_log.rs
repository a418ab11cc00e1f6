//! The access log: one line a request, written when its answer is complete. Gives `log` its facts.

use std::{io::Write, net::SocketAddr};

use crate::{
    log::{LogEntry, TimeCache},
    request::Request,
};

/// Writes a finished request to every `CustomLog`.
pub fn write(request: &Request, now_ns: u64, served_before: u64) {
    write_for(std::process::id(), request, now_ns, served_before);
}

/// The same for a request that another process ran.
pub fn write_for(pid: u32, request: &Request, now_ns: u64, served_before: u64) {
    if request.site.access_logs.is_empty() {
        return;
    }
    let entry = Entry {
        pid,
        request,
        duration_us: now_ns.saturating_sub(request.started_ns) / 1000,
        served_before,
        protocol: String::from_utf8_lossy(request.protocol()).into_owned(),
        host: String::from_utf8_lossy(&request.host_name()).into_owned(),
        original: request.original.as_ref(),
    };
    let mut times = TimeCache::default();
    for log in &request.site.access_logs {
        let mut line = Vec::with_capacity(256);
        log.format.render(&entry, &mut times, &mut line);
        // One write in append mode keeps lines whole; a full disk must not stop the server.
        let _ = (&log.file).write_all(&line);
    }
}

/// What a request was before the first internal redirect.
pub struct Original {
    pub status: u16,
    pub path: Vec<u8>,
    pub args: Option<Vec<u8>>,
}

/// Remembers what the client asked for, once.
pub fn note_original(request: &mut Request) {
    if request.original.is_none() {
        request.original = Some(Original {
            status: request.status,
            path: request.path.clone(),
            args: request.args.clone(),
        });
    }
}

struct Entry<'a> {
    pid: u32,
    request: &'a Request,
    duration_us: u64,
    served_before: u64,
    protocol: String,
    host: String,
    original: Option<&'a Original>,
}

impl LogEntry for Entry<'_> {
    fn client(&self) -> SocketAddr {
        self.request.client
    }

    fn local(&self) -> SocketAddr {
        self.request.local
    }

    fn user(&self) -> Option<&[u8]> {
        self.request.user.as_deref()
    }

    fn time_us(&self) -> i64 {
        self.request.wall_us as i64
    }

    fn duration_us(&self) -> u64 {
        self.duration_us
    }

    fn request_line(&self) -> &[u8] {
        self.request.request_line()
    }

    fn method(&self) -> &[u8] {
        self.request.original_method()
    }

    fn path(&self) -> &[u8] {
        self.original.map_or(&self.request.path, |o| &o.path)
    }

    fn query(&self) -> Option<&[u8]> {
        self.original.map_or(self.request.args.as_deref(), |o| o.args.as_deref())
    }

    fn protocol(&self) -> &str {
        &self.protocol
    }

    fn status(&self) -> u16 {
        self.request.status
    }

    fn original_status(&self) -> u16 {
        self.original.map_or(self.request.status, |o| o.status)
    }

    fn body_bytes(&self) -> u64 {
        if self.request.is_head() { 0 } else { self.request.body_sent }
    }

    fn bytes_in(&self) -> u64 {
        self.request.bytes.len() as u64 + self.request.body.len()
    }

    fn bytes_out(&self) -> u64 {
        self.request.head_bytes + self.body_bytes()
    }

    fn request_field(&self, name: &str) -> Option<&[u8]> {
        self.request.header(name.as_bytes())
    }

    fn response_field(&self, name: &str) -> Option<&[u8]> {
        if name.eq_ignore_ascii_case("Content-Type") && self.request.content_type.is_some() {
            return self.request.content_type.as_deref();
        }
        let name = name.as_bytes();
        self.request.headers_out.get(name).or_else(|| self.request.err_headers_out.get(name))
    }

    fn variable(&self, name: &str) -> Option<&[u8]> {
        self.request.env.get(name.as_bytes())
    }

    fn note(&self, name: &str) -> Option<&[u8]> {
        self.request.notes.get(name.as_bytes())
    }

    fn filename(&self) -> &[u8] {
        self.request.known_filename()
    }

    fn handler(&self) -> &str {
        std::str::from_utf8(self.request.logged_handler()).unwrap_or("-")
    }

    fn server_name(&self) -> &str {
        self.request.site.server_name()
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn keep_alive_requests(&self) -> u64 {
        self.served_before
    }

    fn connection_status(&self) -> u8 {
        match (self.request.aborted, self.request.keep) {
            (true, _) => b'X',
            (false, true) => b'+',
            (false, false) => b'-',
        }
    }
}
