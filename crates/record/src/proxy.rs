//! The proxy as a value: it listens as long as it lives, and hands out what it has seen.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use drom_load::Trust;
use drom_observe::clock;
use drom_scenario::Exchange;

use crate::{
    Error,
    conversation::Conversation,
    head::{Refusal, Request},
    poll::{self, Interest},
    side::Side,
    upstream::Upstream,
};

/// More clients wait in the listen queue.
const CONNECTIONS_MAX: usize = 256;
const TICK: Duration = Duration::from_millis(100);
/// What is under way at the end looks up from waiting more often.
const END_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// The server's URL, without a path.
    pub to: String,
    pub trust: Trust,
    /// Pass `Host` on as the client sent it.
    pub keep_host: bool,
    /// Longest body of a request that is kept; requests with a longer one are passed on only.
    pub body_bytes_max: usize,
}

/// A request that is over.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// What the client got; 0 when it got nothing.
    pub status: u16,
    pub took_ns: u64,
    /// Of the answer.
    pub content_type: String,
    /// What can be repeated. Nothing when the request did not come whole, or the server no answer.
    pub exchange: Option<Exchange>,
    /// What was wrong.
    pub note: Option<String>,
}

/// What all conversations have in common.
pub struct Shared {
    pub upstream: Upstream,
    pub body_bytes_max: usize,
    pub stop: AtomicBool,
    connections: AtomicUsize,
    /// Requests that have come and are not told yet.
    under_way: AtomicUsize,
    seen: Sender<Seen>,
}

/// Ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    seen: Receiver<Seen>,
}

impl Proxy {
    pub fn start(options: &Options) -> Result<Self, Error> {
        let upstream = Upstream::resolve(&options.to, &options.trust, options.keep_host)?;
        let unusable = |source| Error::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).map_err(unusable)?;
        listener.set_nonblocking(true).map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let (sender, seen) = channel();
        let shared = Arc::new(Shared {
            upstream,
            body_bytes_max: options.body_bytes_max,
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            seen: sender,
        });
        let of_listener = Arc::clone(&shared);
        thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listen(&listener, &of_listener))
            .map_err(unusable)?;
        Ok(Self { address, shared, seen })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request that is over, if one is before so long.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<Seen> {
        self.seen.recv_timeout(within).ok()
    }

    /// Ends it; what was not handed out yet. A client has its answer a moment before that is told,
    /// and whoever ends the proxy may have waited for that answer. What has none by now gets none.
    #[must_use]
    pub fn end(self) -> Vec<Seen> {
        self.shared.stop.store(true, SeqCst);
        let until = clock::now() + END_WITHIN;
        while self.shared.under_way.load(SeqCst) > 0 && clock::now() < until {
            clock::sleep(Duration::from_millis(1));
        }
        self.seen.try_iter().collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
    }
}

impl Shared {
    pub fn tell(&self, seen: Seen) {
        // Nobody listens any more: the recording is over.
        let _ = self.seen.send(seen);
    }

    /// A request has come; it is under way as long as this lives.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, SeqCst);
        UnderWay(self)
    }
}

impl Seen {
    pub fn new(request: &Request, status: u16, took_ns: u64) -> Self {
        Self {
            method: request.method.clone(),
            path: request.target.clone(),
            status,
            took_ns,
            content_type: String::new(),
            exchange: None,
            note: None,
        }
    }

    /// Of a request that was none.
    pub fn refused(refusal: &Refusal) -> Self {
        Self {
            method: "-".to_owned(),
            path: "-".to_owned(),
            status: refusal.status,
            took_ns: 0,
            content_type: String::new(),
            exchange: None,
            note: Some(refusal.words.clone()),
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Relaxed) {
        let has_room = shared.connections.load(Relaxed) < CONNECTIONS_MAX;
        let descriptor = if has_room { listener.as_raw_fd() } else { -1 };
        let mut interest = [Interest { descriptor, events: libc::POLLIN, found: 0 }];
        if !matches!(poll::wait(&mut interest, TICK), Ok(true)) {
            continue;
        }
        match listener.accept() {
            Ok((socket, _)) => converse(socket, shared),
            // Out of descriptors, for one: it passes, but not at once.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => thread::sleep(TICK),
            Err(_) => {}
        }
    }
}

fn converse(socket: TcpStream, shared: &Arc<Shared>) {
    let Ok(client) = Side::new(socket, None) else { return };
    shared.connections.fetch_add(1, Relaxed);
    let place = Connected(Arc::clone(shared));
    // Without a thread the connection ends at once, and its place is free again.
    let _ = thread::Builder::new()
        .name("client".to_owned())
        .spawn(move || Conversation::new(&place.0, client).run());
}

/// One of the requests that are counted, however it ends.
pub struct UnderWay<'s>(&'s Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

/// One of the connections that are counted, however it ends.
struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// In front of a server that answers this to each connection's first request.
    fn before(answer: &'static str) -> Proxy {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("http://{}", server.local_addr().unwrap());
        thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in server.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
                held.push(stream);
            }
        });
        Proxy::start(&Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to,
            trust: Trust::default(),
            keep_host: false,
            body_bytes_max: 1024,
        })
        .unwrap()
    }

    fn ask(proxy: &Proxy) -> TcpStream {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.write_all(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        client
    }

    #[test]
    fn what_was_answered_before_the_end_is_told() {
        for round in 0..200 {
            let proxy = before("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let (mut client, mut got) = (ask(&proxy), Vec::new());
            while !got.ends_with(b"\r\n\r\nok") {
                let mut buffer = [0; 4096];
                let length = client.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..length]);
            }
            let seen = proxy.end();
            assert_eq!(seen.len(), 1, "in round {round}");
            assert!(seen[0].exchange.is_some() && seen[0].status == 200);
        }
    }

    #[test]
    fn a_server_that_says_nothing_holds_nobody_at_the_end() {
        let proxy = before("");
        let _client = ask(&proxy);
        while proxy.shared.under_way.load(SeqCst) == 0 {
            clock::sleep(Duration::from_millis(1));
        }
        let begin = clock::now();
        let seen = proxy.end();
        assert!(clock::now() - begin < END_WITHIN);
        assert_eq!(seen[0].note.as_deref(), Some("the recording ended"));
    }
}
