//! A server that does nothing: the client's own ceiling is measured against it.
//!
//! One thread of this process, one fixed answer of 128 bytes to whatever ends in an empty line. It
//! reads no bodies and is no HTTP server; plans without a body only.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use crate::{
    error::Error,
    outcome::Outcome,
    plan::{Plan, Stop, Target},
    poll::Poll,
    run::run,
};

const ANSWER: &[u8; 128] = b"HTTP/1.1 200 OK\r\nServer: null\r\nContent-Type: text/plain\r\n\
    Content-Length: 49\r\n\r\n.................................................";
const LISTENER: u64 = u64::MAX;
const STOP_CHECK_EVERY: Duration = Duration::from_millis(20);

/// A running null server; it ends when this is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts one on a free loopback port.
pub fn null_server() -> Result<NullServer, Error> {
    let failed = |source| Error::EventLoop { source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let poll = Poll::new(256).map_err(failed)?;
    poll.add(&listener, LISTENER).map_err(failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let builder = std::thread::Builder::new().name("drom-null".to_owned());
    let thread = builder.spawn(move || serve(&listener, poll, &told));
    let thread = Some(thread.map_err(|source| Error::Thread { source })?);
    Ok(NullServer { address, stop, thread })
}

impl NullServer {
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn target(&self) -> Target {
        Target::at(self.address, "/")
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the null server must not hide the caller's own.
            let _ = thread.join();
        }
    }
}

/// What this client reaches with the connections and threads of `plan` against a server that does
/// nothing; on the same machine that server takes a CPU too, so it is a ceiling for such a set-up.
pub fn measure_ceiling(
    plan: &Plan,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let server = null_server()?;
    let plan = Plan {
        connections: plan.connections,
        threads: plan.threads,
        keepalive: plan.keepalive,
        stop: Stop::After(duration),
        ..Plan::get(server.target())
    };
    run(&plan, stop, &mut |_| {})
}

/// One client of the null server.
struct Peer {
    stream: TcpStream,
    /// How many bytes of CR LF CR LF were just seen.
    matched: usize,
}

fn serve(listener: &TcpListener, mut poll: Poll, stop: &AtomicBool) {
    let (mut peers, mut buffer) = (HashMap::new(), vec![0; 16 * 1024]);
    while !stop.load(Relaxed) {
        let Ok(ready) = poll.wait(STOP_CHECK_EVERY) else { return };
        for at in 0..ready {
            let report = poll.report(at);
            if report.token == LISTENER {
                accept_all(listener, &poll, &mut peers);
            } else if report.readable {
                let open = peers.get_mut(&report.token).is_some_and(|p| answer(p, &mut buffer));
                if !open || report.closing {
                    peers.remove(&report.token);
                }
            }
        }
    }
}

fn accept_all(listener: &TcpListener, poll: &Poll, peers: &mut HashMap<u64, Peer>) {
    while let Ok((stream, _)) = listener.accept() {
        let token = stream.as_raw_fd() as u64;
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        if ready.is_ok() && poll.add(&stream, token).is_ok() {
            peers.insert(token, Peer { stream, matched: 0 });
        }
    }
}

/// Answers every request that is complete; whether the connection goes on.
fn answer(peer: &mut Peer, buffer: &mut [u8]) -> bool {
    loop {
        let length = match peer.stream.read(buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        let ended = requests_ended(&mut peer.matched, &buffer[..length]);
        if !write_answers(&mut peer.stream, ended) {
            return false;
        }
        if length < buffer.len() {
            return true;
        }
    }
}

/// As few writes as there can be: whoever pipelines has its answers in one piece.
fn write_answers(stream: &mut TcpStream, answers: usize) -> bool {
    const BATCH: usize = 64;
    static ANSWERS: LazyLock<Vec<u8>> = LazyLock::new(|| ANSWER.repeat(BATCH));
    let mut left = answers;
    while left > 0 {
        let now = left.min(BATCH) * ANSWER.len();
        if !matches!(stream.write(&ANSWERS[..now]), Ok(written) if written == now) {
            return false;
        }
        left -= left.min(BATCH);
    }
    true
}

fn requests_ended(matched: &mut usize, bytes: &[u8]) -> usize {
    let mut ended = 0;
    for byte in bytes {
        *matched = match (*byte, *matched) {
            (b'\r', 0 | 2) | (b'\n', 1 | 3) => *matched + 1,
            (b'\r', _) => 1,
            _ => 0,
        };
        if *matched == 4 {
            (ended, *matched) = (ended + 1, 0);
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_requests_are_counted_across_reads() {
        let mut matched = 0;
        assert_eq!(requests_ended(&mut matched, b"GET / HTTP/1.1\r\nA: b\r\n\r"), 0);
        assert_eq!(requests_ended(&mut matched, b"\nGET / HTTP/1.1\r\n\r\n\r\r\n\r\n"), 3);
    }
}
