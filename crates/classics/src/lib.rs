//! The old tools' command lines and reports: ab, http_load, httperf. A command line goes in as
//! words, a run as what the load engine kept of it, a report comes out as text. Pure: no sockets,
//! no clock, no files; the command does those.
//!
//! Figures mean what they meant there, oddities included: who compares with a run of ten years ago
//! must be able to. The right figures are the engine's own report.

pub mod ab;
pub mod getopt;
pub mod http_load;
pub mod httperf;
mod number;
mod spans;

pub use ab::suites;
pub use number::WallClock;

/// A host as it stands in a URL: an IPv6 address in brackets.
#[must_use]
pub fn host_in_url(host: &str) -> String {
    let is_bare = host.parse::<std::net::Ipv6Addr>().is_ok();
    if is_bare { format!("[{host}]") } else { host.to_owned() }
}

/// What a proxy is asked for a way to a server that speaks TLS, with these lines besides.
#[must_use]
pub fn tunnel(host: &str, port: u16, lines: &str) -> Vec<u8> {
    format!("CONNECT {host}:{port} HTTP/1.0\r\nHost: {host}:{port}\r\n{lines}\r\n").into_bytes()
}

/// Why a command line is not run: what the old tool would say, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub status: u8,
}

impl Refusal {
    #[must_use]
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), status }
    }
}
