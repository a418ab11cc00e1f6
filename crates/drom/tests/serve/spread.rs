//! Where connections rest and when they move (docs/decisions/003-where-connections-rest.md), seen
//! from outside.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::support::{Client, Server, eventually};

const WORKERS_2: &str =
    "StartServers 2\nMinSpareServers 1\nMaxSpareServers 3\nMaxRequestWorkers 2\n";
const PID: &str = "print \"Content-type: text/plain\\n\\n$$\\n\";\n";
/// Computes for as many milliseconds as the query says.
const COMPUTE: &str = "use Time::HiRes 'time'; my $until = time + $ENV{QUERY_STRING} / 1000; \
    1 while time < $until; \
    print \"Content-type: text/plain\\n\\n$$\\n\";\n";

fn start() -> Server {
    let server = Server::start(WORKERS_2, &[("perl/pid.pl", PID), ("perl/compute.pl", COMPUTE)]);
    assert!(eventually(Duration::from_secs(5), || server.get("/registry/pid.pl").status == 200));
    server
}

/// Opens connections one after the other and says how many of them the busiest worker answers.
fn most_at_one_worker(server: &Server, count: usize) -> usize {
    let mut by_worker: HashMap<String, usize> = HashMap::new();
    let mut open = Vec::new();
    for _ in 0..count {
        let mut client = server.connect();
        *by_worker.entry(client.get("/registry/pid.pl").text()).or_default() += 1;
        open.push(client);
    }
    by_worker.into_values().max().unwrap_or(0)
}

#[test]
fn connections_gather_at_one_worker() {
    let server = start();
    // The first worker may lose its core to another process for a moment: not ten times in a row.
    // An even spread is 12.
    let best = (0..10).map(|_| most_at_one_worker(&server, 20)).max().unwrap();
    assert!(best >= 15, "at most {best} of 20");
}

#[test]
fn nobody_waits_behind_a_request_that_computes() {
    let server = start();
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/registry/pid.pl").status, 200);
    }
    let mut busy = clients.swap_remove(0);
    busy.send("GET /registry/compute.pl?3000 HTTP/1.1\r\nHost: x\r\n\r\n");
    let sent = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    for client in &mut clients {
        assert_eq!(client.get("/registry/pid.pl").status, 200);
    }
    let waited = sent.elapsed();
    assert!(waited < Duration::from_millis(2500), "{waited:?} behind 3 s of computing");
    assert_eq!(busy.answer().unwrap().status, 200);
}

#[test]
fn both_workers_take_part_when_one_is_not_enough() {
    let server = start();
    let (begun, idle_before) = (Instant::now(), idle_s());
    let until = begun + Duration::from_secs(20);
    let address = server.address;
    let moved = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&moved);
    let work = move || {
        let mut client = Client::new(address);
        let first = client.get("/registry/compute.pl?2").text();
        while !told.load(Relaxed) && Instant::now() < until {
            let now = client.get("/registry/compute.pl?2").text();
            told.fetch_or(now != first, Relaxed);
        }
    };
    // Long requests, so that connections move on a machine without a free core as well.
    let long =
        std::thread::spawn(move || Client::new(address).get("/registry/compute.pl?400").status);
    let clients: Vec<_> = (0..6).map(|_| std::thread::spawn(work.clone())).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(long.join().unwrap(), 200);
    // Connections move to a worker that has a core for itself. One worker and six clients that wait
    // leave a core idle; where none was, other programs had them all and nothing is shown.
    let idle = (idle_s() - idle_before) / begun.elapsed().as_secs_f64();
    if !moved.load(Relaxed) && idle < 0.5 {
        eprintln!("skipped: no core was free, {idle:.2} of one were idle");
        return;
    }
    assert!(moved.load(Relaxed), "no connection was moved, and {idle:.2} cores were idle");
}

/// Seconds that this machine's cores were idle, all together.
fn idle_s() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: f64 = text.split_whitespace().nth(4).unwrap().parse().unwrap();
    // SAFETY: no pointers.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}
