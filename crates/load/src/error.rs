//! Why a run could not be done at all. What goes wrong with a single answer is data (`ErrorKind`).

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use crate::plan::Address;

/// One variant a fault; each message says what happened, to which thing, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{url:?} is not a URL that can be loaded: {reason}")]
    Url { url: String, reason: &'static str },
    #[error("{url:?} is no URL: it must begin with http://{}", meant(url))]
    Scheme { url: String },
    #[error("cannot resolve {host:?}: {source}; check the name, or give an address")]
    Resolve { host: String, source: io::Error },
    #[error(
        "{address} refused the connection: no server listens there; start it or check the port"
    )]
    Refused { address: Address },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: Address, source: io::Error },
    #[error("no TLS with {address}: {}", tls_failure(reason))]
    Handshake { address: Address, reason: String },
    #[error(
        "nothing answers at {address} any more since {rate_rps:.0} a second were tried, not even \
         one request for {waited:.1?}; the last one: {last}"
    )]
    Silent { address: Address, rate_rps: f64, waited: Duration, last: &'static str },
    #[error("TLS cannot be set up: {reason}")]
    Tls { reason: String },
    #[error("{host:?} is no name that a certificate can have")]
    TlsName { host: String },
    #[error("{} cannot be used for TLS: {reason}", file.display())]
    TlsFile { file: PathBuf, reason: String },
    #[error(
        "no local port is left for another connection to {address}: wait a minute, give more \
         --source-address, or widen net.ipv4.ip_local_port_range"
    )]
    Ports { address: Address },
    #[error("no connection can come from {source_address}: {reason}")]
    Source { source_address: IpAddr, reason: String },
    #[error(
        "{wanted} connections to one address need as many local ports, but {sources} source \
         address{es} of {ports} ports in all {are} there: give more --source-address, widen \
         net.ipv4.ip_local_port_range, or use fewer connections",
        es = if *sources == 1 { "" } else { "es" },
        are = if *sources == 1 { "is" } else { "are" }
    )]
    FewPorts { wanted: u64, ports: u64, sources: u64 },
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
                | Self::TlsName { .. }
                | Self::TlsFile { .. }
                | Self::Source { .. }
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

/// Why the handshake failed and what to do about it. Where the library has no words but the names
/// of its types, ours stand alone.
fn tls_failure(reason: &str) -> String {
    if reason.contains("CaUsedAsEndEntity") {
        return "the server shows the certificate of an authority (CA) in place of its own; trust \
                it with --cacert FILE, or any certificate with --insecure"
            .to_owned();
    }
    if reason.contains("UnsupportedCertVersion") {
        return "the server's certificate is one of X.509 version 1, which is not read; give it one \
                of version 3, or take any certificate with --insecure"
            .to_owned();
    }
    if reason.contains("CertificateRequired") {
        return "the server wants to see a certificate: name one with --cert and --key".to_owned();
    }
    format!("{reason}{}", tls_hint(reason))
}

fn tls_hint(reason: &str) -> &'static str {
    if reason.contains("not valid for name") || reason.contains("NotValidForName") {
        "; ask for it by a name that it is for (--resolve says where that is), or trust any with \
         --insecure"
    } else if reason.contains("Expired") || reason.contains("expired") {
        "; renew the server's certificate, or trust any with --insecure"
    } else if reason.contains("alert: UnknownCA") || reason.contains("alert: BadCertificate") {
        "; the server does not trust the certificate that it was shown (--cert)"
    } else if reason.contains("certificate") {
        "; trust its issuer with --cacert FILE, or any certificate with --insecure"
    } else if reason.contains("ProtocolVersion") {
        "; the server speaks no version of TLS that was offered (1.2 and 1.3 are those there are)"
    } else if reason.contains("HandshakeFailure") {
        "; the two have no cipher suite or kind of key in common (a certificate with a key of the \
         curve P-521 is good with --insecure only)"
    } else if reason.contains("NoApplicationProtocol") {
        "; the server speaks no HTTP/2 over TLS: leave out --http2"
    } else if reason.contains("corrupt message") || reason.contains("InvalidContentType") {
        "; is this a port for plain http?"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_librarys_types_are_no_reason() {
        let told = tls_failure("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))");
        assert!(!told.contains("Other") && told.contains("authority (CA)"), "{told}");
        let version = "invalid peer certificate: Other(OtherError(UnsupportedCertVersion))";
        let told = tls_failure(version);
        assert!(!told.contains("Other") && told.contains("of X.509 version 1"), "{told}");
        let told = tls_failure("received fatal alert: ProtocolVersion");
        assert!(told.contains("1.2 and 1.3 are those there are"), "{told}");
        let told = tls_failure("invalid peer certificate: Expired");
        assert!(told.contains("renew") && !told.contains("--cacert"), "{told}");
        let told = tls_failure("invalid peer certificate: UnknownIssuer");
        assert!(told.starts_with("invalid peer certificate: UnknownIssuer; trust"), "{told}");
    }
}
