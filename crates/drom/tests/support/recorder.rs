//! `drom record` as a process, and a small server behind it that answers as its path says.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use drom_scenario::Scenario;

pub struct Recorder {
    child: Child,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
    said: Arc<Mutex<String>>,
    listener: Option<thread::JoinHandle<()>>,
}

/// What is left of a recorder that has ended.
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Recorder {
    /// In front of this URL, writing `file()`.
    pub fn start(to: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
        command.args(["record", "--listen", "127.0.0.1:0", "--to", to]).args(flags);
        if !flags.contains(&"-o") {
            command.arg("-o").arg(&file);
        }
        let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let (mut stderr, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        stderr.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|text| text.split(' ').next());
        let address = address.and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("it did not start: {line}"));
        let said = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&said);
        let listener = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *into.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, address, dir, said, listener: Some(listener) }
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("out.toml")
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The scenario so far, or nothing.
    pub fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    /// Peak of the memory that it had.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Ended {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until && self.child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.try_wait().unwrap().and_then(|status| status.code());
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take().filter(|_| status.is_some()) {
            pipe.read_to_string(&mut stdout).unwrap();
        }
        if let Some(listener) = self.listener.take().filter(|_| status.is_some()) {
            listener.join().unwrap();
        }
        Ended { status, stdout, stderr: self.said() }
    }

    pub fn interrupt(&mut self) -> Ended {
        // SAFETY: no pointers.
        unsafe { libc::kill(self.pid(), libc::SIGINT) };
        self.wait()
    }

    /// Ctrl-C; the file, which is a scenario.
    pub fn scenario(&mut self) -> String {
        let ended = self.interrupt();
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        Scenario::read(&self.file(), &[]).unwrap();
        self.text()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- drom record ---\n{}", self.said());
        }
    }
}

/// The server behind it.
#[derive(Clone)]
pub struct Behind {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Behind {
    /// Each connection is the business of `serve`.
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
        let counted = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Relaxed);
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Self { address, connections }
    }

    pub fn usual() -> Self {
        Self::start(|stream| {
            let mut stream = BufReader::new(stream);
            while let Some(asked) = Asked::read(&mut stream) {
                if asked.answer(stream.get_mut()).is_none() {
                    return;
                }
            }
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A request as the server saw it.
pub struct Asked {
    pub head: String,
    pub body_bytes: usize,
    /// A sum over the body that tells whether it is the one that was sent.
    pub sum: u64,
}

impl Asked {
    pub fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let head = head(stream)?;
        let lower = head.to_ascii_lowercase();
        if lower.contains("\r\nexpect: 100-continue") {
            stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        let mut asked = Self { head, body_bytes: 0, sum: 0 };
        let length = lower.split("\r\ncontent-length: ").nth(1).and_then(|t| t.lines().next());
        if let Some(length) = length {
            asked.take(stream, length.parse().unwrap())?;
        } else if lower.contains("\r\ntransfer-encoding: chunked") {
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).ok()?;
                let size = usize::from_str_radix(line.trim(), 16).ok()?;
                asked.take(stream, size)?;
                line.clear();
                stream.read_line(&mut line).ok()?;
                if size == 0 {
                    break;
                }
            }
        }
        Some(asked)
    }

    fn take(&mut self, stream: &mut BufReader<TcpStream>, mut left: usize) -> Option<()> {
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            let most = left.min(buffer.len());
            let length = stream.read(&mut buffer[..most]).ok().filter(|length| *length > 0)?;
            self.sum = sum(self.sum, &buffer[..length]);
            self.body_bytes += length;
            left -= length;
        }
        Some(())
    }

    fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// As the path says; nothing when that ends the connection.
    fn answer(&self, to: &mut TcpStream) -> Option<()> {
        let plain = |fields: &str, body: &str| {
            let length = body.len();
            let body = if self.head.starts_with("HEAD ") { "" } else { body };
            format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
        };
        let (path, size) = self.path().split_once('?').unwrap_or((self.path(), "0"));
        let text = match path {
            "/see" => plain("Content-Type: text/plain\r\n", &self.head),
            "/sum" => plain("", &format!("{} {}", self.body_bytes, self.sum)),
            "/style.css" => plain("Content-Type: text/css; charset=utf-8\r\n", "a {}"),
            "/chunked" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                           1\r\nh\r\n00004;a=b\r\nello \r\n0\r\nX-Late: 1\r\n\r\n"
                .replace("ello ", "ello"),
            "/close" => "HTTP/1.0 200 OK\r\nX: 1\r\n\r\nuntil the end".to_owned(),
            "/cut-chunk" => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsh".to_owned()
            }
            "/cut" => "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort".to_owned(),
            "/login" => format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{}/home\r\nContent-Length: 0\r\n\
                 Set-Cookie: session=s3cret; Domain=127.0.0.1; Path=/\r\n\r\n",
                to.local_addr().ok()?
            ),
            "/early" => {
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_owned() + &plain("", "late")
            }
            "/big" => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
                to.write_all(head.as_bytes()).ok()?;
                return send(to, size.parse().unwrap());
            }
            _ => plain("", "hello"),
        };
        to.write_all(text.as_bytes()).ok()?;
        (!matches!(path, "/close" | "/cut" | "/cut-chunk")).then_some(())
    }
}

/// Everything up to the empty line, and with it.
pub fn head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut head, mut line) = (String::new(), String::new());
    while line != "\r\n" {
        line.clear();
        if !matches!(stream.read_line(&mut line), Ok(1..)) {
            return None;
        }
        head += &line;
    }
    Some(head)
}

pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// So many bytes, in pieces.
fn send(to: &mut TcpStream, mut left: usize) -> Option<()> {
    let piece = pattern(64 * 1024);
    while left > 0 {
        let most = left.min(piece.len());
        to.write_all(&piece[..most]).ok()?;
        left -= most;
    }
    Some(())
}

pub fn sum(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}
