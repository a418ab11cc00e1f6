//! The io_uring engine against the same servers. Where the kernel does not allow it that is said,
//! and the tests run on epoll once more.

#[path = "support/engine.rs"]
mod engine;

use std::sync::{LazyLock, atomic::AtomicBool};

use drom_load::{Engine, Error, Plan, Target, run};
use engine::{OK, go, plan, say, scripted};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let target = Target::at(([127, 0, 0, 1], 1).into(), "/");
    let asked = Plan { engine: Engine::IoUring, ..Plan::get(target) };
    match run(&asked, &AtomicBool::new(false), &mut |_| {}) {
        Err(Error::IoUring { source }) => {
            eprintln!("not tested: this machine allows no io_uring ({source})");
            Engine::Epoll
        }
        _ => Engine::IoUring,
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
