//! The io_uring engine against the same servers. Where the kernel does not allow it that is said,
//! and the tests run on epoll once more.

#[path = "support/engine.rs"]
mod engine;

use std::sync::LazyLock;

use drom_load::{Engine, check_rings};
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
