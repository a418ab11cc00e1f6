//! How good the verdict "the client was the limit" is: fifty planted cases, fifty clean ones.
//!
//! `cargo run --release -p drom-testkit --example verdicts`, with at least two cores. Asked for:
//! 95 % of the planted ones named, at most 2 % of the clean ones. The thresholds were set by these
//! cases; with `drawn 7` behind it the numbers of others are drawn from seed 7, which no threshold
//! has seen.
//!
//! A clean case is clean only when the machine left the client its CPU. Where it may, such a case
//! runs client and server before all else (SCHED_FIFO): whatever the machine does takes nothing
//! from them. Those with hogs in them wait for a moment of quiet instead, and are done again, up to
//! [`TRIES`] times, when others took more than `support` allows or the hypervisor stole; what never
//! was clean is told apart. Beside each case stands what the machine did: the share of the client's
//! core that went to others, and steal. Where the server's rate is known, so is what the client
//! lost of it. A case that may not be planted here (control groups want a right) is left out.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

const TRIES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(3);

/// What came of the cases of one kind.
#[derive(Default)]
struct Sum {
    named: usize,
    of: usize,
    left_out: usize,
    disturbed: usize,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (mut wanted, mut cases) = (words.next().unwrap_or_default(), support::cases());
    if let Some(seed) = words.next().filter(|_| wanted == "drawn") {
        cases = support::drawn(seed.parse().expect("a number as seed"));
        wanted.clear();
    }
    let (mut planted, mut clean, mut tries) = (Sum::default(), Sum::default(), 0);
    for case in cases.iter().filter(|case| case.name.contains(&wanted)) {
        let sum = if case.limited { &mut planted } else { &mut clean };
        let mut seen = case.run();
        for _ in 1..TRIES {
            if case.limited || seen.as_ref().is_none_or(support::Seen::is_undisturbed) {
                break;
            }
            tries += 1;
            support::wait_for_quiet(PATIENCE);
            seen = case.run();
        }
        let Some(seen) = seen else {
            sum.left_out += 1;
            println!("- {} cannot be planted here", case.name);
            continue;
        };
        let is_counted = case.limited || seen.is_undisturbed();
        sum.disturbed += usize::from(!is_counted);
        sum.of += usize::from(is_counted);
        sum.named += usize::from(is_counted && seen.verdict.limited);
        tell(case, &seen, is_counted);
    }
    println!(
        "planted and named: {} of {}, {} left out",
        planted.named, planted.of, planted.left_out
    );
    println!("clean and named: {} of {}, {} never clean", clean.named, clean.of, clean.disturbed);
    println!("{tries} tries of clean cases had others on the client's CPU and were done again");
}

fn tell(case: &support::Case, seen: &support::Seen, is_counted: bool) {
    let mark = match (is_counted, seen.verdict.limited == case.limited) {
        (false, _) => "?",
        (true, true) => " ",
        (true, false) => "!",
    };
    let truth = if case.limited { "planted" } else { "clean" };
    let lost = seen.lost_share.map_or(String::new(), |lost| format!("{:.0} %", lost * 100.0));
    let (others, steal) = (seen.foreign_share * 100.0, seen.steal_share * 100.0);
    let (name, evidence) = (&case.name, &seen.verdict.evidence);
    let evidence = evidence.split(": ").next().unwrap_or(evidence);
    let cause = seen.verdict.cause.map_or(String::new(), |cause| format!(" [{cause:?}]"));
    println!(
        "{mark} {truth:8} {name:58} {lost:5} others {others:2.0} %, steal {steal:2.0} %: \
         {evidence}{cause}"
    );
}
