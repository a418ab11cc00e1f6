//! A server that notes when requests came: the [`Arrivals`]. How late a client sends is seen from
//! outside, whatever it says of itself: on loopback the kernel stamps a request in the very call
//! that sends it, however long the server then takes to read it.
//!
//! A thread a connection and one fixed answer: no HTTP server, and no fast one.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use drom_load::stamp;
use drom_observe::{clock, pin_current_thread};
use socket2::SockRef;

use crate::error::Error;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
/// Connects, the first threads, caches.
const LEFT_OUT: Duration = Duration::from_millis(500);

pub struct Arrivals {
    address: SocketAddr,
    seen_ns: Arc<Mutex<Vec<u64>>>,
    is_over: Arc<AtomicBool>,
}

impl Arrivals {
    /// On one core only.
    pub fn start(core: usize) -> Result<Self, Error> {
        let wrong = |error| Error::Start("the server that notes arrivals".to_owned(), error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        // Its connections have it, too: the first request is stamped.
        stamp::ask(&SockRef::from(&listener));
        let (seen_ns, is_over) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::<AtomicBool>::default());
        let (seen, over) = (Arc::clone(&seen_ns), Arc::clone(&is_over));
        let accept = move || {
            // Where that cannot be, the figures are worse, and the client's share of it with them.
            let _ = pin_current_thread(&[core]);
            while let (Ok((stream, _)), false) = (listener.accept(), over.load(Relaxed)) {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer(stream, &seen));
            }
        };
        std::thread::Builder::new().spawn(accept).map_err(wrong)?;
        Ok(Self { address, seen_ns, is_over })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// When requests came since the last time, in order.
    pub fn take_ns(&self) -> Vec<u64> {
        let mut seen_ns =
            std::mem::take(&mut *self.seen_ns.lock().unwrap_or_else(|e| e.into_inner()));
        seen_ns.sort_unstable();
        seen_ns
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // Wakes the one that accepts; if it cannot be woken it ends with this process.
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, seen_ns: &Mutex<Vec<u64>>) {
    let mut buffer = [0; 16 * 1024];
    let _ = stream.set_nodelay(true);
    while let Ok((length @ 1.., at_ns)) = stamp::read_at(&SockRef::from(&stream), &mut buffer) {
        let requests = buffer[..length].windows(4).filter(|four| four == b"\r\n\r\n").count();
        let at_ns = at_ns.unwrap_or_else(clock::wall_ns);
        let mut seen_ns = seen_ns.lock().unwrap_or_else(|e| e.into_inner());
        seen_ns.extend(std::iter::repeat_n(at_ns, requests));
        drop(seen_ns);
        if stream.write_all(&ANSWER.repeat(requests)).is_err() {
            return;
        }
    }
}

/// 99 of 100 requests came at most so much later than a constant schedule planned them. The
/// schedule is the earliest that all of them could have followed; a client that is a little faster
/// than it was told is measured by its own.
pub fn lateness_p99_us(came_ns: &[u64], rate: u32) -> Option<f64> {
    let (first, last) = (*came_ns.first()?, *came_ns.last()?);
    let own = (last - first) as f64 / (came_ns.len() - 1).max(1) as f64;
    let step = own.min(1e9 / f64::from(rate));
    let after = |at: usize| (came_ns[at] - first) as f64 - at as f64 * step;
    let earliest = (0..came_ns.len()).map(after).fold(f64::INFINITY, f64::min);
    let is_counted = |at: &usize| came_ns[*at] - first >= LEFT_OUT.as_nanos() as u64;
    let mut late: Vec<f64> =
        (0..came_ns.len()).filter(is_counted).map(|at| after(at) - earliest).collect();
    late.sort_unstable_by(f64::total_cmp);
    let at = (late.len() * 99).div_ceil(100).checked_sub(1)?;
    Some(late[at] / 1e3)
}

/// The same of a thread that does nothing but look at the clock: what the machine leaves of a
/// schedule.
pub fn lateness_of_nobody_p99_us(rate: u32, time: Duration, core: Option<usize>) -> Option<f64> {
    let watch = move || {
        if let Some(core) = core {
            let _ = pin_current_thread(&[core]);
        }
        let (step_ns, begun_ns) = (1_000_000_000 / u64::from(rate), clock::monotonic_ns());
        let planned = time.as_nanos() as u64 / step_ns;
        let mut came_ns = Vec::with_capacity(planned as usize);
        let mut now_ns = begun_ns;
        while (came_ns.len() as u64) < planned {
            let due = ((now_ns - begun_ns) / step_ns).min(planned) as usize;
            came_ns.resize(due.max(came_ns.len()), now_ns);
            now_ns = clock::monotonic_ns();
        }
        came_ns
    };
    let came_ns = std::thread::spawn(watch).join().ok()?;
    lateness_p99_us(&came_ns, rate)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn lateness_is_from_the_schedule_and_not_from_the_one_before() {
        let steady: Vec<u64> = (0..2_000).map(|at| 7_000 + at * 1_000_000).collect();
        assert!(lateness_p99_us(&steady, 1_000).is_some_and(|us| us < 0.001));
        // A stop of 100 ms, and then all at once.
        let stopped = |at_ns: &u64| match *at_ns {
            at_ns @ 1_000_000_000..1_100_000_000 => 1_100_000_000 + at_ns % 1_000,
            at_ns => at_ns,
        };
        let mut stopped: Vec<u64> = steady.iter().map(stopped).collect();
        stopped.sort_unstable();
        let p99 = lateness_p99_us(&stopped, 1_000).expect("some");
        assert!((80_000.0..=90_000.0).contains(&p99), "{p99}");
        // Told 1,000 a second: 2 ms more with each of them.
        let slow: Vec<u64> = (0..1_000).map(|at| at * 3_000_000).collect();
        assert!(lateness_p99_us(&slow, 1_000).is_some_and(|us| us > 1_900_000.0));
        assert_eq!(lateness_p99_us(&[], 1_000), None);
    }

    #[test]
    fn requests_are_noted_and_answered() {
        let arrivals = Arrivals::start(0).expect("it starts");
        let address = arrivals.address;
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2)).expect("it is open");
        let mut answers = vec![0; 2 * ANSWER.len()];
        client.read_exact(&mut answers).expect("two answers");
        assert_eq!((answers, arrivals.take_ns().len()), (ANSWER.repeat(2), 2));
        assert!(arrivals.take_ns().is_empty());
    }

    #[test]
    fn a_thread_that_only_looks_is_late_by_a_part_of_the_time() {
        let late_us = lateness_of_nobody_p99_us(1_000, Duration::from_secs(1), None);
        assert!(late_us.is_some_and(|us| (0.0..1e6).contains(&us)), "{late_us:?}");
    }
}
