//! What an exit status of `drom` means: the same for every verb. `--help`, the manual and
//! docs/exit-status.md list the catalogue below.

use std::process::ExitCode;

/// How a verb ended.
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
    /// `drom load --find-capacity`: not even the lowest rate that was tried held.
    NoCapacity = 10,
    /// Stopped by Ctrl-C; what was measured so far was printed.
    Interrupted = 130,
}

/// A status in words: of every verb, and of those that have more to say.
pub struct Entry {
    pub exit: Exit,
    pub doc: &'static str,
    /// Verbs that can end so and say it in words of their own.
    pub verbs: &'static [(&'static str, &'static str)],
}

/// Every status, in the order of its number.
pub const EXITS: [Entry; 12] = [
    Entry {
        exit: Exit::Done,
        doc: "what was asked was done",
        verbs: &[
            ("serve", "the server ended as it was asked to, or the test or the reload went well"),
            ("load", "measured"),
            ("check", "every check holds"),
            ("compare", "measured"),
            ("record", "recorded, also when Ctrl-C or TERM ended it"),
            ("profile", "profiled; of a script that was started, its own status"),
            ("memory", "looked at; of a script that was started, its own status"),
            ("bench", "compared, also where no difference is shown"),
            ("top", "shown; the view was left, or nobody reads any more"),
        ],
    },
    Entry {
        exit: Exit::Failed,
        doc: "it could not be done; the reason is on standard error",
        verbs: &[
            ("serve", "it could not be started, or not reloaded"),
            (
                "load",
                "could not be measured: no server, no such name, too many open files, or not one \
                 complete answer",
            ),
            ("check", "it could not be run: no server"),
            (
                "compare",
                "could not be measured, or not to its end: a server failed too often, or the disk \
                 is full; what was measured before is printed, and standard error says where it \
                 is kept",
            ),
            ("record", "nothing was recorded, or it could not be written"),
            (
                "profile",
                "no such process, not allowed, no Perl, or one that is not known; where a process \
                 could be looked at no longer, what was seen before is printed",
            ),
            ("memory", "no such process, not allowed, or one without memory"),
            (
                "bench",
                "could not be compared: no such file, code that does not compile or dies, a \
                 command that fails",
            ),
            ("top", "no such process, or nowhere to write to"),
        ],
    },
    Entry {
        exit: Exit::Usage,
        doc: "the command line, a plan or a configuration file is wrong",
        verbs: &[
            ("serve", "wrong flags or configuration"),
            (
                "load",
                "wrong flags, URL or data file, or a result file that cannot be written (known \
                 before the run)",
            ),
            ("check", "wrong flags or scenario"),
            ("compare", "wrong flags or plan"),
            ("record", "wrong flags, or a file that is none of its kind"),
            ("profile", "wrong flags, or a file that is no profile"),
            ("memory", "wrong flags"),
            ("bench", "wrong flags"),
            ("top", "wrong flags, or no terminal and neither --once nor --json"),
        ],
    },
    Entry {
        exit: Exit::ClientLimited,
        doc: "measured, but the client was the limit: the rate is a lower bound of the server's",
        verbs: &[("load", "measured, but the client was the limit")],
    },
    Entry {
        exit: Exit::Worse,
        doc: "a variant is slower than the baseline (`drom compare --gate`)",
        verbs: &[("compare", "a variant is slower (--gate)")],
    },
    Entry {
        exit: Exit::Inconclusive,
        doc: "for some variant neither slower nor equal could be shown (`drom compare --gate`)",
        verbs: &[("compare", "undecided (--gate)")],
    },
    Entry {
        exit: Exit::Doubtful,
        doc: "measured, but a self-check makes the numbers doubtful; the report says which",
        verbs: &[
            ("load", "measured, but another check makes the numbers doubtful"),
            ("compare", "measured, but the A/A pair differs or blocks were dropped"),
        ],
    },
    Entry {
        exit: Exit::WrongAnswers,
        doc: "a variant answered wrongly: there is no claim about it (`drom compare`)",
        verbs: &[(
            "compare",
            "a variant answered wrongly, in the preflight or under load (an error, a bad status, \
             another body)",
        )],
    },
    Entry {
        exit: Exit::NoAnswer,
        doc: "a variant did not answer at all: there is no claim about it (`drom compare`)",
        verbs: &[(
            "compare",
            "a variant did not answer in some slice: it hangs, or its answers take longer than a \
             slice",
        )],
    },
    Entry {
        exit: Exit::Missed,
        doc: "a threshold was not met, or a check did not hold",
        verbs: &[
            ("load", "measured, and a threshold was not met (also when 3 would be said)"),
            ("check", "a check failed, or an answer did not come"),
        ],
    },
    Entry {
        exit: Exit::NoCapacity,
        doc: "no rate held, not even the lowest that was tried (`drom load --find-capacity`)",
        verbs: &[("load", "--find-capacity: no rate held, not even the lowest that was tried")],
    },
    Entry {
        exit: Exit::Interrupted,
        doc: "stopped by Ctrl-C; what was measured so far was printed",
        verbs: &[
            (
                "load",
                "stopped by Ctrl-C, what was measured so far is printed; a second one ends \
                      it at once",
            ),
            ("check", "stopped by Ctrl-C"),
            ("profile", "stopped by Ctrl-C, what was seen is printed"),
            ("memory", "stopped by Ctrl-C, what was seen is printed"),
            ("bench", "stopped by Ctrl-C, what was measured so far is printed"),
            ("top", "--json or --once: stopped by Ctrl-C, every refresh until then is printed"),
            ("compare", "stopped by Ctrl-C, what was measured so far is printed"),
        ],
    },
];

/// Status and words of a verb; of one without words of its own the general ones that every verb can
/// end with, and of no verb all general ones.
pub fn of_verb(verb: &str) -> Vec<(u8, &'static str)> {
    let own = |entry: &Entry| entry.verbs.iter().find(|(name, _)| *name == verb).map(|(_, w)| *w);
    let has_own = EXITS.iter().any(|entry| own(entry).is_some());
    let words = |entry: &Entry| match own(entry) {
        None if has_own || (!verb.is_empty() && entry.exit as u8 > 2) => None,
        own => Some((entry.exit as u8, own.unwrap_or(entry.doc))),
    };
    EXITS.iter().filter_map(words).collect()
}

/// What stands at the end of a verb's help: `before`, then its statuses.
pub fn help(verb: &str, before: &str) -> String {
    let mut out = before.to_owned();
    out += if before.is_empty() { "Exit status:" } else { "\n\nExit status:" };
    for (status, words) in of_verb(verb) {
        let lines = drom_report::broken(&words.replace('`', ""), WIDTH, WIDTH);
        out += &format!("\n  {status:<4} {}", lines.join("\n       "));
    }
    out
}

/// Of a status in words, so that no line of a help is wider than 100.
const WIDTH: usize = 90;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_in_order_and_each_verb_has_its_own() {
        assert!(EXITS.iter().map(|entry| entry.exit as u8).is_sorted());
        let statuses = |verb| of_verb(verb).iter().map(|(status, _)| *status).collect::<Vec<_>>();
        assert_eq!(statuses("load"), [0, 1, 2, 3, 6, 9, 10, 130]);
        assert_eq!(statuses("compare"), [0, 1, 2, 4, 5, 6, 7, 8, 130]);
        assert_eq!(statuses("check"), [0, 1, 2, 9, 130]);
        assert_eq!(statuses("record"), [0, 1, 2]);
        assert_eq!(statuses("man"), [0, 1, 2]);
        assert_eq!(statuses("").len(), EXITS.len());
    }

    #[test]
    fn the_help_wraps_under_its_words() {
        let help = help("load", "Examples:\n  one");
        assert!(help.starts_with("Examples:\n  one\n\nExit status:\n  0    measured\n"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
