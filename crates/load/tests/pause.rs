//! A client that stands still for longer than its timeout (Ctrl-Z and `fg`, a machine that is
//! paused): answers that came meanwhile are answers.
//!
//! Stops this process, so it is the only test of its binary.

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{Plan, Stop, Target, run};
use drom_testkit::{Delay, Pauser, Process, Script, Turn};

#[test]
fn an_answer_that_came_while_the_client_stood_still_is_no_timeout() {
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
