//! The rows of `drom profile` and of `drom memory`'s look into a perl. Data only.

use super::{Asked, Figure, Row, Unit};

/// A figure of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// CPU time that some work takes with a profiler, against the same bare.
    Cost { work: &'static str, by: Profiler },
    /// Of all stacks that were seen, those that the program can have had.
    RightStacks { is_stopped: bool },
    /// Those that moved while they were read, as the sampler says itself.
    TornStacks,
    /// What one sample takes, p50, of a stack that calls and returns or of fifty frames that mostly
    /// stay.
    Sample { moves: bool },
    /// From nothing to a sample taken.
    FirstSample,
    /// The largest difference of a sub's share between counted and sampled, of the ten with the
    /// most time in either.
    Shares,
    /// The largest error of what a sub's code takes, against what the allocator gave for it.
    CodeSize(Sizer),
    /// How long a process of 100 MB stands still.
    Pause,
    /// The rest of the time until its heap is told.
    Analysis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiler {
    /// From outside, so many times a second.
    Sampler {
        rate_hz: u32,
    },
    /// `drom profile --exact`.
    Exact,
    NytProf,
    DProf,
}

/// Who says what a sub takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizer {
    Drom,
    DevelSize,
}

impl Profile {
    pub fn unit(self) -> Unit {
        match self {
            Self::Cost { .. } | Self::FirstSample | Self::Pause | Self::Analysis => {
                Unit::Milliseconds
            }
            Self::Sample { .. } => Unit::Microseconds,
            Self::RightStacks { .. } | Self::TornStacks | Self::CodeSize(_) => Unit::Percent,
            Self::Shares => Unit::Points,
        }
    }

    pub fn has_peer(self) -> bool {
        matches!(self, Self::Cost { .. })
    }

    /// Of the ratio, behind the point: some are asked to the half of a hundredth.
    pub fn ratio_digits(self) -> usize {
        let is_fine = matches!(self, Self::Cost { by: Profiler::Sampler { .. }, .. });
        if is_fine { 4 } else { 2 }
    }
}

pub fn rows() -> Vec<Row> {
    let alone = |name, what, figure, asked| row(name, what, "-", figure, asked);
    let mut rows = costs();
    rows.extend([
        alone(
            "profile-stacks",
            "`drom profile`: stacks of a hot recursion that can be, of 10,000 samples",
            Profile::RightStacks { is_stopped: false },
            Asked::AtLeast(99.9),
        ),
        alone(
            "profile-stacks-stopped",
            "stacks of a hot recursion that can be, the process stopped for each of 10,000 samples",
            Profile::RightStacks { is_stopped: true },
            Asked::AtLeast(100.0),
        ),
        alone(
            "profile-stacks-torn",
            "`drom profile`: stacks of the same that moved while they were read, and say so",
            Profile::TornStacks,
            Asked::Nothing,
        ),
        alone(
            "profile-sample-50",
            "`drom profile`: one sample of 50 frames, p50",
            Profile::Sample { moves: false },
            Asked::AtMost(12.0),
        ),
        alone(
            "profile-sample-moving",
            "`drom profile`: one sample of a hot recursion to 32 to 64 levels, p50",
            Profile::Sample { moves: true },
            Asked::AtMost(12.0),
        ),
        alone(
            "profile-attach",
            "`drom profile`: attach to the first sample",
            Profile::FirstSample,
            Asked::AtMost(100.0),
        ),
        alone(
            "profile-shares",
            "`drom profile`, exact and sampled, of pod2man: the top ten's largest difference",
            Profile::Shares,
            Asked::AtMost(2.0),
        ),
    ]);
    rows.extend(memory());
    rows
}

fn costs() -> Vec<Row> {
    let cost = |name, what, work, by, asked| {
        row(name, what, "the same program, bare", Profile::Cost { work, by }, asked)
    };
    let sampler = |rate_hz| Profiler::Sampler { rate_hz };
    vec![
        cost(
            "profile-cost-100",
            "CPU time of pod2man on perldiag, sampled at 100 Hz",
            "pod",
            sampler(100),
            Asked::AtMost(1.005),
        ),
        cost(
            "profile-cost-1k",
            "CPU time of pod2man on perldiag, sampled at 1 kHz",
            "pod",
            sampler(1_000),
            Asked::AtMost(1.01),
        ),
        cost(
            "profile-cost-nytprof",
            "NYTProf in Drom's place: CPU time of pod2man on perldiag",
            "pod",
            Profiler::NytProf,
            Asked::Nothing,
        ),
        cost(
            "profile-exact",
            "CPU time of fib(20), `drom profile --exact`: subs and statements",
            "fib",
            Profiler::Exact,
            Asked::AtMost(2.0),
        ),
        cost(
            "profile-exact-nytprof",
            "NYTProf in Drom's place: CPU time of fib(20)",
            "fib",
            Profiler::NytProf,
            Asked::Nothing,
        ),
        cost(
            "profile-exact-dprof",
            "DProf in Drom's place: CPU time of fib(20), subs alone",
            "fib",
            Profiler::DProf,
            Asked::Nothing,
        ),
    ]
}

fn memory() -> [Row; 4] {
    let alone = |name, what, figure, asked| row(name, what, "-", figure, asked);
    [
        alone(
            "profile-heap-code",
            "`drom memory --heap`: code of 20 subs, the largest error",
            Profile::CodeSize(Sizer::Drom),
            Asked::AtMost(0.0),
        ),
        alone(
            "profile-heap-code-devel-size",
            "Devel::Size in Drom's place: 20 subs, the largest error",
            Profile::CodeSize(Sizer::DevelSize),
            Asked::Nothing,
        ),
        alone(
            "profile-heap-pause",
            "`drom memory --heap` of 100 MB: how long the process stands still",
            Profile::Pause,
            Asked::AtMost(70.0),
        ),
        alone(
            "profile-heap-analysis",
            "`drom memory --heap` of 100 MB: the analysis",
            Profile::Analysis,
            Asked::AtMost(1_000.0),
        ),
    ]
}

/// There are no connections.
fn row(
    name: &'static str,
    what: &'static str,
    against: &'static str,
    figure: Profile,
    asked: Asked,
) -> Row {
    Row { name, what, against, connections: 0, figure: Figure::Profile(figure), asked }
}
