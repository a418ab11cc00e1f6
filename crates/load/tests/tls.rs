//! TLS against a server of rustls's own: who is trusted, who is not, and what it says.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use drom_load::{
    Engine, Error, ErrorKind, Outcome, Plan, Stop, Target, TlsVersion, Trust, Version, run,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring,
    pki_types::PrivateKeyDer, server::WebPkiClientVerifier,
};
use tempfile::TempDir;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An issuer of certificates, and the files that it writes.
struct Issuer {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Issuer {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        Self { folder: TempDir::new().expect("a folder"), issuer }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file
    }

    fn ca_file(&self) -> PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    /// Certificate and key for `name`.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.signed_by(&key, &self.issuer).expect("signed"), key)
    }

    /// A server with a certificate for `name`, which perhaps asks for one, too.
    fn server(&self, name: &str, asks: bool) -> SocketAddr {
        talk(self.config(name, asks), |_, stream| converse(stream))
    }

    fn config(&self, name: &str, asks: bool) -> ServerConfig {
        let (certificate, key) = self.issue(name);
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).expect("a root");
            let provider = Arc::new(ring::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = builder.with_single_cert(vec![certificate.der().clone()], key);
        config.expect("a configuration")
    }
}

type Talk = StreamOwned<ServerConnection, TcpStream>;

/// A server that has this conversation on connection `n`, from 0.
fn talk(config: ServerConfig, each: impl Fn(u64, Talk) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (config, each) = (Arc::new(config), Arc::new(each));
    thread::spawn(move || {
        for (number, socket) in (0..).zip(listener.incoming().flatten()) {
            socket.set_nodelay(true).expect("TCP");
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let each = Arc::clone(&each);
            thread::spawn(move || each(number, StreamOwned::new(session, socket)));
        }
    });
    address
}

/// Answers each request, whose head comes in one record; large answers to `/large`.
fn converse(mut stream: Talk) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let answer = if buffer[..length].starts_with(b"GET /large") {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
            [&head[..], &vec![b'x'; 1_000_000]].concat()
        } else {
            OK.to_vec()
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn plan(address: SocketAddr, name: &str, trust: Trust) -> Plan {
    let host = format!("{name}:{}", address.port());
    let target = Target { secure: true, host, ..Target::at(address, "/") };
    Plan { connections: 3, stop: Stop::Requests(60), trust, ..Plan::get(target) }
}

fn go(plan: &Plan) -> Result<Outcome, Error> {
    run(plan, &AtomicBool::new(false), &mut |_| {})
}

fn trusting(issuer: &Issuer) -> Trust {
    Trust { ca_file: Some(issuer.ca_file()), ..Trust::default() }
}

fn reason(plan: &Plan) -> String {
    go(plan).expect_err("no TLS").to_string()
}

#[test]
fn a_server_whose_issuer_is_trusted_is_loaded() {
    let issuer = Issuer::new();
    let address = issuer.server("example.org", false);
    let outcome = go(&plan(address, "example.org", trusting(&issuer))).expect("measured");
    assert_eq!((outcome.ok, outcome.failed, outcome.tls.count()), (60, 0, 3));
    let large =
        Target { path: "/large".to_owned(), ..plan(address, "x", trusting(&issuer)).target };
    let trust = Trust { insecure: true, ..Trust::default() };
    let outcome = go(&Plan { target: large, trust, ..plan(address, "x", trusting(&issuer)) });
    assert_eq!(outcome.map(|o| (o.ok, o.body_bytes)).expect("measured"), (60, 60_000_000));
}

#[test]
fn every_connection_has_its_handshake() {
    let issuer = Issuer::new();
    let plan = plan(issuer.server("a.example", false), "a.example", trusting(&issuer));
    for resume in [false, true] {
        let trust = Trust { resume, ..plan.trust.clone() };
        let outcome = go(&Plan { keepalive: false, trust, ..plan.clone() }).expect("measured");
        assert_eq!((outcome.ok, outcome.tls.count(), outcome.connect.count()), (60, 60, 60));
    }
}

#[test]
fn who_is_not_trusted_is_named() {
    let issuer = Issuer::new();
    let address = issuer.server("a.example", false);
    let stranger = reason(&plan(address, "a.example", trusting(&Issuer::new())));
    assert!(
        stranger.contains("invalid peer certificate") && stranger.contains("--insecure"),
        "{stranger}"
    );
    let other = reason(&plan(address, "b.example", trusting(&issuer)));
    assert!(other.contains("not valid for name"), "{other}");
    let trust = Trust { insecure: true, ..Trust::default() };
    assert_eq!(go(&plan(address, "b.example", trust)).expect("measured").ok, 60);
}

#[test]
fn a_certificate_that_the_user_names_is_good_by_itself() {
    let issuer = Issuer::new();
    let (certificate, key) = (issuer.issuer.as_ref(), issuer.issuer.key());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    let address = talk(config.expect("a configuration"), |_, stream| converse(stream));
    let outcome = go(&plan(address, "any.example", trusting(&issuer)));
    assert_eq!(outcome.expect("measured").ok, 60);
}

#[test]
fn a_server_may_ask_who_we_are() {
    let issuer = Issuer::new();
    let address = issuer.server("a.example", true);
    let trust = trusting(&issuer);
    let (certificate, key) = issuer.issue("client.example");
    let files = (
        issuer.file("client.pem", &certificate.pem()),
        issuer.file("client.key", &key.serialize_pem()),
    );
    let shown = Trust { client_files: Some(files.clone()), ..trust.clone() };
    assert_eq!(go(&plan(address, "a.example", shown)).expect("measured").ok, 60);
    // TLS 1.3 lets a client speak before it hears that its certificate is missing.
    let said = reason(&plan(address, "a.example", trust.clone()));
    assert!(said.contains("to see a certificate: name one with --cert and --key"), "{said}");
    // That of TLS 1.2 is a handshake that failed.
    let old = Trust { only: Some(TlsVersion::V12), ..trust.clone() };
    for _ in 0..5 {
        let said = reason(&plan(address, "a.example", old.clone()));
        assert!(said.contains("to see a certificate: name one with --cert and --key"), "{said}");
    }
    let swapped = Trust { client_files: Some((files.1, files.0)), ..trust };
    let said = reason(&plan(address, "a.example", swapped));
    assert!(said.contains("client.key") && said.contains("no PEM certificate"), "{said}");
}

/// A record that nobody can read.
const BROKEN: &[u8] = b"\x17\x03\x03\x00\x20abcdefghabcdefghabcdefghabcdefgh";

/// Between a client and a server, until one of them leaves; the server's first words perhaps
/// broken, and late enough that another thread has its answers by then.
fn relay(mut client: TcpStream, server: SocketAddr, breaks: bool) {
    let mut server = TcpStream::connect(server).expect("it listens");
    let (mut back, mut forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        if breaks {
            thread::sleep(Duration::from_millis(50));
            let _ = forth.read(&mut [0; 8_192]);
            let _ = back.write_all(BROKEN);
        }
        let _ = std::io::copy(&mut forth, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = std::io::copy(&mut client, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
}

/// The first handshake is no more than any other, unless all are like it.
#[test]
fn a_server_that_fails_some_handshakes_is_measured() {
    let issuer = Issuer::new();
    let whole = issuer.server("a.example", false);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (number, mut client) in listener.incoming().flatten().enumerate() {
            if number % 3 == 0 {
                let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                continue;
            }
            relay(client, whole, false);
        }
    });
    let each = plan(address, "a.example", trusting(&issuer));
    for (connections, threads) in [(3, 1), (1, 1), (2, 2)] {
        let plan = Plan { keepalive: false, connections, threads, ..each.clone() };
        let outcome = go(&plan).expect("measured");
        assert_eq!((outcome.ok, outcome.errors[&ErrorKind::Tls]), (40, 20));
    }
}

/// The last flight of the handshake and the first frames are written one behind the other, and a
/// ring has one send under way at a time.
#[test]
fn http_2_over_tls_is_greeted_on_either_engine() {
    let issuer = Issuer::new();
    let mut config = issuer.config("a.example", false);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&asked);
    let address = talk(config, move |number, stream| talk_http_2(stream, number % 4 == 3, &seen));
    for engine in [Engine::Epoll, Engine::IoUring] {
        let plan = plan(address, "a.example", trusting(&issuer));
        let plan = Plan { version: Version::Http2, engine, ..plan };
        let outcome = go(&plan).expect("measured");
        assert_eq!((outcome.ok, outcome.failed), (60, 0), "{engine:?}: {:?}", outcome.errors);
        // What it says before it closes is heard though the client's records are stuck.
        let (method, body) = ("POST".to_owned(), vec![b'x'; 8_000_000]);
        let keepalive_of_two = Some(2);
        let plan = Plan { method, body, answers_per_connection: keepalive_of_two, ..plan };
        let outcome = go(&Plan { stop: Stop::Requests(24), ..plan }).expect("measured");
        assert_eq!((outcome.ok, outcome.failed), (24, 0), "{engine:?}: {:?}", outcome.errors);
        assert!(outcome.resent > 0, "nobody was turned away");
    }
    assert!(asked.load(SeqCst) > 0);
}

/// SETTINGS and large windows, and to the end of each request status 200; or words of leave to the
/// first one, and a reset.
fn talk_http_2(mut stream: Talk, leaves: bool, asked: &AtomicU64) {
    const GREETING: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\
                              \0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";
    const GONE: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut head = [0; 9];
    if stream.read_exact(&mut [0; 24]).is_err() || stream.write_all(GREETING).is_err() {
        return;
    }
    while stream.read_exact(&mut head).is_ok() {
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        let (is_headers, is_end) = (head[3] == 1, head[3] <= 1 && head[4] & 1 == 1);
        asked.fetch_add(u64::from(is_headers), SeqCst);
        if is_headers && leaves {
            let _ = stream.write_all(GONE);
            return;
        }
        let answer = [b"\0\0\x01\x01\x05", &head[5..9], b"\x88"].concat();
        if is_end && stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Whichever thread it meets, and in the middle of the handshake.
#[test]
fn a_server_that_breaks_every_second_connection_is_measured() {
    let issuer = Issuer::new();
    let whole = issuer.server("a.example", false);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            relay(client, whole, number % 2 == 0);
        }
    });
    let window = Stop::After(Duration::from_millis(600));
    let plan = plan(address, "a.example", trusting(&issuer));
    let plan = Plan { connections: 2, threads: 2, stop: window, ..plan };
    let outcome = go(&plan).expect("measured");
    assert!(outcome.ok > 0 && outcome.errors[&ErrorKind::Tls] > 0, "{:?}", outcome.errors);
}

/// However many threads ask: one of them may have all that there is.
#[test]
fn a_server_that_lets_one_in_is_measured() {
    let issuer = Issuer::new();
    let whole = issuer.server("a.example", false);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let mut clients = listener.incoming().flatten();
        relay(clients.next().expect("the first"), whole, false);
        for other in clients {
            thread::sleep(Duration::from_millis(50));
            drop(other);
        }
    });
    let window = Stop::After(Duration::from_millis(600));
    let plan = plan(address, "a.example", trusting(&issuer));
    let plan = Plan { connections: 2, threads: 2, stop: window, ..plan };
    let outcome = go(&plan).expect("measured");
    assert!(outcome.ok > 0 && outcome.errors[&ErrorKind::Tls] >= 4, "{:?}", outcome.errors);
}

/// Long before the first answer, and in the thread that waits for it.
#[test]
fn a_server_that_breaks_connections_behind_their_handshake_is_measured() {
    let issuer = Issuer::new();
    let address = talk(issuer.config("a.example", false), |number, mut stream| {
        while let Ok(1..) = stream.read(&mut [0; 4096]) {
            if number % 2 == 0 {
                let _ = stream.sock.write_all(BROKEN);
                return;
            }
            thread::sleep(Duration::from_millis(100));
            let _ = stream.write_all(OK);
        }
    });
    let window = Stop::After(Duration::from_millis(500));
    let each = plan(address, "a.example", trusting(&issuer));
    for (connections, threads) in [(6, 1), (20, 1), (8, 2)] {
        let outcome = go(&Plan { connections, threads, stop: window, ..each.clone() });
        let outcome = outcome.expect("measured");
        assert!(outcome.ok > 0 && outcome.errors[&ErrorKind::Tls] > 0, "{:?}", outcome.errors);
    }
}

/// While most wait for an answer that takes long.
#[test]
fn one_connection_that_breaks_again_and_again_ends_no_run() {
    let issuer = Issuer::new();
    let address = talk(issuer.config("a.example", false), |number, mut stream| {
        while let Ok(1..) = stream.read(&mut [0; 4096]) {
            if number >= 3 {
                let _ = stream.sock.write_all(BROKEN);
                return;
            }
            thread::sleep(Duration::from_millis(1_500));
            let _ = stream.write_all(OK);
        }
    });
    let window = Stop::After(Duration::from_millis(1_900));
    let plan = plan(address, "a.example", trusting(&issuer));
    let outcome = go(&Plan { connections: 4, stop: window, ..plan }).expect("measured");
    assert_eq!(outcome.ok, 3, "{:?}", outcome.errors);
    assert!(outcome.errors[&ErrorKind::Tls] > 4, "{:?}", outcome.errors);
}

/// In another thread, or in a handshake that takes long.
#[test]
fn who_waits_since_before_the_first_refusal_has_hope() {
    let issuer = Issuer::new();
    let slow = Duration::from_millis(1_200);
    for (threads, is_handshake) in [(2, false), (1, true), (2, true)] {
        let address = talk(issuer.config("a.example", false), move |number, mut stream| {
            if number >= 2 {
                let _ = stream.read(&mut [0; 4096]).and_then(|_| stream.sock.write_all(BROKEN));
                return;
            }
            if !is_handshake {
                let _ = stream.read(&mut [0; 4096]);
            }
            thread::sleep(slow);
            if !is_handshake {
                let _ = stream.write_all(OK);
            }
            converse(stream);
        });
        let window = Stop::After(Duration::from_millis(1_600));
        let plan = plan(address, "a.example", trusting(&issuer));
        let outcome = go(&Plan { connections: 4, threads, stop: window, ..plan });
        let outcome = outcome.unwrap_or_else(|error| panic!("{threads} threads: {error}"));
        assert!(outcome.ok > 0, "{threads} threads: {:?}", outcome.errors);
        assert!(outcome.errors[&ErrorKind::Tls] > 4, "{:?}", outcome.errors);
    }
}

/// Connects that the kernel tries again after a second are no reason to go on.
#[test]
fn a_short_listen_queue_hides_no_refusal() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    socket.bind(&any.into()).and_then(|()| socket.listen(1)).expect("a port");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let trust = Trust { insecure: true, ..Trust::default() };
    let each = plan(address, "a.example", trust);
    for (stop, timeout_ms) in [(Stop::After(Duration::from_secs(4)), 10_000), (each.stop, 500)] {
        let timeout = Duration::from_millis(timeout_ms);
        let begun = std::time::Instant::now();
        let said = reason(&Plan { connections: 50, stop, timeout, ..each.clone() });
        assert!(said.contains("is this a port for plain http?"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

/// Some fail in another way, too: what is wrong with most is told all the same.
#[test]
fn most_refusals_are_told_beside_some_timeouts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let mut silent = Vec::new();
        for (number, mut client) in listener.incoming().flatten().enumerate() {
            if number % 5 == 0 {
                silent.push(client);
                continue;
            }
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let trust = Trust { insecure: true, ..Trust::default() };
    let timeout = Duration::from_millis(200);
    let plan = plan(address, "a.example", trust);
    let said = reason(&Plan { connections: 10, timeout, ..plan });
    assert!(said.contains("is this a port for plain http?"), "{said}");
}

/// What was read before it is not asked again.
#[test]
fn all_answers_in_front_of_a_broken_record_are_whole() {
    let issuer = Issuer::new();
    let answered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&answered);
    let address = talk(issuer.config("a.example", false), move |_, mut stream| {
        let (mut asked, mut buffer) = (0, [0; 4096]);
        while asked < 4 {
            let Ok(length @ 1..) = stream.read(&mut buffer) else { return };
            asked += buffer[..length].windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
        }
        let _ = stream.conn.writer().write_all(&OK.repeat(asked));
        let mut bytes = Vec::new();
        let _ = stream.conn.write_tls(&mut bytes);
        bytes.extend_from_slice(BROKEN);
        let _ = stream.sock.write_all(&bytes);
        count.fetch_add(asked as u64, SeqCst);
        let _ = stream.sock.read(&mut buffer);
    });
    for engine in [Engine::Epoll, Engine::IoUring] {
        answered.store(0, SeqCst);
        let plan = plan(address, "a.example", trusting(&issuer));
        let plan = Plan { connections: 1, depth: 4, stop: Stop::Requests(40), engine, ..plan };
        let outcome = go(&plan).expect("measured");
        let seen = (outcome.ok, outcome.failed, outcome.resent);
        assert_eq!(seen, (40, 0, 0), "{engine:?}: {:?}", outcome.errors);
        assert_eq!(answered.load(SeqCst), 40, "{engine:?}");
    }
}

/// Whether it counts is no matter of where segments end.
#[test]
fn an_answer_in_front_of_a_broken_record_is_whole() {
    let issuer = Issuer::new();
    let address = talk(issuer.config("a.example", false), |_, mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.conn.writer().write_all(OK);
        let mut bytes = Vec::new();
        let _ = stream.conn.write_tls(&mut bytes);
        bytes.extend_from_slice(BROKEN);
        let _ = stream.sock.write_all(&bytes);
        let _ = stream.sock.read(&mut [0; 4096]);
    });
    for engine in [Engine::Epoll, Engine::IoUring] {
        let plan = plan(address, "a.example", trusting(&issuer));
        let plan = Plan { connections: 1, engine, stop: Stop::Requests(20), ..plan };
        let outcome = go(&plan).expect("measured");
        // It has answered all that it was asked, and is no good for another request.
        assert_eq!((outcome.ok, outcome.failed), (20, 0), "{engine:?}: {:?}", outcome.errors);
    }
}

/// Nobody is answered, but not for want of TLS.
#[test]
fn one_broken_handshake_among_silent_connections_is_one() {
    let issuer = Issuer::new();
    let address = talk(issuer.config("a.example", false), |number, mut stream| {
        while number > 0 && matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
    });
    let window = Stop::After(Duration::from_millis(500));
    let plan = plan(address, "a.example", trusting(&issuer));
    let timeout = Duration::from_millis(200);
    let outcome = go(&Plan { timeout, stop: window, ..plan }).expect("counted");
    assert_eq!(outcome.errors[&ErrorKind::Tls], 1, "{:?}", outcome.errors);
    assert!(outcome.errors[&ErrorKind::Timeout] > 1, "{:?}", outcome.errors);
}

#[test]
fn a_port_without_tls_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let trust = Trust { insecure: true, ..Trust::default() };
    let said = reason(&plan(address, "a.example", trust.clone()));
    assert!(said.contains("is this a port for plain http?"), "{said}");
    let closing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closing.local_addr().expect("an address");
    thread::spawn(move || closing.incoming().for_each(drop));
    let said = reason(&plan(address, "a.example", trust));
    assert!(said.contains("the server closed the connection") || said.contains("reset"), "{said}");
}
