//! The io_uring engine against the same servers. Where the kernel does not allow it that is said,
//! and the tests run on epoll once more.

#[path = "support/engine.rs"]
mod engine;

use std::{sync::LazyLock, time::Duration};

use drom_load::{Engine, ErrorKind, Plan, Stop, Target, check_rings};
use drom_testkit::{Fate, Script, Server, Turn};
use engine::{OK, go, plan, say, scripted};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| match check_rings() {
    Ok(()) => Engine::IoUring,
    Err(error) => {
        eprintln!("not tested: this machine allows no io_uring ({error})");
        Engine::Epoll
    }
});

#[test]
fn the_engine_says_which_it_is() {
    let server = scripted(|_, stream| say(stream, OK));
    let outcome = go(&plan(&server.target, 1, 1));
    let name = match *ENGINE {
        Engine::IoUring => "closed-loop http/1.1 io_uring",
        Engine::Epoll => "closed-loop http/1.1 epoll",
    };
    assert_eq!(outcome.engine, name);
}

/// The kernel loses one in some ten thousand of them, on two cores and without another look
/// (`Work::HangUp`): seldom is this test wrong, and never without a reason.
#[test]
fn a_reset_right_behind_data_is_heard_of() {
    const RESETS: u64 = 60_000;
    let turn = Turn { fate: Fate::CutReset(13), ..Turn::default() };
    let server = Server::start(Script::always(turn)).expect("a server");
    let plan = Plan {
        engine: *ENGINE,
        connections: 2,
        stop: Stop::Requests(RESETS),
        timeout: Duration::from_secs(2),
        ..Plan::get(Target::at(server.address(), "/"))
    };
    let outcome = go(&plan);
    assert_eq!(outcome.errors, [(ErrorKind::Closed, RESETS)].into());
}
