//! What the whole machine was doing between two readings: CPU time, steal, run queue
//! (`/proc/stat`).

/// One reading. Ticks are summed over all CPUs since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineLoad {
    pub total_ticks: u64,
    pub idle_ticks: u64,
    /// Taken by the hypervisor while this machine had work.
    pub steal_ticks: u64,
    /// Tasks running or waiting for a CPU at this moment.
    pub runnable: u64,
}

impl MachineLoad {
    /// `None` where `/proc/stat` cannot be read.
    #[must_use]
    pub fn now() -> Option<Self> {
        parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Share of all CPU time since `earlier` that was stolen; `None` before a tick has passed.
    #[must_use]
    pub fn steal_share_since(self, earlier: Self) -> Option<f64> {
        let total = self.total_ticks.checked_sub(earlier.total_ticks).filter(|total| *total > 0)?;
        Some(self.steal_ticks.saturating_sub(earlier.steal_ticks) as f64 / total as f64)
    }
}

/// proc_stat(5): user nice system idle iowait irq softirq steal; guest time is already in user.
fn parse(stat: &str) -> Option<MachineLoad> {
    let mut load = MachineLoad::default();
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields = line.split_ascii_whitespace().skip(1).take(8).map(str::parse::<u64>);
    let ticks = fields.collect::<Result<Vec<_>, _>>().ok()?;
    load.total_ticks = ticks.iter().sum();
    load.idle_ticks = ticks.get(3)? + ticks.get(4)?;
    load.steal_ticks = *ticks.get(7)?;
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running "));
    load.runnable = running.and_then(|count| count.trim().parse().ok()).unwrap_or_default();
    Some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 1 5 100 2 0 3 7 4 0\ncpu0 1 2\nprocs_running 3\n";

    #[test]
    fn the_fields_are_found() {
        let load = MachineLoad { total_ticks: 128, idle_ticks: 102, steal_ticks: 7, runnable: 3 };
        assert_eq!(parse(STAT), Some(load));
        assert_eq!(parse("cpu  1 2\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let earlier = parse(STAT).expect("readable");
        let later = MachineLoad { total_ticks: 328, steal_ticks: 17, ..earlier };
        assert_eq!(later.steal_share_since(earlier), Some(0.05));
        assert_eq!(earlier.steal_share_since(earlier), None);
        assert!(MachineLoad::now().is_some());
    }
}
