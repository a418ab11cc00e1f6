//! A server for tests of the old tools: it answers by path and number of the request, the same in
//! each run, and keeps what it was asked.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

pub struct Recording {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    peers: Arc<Mutex<Vec<IpAddr>>>,
}

impl Recording {
    pub fn start() -> Self {
        Self::of(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    /// `None` where there is no IPv6.
    pub fn start_v6() -> Option<Self> {
        TcpListener::bind("[::1]:0").ok().map(Self::of)
    }

    fn of(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let peers = Arc::new(Mutex::new(Vec::new()));
        let (all, seen) = (Arc::clone(&requests), Arc::clone(&peers));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let peer = stream.peer_addr().map(|peer| peer.ip());
                seen.lock().expect("nobody panics with it").extend(peer);
                let all = Arc::clone(&all);
                thread::spawn(move || serve(stream, &all));
            }
        });
        Self { address, requests, peers }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where connections came from, in their order.
    pub fn peers(&self) -> Vec<IpAddr> {
        self.peers.lock().expect("nobody panics with it").clone()
    }

    /// With the address as `HOST`, so that servers can be compared.
    pub fn requests(&self) -> Vec<String> {
        let address = self.address.to_string();
        let requests = self.requests.lock().expect("nobody panics with it");
        requests.iter().map(|request| request.replace(&address, "HOST")).collect()
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<String>>) {
    while let Some(request) = read(&mut stream) {
        let number = {
            let mut all = all.lock().expect("nobody panics with it");
            all.push(request.clone());
            all.len()
        };
        if !answer(&mut stream, &request, number) {
            return;
        }
    }
}

/// A request with its body.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |n| n.parse().unwrap_or(0)) {
                return Some(text);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Whether the connection goes on.
fn answer(stream: &mut TcpStream, request: &str, number: usize) -> bool {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let is_fifth = number.is_multiple_of(5);
    let keeps = request.contains("Keep-Alive");
    let status = if path.contains("404") { "404 Not Found" } else { "200 OK" };
    let body = match path {
        _ if path.contains("var") => "x".repeat(10 + number % 3),
        _ if path.contains("number") => format!("{number:09}\n"),
        _ if path.contains("large") => "x".repeat(1_500),
        _ => "hello\n".to_owned(),
    };
    let connection = if keeps { "Keep-Alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: test/1.0 (x)\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: {connection}\r\n\r\n",
        body.len()
    );
    match path {
        _ if path.contains("hang") => thread::sleep(Duration::from_secs(20)),
        _ if path.contains("slow") => thread::sleep(Duration::from_millis(50)),
        _ => {}
    }
    let whole = if request.starts_with("HEAD") { head } else { head + &body };
    let cut = match path {
        _ if path.contains("short") && is_fifth => whole.len() - 3,
        _ if path.contains("close") && is_fifth => 0,
        _ => whole.len(),
    };
    if path.contains("reset") && is_fifth {
        reset(stream);
        return false;
    }
    // A client that went away is its own business.
    let written = stream.write_all(&whole.as_bytes()[..cut]);
    written.is_ok() && keeps && cut == whole.len()
}

/// The close that follows is a reset.
fn reset(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of_val(&linger) as libc::socklen_t;
    let (level, name, value) = (libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast());
    // SAFETY: the option's value lives through the call and has the length that is told.
    let set = unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, value, length) };
    assert_eq!(set, 0, "the socket is ours and open");
}
