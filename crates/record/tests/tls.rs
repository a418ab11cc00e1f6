//! A server of https behind the proxy: both bodies pass, cookies lose what plain http cannot keep,
//! and a certificate that nobody trusts is a 502 that says so.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use drom_load::Trust;
use drom_record::{Options, Proxy};
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer};

const LENGTH: usize = 3_000_000;

/// Its address, and its certificate in a file of `folder`.
fn server(folder: &Path) -> (SocketAddr, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = folder.join("localhost.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    let (config, listener) = (Arc::new(config.unwrap()), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            thread::spawn(move || converse(StreamOwned::new(session, socket)));
        }
    });
    (address, file)
}

/// Sends a body of LENGTH back, with a cookie.
fn converse(stream: StreamOwned<ServerConnection, TcpStream>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if !matches!(stream.read_line(&mut line), Ok(1..)) {
                return;
            }
        }
        let mut body = vec![0; LENGTH];
        stream.read_exact(&mut body).unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\nSet-Cookie: a=b; Secure; Path=/\r\n\r\n"
        );
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        stream.get_mut().write_all(&body).unwrap();
    }
}

fn proxy(address: SocketAddr, trust: Trust) -> Proxy {
    let to = format!("https://localhost:{}", address.port());
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Proxy::start(&Options { listen, to, trust, keep_host: false, body_bytes_max: 4_000_000 })
        .unwrap()
}

/// Head and body of the answer to a PUT of `body`.
fn put(proxy: &Proxy, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let head = format!(
        "PUT /x HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end..].to_vec())
}

#[test]
fn bodies_pass_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (address, file) = server(folder.path());
    let body: Vec<u8> = (0..LENGTH).map(|at| (at * 7 + at / 251) as u8).collect();
    let trusts = [
        Trust { ca_file: Some(file), ..Trust::default() },
        Trust { insecure: true, ..Trust::default() },
    ];
    for trust in trusts {
        let proxy = proxy(address, trust);
        let (head, back) = put(&proxy, &body);
        assert!(back == body, "{} bytes came back", back.len());
        assert!(head.contains("Set-Cookie: a=b; Path=/\r\n"), "{head}");
        let seen = proxy.next(Duration::from_secs(10)).unwrap();
        let exchange = seen.exchange.unwrap();
        assert_eq!(exchange.url, format!("https://localhost:{}/x", address.port()));
        assert!(exchange.body == body);
    }
}

#[test]
fn a_certificate_that_nobody_trusts_is_a_502() {
    let folder = tempfile::tempdir().unwrap();
    let (address, _) = server(folder.path());
    let (_, other) = server(folder.path());
    let proxy = proxy(address, Trust { ca_file: Some(other), ..Trust::default() });
    let (head, body) = put(&proxy, b"abc");
    let body = String::from_utf8(body).unwrap();
    assert!(head.starts_with("HTTP/1.1 502 ") && body.contains("certificate"), "{head}{body}");
    let seen = proxy.next(Duration::from_secs(10)).unwrap();
    assert!(seen.exchange.is_none() && seen.note.is_some());
}
