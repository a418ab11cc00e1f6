//! How near the search for a capacity comes, and how long it takes: against servers of a known
//! limit, and beside a brute force that walks up to it in steps of one in a hundred.
//!
//! `cargo run --release -p drom-testkit --example capacity [RPS ...]`, on a machine with little
//! else to do. Asked for: within 5 % in 60 s.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{
    Pace, Plan, Stop, Target, Threshold,
    capacity::{Asked, Ended, find, judge},
    run,
};
use drom_testkit::{Process, Script};

/// Of a try of the brute force, and how many of them decide over a rate.
const LENGTH: Duration = Duration::from_secs(5);
const TRIES: usize = 3;

fn main() {
    let words: Vec<f64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let limits = if words.is_empty() { vec![200.0, 1_000.0, 5_000.0] } else { words };
    let conditions =
        ["p99<50ms", "failed<0.1%"].map(|text| Threshold::parse(text).expect("a threshold"));
    println!("   limit  brute force    found (95 % interval)      off by   time");
    for limit in limits {
        let server = Process::start(Script::limited(limit)).expect("a server");
        let plan = Plan::get(Target::at(server.address(), "/"));
        let brute = brute_force(&plan, &conditions, limit);
        let asked = Asked {
            plan: &plan,
            conditions: &conditions,
            seed: None,
            start_rps: None,
            min_rps: 1.0,
            max_rps: 1e6,
            time: Duration::from_secs(60),
        };
        let found = find(&asked, &AtomicBool::new(false), &mut |_, _| {}).expect("it answers");
        let capacity = found.capacity;
        let number = |rps: Option<f64>| rps.map_or("-".to_owned(), |rps| format!("{rps:.0}"));
        println!(
            "{limit:8.0} {brute:12.0} {:>8} ({} to {})  {:+.1} %  {:.0} s  {:?}",
            number(capacity.rate_rps),
            number(capacity.lower_rps),
            number(capacity.upper_rps),
            capacity.rate_rps.map_or(f64::NAN, |rps| 100.0 * (rps / brute - 1.0)),
            found.took.as_secs_f64(),
            capacity.verdict,
        );
    }
}

/// The highest of rates a hundredth apart at which most tries hold, from nine tenths of the limit
/// on, when none of the next three does.
fn brute_force(plan: &Plan, conditions: &[Threshold], limit: f64) -> f64 {
    let (mut highest, mut missed, mut rate) = (0.0, 0, 0.9 * limit);
    while missed < 3 {
        let held = (0..TRIES).filter(|_| holds(plan, conditions, rate)).count();
        if 2 * held > TRIES {
            (highest, missed) = (rate, 0);
        } else {
            missed += 1;
        }
        rate *= 1.01;
    }
    highest
}

fn holds(plan: &Plan, conditions: &[Threshold], rate: f64) -> bool {
    let pace = Some(Pace::steady(rate, LENGTH));
    let plan = Plan { stop: Stop::After(LENGTH), pace, ..plan.clone() };
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("it answers");
    judge(&outcome, conditions, None).ended == Ended::Held
}
