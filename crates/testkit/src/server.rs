//! A scripted server on a thread of this process, and its handle.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::JoinHandle,
    time::Duration,
};

use drom_observe::clock;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::{
    counts::Counts,
    peer::Ledger,
    script::Script,
    serve::{Serve, Signs},
};

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    places: Places,
    counts: Arc<Mutex<Counts>>,
    signs: Arc<Signs>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Where a server can be reached.
#[derive(Debug)]
pub struct Places {
    pub address: SocketAddr,
    pub path: PathBuf,
}

impl Server {
    /// Starts one on a free port of the loopback interface and on a Unix socket of its own.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_pinned(script, None)
    }

    /// The same, on one core only.
    pub fn start_pinned(script: Script, core: Option<usize>) -> io::Result<Self> {
        let (listeners, places) = listen(script.backlog)?;
        let (counts, signs) = (Arc::new(Mutex::default()), Arc::new(Signs::default()));
        let (stop, told) = UnixStream::pair()?;
        let ledger = Ledger::new(script, Arc::clone(&counts));
        let serve = Serve::new(listeners, ledger, told, Arc::clone(&signs))?;
        let thread =
            std::thread::Builder::new().name("drom-testkit".to_owned()).spawn(move || {
                if let Some(core) = core {
                    drom_observe::pin_current_thread(&[core]).expect("the core may be used");
                }
                serve.run().expect("epoll works");
            })?;
        Ok(Self { places, counts, signs, stop: Some(stop), thread: Some(thread) })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.places.address
    }

    /// Of the Unix socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.places.path
    }

    /// What it has counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.lock().expect("nobody panics while counting").clone()
    }

    /// The counts when every connection that clients had begun before is accepted, read to its end
    /// and closed; `None` when that does not come in time. A connection of its own, the last in the
    /// queue, tells that there is none left. Clients over the Unix socket must have been accepted.
    #[must_use]
    pub fn settle(&self, longest: Duration) -> Option<Counts> {
        let sentinel = self.connect_sentinel().ok()?;
        let deadline = clock::now() + longest;
        while !self.signs.sentinel_came.load(SeqCst) || self.signs.open.load(SeqCst) > 0 {
            if clock::now() > deadline {
                return None;
            }
            clock::sleep(Duration::from_micros(200));
        }
        drop(sentinel);
        Some(self.counts())
    }

    fn connect_sentinel(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let own = socket.local_addr()?.as_socket().expect("bound to an IPv4 address");
        self.signs.sentinel_came.store(false, SeqCst);
        self.signs.sentinel.store(own.port(), SeqCst);
        socket.connect(&self.places.address.into())?;
        Ok(socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server must not hide the test's own.
            let _ = thread.join();
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listeners on TCP and on a Unix socket.
pub fn listen(backlog: u32) -> io::Result<(Vec<Socket>, Places)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("drom-testkit-{}-{}", std::process::id(), NUMBER.fetch_add(1, SeqCst));
    let path = std::env::temp_dir().join(name);
    // A process of the same number may have left one.
    let _ = std::fs::remove_file(&path);
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let tcp = bind(Domain::IPV4, &loopback.into(), backlog)?;
    let unix = bind(Domain::UNIX, &SockAddr::unix(&path)?, backlog)?;
    let address = tcp.local_addr()?.as_socket().expect("bound to an IPv4 address");
    Ok((vec![tcp, unix], Places { address, path }))
}

fn bind(domain: Domain, to: &SockAddr, backlog: u32) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(to)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}
