//! The machine record: what a reader of a result must know of the machine it was measured on.

use std::{fs, mem};

use crate::allowed_cores;

/// A name and a value as the kernel tells it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// Everything that could be read; what could not is left out.
#[must_use]
pub fn machine_record() -> Vec<Fact> {
    let cores = allowed_cores().len().to_string();
    let facts = [
        ("CPU", cpu_model()),
        ("cores", Some(cores)),
        ("memory", meminfo("MemTotal:")),
        ("kernel", line("/proc/sys/kernel/osrelease")),
        ("system", os_name()),
        ("virtual machine", hypervisor()),
        ("governor", line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("turbo off", line("/sys/devices/system/cpu/intel_pstate/no_turbo")),
        ("address randomisation", line("/proc/sys/kernel/randomize_va_space")),
        ("transparent huge pages", line("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("cgroup CPU quota", line("/sys/fs/cgroup/cpu.max")),
        ("cgroup memory limit", line("/sys/fs/cgroup/memory.max")),
        ("somaxconn", line("/proc/sys/net/core/somaxconn")),
        ("tcp_max_syn_backlog", line("/proc/sys/net/ipv4/tcp_max_syn_backlog")),
        ("ephemeral ports", line("/proc/sys/net/ipv4/ip_local_port_range")),
        ("open files limit", open_files_limit()),
        ("swap", meminfo("SwapTotal:")),
        ("load average before", line("/proc/loadavg")),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let first = text.lines().next()?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!first.is_empty()).then_some(first)
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn hypervisor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    Some(if flags.split_whitespace().any(|f| f == "hypervisor") { "yes" } else { "no" }.to_owned())
}

fn os_name() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

fn meminfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kb: u64 =
        text.lines().find_map(|l| l.strip_prefix(key))?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} MB", kb / 1024))
}

fn open_files_limit() -> Option<String> {
    // SAFETY: rlimit is plain data, for which all zeroes is a valid value.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: `limit` is ours to write.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0;
    (!failed).then(|| limit.rlim_cur.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_names_the_kernel_and_the_cores() {
        let record = machine_record();
        for name in ["kernel", "cores", "open files limit"] {
            assert!(record.iter().any(|f| f.name == name && !f.value.is_empty()), "{name}");
        }
    }
}
