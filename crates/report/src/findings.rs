//! What a run says once it is judged: the one structure that every output is rendered from. Ratios
//! are variant / baseline; throughput is higher-is-better, CPU and memory are lower-is-better.

use serde::Serialize;

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    Faster,
    Slower,
    /// The 90 % interval lies inside the smallest effect of interest.
    Equivalent,
    /// Neither could be shown; about so much more would decide.
    Inconclusive {
        more_blocks: Option<usize>,
        more_s: Option<f64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Baseline,
    Variant,
    /// The baseline under a second label.
    Control,
}

#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    pub groups: Vec<GroupFinding>,
    /// Failed checks over the whole run, by code.
    pub checks: Vec<CheckCount>,
    /// Why no number of this run should be leaned on, if so.
    pub doubtful: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct GroupFinding {
    pub name: String,
    pub baseline: String,
    pub blocks: usize,
    /// Half-width of the A/A interval, as a ratio minus one: what this run cannot see below.
    pub noise_floor: Option<f64>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub variant: String,
    pub role: Role,
    pub path: String,
    pub rps: Estimate,
    /// The client was the limit: the true rate is this or more.
    pub at_least: bool,
    pub ratio: Option<Estimate>,
    /// Shown when one or more blocks are wild: Hodges-Lehmann.
    pub robust_ratio: Option<Estimate>,
    pub p_holm: Option<f64>,
    pub verdict: Option<Verdict>,
    pub cpu_us_per_request: Option<Estimate>,
    pub cpu_ratio: Option<Estimate>,
    pub worker_mb: Option<f64>,
    pub tree_mb: Option<f64>,
    pub workers: Option<usize>,
    pub ready_ms: Option<f64>,
    pub response: Vec<Response>,
    pub curve: Vec<CurvePoint>,
    pub checks: Vec<CheckCount>,
    pub blocks: Vec<BlockPoint>,
}

/// A response time under this closed loop, with its ratio where there were answers enough.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    pub quantile: f64,
    pub ms: f64,
    pub ratio: Option<Estimate>,
    pub needs_requests_per_block: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    pub quantile: f64,
    pub ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct BlockPoint {
    pub block: usize,
    pub begin_s: f64,
    pub rps: f64,
    pub ratio: f64,
    pub cpu_us_per_request: Option<f64>,
    pub slices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckCount {
    pub code: String,
    pub count: usize,
    /// The first one's figures.
    pub detail: String,
}

impl Estimate {
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

impl Verdict {
    /// The one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equivalent => "equivalent",
            Self::Inconclusive { .. } => "inconclusive",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inconclusive { more_blocks: Some(blocks), more_s: Some(s) } => {
                let plural = if *blocks == 1 { "" } else { "s" };
                let time = crate::format::time(*s);
                write!(f, "inconclusive (about {blocks} more block{plural}, {time})")
            }
            other => f.write_str(other.word()),
        }
    }
}
