//! The old tools over TLS through a proxy, which is asked for a way to the server.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use crate::openssl;

/// Makes the way to a port of this machine, whatever host it is asked for.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(port: u16, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                // A client or server that goes away ends it.
                thread::spawn(move || make_way(stream, port, answer, &all).unwrap_or_default());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("nobody panics with it").clone()
    }
}

fn make_way(
    mut client: TcpStream,
    port: u16,
    answer: &str,
    all: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let mut head = String::new();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        head += &(line + "|");
    }
    all.lock().expect("nobody panics with it").push(head);
    client.write_all(format!("HTTP/1.1 {answer}\r\nVia: test\r\n\r\n").as_bytes())?;
    let server = TcpStream::connect(("127.0.0.1", port))?;
    let (mut up, mut down) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let copied = io::copy(&mut up, &mut down);
        let shut = down.shutdown(std::net::Shutdown::Write);
        copied.and(shut.map(|()| 0))
    });
    io::copy(&mut &server, &mut client)?;
    client.shutdown(std::net::Shutdown::Both)
}

fn drom(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).output().expect("drom starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has_openssl() -> bool {
    let has = Path::new(openssl::OPENSSL).exists();
    if !has {
        eprintln!("skipped: there is no {}", openssl::OPENSSL);
    }
    has
}

#[test]
fn a_way_is_asked_for_and_taken() {
    if !has_openssl() {
        return;
    }
    let server = openssl::Server::start(&["rsa:2048"]);
    let proxy = Proxy::start(server.port, "200 Connection established");
    let url = format!("https://a.example:{}/x", server.port);
    let ab = drom(&format!("ab -l -n 3 -c 2 -P me:it -X {} {url}", proxy.address));
    let (report, why) = (text(&ab.stdout), text(&ab.stderr));
    assert!(
        report.contains("Complete requests:      3\nFailed requests:        0\n"),
        "{report}{why}"
    );
    assert!(report.contains("TLS Server Name:        a.example\n"), "{report}");
    let place = format!("a.example:{}", server.port);
    let wanted =
        format!("CONNECT {place} HTTP/1.0|Host: {place}|Proxy-Authorization: Basic bWU6aXQ=|");
    assert_eq!(proxy.asked(), vec![wanted; 3]);

    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("urls");
    std::fs::write(&list, &url).expect("written");
    let line = format!("http_load -p 1 -f 2 -proxy {} {}", proxy.address, list.display());
    let report = text(&drom(&line).stdout);
    assert!(report.starts_with("2 fetches, 1 max parallel, "), "{report}");
    assert_eq!(proxy.asked()[3..], vec![format!("CONNECT {place} HTTP/1.0|Host: {place}|"); 2]);
}

#[test]
fn a_proxy_that_refuses_ends_the_run_with_its_words() {
    let proxy = Proxy::start(1, "403 Not for you");
    let ab = drom(&format!("ab -n 3 -X {} https://a.example/", proxy.address));
    assert_eq!(ab.status.code(), Some(1));
    assert!(text(&ab.stderr).contains("HTTP/1.1 403 Not for you"), "{}", text(&ab.stderr));
}

#[test]
fn a_cipher_can_be_named() {
    if !has_openssl() {
        return;
    }
    let server = openssl::Server::start(&["rsa:2048"]);
    let named = "ECDHE-RSA-CHACHA20-POLY1305";
    let line = format!("ab -n 1 -f TLS1.2 -Z {named}:RC4-MD5 https://127.0.0.1:{}/", server.port);
    let ab = drom(&line);
    let protocol = format!("\nSSL/TLS Protocol:       TLSv1.2,{named},2048,256\n");
    assert!(text(&ab.stdout).contains(&protocol), "{}", text(&ab.stdout));
    assert!(text(&ab.stderr).contains("ab: -Z RC4-MD5: not spoken, left out\n"));
}
