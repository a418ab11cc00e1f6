//! How good the verdict "the client was the limit" is: fifty planted cases, fifty clean ones.
//!
//! `cargo run --release -p drom-testkit --example verdicts`, on a machine with nothing else to do
//! and at least two cores. Asked for: 95 % of the planted ones named, 2 % of the clean ones.
//! Where the server's rate is known, what the client lost of it stands beside: on a busy machine
//! it tells whether a clean case was clean.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let cases = support::cases();
    let (mut named, mut planted) = ([0, 0], 0);
    for case in &cases {
        let support::Seen { verdict, lost_share } = case.run();
        planted += usize::from(case.limited);
        named[usize::from(case.limited)] += usize::from(verdict.limited);
        let mark = if verdict.limited == case.limited { " " } else { "!" };
        let truth = if case.limited { "planted" } else { "clean" };
        let lost = lost_share.map_or(String::new(), |lost| format!("{:3.0} %", lost * 100.0));
        println!("{mark} {truth:8} {:58} {lost:5} {}", case.name, verdict.evidence);
    }
    println!("planted and named: {} of {planted}", named[1]);
    println!("clean and named: {} of {}", named[0], cases.len() - planted);
}
