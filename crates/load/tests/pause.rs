//! A client that stands still for longer than its timeout (Ctrl-Z and `fg`, a machine that is
//! paused): answers that came meanwhile are answers.
//!
//! And one that stands still often and shortly: its own delay can be told from the server's.
//!
//! Stops this process, so that the two cases are one test, the only one of its binary.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{Plan, Stop, Target, run};
use drom_testkit::{Delay, Pauser, Process, Script, Turn};

#[test]
fn a_client_that_stands_still_is_not_taken_for_a_slow_server() {
    an_answer_that_came_meanwhile_is_no_timeout();
    delays_of_its_own_can_be_taken_out();
}

fn delays_of_its_own_can_be_taken_out() {
    let ms = Duration::from_millis;
    let turn = Turn::after(Delay::Constant(ms(5)));
    let server = Process::start(Script::always(turn)).expect("a process");
    let target = Target::at(server.address(), "/");
    let plan = Plan { stop: Stop::After(ms(2_000)), ..Plan::get(target) };
    let pauser = Pauser::start(ms(200), ms(40)).expect("a pauser");
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible");
    drop(pauser);
    let [with, without] =
        [&outcome.latency, &outcome.latency_unkept()].map(|times| times.quantile_ns(0.98));
    assert!(outcome.kept.count() >= 20, "{}", outcome.kept.count());
    assert!(with > 35_000_000 && without < 20_000_000, "{with} {without}");
}

fn an_answer_that_came_meanwhile_is_no_timeout() {
    let ms = Duration::from_millis;
    let turn = Turn::after(Delay::Constant(ms(5)));
    let server = Process::start(Script::always(turn)).expect("a process");
    let address = server.address();
    let plan = Plan {
        stop: Stop::After(ms(2_000)),
        timeout: ms(1_000),
        ..Plan::get(Target::at(address, "/"))
    };
    let pauser = Pauser::start(ms(300), ms(1_200)).expect("a pauser");
    let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible");
    drop(pauser);
    assert!(outcome.latency.max_ns() > 1_100_000_000, "it was stopped");
    assert_eq!(outcome.failed, 0, "{:?}", outcome.errors);
}
