//! What an exit status of `drom` means: the same for every verb.

use std::process::ExitCode;

/// One entry a meaning; `drom --help` and the manual list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked was done.
    Done = 0,
    /// It could not be done; the reason is on stderr.
    Failed = 1,
    /// The command line or a plan or configuration file is wrong.
    Usage = 2,
    /// Measured, but the client was the limit: the rate is a lower bound of the server's.
    ClientLimited = 3,
    /// `drom compare --gate`: a variant is worse than the baseline.
    Worse = 4,
    /// `drom compare --gate`: neither worse nor equivalent could be shown.
    Inconclusive = 5,
    /// Measured, but a self-check failed that makes the numbers doubtful.
    Doubtful = 6,
    /// `drom compare`: a variant answered wrongly, so that there is no claim about it.
    WrongAnswers = 7,
    /// `drom compare`: a variant did not answer at all in some slice: no claim about it either.
    NoAnswer = 8,
    /// `drom load --threshold`: measured, and something was not reached. `drom check`: a check
    /// failed.
    Missed = 9,
    /// Stopped by Ctrl-C; what was measured so far was printed.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
