//! A CGI child as the worker sees it: a pipe that is read into the answer, one that is read into
//! the error log, a slot that tells its end, and a time limit.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::OnceLock,
};

use super::{Engine, borrowed, connection::State, token};
use crate::{
    cgi::{
        errors::{ALL_BYTES, Errors, Heard, Speaker, TURN_BYTES},
        job::{JOB_BYTES_MAX, Job},
    },
    config::LogLevel,
    output::Progress,
    request::{Body, Next, Request},
    script_headers::HeadScan,
    sys,
};

/// More than this waiting for a slow client and the child's pipe is not read.
const WAITING_BYTES_MAX: u64 = 1 << 20;
/// After SIGTERM a child has this long before SIGKILL.
const KILL_NS: u64 = 1_000_000_000;

pub struct CgiRun {
    pub slot: usize,
    pub pipe: OwnedFd,
    /// Its standard error; `None` once nobody can write to it. Most scripts have ended before
    /// the first sweep: until then it is not watched, which spares each of them system calls.
    errors: Option<Errors>,
    watches_errors: bool,
    /// Reading is off until the client has taken what waits.
    paused: bool,
    /// When the child must have ended (`DromRequestTimeout`).
    limit_ns: u64,
    killed_ns: u64,
}

impl CgiRun {
    fn watch_errors(&mut self, epoll: &sys::Epoll, token: u64) {
        if let (Some(errors), false) = (&self.errors, self.watches_errors) {
            // Not watched, it is read at the end.
            let token = token | token::CGI_ERRORS;
            self.watches_errors = epoll.add(errors.pipe.as_raw_fd(), sys::IN, token).is_ok();
        }
    }

    /// What it said, to the error log.
    fn read_errors(&mut self, most: usize, request: &mut Request) -> Heard {
        let Some(errors) = &mut self.errors else { return Heard::End };
        let heard = errors.log(most, &speaker(request));
        if heard == Heard::End {
            self.errors = None;
        }
        heard
    }

    /// When silence has lasted too long, told now that it is none. One that was told to end is not
    /// given more time.
    fn deadline_ns(&self, current_ns: u64, now_ns: u64, timeout_ns: u64) -> u64 {
        if self.killed_ns == 0 { (now_ns + timeout_ns).min(self.limit_ns) } else { current_ns }
    }

    /// The answer is done. What a program in the background has to say then, the spawner hears.
    pub fn let_go_of_errors(&mut self, request: &mut Request, jobs: RawFd) {
        self.read_errors(ALL_BYTES, request);
        let Some(errors) = self.errors.take() else { return };
        // Refused, the program finds its standard error closed.
        let _ = errors.hand_on(&speaker(request), jobs);
    }
}

impl Engine {
    /// Starts the child for a connection's request, or queues it until there is a place.
    pub fn start_cgi(&mut self, index: usize) {
        let most = self.setup.site.config.server.max_request_workers as usize;
        let Some(slot) = self.setup.board.take_cgi(self.setup.me, most.max(1)) else {
            self.cgi_waiting.push_back(index);
            return;
        };
        let Some(connection) = self.connections[index].as_mut() else { return };
        let Some(request) = connection.request.as_mut() else { return };
        let timeout_ns = request.site.timeout().as_nanos() as u64;
        let limit = request.mapped().policy.time_limit().map(|l| l.as_nanos() as u64);
        let limit_ns = limit.map_or(u64::MAX, |limit| request.started_ns + limit);
        let serial = self.setup.board.cgi[slot].serial();
        match send_job(request, (slot, serial), self.setup.cgi_jobs) {
            Ok((pipe, errors)) => {
                let token = connection.token | token::CGI;
                let watched = self.epoll.add(pipe.as_raw_fd(), sys::IN, token);
                connection.deadline_ns = (self.now_ns + timeout_ns).min(limit_ns);
                let errors = Some(errors);
                let (paused, watches_errors, killed_ns) = (false, false, 0);
                connection.cgi = Some(Box::new(CgiRun {
                    slot,
                    pipe,
                    errors,
                    watches_errors,
                    paused,
                    limit_ns,
                    killed_ns,
                }));
                self.cgi_running += 1;
                if let Err(e) = watched {
                    self.log(LogLevel::Error, &format!("cannot watch a CGI script: {e}"));
                }
            }
            Err(e) => {
                self.setup.board.free_cgi(slot);
                request.note("cgi", LogLevel::Error, format!("cannot start a CGI script: {e}"));
                request.next = Next::Error(500);
                connection.state = State::Reading;
                self.dispatch_again(index);
            }
        }
    }

    /// The child printed something or closed its output.
    pub fn cgi_event(&mut self, event_token: u64, _events: u32) {
        let Some(index) = self.index_of(event_token & !token::KIND) else { return };
        let timeout_ns = self.setup.site.timeout().as_nanos() as u64;
        for _ in 0..16 {
            let Some(connection) = self.connections[index].as_mut() else { return };
            let (Some(run), Some(request)) = (connection.cgi.as_mut(), connection.request.as_mut())
            else {
                return;
            };
            match sys::read(run.pipe.as_raw_fd(), &mut self.cgi_buffer) {
                Ok(0) => return self.cgi_done(index),
                Ok(got) => {
                    connection.deadline_ns =
                        run.deadline_ns(connection.deadline_ns, self.now_ns, timeout_ns);
                    // A client that is gone is noticed at the end: the child sees a closed pipe.
                    let gone = request.write(&self.cgi_buffer[..got]).is_err();
                    if gone || request.bad_head.is_some() {
                        return self.cgi_done(index);
                    }
                    if request.output.waiting() > WAITING_BYTES_MAX {
                        return self.cgi_pause(index);
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.cgi_done(index),
            }
        }
    }

    /// It said something on its standard error, or closed that.
    pub fn cgi_errors(&mut self, event_token: u64) {
        let Some(index) = self.index_of(event_token & !token::KIND) else { return };
        let timeout_ns = self.setup.site.timeout().as_nanos() as u64;
        let Some(connection) = self.connections[index].as_mut() else { return };
        if let (Some(run), Some(request)) = (&mut connection.cgi, &mut connection.request)
            && run.read_errors(TURN_BYTES, request) == Heard::Something
        {
            connection.deadline_ns =
                run.deadline_ns(connection.deadline_ns, self.now_ns, timeout_ns);
        }
    }

    fn cgi_pause(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if let Some(run) = connection.cgi.as_mut() {
            run.paused = true;
            // Not watched any more either way.
            let _ = self.epoll.remove(run.pipe.as_raw_fd());
        }
        self.listen_for(index, sys::OUT);
    }

    /// The client took something.
    pub fn cgi_writable(&mut self, index: usize) {
        let timeout_ns = self.setup.site.timeout().as_nanos() as u64;
        let Some(connection) = self.connections[index].as_mut() else { return };
        let (Some(run), Some(request)) = (connection.cgi.as_mut(), connection.request.as_mut())
        else {
            return;
        };
        match request.output.write_to(connection.fd.as_raw_fd()) {
            Ok(Progress::Done) => {}
            Ok(Progress::Blocked) => {
                connection.deadline_ns =
                    run.deadline_ns(connection.deadline_ns, self.now_ns, timeout_ns);
                return;
            }
            Err(_) => {
                request.aborted = true;
                return self.cgi_done(index);
            }
        }
        if run.paused {
            run.paused = false;
            let token = connection.token | token::CGI;
            if let Err(e) = self.epoll.add(run.pipe.as_raw_fd(), sys::IN, token) {
                self.log(LogLevel::Error, &format!("cannot watch a CGI script: {e}"));
            }
        }
        self.listen_for(index, 0);
    }

    fn cgi_done(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let Some(mut run) = connection.cgi.take() else { return };
        let timed_out = run.killed_ns != 0;
        if let Some(request) = connection.request.as_mut() {
            run.let_go_of_errors(request, self.setup.cgi_jobs);
            request.body.use_up();
            conclude(request, timed_out);
        }
        connection.state = State::Reading;
        connection.deadline_ns = u64::MAX;
        self.cgi_closed(&run);
        self.dispatch_again(index);
    }

    /// After a script: a redirect in the server or an error document may lead to Perl, which the
    /// next turn of the loop then finds waiting.
    fn dispatch_again(&mut self, index: usize) {
        if let Some(job) = self.dispatch(index) {
            self.waiting.push_back(job);
        }
    }

    /// The pipe is closed: the slot is free, and the next request that waits for one has it.
    pub fn cgi_closed(&mut self, run: &CgiRun) {
        self.cgi_running -= 1;
        self.setup.board.free_cgi(run.slot);
        self.start_waiting();
    }

    fn start_waiting(&mut self) {
        while let Some(index) = self.cgi_waiting.pop_front() {
            let queued = self.cgi_waiting.len();
            if self.is_state(index, State::Cgi) {
                self.start_cgi(index);
            }
            if self.cgi_waiting.len() > queued {
                // Still no place: the first in line stays first.
                let back = self.cgi_waiting.pop_back();
                if let Some(back) = back {
                    self.cgi_waiting.push_front(back);
                }
                break;
            }
        }
    }

    /// Silence or too long a run: the child is told to end, then made to.
    pub fn cgi_expired(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let Some(connection) = self.connections[index].as_mut() else { return };
        let (Some(run), Some(request)) = (connection.cgi.as_mut(), connection.request.as_mut())
        else {
            connection.deadline_ns = u64::MAX; // it still waits for a place
            return;
        };
        let pid = self.setup.board.cgi[run.slot].condemn();
        let signal = if run.killed_ns == 0 { libc::SIGTERM } else { libc::SIGKILL };
        if run.killed_ns == 0 {
            let name = String::from_utf8_lossy(request.filename()).into_owned();
            request.note(
                "cgi",
                LogLevel::Error,
                format!("Timeout waiting for output from CGI script {name}"),
            );
            run.killed_ns = now_ns;
            connection.deadline_ns = now_ns + KILL_NS;
        } else {
            connection.deadline_ns = now_ns + KILL_NS;
        }
        if pid > 0 {
            sys::kill(-pid, signal);
        } else if signal == libc::SIGKILL {
            self.cgi_done(index);
        }
    }

    pub fn sweep_cgi(&mut self) {
        self.start_waiting();
        if self.cgi_running == 0 {
            return;
        }
        for connection in self.connections.iter_mut().flatten() {
            // A request that waits for its place has nothing to say, not even a head.
            let is_running = connection.state == State::Cgi;
            let (Some(run), Some(request), true) =
                (connection.cgi.as_mut(), connection.request.as_mut(), is_running)
            else {
                continue;
            };
            run.watch_errors(&self.epoll, connection.token);
            // A client that is gone shows at the next write.
            let _ = drom_perl::Exchange::flush(&mut **request);
        }
    }
}

fn speaker(request: &mut Request) -> Speaker<'_> {
    let (client, level) = (Some(request.client), request.site.config.server.log_level);
    Speaker { client, script: request.filename(), level }
}

fn conclude(request: &mut Request, timed_out: bool) {
    let bad = request.bad_head.take().or_else(|| request.scan.as_ref().map(HeadScan::end));
    if timed_out && !request.head_sent {
        request.next = Next::Error(504);
    } else if let Some(bad) = bad {
        let name = String::from_utf8_lossy(request.filename()).into_owned();
        request.note("cgi", LogLevel::Error, format!("{bad}: {name}"));
        request.next = Next::Error(500);
    } else if request.next == Next::Finish {
        request.answered = true;
    }
    if timed_out && request.head_sent {
        request.keep = false;
        request.aborted = true;
    }
}

/// Sends the job to the spawner: what the child prints, and what it says on its standard error.
fn send_job(
    request: &mut Request,
    (slot, serial): (usize, u32),
    jobs: i32,
) -> std::io::Result<(OwnedFd, Errors)> {
    let nph = crate::script_source::is_nph(std::path::Path::new(std::ffi::OsStr::new(
        &String::from_utf8_lossy(request.filename()).into_owned(),
    )));
    request.ass_backwards = nph;
    request.scan = (!nph).then(HeadScan::default);
    let stdin = stdin(&request.body)?;
    let (output, input) = sys::pipe_to_watch()?;
    let (errors, said) = Errors::new()?;
    let env = request.script_env().iter().map(|(k, v)| [k, b"=", v].concat()).collect();
    let script = request.filename().to_vec();
    let job = Job { slot: slot as u32, serial, script, env, args: isindex(request) };
    let mut bytes = Vec::new();
    job.encode(&mut bytes);
    if bytes.len() > JOB_BYTES_MAX {
        return Err(std::io::Error::other("the environment is too large"));
    }
    let fds = [stdin.as_raw_fd(), input.as_raw_fd(), said.as_raw_fd()];
    // The spawner reads quickly; a full socket means hundreds of children are being started.
    for _ in 0..200 {
        match sys::send_fds(jobs, &bytes, &[], &fds) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                sys::wait_writable(
                    borrowed(jobs).as_raw_fd(),
                    std::time::Duration::from_millis(10),
                );
            }
            Err(e) => return Err(e),
            Ok(()) => return Ok((output, errors)),
        }
    }
    Err(std::io::Error::other("the CGI spawner does not take jobs"))
}

/// The body as the child's standard input.
fn stdin(body: &Body) -> std::io::Result<OwnedFd> {
    match body {
        Body::Empty => nothing(),
        Body::File { file, read, .. } => {
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(*read))?; // what a handler read before is gone
            Ok(file.into())
        }
        Body::Memory { bytes, read } => {
            let (from, write) = sys::pipe(0)?;
            // A pipe holds 64 KiB, and a body in memory is not larger.
            File::from(write).write_all(&bytes[*read..])?;
            Ok(from)
        }
    }
}

/// /dev/null, opened once: it has no place in it that scripts could share.
fn nothing() -> std::io::Result<OwnedFd> {
    static NULL: OnceLock<File> = OnceLock::new();
    let null = match NULL.get() {
        Some(null) => null,
        None => {
            let opened = File::open("/dev/null")?;
            NULL.get_or_init(|| opened)
        }
    };
    Ok(null.try_clone()?.into())
}

/// A query without "=" is a list of words for the command line (RFC 3875 4.4).
fn isindex(request: &Request) -> Vec<Vec<u8>> {
    let Some(query) = request.args.as_deref() else { return Vec::new() };
    if query.is_empty() || query.contains(&b'=') {
        return Vec::new();
    }
    query.split(|&b| b == b'+').map(|word| escape_shell(&unescape(word))).collect()
}

/// Apache's `ap_escape_shell_cmd`: a script that hands its words to a shell gets them as words.
fn escape_shell(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    for &byte in word {
        if b"&;`'\"|*?~<>^()[]{}$\\\n\xff".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut bytes = word.iter();
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                out.push(decoded);
                bytes.nth(1);
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_query_are_unescaped() {
        assert_eq!(unescape(b"a%20b"), b"a b");
        assert_eq!(unescape(b"100%"), b"100%");
        assert_eq!(unescape(b"%zz"), b"%zz");
    }
}
