//! The machine at a glance: load, CPU time by state, memory, network. Readings of counters
//! subtract; what a figure means is the kernel's business, what is alarming is said here.

use std::fs;

/// `/proc/loadavg`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadAverage {
    pub one: f64,
    pub five: f64,
    pub fifteen: f64,
    /// Threads that run or wait for a CPU, and all there are.
    pub runnable: u64,
    pub threads: u64,
}

/// Ticks of all CPUs since boot, by state (`proc_stat(5)`); guests' time is in user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

/// Shares of all CPU time, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    pub user_percent: f64,
    pub nice_percent: f64,
    pub system_percent: f64,
    pub idle_percent: f64,
    pub iowait_percent: f64,
    pub irq_percent: f64,
    pub softirq_percent: f64,
    pub steal_percent: f64,
}

/// `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineMemory {
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// What programs could have without swapping.
    pub available_bytes: u64,
    /// Files in memory: the kernel gives it back when it is wanted.
    pub cached_bytes: u64,
    pub swap_total_bytes: u64,
    pub swap_free_bytes: u64,
}

/// How much a figure asks for attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    #[default]
    None,
    Warning,
    Alarm,
}

/// What went through a network interface since it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// Swap that is hardly used is no news.
const SWAP_SLACK_BYTES: u64 = 5_000_000;
const SWAP_WARNING: f64 = 0.2;
const SWAP_ALARM: f64 = 0.7;

impl LoadAverage {
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/loadavg").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut average = || words.next()?.parse().ok();
        let (one, five, fifteen) = (average()?, average()?, average()?);
        let (runnable, threads) = words.next()?.split_once('/')?;
        let (runnable, threads) = (runnable.parse().ok()?, threads.parse().ok()?);
        Some(Self { one, five, fifteen, runnable, threads })
    }
}

impl CpuTimes {
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || fields.next()?.ok();
        Some(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
        })
    }

    /// `None` before a tick has passed.
    #[must_use]
    pub fn shares_since(self, earlier: Self) -> Option<CpuShares> {
        // A counter of the kernel's may step back (iowait does): that is no time.
        let passed = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&earlier)) as f64;
        let user = passed(|t| t.user);
        let (nice, system) = (passed(|t| t.nice), passed(|t| t.system));
        let (idle, iowait) = (passed(|t| t.idle), passed(|t| t.iowait));
        let (irq, softirq, steal) = (passed(|t| t.irq), passed(|t| t.softirq), passed(|t| t.steal));
        let total = user + nice + system + idle + iowait + irq + softirq + steal;
        let percent = |ticks: f64| 100.0 * ticks / total;
        (total > 0.0).then(|| CpuShares {
            user_percent: percent(user),
            nice_percent: percent(nice),
            system_percent: percent(system),
            idle_percent: percent(idle),
            iowait_percent: percent(iowait),
            irq_percent: percent(irq),
            softirq_percent: percent(softirq),
            steal_percent: percent(steal),
        })
    }
}

impl CpuShares {
    /// Everything but waiting for work or for disks.
    #[must_use]
    pub fn busy_percent(&self) -> f64 {
        (100.0 - self.idle_percent - self.iowait_percent).max(0.0)
    }
}

impl MachineMemory {
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/meminfo").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        let cached = [bytes("Buffers"), bytes("Cached"), bytes("SReclaimable")];
        let free_bytes = bytes("MemFree")?;
        Some(Self {
            total_bytes: bytes("MemTotal")?,
            free_bytes,
            available_bytes: bytes("MemAvailable").unwrap_or(free_bytes),
            cached_bytes: cached.into_iter().flatten().fold(0, u64::saturating_add),
            swap_total_bytes: bytes("SwapTotal").unwrap_or(0),
            swap_free_bytes: bytes("SwapFree").unwrap_or(0),
        })
    }

    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.available_bytes)
    }

    #[must_use]
    pub fn swap_used_bytes(&self) -> u64 {
        self.swap_total_bytes.saturating_sub(self.swap_free_bytes)
    }

    /// The limits of Apache::VMonitor: over 5 MB and from 20 % or 70 % on.
    #[must_use]
    pub fn swap_alert(&self) -> Alert {
        let used = self.swap_used_bytes();
        let share = used as f64 / self.swap_total_bytes.max(1) as f64;
        match () {
            () if used <= SWAP_SLACK_BYTES => Alert::None,
            () if share >= SWAP_ALARM => Alert::Alarm,
            () if share >= SWAP_WARNING => Alert::Warning,
            () => Alert::None,
        }
    }
}

/// Seconds since boot.
#[must_use]
pub fn uptime_s() -> Option<f64> {
    fs::read_to_string("/proc/uptime").ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// Of the network namespace of the calling thread, in the kernel's order.
#[must_use]
pub fn interfaces() -> Vec<Interface> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    text.lines().skip(2).filter_map(interface).collect()
}

/// A line of `/proc/net/dev`: eight counters of what came, then eight of what went.
fn interface(line: &str) -> Option<Interface> {
    let (name, counters) = line.rsplit_once(':')?;
    let mut counters = counters.split_ascii_whitespace().map(str::parse::<u64>);
    let received_bytes = counters.next()?.ok()?;
    let sent_bytes = counters.nth(7)?.ok()?;
    Some(Interface { name: name.trim().to_owned(), received_bytes, sent_bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn load_is_read() {
        let load = LoadAverage::parse("0.25 1.50 12.00 3/457 9999\n").expect("well formed");
        assert_eq!((load.one, load.five, load.fifteen), (0.25, 1.5, 12.0));
        assert_eq!((load.runnable, load.threads), (3, 457));
        assert!(LoadAverage::now().is_some_and(|load| load.threads > 0));
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let earlier = CpuTimes::parse("cpu  10 1 5 100 2 0 3 7 4 0\ncpu0 1\n").expect("a line");
        assert_eq!((earlier.user, earlier.idle, earlier.steal), (10, 100, 7));
        let later = CpuTimes { user: 40, idle: 160, iowait: 1, steal: 17, ..earlier };
        let shares = later.shares_since(earlier).expect("time passed");
        assert_eq!(
            (shares.user_percent, shares.idle_percent, shares.steal_percent),
            (30.0, 60.0, 10.0)
        );
        assert_eq!((shares.iowait_percent, shares.busy_percent()), (0.0, 40.0));
        assert_eq!(earlier.shares_since(earlier), None);
        assert!(CpuTimes::now().is_some());
    }

    #[test]
    fn memory_is_what_programs_could_have() {
        let text = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nBuffers: 1 kB\n\
                    Cached: 2 kB\nSwapCached: 9 kB\nSwapTotal: 100000 kB\nSwapFree: 70000 kB\n";
        let memory = MachineMemory::parse(text).expect("well formed");
        assert_eq!((memory.used_bytes(), memory.cached_bytes), (400 * 1024, 3 * 1024));
        assert_eq!(memory.swap_used_bytes(), 30_000 * 1024);
        assert!(MachineMemory::now().is_some_and(|memory| memory.total_bytes > 0));
    }

    #[test]
    fn swap_alarms_where_it_is_much_and_a_large_part() {
        let at = |total_mb: u64, used_mb: u64| {
            let swap_total_bytes = total_mb * 1_000_000;
            let swap_free_bytes = swap_total_bytes - used_mb * 1_000_000;
            MachineMemory { swap_total_bytes, swap_free_bytes, ..MachineMemory::default() }
                .swap_alert()
        };
        assert_eq!([at(0, 0), at(6, 5), at(100, 19)], [Alert::None; 3]);
        assert_eq!(
            [at(100, 20), at(100, 69), at(100, 70)],
            [Alert::Warning, Alert::Warning, Alert::Alarm]
        );
    }

    #[test]
    fn interfaces_are_told_with_both_directions() {
        let line = "  eth0: 1234 2 0 0 0 0 0 0 99 3 0 0 0 0 0 0";
        let found = interface(line).expect("well formed");
        assert_eq!((&*found.name, found.received_bytes, found.sent_bytes), ("eth0", 1234, 99));
        assert_eq!(interface("eth0: 1 2 3"), None);
        assert!(interfaces().iter().any(|interface| interface.name == "lo"));
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "\\PC{0,200}", number in any::<u64>()) {
            let lines = [
                text.clone(),
                format!("cpu {number} {number} {number} 1 1 1 1 {number} {text}"),
                format!("MemTotal: {number}\nMemFree: {number} {text}"),
            ];
            for text in lines {
                let _ = (LoadAverage::parse(&text), MachineMemory::parse(&text), interface(&text));
                let times = CpuTimes::parse(&text).unwrap_or_default();
                let shares = times.shares_since(CpuTimes::default());
                let is_share = shares.is_none_or(|s| (0.0..=100.0).contains(&s.busy_percent()));
                prop_assert!(is_share);
            }
        }
    }
}
