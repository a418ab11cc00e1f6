//! The words of a run as they stand on disk: manifest, block, slice, flag. Plain data; seconds,
//! bytes and counts; whatever is derived from them (ratios, intervals, verdicts) is computed again
//! when it is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of everything in this file. Readers accept this and older ones.
pub const SCHEMA: u32 = 1;

/// Fixed before the first block: what is compared with what, on which machine, in which order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u32,
    pub tool: String,
    pub name: String,
    pub title: String,
    pub started_unix_s: u64,
    pub seed: u64,
    pub quick: bool,
    /// `interleave` or `fresh`.
    pub mode: String,
    /// `split` or `shared`, and which cores.
    pub placement: String,
    /// Smallest effect of interest, as a ratio minus one.
    pub effect: f64,
    pub budget_s: f64,
    pub pilot_blocks: usize,
    pub load: LoadFacts,
    /// What the client reached against a server that does nothing.
    pub client_ceiling_rps: Option<f64>,
    pub machine: Vec<Fact>,
    pub groups: Vec<Group>,
    pub skipped: Vec<Skipped>,
    /// Checks that failed before the first block.
    pub flags: Vec<Flag>,
    /// The plan as it was written.
    pub plan_toml: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    pub connections: u32,
    pub threads: u32,
    pub slice_s: f64,
    pub warmup_s: f64,
    pub rounds: u32,
    pub keepalive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// Variants that are compared with one baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub baseline: String,
    /// 0 in runs of older versions: those of the load.
    #[serde(default)]
    pub connections: u32,
    pub variants: Vec<Variant>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// The baseline under a second label, with a server of its own: it must come out equal.
    pub is_control: bool,
    pub path: String,
    pub command: String,
    /// None: its answers differ from each other.
    pub answer: Option<Answer>,
}

/// What a variant answered in the preflight, where that is always the same; every later body must
/// be this one, but for the port and folder of its own start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    pub length: u64,
    pub hash: u64,
    pub content_type: String,
}

/// A variant that could not take part, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub variant: String,
    pub reason: String,
}

/// Each variant of one group once, on fresh servers, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    pub index: usize,
    pub group: String,
    pub begin_s: f64,
    pub end_s: f64,
    pub starts: Vec<Start>,
    pub slices: Vec<Slice>,
}

/// One launch of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub variant: String,
    pub begin_s: f64,
    /// From the start of the process to its first good answer.
    pub ready_s: f64,
    pub processes: usize,
}

/// One uninterrupted window of load on one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Unique in the run; names the histogram's file.
    pub id: String,
    pub variant: String,
    pub round: u32,
    /// Place in the random order of its round.
    pub position: usize,
    pub attempt: u32,
    /// False for an attempt that was repeated; it stays here with its flags.
    pub used: bool,
    pub begin_s: f64,
    pub duration_s: f64,
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub in_flight: u64,
    pub connected: u32,
    /// Connections without an answer where the others had enough to tell; 0 in runs of older
    /// versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub never_answered: u32,
    pub status: BTreeMap<u16, u64>,
    pub errors: BTreeMap<String, u64>,
    pub bytes_read: u64,
    pub mean_ns: f64,
    pub p99_ns: u64,
    pub client_cpu_s: Vec<f64>,
    pub server_cpu_s: f64,
    /// Processes that did the work.
    pub workers: usize,
    pub worker_pss_bytes: u64,
    pub tree_pss_bytes: u64,
    pub steal_s: f64,
    pub foreign_cpu_s: f64,
    pub throttled_s: f64,
    pub listen_overflows: u64,
    pub flags: Vec<Flag>,
    /// What of every answer was checked beside its status and framing: `body`, `length` or `status`
    /// for nothing else; runs of older versions do not tell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checked: String,
    /// Good answers a second in steps of equal length; runs of older versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pace: Vec<f64>,
}

/// A self-check that failed: its code in the catalogue, and the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    pub code: String,
    pub detail: String,
}

/// A block that does not count, because a server failed in the middle of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// Which block of its group it would have been; the next one is measured under this number.
    pub block: usize,
    pub group: String,
    pub begin_s: f64,
    pub end_s: f64,
    /// Whose server it was.
    pub variant: String,
    /// The first line says what happened, the others what the server wrote last.
    pub reason: String,
}

/// How the run ended. A run without it was cut off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub interrupted: bool,
    /// A variant failed too often; `reason` names it.
    #[serde(default)]
    pub failed: bool,
    pub duration_s: f64,
    pub reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde passes")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
