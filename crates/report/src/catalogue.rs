//! The self-checks, each one entry: code, name, what it says in one line, and the whole story.
//! Legends of every output and `docs/checks.md` come from here. A check that failed is data with a
//! name: it stands beside the number that it spoils and never removes one silently.

/// One self-check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub code: &'static str,
    pub name: &'static str,
    pub says: &'static str,
    pub story: &'static str,
}

#[must_use]
pub fn check(code: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.code == code)
}

pub const CHECKS: &[Check] = &[
    Check {
        code: "AA",
        name: "A/A",
        says: "the baseline differs from itself",
        story: "In every block the baseline runs a second time under another label, on a server \
            of its \
                own. When the two come out faster or slower than each other, something other than \
                the \
                program decides the numbers, and no verdict of this run can be believed. By \
                chance it \
                happens in at most one group of twenty.",
    },
    Check {
        code: "L1",
        name: "Little",
        says: "rate x response time does not give the number of connections",
        story: "In a closed loop N connections are always waiting for an answer, so N = rate x \
            mean \
                response time (Little's law). A gap means that connections stood idle or starved, \
                that \
                answers are missing, or that the client was late. Requests under way at the ends \
                of the \
                slice are accounted for. Tolerance: 2 %, plus the client's own CPU time. A mean \
                above the p99 fails it too: a few answers stalled, and they make the mean.",
    },
    Check {
        code: "L2",
        name: "client near its limit",
        says: "a faster client would have measured a little more; read the rate as \"at least\"",
        story: "A client thread was busy for 70 % of the slice or more (waiting for a core counts \
            as busy), or the rate came over half of what this client reaches against a server \
            that does nothing. Such a client pulls ratios towards 1 and turns no sign around. \
            Where that was so in half of the slices, the rate is printed with \u{2265}, and the \
            verdict \"equivalent\", or one in favour of the side that was less held back, is not \
            given.",
    },
    Check {
        code: "C1",
        name: "client was the limit",
        says: "the rate is the client's, not the server's",
        story: "A client thread was busy for 90 % of the slice or more, or the rate came over 90 % \
            of what this client reaches against a server that does nothing. When that is so on \
            both sides of a ratio, it compares the client with itself and there is no claim.",
    },
    Check {
        code: "L3",
        name: "starved",
        says: "some connections were served far less than others",
        story: "With 20 answers or more per connection on average, some connection was never \
            answered, or Jain's fairness index of the answers per connection fell below 0.5: \
            keep-alive clients hold the workers and the others wait. Where some connection was \
            never answered in more than half of the blocks, fewer connections made the load than \
            the plan asks for: there is no claim about that variant, nor against such a baseline.",
    },
    Check {
        code: "L4",
        name: "wrong answers",
        says: "errors, short bodies or a body other than expected: no claim",
        story: "Requests failed, or a body had another length or hash than at the start of its \
            server, where all starts answer the same. A \
            server \
                that answers wrongly can be as fast as it likes, so there is no verdict for it.",
    },
    Check {
        code: "L5",
        name: "connections",
        says: "not all connections were established",
        story: "Fewer connections came up than the plan asks for: the load was another one.",
    },
    Check {
        code: "L6",
        name: "disturbed",
        says: "steal, throttling or a stranger's CPU load during the slice",
        story: "The hypervisor took over 1 % of the CPU time, the cgroup quota throttled us, or \
            processes \
                that belong neither to the server nor to the client used over 10 % of one core. \
                Such a \
                slice is measured once more; both attempts stay in the store.",
    },
    Check {
        code: "L7",
        name: "listen queue",
        says: "the listen queue overflowed, or answers came after a SYN was sent again",
        story: "The kernel counted overflows or drops of a listen queue, or a cluster of answers \
            sits just \
                above 1, 3 or 7 s, where a lost SYN is sent again. What was measured then is the \
                kernel's timer, not the server.",
    },
    Check {
        code: "L8",
        name: "worker died",
        says: "a server process ended during the slice",
        story: "A process that served before the slice was gone after it: a crash, or recycling \
            (MaxConnectionsPerChild). Its replacement starts cold, and that is in the number. \
            Those serve that hold a listening socket, and members of the server (there when it \
            was ready, or all through a slice) whose parent holds one; CGI processes that come \
            and go do not. What began and ended within one slice is not in the count.",
    },
    Check {
        code: "L9",
        name: "clock",
        says: "the wall clock jumped against the monotonic clock",
        story: "The two clocks moved apart by over 50 ms in one slice: the machine was suspended, \
            migrated, \
                or its clock was set. Such a slice is measured once more.",
    },
    Check {
        code: "L10",
        name: "memory grows",
        says: "the server's memory grew by over 25 % (and 8 MB, and 2 MB a process), or the \
            machine swapped",
        story: "Summed PSS of the server's processes, after the warm-up against after the last \
            slice of a \
                start. Growth under a steady load is a leak or a cache that has not reached its \
                size; what \
                workers unshare in their first second after a fork is less than this.",
    },
    Check {
        code: "L11",
        name: "no answer",
        says: "not one answer came within a slice: no claim",
        story: "No request of the slice ended, well or badly: the server hangs, or its answers \
            take longer than the slice (then a longer slice will do). Its rate in that block \
            counts as it is, 0 for a slice, and the mean of the blocks is the plain one. There is \
            no ratio and no verdict for such a variant, nor against such a baseline, and the run \
            ends with exit status 8.",
    },
    Check {
        code: "F1",
        name: "server failed",
        says: "a server ended or did not start in the middle of a block, and the block does not \
            count",
        story: "What is shown comes from the blocks that the server survived: a number with a \
            past. Such a block is dropped for all variants of its group and measured again with \
            fresh servers. A variant that fails in three blocks in a row, or in as many as the \
            pilot has, ends the run. A run with dropped blocks ends with exit status 6.",
    },
    Check {
        code: "W1",
        name: "cold",
        says: "the first slice after a start is slower than the later ones",
        story: "Over all blocks the first slice of a start was slower by over 3 % (paired t test, \
            1 %): \
                the warm-up of the plan is too short for this variant. First attempts at slices \
            are compared, those that were measured again included: the repeat of a cold slice is \
            warm. Needs two rounds and six blocks.",
    },
    Check {
        code: "W2",
        name: "warm-up too short",
        says: "the rate had not settled when the first slice began",
        story: "MSER-5 on the rate in fiftieths of a slice, at the median of the blocks, finds \
            from where on it is settled. When that is not the beginning, the steps before differ \
            from those after in the blocks (paired t test, 0.01 %), and leaving them in moves the \
            rate by more than half of the plan's smallest effect, the warm-up was too short; the \
            figures say how long it should be. Looks at first attempts, as W1 does. Needs six \
            blocks and ten answers a step, 500 a slice; with less it says \"not evaluated\".",
    },
    Check {
        code: "V1",
        name: "answers vary",
        says: "bodies differ from each other, so that not every byte of them was checked",
        story: "Two answers of the preflight, over a second apart, or those of two starts differ: \
            a clock, a counter, a random number. Then no hash says what is right, and every answer \
            is checked by its status, its framing and, where it was always the same, its length. \
            A body that differs by the server's own port or scratch folder alone is no different \
            one. It is a note: nothing is taken back for it.",
    },
    Check {
        code: "D1",
        name: "drift",
        says: "the ratio moves in one direction over the blocks",
        story: "Kendall's test (0.1 %) on the blocks' ratios in the order they ran, with \
            Theil-Sen's slope. \
                Pairing takes out what moves both sides; this is what moved one of them.",
    },
    Check {
        code: "D2",
        name: "two speeds",
        says: "starts settle at one of two speeds; one number does not tell that",
        story: "With 15 blocks or more: the best split of the blocks' ratios in two groups leaves \
            less \
                variance inside the groups than 99.9 % of normal samples would.",
    },
    Check {
        code: "P1",
        name: "busy machine",
        says: "other processes used over 5 % of the machine before the first block",
        story: "Measured in the preflight while nothing of ours ran. Intervals will be wider, and \
            the A/A \
                pair tells by how much.",
    },
];

/// `docs/checks.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Self-checks of `drom compare`\n\nWritten from the catalogue in \
         `crates/report/src/catalogue.rs`; a test keeps them equal.\n",
    );
    for check in CHECKS {
        text +=
            &format!("\n## {} {}\n\n*{}.* {}\n", check.code, check.name, check.says, check.story);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let codes: std::collections::BTreeSet<_> = CHECKS.iter().map(|c| c.code).collect();
        assert_eq!(codes.len(), CHECKS.len());
    }

    #[test]
    fn the_page_is_that_of_the_catalogue() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/checks.md");
        if std::env::var_os("SNAP_UPDATE").is_some() {
            std::fs::write(path, markdown()).expect("writable");
        }
        let page = std::fs::read_to_string(path).expect("docs/checks.md");
        assert!(
            page == markdown(),
            "docs/checks.md is stale: SNAP_UPDATE=1 cargo test -p drom-report"
        );
    }
}
