//! One request and its answer while it is being made: what the tiers read and write, and what Perl sees of
//! it through [`Exchange`]. Owns the bytes of the request; the connection gets them back when it is over.
//!
//! Does not decide how a request is answered (`engine`, `perl_tier`) nor write the head (`answer`).

use std::{
    fs::File,
    io::Read,
    net::SocketAddr,
    os::{fd::RawFd, unix::fs::FileExt, unix::fs::MetadataExt},
    sync::Arc,
};

use drom_perl::{Command, Exchange, Number, Table, TableKind, Text};

use crate::{
    access_log::Original,
    answer::{self, Framing},
    conditions::{Conditions, Repeated, Validators, date},
    config::{HandlerName, LogLevel},
    environment, http,
    map::{HandlerKind, Mapped, files::Disk},
    output::{Output, Progress, push_chunk},
    script_headers::{BadHead, HeadScan, ScriptHead},
    site::Site,
    sys,
};

/// Output held back in the hope that the whole answer fits: then it has a Content-Length.
const HOLD_BYTES: usize = 64 * 1024;
/// Bytes that may wait for a slow reader before Perl has to wait with them.
const WAIT_BYTES_MAX: u64 = 1 << 30;

/// The body of a request, complete before anything runs.
pub enum Body {
    Empty,
    Memory { bytes: Vec<u8>, read: usize },
    File { file: Arc<File>, len: u64, read: u64 },
}

/// What should happen once the handler is done, besides sending what it printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Next {
    #[default]
    Finish,
    /// Answer with this local path instead.
    Redirect(Vec<u8>, Because),
    /// Let the default handler (the file as it is) answer.
    Decline,
    /// An error status: `ErrorDocument` or the standard page.
    Error(u16),
    /// `OPTIONS *`.
    Options,
}

/// Why a request becomes another one, which decides what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// A script's `Location: /path`: GET, and the body is gone.
    Location,
    /// `ErrorDocument`: GET, but what was not read of the body is still there.
    Error,
    /// `internal_redirect`: the same method and body.
    Handler,
}

/// What the answer is, beside its type and encoding.
#[derive(Default)]
struct Media {
    languages: Option<Vec<u8>>,
    /// The handler has set a type, maybe none.
    has_own_type: bool,
    /// What the file's name says of the answer has been taken, or does not count.
    is_settled: bool,
}

/// See the module.
pub struct Request {
    pub site: &'static Site,
    pub client: SocketAddr,
    pub local: SocketAddr,
    pub socket: RawFd,
    /// Bytes of the request head; `head` holds offsets into it.
    pub bytes: Vec<u8>,
    pub head: Option<http::Head>,
    pub body: Body,
    pub method: Vec<u8>,
    /// Decoded, normalised path.
    pub path: Vec<u8>,
    pub args: Option<Vec<u8>>,
    pub mapped: Option<Mapped>,
    pub started_ns: u64,
    pub wall_s: u64,
    pub wall_us: u64,
    pub connection_id: u64,
    /// How often an internal redirect led here.
    pub redirects: u32,
    /// `REDIRECT_*` variables of what led here.
    pub redirect_env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Facts of what led here, for `$r->prev`.
    previous: Table,
    /// The target as an internal redirect gave it.
    redirect_target: Option<Vec<u8>>,

    pub status: u16,
    pub status_line: Option<Vec<u8>>,
    pub content_type: Option<Vec<u8>>,
    pub headers_out: Table,
    pub err_headers_out: Table,
    pub notes: Table,
    pub env: Table,
    env_ready: bool,
    headers_in: Table,
    headers_in_ready: bool,
    dir_config: Table,
    pub user: Option<Vec<u8>>,
    auth_type: Option<Vec<u8>>,
    content_encoding: Option<Vec<u8>>,
    media: Media,
    filename: Option<Vec<u8>>,
    path_info: Option<Vec<u8>>,
    text: Vec<u8>,
    pub content_length: Option<u64>,
    mtime: Option<i64>,
    /// `$r->no_cache(1)`; error pages of the request go by it too.
    pub no_cache: bool,

    /// Body bytes that wait for the head to be decided.
    pub held: Vec<u8>,
    pub scan: Option<HeadScan>,
    pub bad_head: Option<BadHead>,
    /// The head came out of what was printed.
    pub printed_head: bool,
    pub head_sent: bool,
    pub ass_backwards: bool,
    /// The conditions of the request were not met: what the script prints goes nowhere.
    is_mute: bool,
    pub framing: Framing,
    pub output: Output,
    pub body_sent: u64,
    pub keep: bool,
    pub aborted: bool,
    pub next: Next,
    pub custom_responses: Vec<(u16, Vec<u8>)>,
    pub retire: bool,
    pub wire: Vec<u8>,
    /// The answer is decided; nothing else may answer.
    pub answered: bool,
    /// The body is a file's, in `held` or `tail`, and `content_length` is true.
    pub file_body: bool,
    /// Files to send after what is held.
    pub tail: Option<Output>,
    /// An error document answers for this status, unless it sets one of its own.
    pub error_status: Option<u16>,
    /// How that error document failed.
    pub second_error: Option<u16>,
    pub original: Option<Original>,
    pub head_bytes: u64,
}

impl Request {
    pub fn new(site: &'static Site, client: SocketAddr, local: SocketAddr) -> Self {
        Self {
            site,
            client,
            local,
            socket: -1,
            bytes: Vec::new(),
            head: None,
            body: Body::Empty,
            method: Vec::new(),
            path: Vec::new(),
            args: None,
            mapped: None,
            started_ns: 0,
            wall_s: 0,
            wall_us: 0,
            connection_id: 0,
            redirects: 0,
            redirect_env: Vec::new(),
            previous: Table::default(),
            redirect_target: None,
            status: 200,
            status_line: None,
            content_type: None,
            headers_out: Table::default(),
            err_headers_out: Table::default(),
            notes: Table::default(),
            env: Table::default(),
            env_ready: false,
            headers_in: Table::default(),
            headers_in_ready: false,
            dir_config: Table::default(),
            user: None,
            auth_type: None,
            content_encoding: None,
            media: Media::default(),
            filename: None,
            path_info: None,
            text: Vec::new(),
            content_length: None,
            mtime: None,
            no_cache: false,
            held: Vec::new(),
            scan: None,
            bad_head: None,
            printed_head: false,
            head_sent: false,
            ass_backwards: false,
            is_mute: false,
            framing: Framing::None,
            output: Output::new(
                usize::try_from(site.config.server.response_buffer_limit).unwrap_or(usize::MAX),
            ),
            body_sent: 0,
            keep: false,
            aborted: false,
            next: Next::Finish,
            custom_responses: Vec::new(),
            retire: false,
            wire: Vec::new(),
            answered: false,
            file_body: false,
            tail: None,
            error_status: None,
            second_error: None,
            original: None,
            head_bytes: 0,
        }
    }

    /// Finds what answers the path. The index file of a folder is the path from then on.
    pub fn map_path(&mut self) {
        let mut mapped = self.site.mapper.map(&self.path, &Disk);
        if let Some(index) = mapped.index_path.take() {
            self.path = index;
        }
        self.mapped = Some(mapped);
    }

    /// Makes the value new for the next request, keeping its memory.
    pub fn reset(&mut self) {
        let keep_bytes = |mut bytes: Vec<u8>| {
            bytes.clear();
            if bytes.capacity() > HOLD_BYTES * 2 { Vec::new() } else { bytes }
        };
        let mut fresh = Self::new(self.site, self.client, self.local);
        for (new, old) in [
            (&mut fresh.bytes, &mut self.bytes),
            (&mut fresh.method, &mut self.method),
            (&mut fresh.path, &mut self.path),
            (&mut fresh.held, &mut self.held),
            (&mut fresh.text, &mut self.text),
            (&mut fresh.wire, &mut self.wire),
        ] {
            *new = keep_bytes(std::mem::take(old));
        }
        for (new, old) in [
            (&mut fresh.headers_out, &mut self.headers_out),
            (&mut fresh.headers_in, &mut self.headers_in),
            (&mut fresh.env, &mut self.env),
        ] {
            *new = std::mem::take(old);
            new.clear();
        }
        fresh.head = self.head.take();
        *self = fresh;
    }

    /// The variables are made anew: the request has become another one.
    pub fn forget_env(&mut self) {
        self.env.clear();
        self.env_ready = false;
    }

    /// Forgets the answer so far, for an internal redirect or an error page. Notes, `err_headers_out` and
    /// the user stay, as in Apache.
    pub fn forget_answer(&mut self) {
        self.status = 200;
        self.status_line = None;
        self.content_type = None;
        self.headers_out.clear();
        self.content_length = None;
        self.content_encoding = None;
        self.media = Media::default();
        self.mtime = None;
        self.filename = None;
        self.path_info = None;
        self.dir_config.clear();
        self.held.clear();
        self.scan = None;
        self.bad_head = None;
        self.printed_head = false;
        self.is_mute = false;
        self.mapped = None;
        self.next = Next::Finish;
        self.answered = false;
        self.file_body = false;
        self.tail = None;
        self.body_sent = 0;
    }

    /// As `forget_answer`, but the fields stay.
    pub fn forget_body(&mut self) {
        self.content_length = None;
        self.held.clear();
        self.scan = None;
        self.tail = None;
        self.file_body = false;
        self.body_sent = 0;
    }

    /// The target as it was sent, or as the last internal redirect gave it.
    fn unparsed_uri(&self) -> &[u8] {
        self.redirect_target.as_deref().unwrap_or_else(|| self.raw_target())
    }

    /// Keeps the facts that `$r->prev` tells before the request becomes another one.
    pub fn note_previous(&mut self, to: &[u8]) {
        let mut facts = Table::default();
        facts.set(b"uri", &self.path);
        facts.set(b"unparsed_uri", self.unparsed_uri());
        facts.set(b"status", self.status.to_string().as_bytes());
        facts.set(b"method", &self.method);
        if let Some(args) = &self.args {
            facts.set(b"args", args);
        }
        if self.mapped.is_some() {
            facts.set(b"filename", self.filename());
            facts.set(b"path_info", self.path_info());
        }
        for (name, value) in self.notes.iter() {
            facts.add(&[b"notes:", name].concat(), value);
        }
        for (name, value) in self.known_env().iter().flat_map(|env| env.iter()) {
            facts.add(&[b"subprocess_env:", name].concat(), value);
        }
        self.previous = facts;
        self.redirect_target = Some(to.to_vec());
    }

    /// Fields of the last head, to be used again.
    pub fn take_fields(&mut self) -> Vec<http::head::Field> {
        let mut fields = self.head.take().map(|h| h.fields).unwrap_or_default();
        fields.clear();
        fields
    }

    pub fn version(&self) -> http::Version {
        self.head.as_ref().map_or(http::Version::Http11, |h| h.version)
    }

    pub fn protocol(&self) -> &'static [u8] {
        match self.version() {
            http::Version::Http10 => b"HTTP/1.0",
            http::Version::Http11 => b"HTTP/1.1",
        }
    }

    /// The target as it was sent.
    pub fn raw_target(&self) -> &[u8] {
        self.head.as_ref().map_or(b"/", |h| &self.bytes[h.raw_target.clone()])
    }

    pub fn request_line(&self) -> &[u8] {
        let start = self.head.as_ref().map_or(0, |h| h.method.start);
        let rest = &self.bytes[start..];
        &rest[..memchr::memchr(b'\r', rest).unwrap_or(rest.len())]
    }

    /// The method of the request line, whatever became of it.
    pub fn original_method(&self) -> &[u8] {
        self.head.as_ref().map_or(&self.method, |h| &self.bytes[h.method.clone()])
    }

    pub fn has_body(&mut self) -> bool {
        !matches!(self.body, Body::Empty) || self.headers_in().get(b"Content-Length").is_some()
    }

    /// The body, and that there was one, are not the next answer's business.
    pub fn forget_request_body(&mut self) {
        self.body = Body::Empty;
        self.headers_in().unset(b"Content-Length");
    }

    pub fn content_encoding(&self) -> Option<&[u8]> {
        self.content_encoding.as_deref()
    }

    /// For the log.
    pub fn known_filename(&self) -> &[u8] {
        use std::os::unix::ffi::OsStrExt;
        match (&self.filename, &self.mapped) {
            (Some(name), _) => name,
            (None, Some(mapped)) => mapped.target(&Disk).filename.as_os_str().as_bytes(),
            (None, None) => b"-",
        }
    }

    /// For the log: the one that the configuration names, whatever became of the request.
    pub fn logged_handler(&self) -> &'static [u8] {
        use crate::map::HandlerKind as Kind;
        let Some(mapped) = &self.mapped else { return b"-" };
        if let Kind::CgiScript | Kind::PerlScript { .. } | Kind::ModPerl { .. } = mapped.handler {
            return self.handler_name();
        }
        let is_named = |set: &HandlerName| !matches!(set, HandlerName::None | HandlerName::Default);
        let set = mapped.policy.set_handler.filter(is_named);
        let mut names = HandlerName::NAMES.iter();
        names.find(|(_, handler)| Some(*handler) == set).map_or(b"-", |(name, _)| name.as_bytes())
    }

    /// The place of `/`: for answers to targets that are no paths.
    pub fn map_root(&mut self) {
        self.mapped = Some(self.site.mapper.map(b"/", &Disk));
    }

    pub fn content_languages(&self) -> Option<&[u8]> {
        self.media.languages.as_deref()
    }

    /// Media type, encoding and language by the name of the file, where the handler has set none,
    /// as mod_mime gives them to whatever handler there is. Looked up when somebody asks or the
    /// head is written, so that most requests never pay for it.
    pub fn settle_media(&mut self) {
        let Some(mapped) = self.mapped.as_ref().filter(|_| !self.media.is_settled) else { return };
        let policy = &mapped.policy;
        let is_typed = self.media.has_own_type
            || self.content_type.is_some()
            || self.headers_out.get(b"Content-Type").is_some();
        let is_program = !matches!(mapped.handler, HandlerKind::Static | HandlerKind::NoFile(_));
        if !is_program || (is_typed && !policy.names_more_than_types()) {
            return;
        }
        self.media.is_settled = true;
        let Some(media) = mapped.media(&self.site.types, &Disk) else { return };
        let bytes = |text: &String| text.as_bytes().to_vec();
        if !is_typed {
            self.content_type = media.content_type.as_ref().map(bytes);
        }
        if self.content_encoding.is_none() {
            self.content_encoding = media.encoding.as_ref().map(bytes);
        }
        if self.media.languages.is_none() {
            self.media.languages = media.language.as_ref().map(bytes);
        }
    }

    /// The file itself will answer: it has these fields from elsewhere.
    pub fn forget_media(&mut self) {
        if self.media.is_settled {
            self.content_type = self.content_type.take().filter(|_| self.media.has_own_type);
            self.content_encoding = None;
            self.media.languages = None;
        }
        self.media.is_settled = true;
    }

    /// The whole body of a made-up answer.
    pub fn set_body(&mut self, bytes: &[u8]) {
        self.media.is_settled = true;
        self.held.clear();
        self.held.extend_from_slice(bytes);
        self.body_sent = bytes.len() as u64;
        self.content_length = Some(self.body_sent);
    }

    pub fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    pub fn header(&self, name: &[u8]) -> Option<&[u8]> {
        let head = self.head.as_ref()?;
        let found =
            head.fields.iter().find(|f| self.bytes[f.name.clone()].eq_ignore_ascii_case(name));
        found.map(|f| &self.bytes[f.value.clone()])
    }

    pub fn mapped(&self) -> &Mapped {
        self.mapped.as_ref().expect("a request is mapped before anything looks at its place")
    }

    pub fn filename(&mut self) -> &[u8] {
        if self.filename.is_none() {
            use std::os::unix::ffi::OsStrExt;
            let name = self.mapped().target(&Disk).filename.as_os_str().as_bytes().to_vec();
            self.filename = Some(name);
        }
        self.filename.as_deref().unwrap_or_default()
    }

    pub fn path_info(&mut self) -> &[u8] {
        if self.path_info.is_none() {
            let info = self.mapped().target(&Disk).path_info.clone();
            self.path_info = Some(info);
        }
        self.path_info.as_deref().unwrap_or_default()
    }

    pub fn script_name(&self) -> Vec<u8> {
        self.mapped().script_name(&self.path, &Disk).to_vec()
    }

    pub fn headers_in(&mut self) -> &mut Table {
        if !self.headers_in_ready {
            self.headers_in_ready = true;
            for field in self.head.iter().flat_map(|h| &h.fields) {
                let name = &self.bytes[field.name.clone()];
                self.headers_in.merge(name, &self.bytes[field.value.clone()]);
            }
        }
        &mut self.headers_in
    }

    /// The environment, if something asked for it.
    pub fn known_env(&self) -> Option<&Table> {
        self.env_ready.then_some(&self.env)
    }

    /// The environment of a script: `SetEnv` and the like, and CGI's variables.
    pub fn script_env(&mut self) -> &mut Table {
        if !self.env_ready {
            self.env_ready = true;
            let mut env = std::mem::take(&mut self.env);
            environment::fill(self, &mut env);
            self.env = env;
        }
        &mut self.env
    }

    /// The host the client asked for, without the port.
    pub fn host_name(&self) -> Vec<u8> {
        let host = self.header(b"Host").unwrap_or_default();
        let end = match host.first() {
            Some(b'[') => host.iter().position(|&b| b == b']').map_or(host.len(), |i| i + 1),
            _ => host.iter().position(|&b| b == b':').unwrap_or(host.len()),
        };
        host[..end].to_ascii_lowercase()
    }

    /// To the error log, with the client's address.
    pub fn note(&self, module: &str, level: LogLevel, text: impl AsRef<[u8]>) {
        self.site.log_error(level, Some(self.client), module, text);
    }

    /// Why a file is refused, with its name.
    pub fn note_file(&mut self, why: &str) {
        if self.site.logs(LogLevel::Error) {
            let name = String::from_utf8_lossy(self.filename()).into_owned();
            self.note("core", LogLevel::Error, format!("{why}: {name}"));
        }
    }

    // ---- output --------------------------------------------------------------------------------

    /// A piece of the body, or of the script's head while that is being looked for.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if self.aborted {
            return Err(libc::ECONNRESET);
        }
        if self.scan.is_some() {
            return self.scan_head(bytes);
        }
        self.write_body(bytes)
    }

    fn write_body(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if self.is_mute || (!matches!(self.next, Next::Finish) && !self.head_sent) {
            return Ok(()); // another answer takes this one's place
        }
        self.body_sent += bytes.len() as u64;
        if self.is_head() && !self.ass_backwards {
            return Ok(());
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() >= HOLD_BYTES { self.push_held() } else { Ok(()) }
    }

    fn scan_head(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if self.bad_head.is_some() {
            return Ok(()); // the head was no head: the rest goes nowhere, an error page comes
        }
        let Some(scan) = self.scan.as_mut() else { return Ok(()) };
        match scan.feed(bytes) {
            None => Ok(()),
            Some(Err(bad)) => {
                self.bad_head = Some(bad);
                Ok(())
            }
            Some(Ok((head, rest))) => {
                self.scan = None;
                self.printed_head = true;
                self.take_script_head(head);
                self.write_body(rest)
            }
        }
    }

    /// Nothing follows for now: an empty line, when it is all that came, is a head without headers.
    pub fn settle_head(&mut self) {
        if self.scan.as_ref().is_some_and(HeadScan::is_empty_line) {
            self.scan = None;
            self.take_script_head(ScriptHead::default());
        }
    }

    pub fn take_script_head(&mut self, head: ScriptHead) {
        let had_status = head.status.is_some();
        if let Some(text) = &head.bad_status {
            self.note(
                "core",
                LogLevel::Error,
                format!("malformed header from script: Bad status={text}"),
            );
        }
        if let Some((status, line)) = head.status {
            self.status = status;
            self.status_line = Some(line);
        }
        if let Some(content_type) = head.content_type.filter(|t| !t.is_empty()) {
            self.content_type = Some(content_type);
        }
        for (name, value) in &head.headers {
            self.take_script_header(name, value);
        }
        if !had_status && let Some(status) = self.verdict() {
            return self.take_verdict(status);
        }
        if let Some(location) = head.location {
            // An error page keeps its status, unless the script names another.
            let is_fine = self.status == 200 && self.error_status.is_none();
            if location.starts_with(b"/") && is_fine {
                self.next = Next::Redirect(location, Because::Location);
            } else {
                if !location.is_empty() {
                    self.headers_out.set(b"Location", &location);
                }
                // As in Apache also when the script says so of its 200 itself.
                if is_fine && self.headers_out.get(b"Location").is_some() {
                    self.next = Next::Error(302);
                }
            }
        }
    }

    fn take_script_header(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"Content-Length") {
            let text = std::str::from_utf8(value).ok();
            self.content_length = text.and_then(|t| t.parse().ok());
        } else if name.eq_ignore_ascii_case(b"Set-Cookie") {
            self.err_headers_out.add(name, value);
        } else if name.eq_ignore_ascii_case(b"Last-Modified") {
            self.take_last_modified(value);
        } else if name.eq_ignore_ascii_case(b"ETag") || name.eq_ignore_ascii_case(b"Content-Range")
        {
            self.headers_out.set(name, value);
        } else if !answer::is_ours(name) {
            // As in Apache they stay when an internal redirect or an error page answers.
            self.err_headers_out.merge(name, value);
        }
    }

    /// What is no date is dropped; what lies in the future is now.
    fn take_last_modified(&mut self, value: &[u8]) {
        let Some(mtime_s) = date(value) else { return };
        let mtime_s = mtime_s.min(self.wall_s as i64);
        self.mtime = Some(mtime_s);
        let text = http::response::http_date(mtime_s.max(0) as u64);
        self.headers_out.set(b"Last-Modified", text.as_bytes());
    }

    /// What the request's conditions make of the answer as its head stands.
    fn verdict(&self) -> Option<u16> {
        if self.status != 200 || !matches!(&self.method[..], b"GET" | b"HEAD") {
            return None;
        }
        let head = self.head.as_ref()?;
        let repeated = Repeated::of(head, &self.bytes);
        let asked = Conditions::of(&self.method, head, &self.bytes, &repeated);
        let now_s = self.wall_s as i64;
        let etag = self.headers_out.get(b"ETag");
        let mtime_s = self.mtime.unwrap_or(now_s);
        asked.verdict(&Validators { etag, mtime_s, now_s })
    }

    /// mod_cgi answers 412 with an error page, mod_perl with no body.
    fn take_verdict(&mut self, status: u16) {
        if status == 412 && self.handler_name() == b"cgi-script" {
            self.next = Next::Error(status);
        } else {
            self.status = status;
            self.is_mute = true;
        }
    }

    /// Sends what is held; the head goes first when it has not gone.
    fn push_held(&mut self) -> Result<(), i32> {
        if !matches!(self.next, Next::Finish) {
            return Ok(()); // another answer takes this one's place
        }
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        if !self.head_sent {
            self.is_mute = answer::check_head(self);
            self.framing = answer::streaming(self);
            answer::write_head(self, &mut wire);
            self.head_sent = true;
        }
        crate::crisis::answer_leaves(self.socket, self.status, self.body_sent);
        let held = std::mem::take(&mut self.held);
        let result = self.send_parts(&wire, &held);
        self.wire = wire;
        self.held = held;
        self.held.clear();
        result
    }

    fn send_parts(&mut self, head: &[u8], body: &[u8]) -> Result<(), i32> {
        let pushed = self.output.push(head).and_then(|()| match self.framing {
            Framing::Chunked => push_chunk(&mut self.output, body),
            Framing::None => Ok(()),
            _ => self.output.push(body),
        });
        if let Err(e) = pushed {
            self.note(
                "core",
                LogLevel::Error,
                format!("cannot keep the response for a slow client: {e}"),
            );
            self.aborted = true;
            return Err(e.raw_os_error().unwrap_or(libc::EIO));
        }
        self.drain()
    }

    /// Writes what the socket takes; waits only when far too much is waiting.
    fn drain(&mut self) -> Result<(), i32> {
        loop {
            match self.output.write_to(self.socket) {
                Ok(Progress::Done) => return Ok(()),
                Ok(Progress::Blocked) if self.output.waiting() < WAIT_BYTES_MAX => return Ok(()),
                Ok(Progress::Blocked) => self.wait_writable(),
                Err(e) => {
                    self.aborted = true;
                    return Err(e.raw_os_error().unwrap_or(libc::EPIPE));
                }
            }
        }
    }

    fn wait_writable(&self) {
        sys::wait_writable(self.socket, self.site.timeout());
    }
}

impl Body {
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Memory { bytes, .. } => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    /// Nothing is left for whoever reads next.
    pub fn use_up(&mut self) {
        match self {
            Self::Empty => {}
            Self::Memory { bytes, read } => *read = bytes.len(),
            Self::File { len, read, .. } => *read = *len,
        }
    }

    pub fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Empty => Ok(0),
            Self::Memory { bytes, read } => {
                let got = (&bytes[*read..]).read(into)?;
                *read += got;
                Ok(got)
            }
            Self::File { file, len, read } => {
                let room = into.len().min(usize::try_from(*len - *read).unwrap_or(usize::MAX));
                let got = file.read_at(&mut into[..room], *read)?;
                *read += got as u64;
                Ok(got)
            }
        }
    }
}

// ---- what Perl sees --------------------------------------------------------------------------------

impl Exchange for Request {
    fn text(&mut self, field: Text) -> Option<&[u8]> {
        match field {
            Text::ContentType => {
                self.settle_media();
                self.content_type.as_deref()
            }
            Text::Uri => Some(&self.path),
            Text::UnparsedUri => Some(self.unparsed_uri()),
            Text::Filename => Some(self.filename()),
            Text::Args => self.args.as_deref(),
            Text::PathInfo => Some(self.path_info()),
            Text::Method => Some(&self.method),
            Text::User => self.user.as_deref(),
            Text::AuthType => self.auth_type.as_deref(),
            Text::StatusLine => self.status_line.as_deref(),
            Text::ContentEncoding => {
                self.settle_media();
                self.content_encoding.as_deref()
            }
            Text::ContentLanguages => {
                self.settle_media();
                self.media.languages.as_deref()
            }
            _ => {
                self.text = self.made_text(field)?;
                Some(&self.text)
            }
        }
    }

    fn set_text(&mut self, field: Text, value: Option<&[u8]>) {
        let owned = value.map(<[u8]>::to_vec);
        match field {
            Text::ContentType => {
                self.content_type = owned;
                self.media.has_own_type = true;
                self.scan_done();
            }
            Text::Uri => self.path = owned.unwrap_or_default(),
            Text::Filename => self.filename = owned,
            Text::Args => self.args = owned,
            Text::PathInfo => self.path_info = owned,
            Text::Method => self.method = owned.unwrap_or_default(),
            Text::User => self.user = owned,
            Text::AuthType => self.auth_type = owned,
            Text::ContentEncoding => self.content_encoding = owned,
            Text::ContentLanguages => self.media.languages = owned,
            Text::StatusLine => self.status_line = owned,
            _ => {}
        }
    }

    fn number(&mut self, field: Number) -> i64 {
        match field {
            Number::Status => i64::from(self.status),
            Number::HeaderOnly => i64::from(self.is_head()),
            Number::MethodNumber => environment::method_number(&self.method),
            Number::BytesSent => self.body_sent as i64,
            Number::RequestTime => self.wall_s as i64,
            Number::Mtime => self.mtime.unwrap_or_else(|| self.file_mtime()),
            Number::NoCache => i64::from(self.no_cache),
            Number::ProxyReq => 0,
            Number::ProtoNum => 1000 + i64::from(self.version() == http::Version::Http11),
            Number::ContentLength => self.content_length.map_or(-1, |l| l as i64),
            Number::ParseHeaders => i64::from(self.scan.is_some()),
            Number::HeadersSent => i64::from(self.head_sent),
            Number::Aborted => i64::from(self.aborted),
            Number::Keepalive => i64::from(self.keep),
            Number::ConnectionId => self.connection_id as i64,
            Number::Port => i64::from(self.local.port()),
            Number::LimitRequestBody => self.limit_request_body(),
            Number::LogLevel => self.site.config.server.log_level.number(),
            Number::Timeout => self.site.timeout().as_micros() as i64,
        }
    }

    fn set_number(&mut self, field: Number, value: i64) {
        match field {
            Number::Status => self.status = u16::try_from(value).unwrap_or(500),
            Number::Mtime => self.mtime = Some(value),
            Number::NoCache => self.set_no_cache(value != 0),
            Number::ContentLength => self.content_length = u64::try_from(value).ok(),
            Number::ParseHeaders if value == 0 => self.scan_done(),
            Number::ParseHeaders if self.scan.is_none() && !self.head_sent => {
                self.scan = Some(HeadScan::of_perl());
            }
            _ => {}
        }
    }

    fn table(&mut self, kind: TableKind) -> &mut Table {
        match kind {
            TableKind::HeadersIn => self.headers_in(),
            TableKind::HeadersOut => &mut self.headers_out,
            TableKind::ErrHeadersOut => &mut self.err_headers_out,
            TableKind::SubprocessEnv => self.script_env(),
            TableKind::Notes => &mut self.notes,
            TableKind::DirConfig => self.dir_config(),
            TableKind::Previous => &mut self.previous,
        }
    }

    fn environment(&mut self) -> &Table {
        self.script_env()
    }

    fn print(&mut self, bytes: &[u8]) -> Result<(), i32> {
        self.write(bytes)
    }

    fn flush(&mut self) -> Result<(), i32> {
        self.settle_head();
        if self.scan.is_some() || (self.held.is_empty() && self.head_sent) {
            return Ok(());
        }
        if self.is_head() && !self.ass_backwards {
            return Ok(());
        }
        self.push_held()
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, i32> {
        self.body.read(into).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    }

    fn log(&mut self, level: i32, text: &[u8]) {
        let level = LogLevel::of_apache(level);
        self.note("perl", level, String::from_utf8_lossy(text).trim_end());
    }

    fn send_file(&mut self, path: &[u8], offset: i64, count: i64) -> Result<(), i32> {
        use std::os::unix::ffi::OsStrExt;
        let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        let file = File::open(std::ffi::OsStr::from_bytes(path)).map_err(errno)?;
        let len = file.metadata().map_err(errno)?.size();
        let offset = u64::try_from(offset).unwrap_or(0).min(len);
        let count = u64::try_from(count).unwrap_or(u64::MAX).min(len - offset);
        self.write_file(&file, offset, count)
    }

    fn command(&mut self, what: Command, text: &[u8]) {
        match what {
            Command::Redirect => {
                self.next = Next::Redirect(text.to_vec(), Because::Handler);
            }
            Command::CustomResponse => self.add_custom_response(text),
            Command::Retire => self.retire = true,
            Command::AssBackwards => {
                self.ass_backwards = true;
                self.scan_done();
            }
            Command::SendHead => self.scan_done(),
            Command::Forked => sys::close_connections(self.local.port()),
            Command::Preload => {}
        }
    }
}

impl Request {
    fn made_text(&self, field: Text) -> Option<Vec<u8>> {
        let settings = &self.site.config.server;
        let path_text = |p: &std::path::Path| p.display().to_string().into_bytes();
        Some(match field {
            Text::Protocol => self.protocol().to_vec(),
            Text::Hostname => self.host_name(),
            Text::TheRequest => self.request_line().to_vec(),
            Text::Handler => self.handler_name().to_vec(),
            Text::Location => self.site.mapper.location(&self.path)?.into_bytes(),
            Text::DocumentRoot => path_text(&settings.document_root),
            Text::ScriptName => self.script_name(),
            Text::ClientIp => self.client.ip().to_string().into_bytes(),
            Text::ClientPort => self.client.port().to_string().into_bytes(),
            Text::LocalIp => self.local.ip().to_string().into_bytes(),
            Text::LocalPort => self.local.port().to_string().into_bytes(),
            Text::ResponseHandlers => self.response_handlers()?.into_bytes(),
            Text::AllowOptions => self.allowed_options().to_string().into_bytes(),
            _ => return self.site.text(field),
        })
    }

    fn response_handlers(&self) -> Option<String> {
        use crate::map::HandlerKind as Kind;
        match &self.mapped.as_ref()?.handler {
            Kind::PerlScript { handlers } | Kind::ModPerl { handlers } => {
                Some(handlers.iter().map(|h| h.name()).collect::<Vec<_>>().join("\0"))
            }
            _ => None,
        }
    }

    /// Apache's `OPT_*` bits of what is allowed here.
    fn allowed_options(&self) -> u16 {
        use crate::config::option as ours;
        let policy = &self.mapped().policy;
        let bits = [
            (ours::INDEXES, 1),
            (ours::INCLUDES, 2),
            (ours::FOLLOW_SYM_LINKS, 4),
            (ours::EXEC_CGI, 8),
            (ours::SYM_LINKS_IF_OWNER_MATCH, 32),
            (ours::MULTI_VIEWS, 64),
        ];
        bits.iter().filter(|(ours, _)| policy.has_option(*ours)).map(|(_, apaches)| apaches).sum()
    }

    pub fn handler_name(&self) -> &'static [u8] {
        use crate::map::HandlerKind as Kind;
        match self.mapped.as_ref().map_or(Kind::Static, |m| m.handler.clone()) {
            Kind::CgiScript => b"cgi-script",
            Kind::PerlScript { .. } => b"perl-script",
            Kind::ModPerl { .. } => b"modperl",
            _ => b"default-handler",
        }
    }

    fn scan_done(&mut self) {
        if self.scan.as_ref().is_some_and(HeadScan::is_untouched) {
            self.scan = None;
        }
    }

    fn set_no_cache(&mut self, on: bool) {
        self.no_cache = on;
        for (name, value) in
            [(b"Pragma".as_slice(), b"no-cache".as_slice()), (b"Cache-Control", b"no-cache")]
        {
            if on {
                self.headers_out.set(name, value);
            } else {
                self.headers_out.unset(name);
            }
        }
    }

    /// Apache's number: 0 is unlimited.
    fn limit_request_body(&self) -> i64 {
        let limit = self.mapped.as_ref().and_then(|m| m.policy.body_limit());
        limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    fn file_mtime(&self) -> i64 {
        self.mapped().target(&Disk).finfo.as_ref().map_or(0, |f| f.mtime_s)
    }

    fn dir_config(&mut self) -> &mut Table {
        if self.dir_config.is_empty() {
            let policy = Arc::clone(&self.mapped().policy);
            for (name, value) in &policy.perl_vars {
                self.dir_config.add(name.as_bytes(), value.as_bytes());
            }
        }
        &mut self.dir_config
    }

    fn add_custom_response(&mut self, text: &[u8]) {
        let status = std::str::from_utf8(text.get(..3).unwrap_or_default()).ok();
        if let Some(status) = status.and_then(|s| s.parse().ok()) {
            self.custom_responses.push((status, text.get(4..).unwrap_or_default().to_vec()));
        }
    }

    fn write_file(&mut self, file: &File, mut offset: u64, mut left: u64) -> Result<(), i32> {
        let mut buffer = vec![0; HOLD_BYTES.min(usize::try_from(left).unwrap_or(HOLD_BYTES))];
        while left > 0 {
            let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = file.read_at(&mut buffer[..room], offset);
            let got = got.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
            if got == 0 {
                break;
            }
            self.write(&buffer[..got])?;
            offset += got as u64;
            left -= got as u64;
        }
        Ok(())
    }
}
