//! Stacks of a program that calls and returns while it is looked at can be: each frame is at a
//! statement of its own sub, which calls the next one. How many are right on a quiet machine is
//! printed by the example `looks`; here others may have the CPU between two reads.

#[path = "support/hot.rs"]
mod hot;

use drom_profile::{Clock, Sampler};

const LOOKS: u64 = 3_000;
/// One in so many may not.
const WRONG_PART: u64 = 100;

#[test]
fn stacks_that_move_are_stacks_that_can_be() {
    let target = hot::start("60");
    let mut sampler = Sampler::attach(target.pid(), Clock::Wall).expect("a perl");
    (0..LOOKS).for_each(|_| sampler.sample().expect("it lives"));
    let profile = sampler.into_profile();
    let (depth, wrong) = hot::judge(&profile);
    let count: u64 = wrong.iter().map(|(_, count)| count).sum();
    assert!(count * WRONG_PART <= LOOKS, "{count} of {LOOKS}: {:?}", wrong.first());
    assert!(depth > 5.0 && profile.taken.samples == LOOKS, "{depth}");
}

#[test]
fn what_runs_now_is_told_and_not_counted() {
    let target = hot::start("60");
    target.stop();
    let mut sampler = Sampler::attach(target.pid(), Clock::Wall).expect("a perl");
    let now = sampler.now().expect("it lives");
    sampler.sample().expect("it lives");
    let profile = sampler.into_profile();
    let (stack, count) = profile.stacks().next().expect("a stack");
    assert_eq!((count, profile.taken.samples), (1, 1), "what was told before is not counted");
    assert!(now.iter().eq(stack.iter().copied()), "{now:?}");
    assert!(now.iter().any(|frame| frame.line > 0), "{now:?}");
}

#[test]
fn stacks_that_stand_still_are_right() {
    let target = hot::start("60");
    let mut sampler = Sampler::attach(target.pid(), Clock::Wall).expect("a perl");
    for _ in 0..200 {
        target.stop();
        sampler.sample().expect("it lives");
        target.go_on();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let profile = sampler.into_profile();
    let (depth, wrong) = hot::judge(&profile);
    assert!(wrong.is_empty() && profile.taken.torn == 0, "{wrong:?}");
    assert!((10.0..50.0).contains(&depth), "{depth}");
}

/// As `--exact-stacks` has it: none of them cannot be.
#[test]
fn stacks_of_a_process_that_is_stopped_for_each_are_all_right() {
    let target = hot::start("60");
    let sampler = Sampler::attach(target.pid(), Clock::Wall).expect("a perl");
    let mut sampler = sampler.with_stops().expect("allowed");
    (0..LOOKS).for_each(|_| sampler.sample().expect("it lives"));
    let profile = sampler.into_profile();
    let (depth, wrong) = hot::judge(&profile);
    assert!(wrong.is_empty() && profile.taken.torn == 0, "{wrong:?}");
    assert!((10.0..50.0).contains(&depth) && profile.taken.samples == LOOKS, "{depth}");
}
