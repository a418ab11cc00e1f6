//! How many looks at a hot recursive program see a stack that can be, and what a look costs:
//! `cargo run --release -p drom-profile --example looks [DEPTH [LOOKS [stopped|traced]]]`:
//! stopped by a signal, which is not in the times, or by ptrace, which is.

#[path = "../tests/support/hot.rs"]
mod hot;

use std::time::{Duration, Instant};

use drom_profile::{Clock, Sampler};

fn main() {
    let mut words = std::env::args().skip(1);
    let depth = words.next().unwrap_or_else(|| "50".to_owned());
    let looks: usize = words.next().map_or(10_000, |looks| looks.parse().expect("a number"));
    let how = words.next().unwrap_or_default();
    let stops = how == "stopped";
    let target = hot::start(&depth);
    let began = Instant::now();
    let mut sampler = Sampler::attach(target.pid(), Clock::Wall).expect("a perl");
    if how == "traced" {
        sampler = sampler.with_stops().expect("allowed");
    }
    sampler.sample().expect("it lives");
    let attached = began.elapsed();
    let mut took: Vec<Duration> = (0..looks)
        .map(|look| {
            std::thread::sleep(Duration::from_micros(50 + (look as u64 * 7_919) % 100));
            if stops {
                target.stop();
            }
            let began = Instant::now();
            sampler.sample().expect("it lives");
            let took = began.elapsed();
            if stops {
                target.go_on();
            }
            took
        })
        .collect();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let profile = sampler.into_profile();
    let (frames, wrong) = hot::judge(&profile);
    println!("attach to first look {:.1} ms", attached.as_secs_f64() * 1e3);
    println!("a look: p50 {:.1} us, p90 {:.1} us, p99 {:.1} us", at(0.5), at(0.9), at(0.99));
    println!("{} looks, {frames:.1} subs deep, {} torn", looks + 1, profile.taken.torn);
    println!("{} stacks cannot be", wrong.iter().map(|(_, count)| count).sum::<u64>());
    wrong.iter().take(5).for_each(|(stack, count)| println!("{count} times {stack}"));
}
