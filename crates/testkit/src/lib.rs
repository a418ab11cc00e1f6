//! Servers that do what a script says and count what they did: what a load generator is tested
//! with. Only tests depend on this crate.
//!
//! A [`Script`] is data: what happens to the n-th request is drawn from a seed and from n alone,
//! whatever the order in which connections are served. [`Server::start`] runs it on one thread over
//! a TCP and a Unix socket; [`Process::start`] runs it in a process of its own, which can be
//! stopped and continued. [`Counts`] tells what the server saw. When [`Server::settle`] returns,
//! every byte that the clients had written is in them.

mod answer;
mod awake;
mod brake;
mod counts;
mod hog;
pub mod known;
mod pauser;
mod peer;
mod poll;
mod process;
mod quota;
mod request;
mod script;
mod serve;
mod server;

pub use answer::{body, wire};
pub use awake::Awake;
pub use brake::Brake;
pub use counts::Counts;
pub use hog::Hog;
pub use pauser::Pauser;
pub use process::Process;
pub use quota::Quota;
pub use script::{Delay, Fate, Flaw, Form, Manner, Order, Script, Then, Turn, Window};
pub use server::Server;
