//! Why nothing can be recorded. What goes wrong with one request is told to its client.

use std::{io, net::SocketAddr};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "{url:?} has a path: give scheme, host and port only; --only PREFIX records a part of a \
         server"
    )]
    Path { url: String },
    #[error(transparent)]
    Target(#[from] drom_load::Error),
}

impl Error {
    /// The command line is wrong, not the world.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Listen { .. } => false,
            Self::Path { .. } => true,
            Self::Target(error) => error.is_usage(),
        }
    }
}
