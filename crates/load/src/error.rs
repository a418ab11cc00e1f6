//! Why a run could not be done at all. What goes wrong with a single answer is data (`ErrorKind`).

use std::{io, net::SocketAddr};

/// One variant a fault; each message says what happened, to which thing, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{url:?} is not a URL that can be loaded: {reason}")]
    Url { url: String, reason: &'static str },
    #[error("{url:?} is no URL: it must begin with http://{}", meant(url))]
    Scheme { url: String },
    #[error("{url:?}: https is not supported yet; load the plain http port of the server")]
    Https { url: String },
    #[error("cannot resolve {host:?}: {source}; check the name, or give an address")]
    Resolve { host: String, source: io::Error },
    #[error(
        "{address} refused the connection: no server listens there; start it or check the port"
    )]
    Refused { address: SocketAddr },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error(
        "{wanted} open files are needed for that many connections, but the limit is {limit}; \
         raise it (ulimit -n {wanted}) or use fewer connections"
    )]
    Descriptors { wanted: u64, limit: u64 },
    #[error("the request cannot be sent: {reason}")]
    Request { reason: String },
    #[error("the load cannot be run: {reason}")]
    Plan { reason: &'static str },
    #[error("the event loop failed: {source}")]
    EventLoop { source: io::Error },
    #[error("a client thread could not be started: {source}")]
    Thread { source: io::Error },
}

impl Error {
    /// The command line or the plan is wrong, not the world.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Url { .. }
                | Self::Scheme { .. }
                | Self::Https { .. }
                | Self::Request { .. }
                | Self::Plan { .. }
        )
    }
}

/// `localhost:8080/x` as people type it.
fn meant(url: &str) -> String {
    let plain = url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.starts_with(['/', '-']);
    if plain && !url.is_empty() { format!("; did you mean http://{url} ?") } else { String::new() }
}
