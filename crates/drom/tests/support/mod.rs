//! A real `drom serve` in a folder of its own, and a small HTTP client to talk to it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A server that is stopped, with all its processes, when the value goes.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
}

/// What is in every configuration of these tests; `{}` is the folder.
const BASE: &str = "\
ServerRoot {}
DocumentRoot {}/htdocs
Listen 127.0.0.1:0
PidFile {}/pid
ErrorLog {}/error.log
LogLevel info
MaxKeepAliveRequests 0
Timeout 30
PerlSwitches -I{}/lib
ScriptAlias /cgi-bin/ {}/cgi-bin/
Alias /registry/ {}/perl/
Alias /perlrun/ {}/perl/
<Location /registry>
  SetHandler perl-script
  PerlResponseHandler ModPerl::Registry
  Options +ExecCGI
  PerlOptions +ParseHeaders
</Location>
<Location /perlrun>
  SetHandler perl-script
  PerlResponseHandler ModPerl::PerlRun
  Options +ExecCGI
  PerlOptions +ParseHeaders
</Location>
";

impl Server {
    /// Starts a server with this added to the base configuration and these files in its folder.
    pub fn start(config: &str, files: &[(&str, &str)]) -> Self {
        Self::start_by(&[], config, files)
    }

    /// The same, started by another program that becomes it, as `nice` does; `{}` is the folder
    /// here too.
    pub fn start_by(program: &[&str], config: &str, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["htdocs", "cgi-bin", "perl", "lib"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        for (name, text) in files {
            put(dir.path(), name, text);
        }
        let root = dir.path().to_str().unwrap();
        let text = format!("{BASE}{config}").replace("{}", root);
        std::fs::write(dir.path().join("httpd.conf"), text).unwrap();
        let program: Vec<String> = program.iter().map(|word| word.replace("{}", root)).collect();
        let (child, address) = spawn(&program, dir.path());
        Self { child, address, dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        put(self.dir.path(), name, text);
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn connect(&self) -> Client {
        Client::new(self.address)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.connect().get(path)
    }

    pub fn error_log(&self) -> String {
        std::fs::read_to_string(self.path("error.log")).unwrap_or_default()
    }

    /// Waits until the error log holds this text.
    pub fn logged(&self, text: &str) -> bool {
        eventually(Duration::from_secs(5), || self.error_log().contains(text))
    }

    /// Runs `drom serve --reload` and returns its exit status and what it said.
    pub fn reload(&self) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_drom"))
            .args(["serve", "--reload", "-f"])
            .arg(self.path("httpd.conf"))
            .output()
            .unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// SIGTERM; the exit status, when it came in time.
    pub fn terminate(&mut self) -> Option<i32> {
        kill(self.pid(), libc::SIGTERM);
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Every process that descends from the server.
    /// One of its workers, as soon as there is one.
    pub fn worker(&self) -> i32 {
        let mut found = None;
        let is_there = eventually(Duration::from_secs(10), || {
            found = self.descendants().into_iter().find(|pid| helper(*pid).is_some());
            found.is_some()
        });
        found.filter(|_| is_there).expect("a worker")
    }

    pub fn descendants(&self) -> Vec<i32> {
        descendants(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let family = self.descendants();
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.terminate();
        }
        for pid in family.into_iter().chain([self.pid()]) {
            kill(pid, libc::SIGKILL);
        }
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- error log ---\n{}", self.error_log());
        }
    }
}

fn spawn(program: &[String], dir: &Path) -> (Child, SocketAddr) {
    let mut words = program.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_drom")]);
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .args(["serve", "-f"])
        .arg(dir.join("httpd.conf"))
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").and_then(|a| a.parse().ok());
    match address {
        Some(address) => (child, address),
        None => {
            let log = std::fs::read_to_string(dir.join("error.log")).unwrap_or_default();
            panic!("the server did not start: {line:?} {:?}\n{log}", child.wait());
        }
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let root = dir.to_str().unwrap();
    std::fs::write(&path, text.replace("{}", root)).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The thread of a worker that runs no Perl.
pub fn helper(pid: i32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    let name = |tid: i32| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
    tids.into_iter().find(|tid| name(*tid).is_ok_and(|name| name == "drom-helper\n"))
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::kill(pid, signal) };
}

pub fn alive(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

pub fn descendants(pid: i32) -> Vec<i32> {
    let mut all = Vec::new();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|w| w.parse().ok()) {
            all.push(child);
            all.extend(descendants(child));
        }
    }
    all
}

/// True as soon as `check` is, false when it was not for so long.
pub fn eventually(within: Duration, mut check: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + within;
    loop {
        if check() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One connection.
pub struct Client {
    pub stream: TcpStream,
    left: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, left: Vec::new() }
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.answer().unwrap_or_else(|| panic!("no answer to GET {path}"))
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n",
            body.len()
        );
        self.send(&head);
        self.stream.write_all(body).unwrap();
        self.answer().unwrap_or_else(|| panic!("no answer to POST {path}"))
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next answer; `None` when the connection ends before a whole one came.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    pub fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.left.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            self.more()?;
        };
        let head = String::from_utf8_lossy(&self.left[..end]).into_owned();
        self.left.drain(..end + 4);
        let status = head.get(9..12)?.parse().ok()?;
        let mut answer = Answer { status, head, body: Vec::new() };
        if method == "HEAD" || status == 304 || status == 204 || status < 200 {
            return Some(answer);
        }
        if let Some(length) = answer.header("Content-Length") {
            let length: usize = length.parse().ok()?;
            while self.left.len() < length {
                self.more()?;
            }
            answer.body = self.left.drain(..length).collect();
        } else if answer.header("Transfer-Encoding").is_some() {
            answer.body = self.chunks()?;
        } else {
            while self.more().is_some() {}
            answer.body = std::mem::take(&mut self.left);
        }
        Some(answer)
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.left.windows(2).position(|w| w == b"\r\n") {
                    break at;
                }
                self.more()?;
            };
            let size = std::str::from_utf8(&self.left[..end]).ok()?;
            let size = usize::from_str_radix(size, 16).ok()?;
            while self.left.len() < end + 2 + size + 2 {
                self.more()?;
            }
            body.extend_from_slice(&self.left[end + 2..end + 2 + size]);
            self.left.drain(..end + 2 + size + 2);
            if size == 0 {
                return Some(body);
            }
        }
    }

    fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) | Err(_) => None,
            Ok(got) => {
                self.left.extend_from_slice(&buffer[..got]);
                Some(())
            }
        }
    }

    /// Whether the server closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.more().is_none()
    }
}
