//! The loop of a server: listeners, connections, timers, on one thread.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    io,
    os::fd::AsRawFd,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use drom_observe::{
    clock::{monotonic_ns, sleep},
    thread_cpu::ThreadCpu,
};
use socket2::{SockAddr, Socket};

use crate::{
    peer::{Ledger, Peer},
    poll::Poll,
    script::Window,
};

const STOP: u64 = 0;
/// Listeners have the tokens from 1 on, connections those from here on.
const FIRST_PEER: u64 = 8;
const BUFFER_BYTES: usize = 64 * 1024;
const WAIT_MAX: Duration = Duration::from_millis(100);
/// As late as most sleeps end on a virtual machine: the rest is spent looking.
const SLEEP_LATE: Duration = Duration::from_micros(60);

/// What the server's handle sees and says.
#[derive(Debug, Default)]
pub struct Signs {
    /// The port of the connection that is the last one.
    pub sentinel: AtomicU16,
    pub sentinel_came: AtomicBool,
    pub open: AtomicUsize,
}

pub struct Serve {
    poll: Poll,
    listeners: Vec<Socket>,
    is_deaf: bool,
    stop: UnixStream,
    signs: Arc<Signs>,
    ledger: Ledger,
    began_ns: u64,
    peers: HashMap<u64, Peer>,
    next_token: u64,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Serve {
    /// A server that ends when the other end of `stop` is closed.
    pub fn new(
        listeners: Vec<Socket>,
        ledger: Ledger,
        stop: UnixStream,
        signs: Arc<Signs>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&stop, STOP)?;
        let began_ns = ledger.now_ns;
        Ok(Self {
            poll,
            listeners,
            // Becomes true or false in the first turn.
            is_deaf: true,
            stop,
            signs,
            ledger,
            began_ns,
            peers: HashMap::new(),
            next_token: FIRST_PEER,
            timers: BinaryHeap::new(),
        })
    }

    /// Closes every other descriptor of this process but the standard ones, which a fork has made a
    /// second owner of what other threads have open: their closes would go unheard.
    pub fn close_others(&self) {
        let mut own: Vec<u32> = self.listeners.iter().map(|l| l.as_raw_fd() as u32).collect();
        own.extend([self.stop.as_raw_fd() as u32, self.poll.as_raw_fd() as u32]);
        own.sort_unstable();
        let mut from = 3;
        for kept in own.into_iter().chain([u32::MAX]) {
            if from < kept {
                // SAFETY: nothing in this process uses what is closed; no pointers are passed.
                unsafe { libc::syscall(libc::SYS_close_range, from, kept - 1, 0) };
            }
            from = kept.saturating_add(1);
        }
    }

    /// Serves until the end.
    pub fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        // The default slack ends sleeps 50 us late.
        // SAFETY: no pointers are passed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
        loop {
            self.listen()?;
            let longest = self.longest_wait();
            let ready = self.poll.wait(longest)?;
            if ready.contains(&STOP) {
                // Kept until here: its close would be the other side's sign.
                drop(self.stop);
                return Ok(());
            }
            self.freeze();
            for token in ready {
                self.act(token, &mut buffer);
            }
            self.ring();
        }
    }

    /// Looks at the listeners, or away from them.
    fn listen(&mut self) -> io::Result<()> {
        self.ledger.now_ns = monotonic_ns();
        let is_deaf = end_of(&self.ledger.script.deaf, self.began_ns, self.ledger.now_ns).is_some();
        if is_deaf != self.is_deaf {
            for (listener, token) in self.listeners.iter().zip(1..) {
                match is_deaf {
                    true => self.poll.remove(listener)?,
                    false => self.poll.add(listener, token)?,
                }
            }
        }
        self.is_deaf = is_deaf;
        Ok(())
    }

    fn longest_wait(&self) -> Duration {
        if self.ledger.script.spins {
            return Duration::ZERO;
        }
        let mut until_ns = self.timers.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        for window in &self.ledger.script.deaf {
            let edges = [window.from, window.until].map(|edge| self.began_ns + ns(edge));
            let edges = edges.into_iter().filter(|edge| *edge > self.ledger.now_ns);
            until_ns = until_ns.min(edges.min().unwrap_or(u64::MAX));
        }
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.ledger.now_ns));
        wait.saturating_sub(SLEEP_LATE).min(WAIT_MAX)
    }

    fn freeze(&mut self) {
        let Some(first_ns) = self.ledger.first_ns else { return };
        let now_ns = monotonic_ns();
        if let Some(end_ns) = end_of(&self.ledger.script.freezes, first_ns, now_ns) {
            sleep(Duration::from_nanos(end_ns - now_ns));
        }
    }

    fn act(&mut self, token: u64, buffer: &mut [u8]) {
        if token < FIRST_PEER {
            return self.accept(token as usize - 1);
        }
        let Some(peer) = self.peers.get_mut(&token) else { return };
        peer.read(&mut self.ledger, buffer);
        peer.advance(&mut self.ledger);
        self.after(token);
    }

    /// Wakes who wanted to be woken by now.
    fn ring(&mut self) {
        self.ledger.now_ns = monotonic_ns();
        while let Some(Reverse((at_ns, token))) = self.timers.peek().copied() {
            if at_ns > self.ledger.now_ns {
                return;
            }
            self.timers.pop();
            if let Some(peer) = self.peers.get_mut(&token) {
                peer.advance(&mut self.ledger);
                self.after(token);
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        while let Ok((socket, from)) = self.listeners[listener].accept() {
            if self.is_sentinel(&from) {
                self.ledger.counts().waited = ThreadCpu::own().run_delay.unwrap_or_default();
                self.signs.sentinel_came.store(true, SeqCst);
                continue;
            }
            // Fails for a Unix socket, which has no such delay.
            let _ = socket.set_tcp_nodelay(true);
            let (token, number) = (self.next_token, self.ledger.counts().connections);
            self.ledger.counts().connections += 1;
            self.next_token += 1;
            let is_ready =
                socket.set_nonblocking(true).and_then(|()| self.poll.add(&socket, token));
            is_ready.expect("a fresh socket can be watched");
            let manner = self.ledger.script.manner(number);
            self.peers.insert(token, Peer::new(socket, manner, &self.ledger));
            self.signs.open.store(self.peers.len(), SeqCst);
            self.after(token);
        }
    }

    fn is_sentinel(&self, from: &SockAddr) -> bool {
        let port = from.as_socket().map(|address| address.port());
        port.is_some_and(|port| port == self.signs.sentinel.load(SeqCst))
    }

    /// Forgets who is gone, and notes when the others want to be woken.
    fn after(&mut self, token: u64) {
        let Some(peer) = self.peers.get(&token) else { return };
        if peer.is_ending() {
            // It fails the second time, when an ending connection was looked at again.
            let _ = self.poll.remove(&peer.socket);
        }
        if let Some(at_ns) = peer.wake_ns(&self.ledger) {
            self.timers.push(Reverse((at_ns, token)));
        }
        if peer.is_gone() {
            self.peers.remove(&token);
            self.signs.open.store(self.peers.len(), SeqCst);
        }
    }
}

/// When the window ends in which `now_ns` lies.
fn end_of(windows: &[Window], since_ns: u64, now_ns: u64) -> Option<u64> {
    let age = Duration::from_nanos(now_ns.saturating_sub(since_ns));
    windows.iter().find_map(|window| window.end_at(age)).map(|end| since_ns + ns(end))
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
