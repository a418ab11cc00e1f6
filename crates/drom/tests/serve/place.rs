//! Where a server is found and as whom it serves: addresses, the PidFile, user and group.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output},
};

use crate::support::{Server, eventually};

const SHOW: &str = "print qq{Content-type: text/plain\\n\\n}, \
    join ' ', @ENV{qw(REMOTE_ADDR SERVER_ADDR)}, $< , $( ;";

/// A port that is free for every address now.
fn free_port() -> u16 {
    TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.rsplit("\r\n\r\n").next().unwrap().to_owned()
}

fn another(server: &Server, config: &str) -> Output {
    let file = server.path("another.conf");
    let root = server.dir.path().to_str().unwrap();
    std::fs::write(&file, config.replace("{}", root)).unwrap();
    Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_drom"), "serve", "-f"])
        .arg(&file)
        .output()
        .unwrap()
}

/// As Apache on Linux: a port alone is IPv6 and IPv4; both addresses for all can be named as well.
#[test]
fn a_port_alone_is_every_address_of_both_kinds() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("not tested: this machine has no IPv6");
        return;
    }
    for listen in ["Listen PORT", "Listen [::]:PORT", "Listen 0.0.0.0:PORT\nListen [::]:PORT"] {
        let port = free_port();
        let config = format!("{}\n", listen.replace("PORT", &port.to_string()));
        let _server = Server::start(&config, &[("perl/show.pl", SHOW)]);
        for ip in ["127.0.0.1", "::1"] {
            let said = get(SocketAddr::new(ip.parse().unwrap(), port), "/registry/show.pl");
            assert!(said.starts_with(&format!("{ip} {ip} ")), "{listen}: {said}");
        }
    }
}

#[test]
fn a_pid_file_of_a_server_that_lives_is_not_taken() {
    let mut server = Server::start("", &[]);
    let file = server.path("pid");
    let named = format!("Listen 127.0.0.1:0\nErrorLog {{}}/log\nPidFile {}\n", file.display());
    let output = another(&server, &named);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {} runs already", server.pid())), "{said}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written, format!("{}\n", server.pid()));
    server.terminate();
    assert!(!file.exists());
}

#[test]
fn a_start_that_fails_leaves_no_pid_file() {
    let server = Server::start("", &[("perl/bad.pl", "die 'no';\n")]);
    for why in ["ErrorLog {}/none/log", "PerlRequire {}/perl/bad.pl"] {
        let config = format!("Listen 127.0.0.1:0\nPidFile {{}}/other.pid\n{why}\n");
        assert_eq!(another(&server, &config).status.code(), Some(1), "{why}");
        assert!(!server.path("other.pid").exists(), "{why}");
    }
}

#[test]
fn a_group_alone_is_the_group_of_workers_and_root_is_warned_of() {
    // SAFETY: asks who runs this.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not tested: only root can serve as somebody else");
        return;
    }
    let server = Server::start("Group nogroup\n", &[("perl/show.pl", SHOW)]);
    let said = server.get("/registry/show.pl").text();
    let ids: Vec<&str> = said.split(' ').skip(2).collect();
    assert!(ids[0] == "0" && ids[1] != "0", "{said}");
    let warned = || server.error_log().contains("no User is set");
    assert!(eventually(std::time::Duration::from_secs(5), warned), "{}", server.error_log());
}

/// Who comes while the last requests are finished is refused at once, not kept waiting.
#[test]
fn a_server_that_ends_listens_no_more() {
    let slow = "select undef, undef, undef, 2; print qq{Content-type: text/plain\\n\\ndone};";
    let server = Server::start("", &[("perl/slow.pl", slow)]);
    let mut client = server.connect();
    client.send("GET /registry/slow.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    crate::support::kill(server.pid(), libc::SIGTERM);
    let refused = || TcpStream::connect(server.address).is_err();
    assert!(eventually(std::time::Duration::from_millis(1000), refused));
    assert_eq!(client.answer().unwrap().text(), "done");
}

/// Editors of other systems begin a file with a byte order mark and end lines with two characters.
#[test]
fn a_byte_order_mark_and_carriage_returns_are_no_part_of_a_directive() {
    let server = Server::start(
        "Include {}/other.conf\n",
        &[("other.conf", "\u{feff}ErrorDocument 404 \"not here\"\r\nKeepAlive Off\r\n")],
    );
    assert_eq!(server.get("/none").text(), "not here");
}
