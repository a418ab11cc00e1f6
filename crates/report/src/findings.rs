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
    /// So many blocks had a slice without a single answer: it hangs, or takes longer than a slice.
    NoAnswer {
        blocks: usize,
        of: usize,
    },
    /// The numbers stand beside something that spoils any claim: wrong answers, say.
    NoClaim {
        because: &'static str,
    },
}

/// How near the client was to its own limit, in half or more of the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Client {
    Free,
    /// L2: a faster client would have measured a little more.
    Near,
    /// C1: the rate is the client's.
    Limit,
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
    /// Checks of the warm-up that have neither failed nor been passed.
    pub not_evaluated: Vec<NotEvaluated>,
    /// Why no number of this run should be leaned on, if so.
    pub doubtful: Vec<String>,
    /// Who answered wrongly; there is no claim about them.
    pub wrong: Vec<String>,
    /// Who did not answer in some slice; there is no claim about them.
    pub silent: Vec<String>,
    /// Who left connections without any answer in most blocks; there is no claim about them.
    pub starved: Vec<String>,
    /// Blocks that do not count because a server failed, and why.
    pub dropped: Vec<String>,
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
    /// When it was not free, the true rate is the one shown or more.
    pub client: Client,
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
    /// Some slice of it had no answer.
    pub silent: bool,
    /// Connections that some slice of it left without any answer.
    pub never_answered: u32,
    pub begin_s: f64,
    pub rps: f64,
    /// None where one of the two did not answer.
    pub ratio: Option<f64>,
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

/// A check that what was measured does not suffice for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotEvaluated {
    pub code: String,
    pub why: String,
}

impl Estimate {
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

impl Row {
    /// Blocks in which some connection was never answered while others were.
    #[must_use]
    pub fn starved_blocks(&self) -> usize {
        self.blocks.iter().filter(|point| point.never_answered > 0).count()
    }

    /// In most of its blocks: then the load was another one.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        2 * self.starved_blocks() > self.blocks.len()
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
            Self::NoAnswer { .. } => "no answer",
            Self::NoClaim { .. } => "no claim",
        }
    }
}

impl Client {
    /// From the slices where it was the limit, and those where it was that or near it.
    #[must_use]
    pub fn of(limit: usize, near: usize, slices: usize) -> Self {
        let mostly = |count: usize| count > 0 && 2 * count >= slices;
        match (mostly(limit), mostly(limit.max(near))) {
            (true, _) => Self::Limit,
            (false, true) => Self::Near,
            (false, false) => Self::Free,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAnswer { blocks, of } => write!(f, "no answer in {blocks} of {of} blocks"),
            Self::NoClaim { because } => write!(f, "no claim: {because}"),
            other => f.write_str(other.word()),
        }
    }
}
