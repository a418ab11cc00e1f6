//! The proxy as a value: it listens as long as it lives, and hands out what it has seen.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use drom_load::Trust;
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

/// One of the connections that are counted, however it ends.
struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}
