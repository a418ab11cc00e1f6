//! What the machine did to a slice: CPU time by kind, cgroup throttling, listen queue overflows,
//! swap. Two readings subtract.

use std::fs;

/// Counters since boot (or since the cgroup began); only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// User, nice and system time of all cores.
    pub busy_s: f64,
    /// Time that the hypervisor gave to someone else.
    pub steal_s: f64,
    /// All time of all cores.
    pub total_s: f64,
    /// Time that the cgroup's quota kept us from running.
    pub throttled_s: f64,
    pub listen_overflows: u64,
    pub listen_drops: u64,
    /// SYNs and segments sent again.
    pub retransmits: u64,
    pub swapped_pages: u64,
}

impl Counters {
    #[must_use]
    pub fn now() -> Self {
        let mut counters = Self::default();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        counters.take_stat(&read("/proc/stat"));
        counters.take_netstat(&read("/proc/net/netstat"));
        counters.take_netstat(&read("/proc/net/snmp"));
        counters.swapped_pages = keyed(&read("/proc/vmstat"), "pswpin") as u64
            + keyed(&read("/proc/vmstat"), "pswpout") as u64;
        counters.throttled_s = keyed(&read("/sys/fs/cgroup/cpu.stat"), "throttled_usec") * 1e-6;
        counters
    }

    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_s: self.busy_s - earlier.busy_s,
            steal_s: self.steal_s - earlier.steal_s,
            total_s: self.total_s - earlier.total_s,
            throttled_s: self.throttled_s - earlier.throttled_s,
            listen_overflows: self.listen_overflows.saturating_sub(earlier.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            swapped_pages: self.swapped_pages.saturating_sub(earlier.swapped_pages),
        }
    }

    fn take_stat(&mut self, text: &str) {
        let Some(line) = text.lines().find(|line| line.starts_with("cpu ")) else { return };
        // proc(5): user nice system idle iowait irq softirq steal, in 1/100 s.
        let ticks: Vec<f64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
        if let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] {
            self.busy_s = (user + nice + system) / 100.0;
            self.steal_s = steal / 100.0;
            self.total_s = (user + nice + system + idle + iowait + irq + softirq + steal) / 100.0;
        }
    }

    /// A line of names, then a line of numbers, both with the same prefix.
    fn take_netstat(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            for (name, value) in pair[0].split_whitespace().zip(pair[1].split_whitespace()) {
                let Ok(value) = value.parse::<u64>() else { continue };
                match name {
                    "ListenOverflows" => self.listen_overflows = value,
                    "ListenDrops" => self.listen_drops = value,
                    "RetransSegs" => self.retransmits = value,
                    _ => {}
                }
            }
        }
    }
}

fn keyed(text: &str, key: &str) -> f64 {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_text_is_read() {
        let mut counters = Counters::default();
        counters.take_stat("cpu  100 10 50 800 20 1 9 10 0 0\ncpu0 1 2 3\n");
        counters
            .take_netstat("TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 7 9\n");
        counters.take_netstat("Tcp: RtoAlgorithm RetransSegs\nTcp: 1 33\n");
        assert!((counters.busy_s - 1.6).abs() < 1e-12);
        assert!((counters.steal_s - 0.1).abs() < 1e-12);
        assert!((counters.total_s - 10.0).abs() < 1e-12);
        let found = (counters.listen_overflows, counters.listen_drops, counters.retransmits);
        assert_eq!(found, (7, 9, 33));
        assert!((keyed("a 1\nthrottled_usec 2500000\n", "throttled_usec") - 2.5e6).abs() < 1.0);
    }

    #[test]
    fn time_passes_on_this_machine() {
        let first = Counters::now();
        assert!(first.total_s > 0.0);
        assert!(Counters::now().since(&first).total_s >= 0.0);
    }
}
