//! What is shown, as it was at one moment: the machine, Drom's servers, processes. As JSON it is
//! what `--json` prints; a figure that is not known is `null`.

use std::sync::Arc;

use drom_observe::{
    mounts::Mount,
    vitals::{Alert, CpuShares, LoadAverage, MachineMemory},
};
use serde::{Serialize, Serializer};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Since 1970.
    pub time_s: f64,
    /// That rates and shares of CPUs are of.
    pub interval_s: f64,
    pub machine: Machine,
    pub servers: Vec<Server>,
    pub process_count: usize,
    pub running_count: usize,
    /// As printed those that were asked for, in the order that was asked for.
    pub processes: Vec<Process>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    pub uptime_s: Option<f64>,
    pub cores: usize,
    #[serde(serialize_with = "load")]
    pub load: Option<LoadAverage>,
    #[serde(serialize_with = "cpu")]
    pub cpu: Option<CpuShares>,
    #[serde(serialize_with = "memory")]
    pub memory: Option<MachineMemory>,
    #[serde(serialize_with = "mounts")]
    pub mounts: Vec<Mount>,
    pub network: Vec<Traffic>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    pub interface: String,
    pub received_bytes_per_s: f64,
    pub sent_bytes_per_s: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub user: Arc<str>,
    pub state: char,
    pub threads: u32,
    pub cpu_percent: Option<f64>,
    pub cpu_s: f64,
    pub rss_bytes: u64,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    /// Of its own memory (USS) since this view looked at it first.
    pub growth_bytes: Option<i64>,
    pub name: Arc<str>,
    /// Secrets are masked; a kernel thread's and a dead one's is its name in brackets.
    pub command: Arc<str>,
    /// In a tree: how many stand above it.
    pub depth: usize,
    /// The lines of the tree before it.
    #[serde(skip)]
    pub branch: String,
}

/// A Drom server, by its master.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Server {
    pub pid: i32,
    pub uptime_s: Option<f64>,
    /// The newest one.
    pub generation: u32,
    pub answers: u64,
    pub answered_bytes: u64,
    pub cgi_pids: Vec<i32>,
    pub workers: Vec<Worker>,
    /// Why there is nothing to see.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Worker {
    pub slot: usize,
    pub pid: i32,
    /// `starting`, `idle`, `perl`, `draining`, `dying`.
    pub state: &'static str,
    pub generation: u32,
    pub is_primary: bool,
    pub connections: u32,
    pub answers: u64,
    pub perl_requests: u64,
    pub answered_bytes: u64,
    pub cpu_percent: Option<f64>,
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    /// Of its own memory (USS) since it was new.
    pub growth_bytes: Option<i64>,
    /// The same by requests that Perl ran.
    pub growth_bytes_per_request: Option<f64>,
    pub running: Option<Running>,
}

/// The request that Perl runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Running {
    /// Secrets are masked.
    pub request: String,
    pub client: String,
    pub elapsed_s: f64,
    /// Where it is, if the process can be looked into.
    pub perl: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub sub: String,
}

impl Worker {
    /// Since when the request runs, in seconds; of idle workers nothing.
    pub fn elapsed_s(&self) -> f64 {
        self.running.as_ref().map_or(0.0, |running| running.elapsed_s)
    }
}

pub fn alert_name(alert: Alert) -> Option<&'static str> {
    match alert {
        Alert::None => None,
        Alert::Warning => Some("warning"),
        Alert::Alarm => Some("alarm"),
    }
}

fn load<S: Serializer>(load: &Option<LoadAverage>, to: S) -> Result<S::Ok, S::Error> {
    let load = load.map(|load| {
        serde_json::json!({
            "1_min": load.one,
            "5_min": load.five,
            "15_min": load.fifteen,
            "runnable": load.runnable,
            "threads": load.threads,
        })
    });
    load.serialize(to)
}

fn cpu<S: Serializer>(cpu: &Option<CpuShares>, to: S) -> Result<S::Ok, S::Error> {
    let cpu = cpu.map(|cpu| {
        serde_json::json!({
            "user_percent": cpu.user_percent,
            "nice_percent": cpu.nice_percent,
            "system_percent": cpu.system_percent,
            "idle_percent": cpu.idle_percent,
            "iowait_percent": cpu.iowait_percent,
            "irq_percent": cpu.irq_percent,
            "softirq_percent": cpu.softirq_percent,
            "steal_percent": cpu.steal_percent,
        })
    });
    cpu.serialize(to)
}

fn memory<S: Serializer>(memory: &Option<MachineMemory>, to: S) -> Result<S::Ok, S::Error> {
    let memory = memory.map(|memory| {
        serde_json::json!({
            "total_bytes": memory.total_bytes,
            "used_bytes": memory.used_bytes(),
            "available_bytes": memory.available_bytes,
            "free_bytes": memory.free_bytes,
            "cached_bytes": memory.cached_bytes,
            "swap_total_bytes": memory.swap_total_bytes,
            "swap_used_bytes": memory.swap_used_bytes(),
            "swap_alert": alert_name(memory.swap_alert()),
        })
    });
    memory.serialize(to)
}

fn mounts<S: Serializer>(mounts: &[Mount], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(mounts.iter().map(|mount| {
        serde_json::json!({
            "path": mount.path,
            "device": mount.device,
            "type": mount.kind,
            "size_bytes": mount.size_bytes,
            "used_bytes": mount.used_bytes,
            "available_bytes": mount.available_bytes,
            "used_percent": 100.0 * mount.used_share(),
            "alert": alert_name(mount.alert()),
        })
    }))
}
