//! The recorder: a reverse proxy whose exchanges become a scenario.
//!
//! [`Proxy`] passes requests on to one server and tells of each, as [`Seen`], when it is over; what
//! is kept, shown and written is the caller's. A thread a connection: simple and right come before
//! fast. Heads ([`head`]), bodies ([`body`]) and what a proxy changes ([`rewrite`]) are pure.

mod body;
mod conversation;
mod error;
mod filter;
mod head;
mod poll;
mod proxy;
mod relay;
mod rewrite;
mod side;
mod upstream;

pub use error::Error;
pub use filter::Filter;
pub use proxy::{Options, Proxy, Seen};
