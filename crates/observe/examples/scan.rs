//! What a refresh of `drom top` costs: starts so many processes that sleep, scans all there are
//! again and again, and tells the CPU time of each scan, memory of 40 shown processes and 8 others
//! included. `cargo run --release -p drom-observe --example scan -- 1000`

use std::{
    env,
    io::{self, Write},
    process::{Child, Command},
    time::Duration,
};

use drom_observe::{clock, scan::Scanner, thread_cpu::ThreadCpu};

const REFRESHES: usize = 20;
const SHOWN: usize = 40;
const OTHERS: usize = 8;

/// Ends its processes, whatever happens.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| drop(child.kill()));
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}

fn main() -> io::Result<()> {
    let count = env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    let mut sleepers = Sleepers(Vec::new());
    for _ in 0..count {
        sleepers.0.push(Command::new("sleep").arg("600").spawn()?);
    }
    let shown: Vec<i32> = sleepers.0.iter().take(SHOWN).map(|child| child.id() as i32).collect();
    let mut scanner = Scanner::new()?;
    let (mut scans, mut looks, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REFRESHES {
        let before = ThreadCpu::own();
        seen = scanner.scan();
        let scanned = ThreadCpu::own();
        scanner.look(&mut seen, &shown, OTHERS);
        scans.push(scanned.since(before).cpu);
        looks.push(ThreadCpu::own().since(scanned).cpu);
        clock::sleep(Duration::from_millis(100));
    }
    let first = scans[0] + looks[0];
    let (scan, look) = (median(scans), median(looks));
    let mut out = io::stdout().lock();
    writeln!(out, "{} processes, CPU time of a refresh (median of {REFRESHES}):", seen.len())?;
    writeln!(out, "  scan   {scan:?}\n  memory {look:?} ({SHOWN} shown, {OTHERS} others)")?;
    writeln!(out, "  both   {:?} (the first one {first:?})", scan + look)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
