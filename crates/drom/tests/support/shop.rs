//! A small server with sessions, for scenarios: it tells its visitors apart by a cookie and wants
//! to hear on the second page what it said on the first. What it is asked is kept.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

#[derive(Clone)]
pub struct Shop {
    pub base: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Tokens of visitors, by cookie.
    visitors: HashMap<String, String>,
    /// Request lines in their order.
    asked: Vec<String>,
    connections: u64,
}

struct Request {
    line: String,
    cookie: String,
    host: String,
    body: String,
    closes: bool,
}

impl Shop {
    /// Lives as long as the test.
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let shop = Self { base, state: Arc::default() };
        let served = shop.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shop = served.clone();
                shop.state.lock().expect("no panic").connections += 1;
                // A client that goes away ends its thread.
                thread::spawn(move || shop.serve(stream));
            }
        });
        shop
    }

    pub fn asked(&self) -> Vec<String> {
        self.state.lock().expect("no panic").asked.clone()
    }

    /// How often a request line came that begins like this.
    pub fn times(&self, begin: &str) -> usize {
        self.asked().iter().filter(|line| line.starts_with(begin)).count()
    }

    pub fn visitors(&self) -> usize {
        self.state.lock().expect("no panic").visitors.len()
    }

    pub fn connections(&self) -> u64 {
        self.state.lock().expect("no panic").connections
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        loop {
            let request = read(&mut reader)?;
            let answer = self.answer(&request);
            stream.write_all(answer.as_bytes()).ok()?;
            if request.closes {
                return None;
            }
        }
    }

    fn answer(&self, request: &Request) -> String {
        let mut state = self.state.lock().expect("no panic");
        state.asked.push(request.line.clone());
        let token = state.visitors.get(&request.cookie).cloned();
        let path = request.line.split(' ').nth(1).unwrap_or("");
        match (request.line.split(' ').next(), path, token) {
            (Some("POST"), "/login", None) if request.body.starts_with("user=") => {
                let number = state.visitors.len();
                let (id, token) = (format!("id={number}"), format!("t{}", number * 7));
                state.visitors.insert(id.clone(), token.clone());
                let body = format!("{{\"user\": {{\"token\": \"{token}\"}}}}");
                page("200 OK", &format!("Set-Cookie: {id}; Path=/\r\n"), &body)
            }
            (_, path, Some(token)) if path == format!("/look/{token}") => {
                page("200 OK", "", "<title>Your page</title> you are known")
            }
            (_, "/old", _) => {
                page("302 Found", &format!("Location: http://{}/new\r\n", request.host), "")
            }
            (_, "/new", _) => page("200 OK", "", "here it is"),
            (_, "/none", _) => page("404 Not Found", "", "nothing"),
            (Some("GET"), "/" | "/a" | "/b", _) => page("200 OK", "", "hello"),
            _ => page("403 Forbidden", "", "who are you?"),
        }
    }
}

fn page(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let value = |name: &str| {
        let found = lines.iter().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_default().to_owned()
    };
    let mut body = vec![0; value("Content-Length: ").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        line: lines.first()?.clone(),
        cookie: value("Cookie: "),
        host: value("Host: "),
        body: String::from_utf8_lossy(&body).into_owned(),
        closes: value("Connection: ") == "close",
    })
}

/// Log in, look with what was told then, follow a redirect.
pub const SCENARIO: &str = r#"
[feeder.people]
file = "people.csv"
[[step]]
name = "log in"
url = "/login"
form = { user = "{{people.name}}" }
capture = { token = { json = "$.user.token" } }
[[step]]
name = "look"
url = "/look/{{token}}"
check = { title = "Your page", text = "known" }
[[step]]
name = "move"
url = "/old"
follow = 1
check = { text = "here it is", max_time = "5s" }
"#;

/// Writes it with what it needs; its path.
pub fn scenario(folder: &std::path::Path, base: &str, text: &str) -> String {
    std::fs::write(folder.join("people.csv"), "name\nann\nbob\ncleo\n").expect("written");
    let path = folder.join("shop.toml");
    std::fs::write(&path, format!("base = {base:?}\n{text}")).expect("written");
    path.to_str().expect("a path of text").to_owned()
}
