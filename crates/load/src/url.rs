//! From a URL as typed to a `Target`: parsing is pure, `Target::resolve` asks the resolver.
//!
//! Deliberately small: no user names, no percent-encoding on the user's behalf.

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use drom_observe::clock::monotonic_ns;

use crate::{
    error::Error,
    plan::{Address, Target},
};

/// How long one of several addresses of a name may take to accept.
const TRY_TIMEOUT: Duration = Duration::from_secs(3);

impl Target {
    /// Parses `url` and looks its host up. A name with several addresses (localhost is often both
    /// ::1 and 127.0.0.1) gets the first one that accepts a connection.
    pub fn resolve(url: &str) -> Result<Self, Error> {
        let parts = Parts::parse(url)?;
        let began_ns = monotonic_ns();
        let unresolved = |source| Error::Resolve { host: parts.host.to_owned(), source };
        let found = (parts.host, parts.port).to_socket_addrs().map_err(unresolved)?;
        let addresses: Vec<SocketAddr> = found.collect();
        let lookup = Duration::from_nanos(monotonic_ns() - began_ns);
        let first = addresses.first().copied();
        let accepting = || addresses.iter().copied().find(accepts);
        let chosen = if addresses.len() > 1 { accepting().or(first) } else { first };
        let address = chosen.ok_or_else(|| unresolved(std::io::ErrorKind::NotFound.into()))?;
        // With several addresses the first that accepts is looked for: that is no lookup.
        let is_name = parts.host.parse::<std::net::IpAddr>().is_err();
        let mut target = parts.target(address.into());
        target.lookup = is_name.then_some(lookup);
        Ok(target)
    }

    /// The same for a server that is somewhere else than its name says.
    pub fn at_address(url: &str, address: Address) -> Result<Self, Error> {
        Ok(Parts::parse(url)?.target(address))
    }

    /// Host and port of `url`, to choose an address by.
    pub fn place(url: &str) -> Result<(String, u16), Error> {
        Parts::parse(url).map(|parts| (parts.host.to_owned(), parts.port))
    }
}

fn accepts(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, TRY_TIMEOUT).is_ok()
}

#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    secure: bool,
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: String,
}

impl<'a> Parts<'a> {
    fn parse(url: &'a str) -> Result<Self, Error> {
        let bad = |reason| Error::Url { url: url.to_owned(), reason };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Error::Scheme { url: url.to_owned() });
        };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(bad("only http:// and https:// can be loaded"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("spaces and non-ASCII characters must be percent-encoded"));
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(bad("user names in URLs are not supported; use --basic USER:PASSWORD"));
        }
        let (host, port) = split_port(authority, if secure { 443 } else { 80 }).map_err(bad)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { secure, authority, host, port, path })
    }

    fn target(self, address: Address) -> Target {
        let Self { secure, authority, path, .. } = self;
        Target { address, secure, host: authority.to_owned(), path, tunnel: None, lookup: None }
    }
}

fn split_port(authority: &str, usual: u16) -> Result<(&str, u16), &'static str> {
    let (host, port) = if let Some(inner) = authority.strip_prefix('[') {
        let (host, after) = inner.split_once(']').ok_or("the ] of an IPv6 address is missing")?;
        match (after.is_empty(), after.strip_prefix(':')) {
            (true, _) => (host, None),
            (_, Some(port)) => (host, Some(port)),
            _ => return Err("only a port can follow an IPv6 address"),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() {
        return Err("it names no host");
    }
    let port = match port {
        None | Some("") => usual,
        Some(port) => port
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or("the port is not a number from 1 to 65535")?,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|http://[ -~]{0,40}") {
            let _ = Parts::parse(&text);
        }

        #[test]
        fn parts_come_out_as_they_went_in(
            host in "[a-z][a-z0-9.-]{0,12}",
            port in 1u16..,
            path in "(/[a-z0-9%.~]{0,6}){1,3}([?][a-z=&]{0,6})?",
        ) {
            let url = format!("http://{host}:{port}{path}");
            let parts = Parts::parse(&url).unwrap();
            prop_assert_eq!((parts.host, parts.port, parts.path), (&host[..], port, path));
        }
    }

    fn parts(url: &str) -> (String, String, u16, String) {
        let parts = Parts::parse(url).expect("a good URL");
        (parts.authority.to_owned(), parts.host.to_owned(), parts.port, parts.path)
    }

    #[test]
    fn urls_come_apart() {
        let of = |a: &str, h: &str, p, path: &str| (a.to_owned(), h.to_owned(), p, path.to_owned());
        assert_eq!(parts("http://a"), of("a", "a", 80, "/"));
        assert_eq!(parts("HTTP://a:8080/x?y=/z#f"), of("a:8080", "a", 8080, "/x?y=/z"));
        assert_eq!(parts("http://a?q"), of("a", "a", 80, "/?q"));
        assert_eq!(parts("http://[::1]:81/"), of("[::1]:81", "::1", 81, "/"));
    }

    #[test]
    fn bad_urls_say_why() {
        for url in ["a", "localhost:8080/x"] {
            let error = Parts::parse(url).expect_err("no scheme").to_string();
            assert!(error.contains(&format!("did you mean http://{url}")), "{error}");
        }
        for url in ["ftp://a/", "http://", "http:///x", "http://a:b/", "http://a:0/"] {
            assert!(matches!(Parts::parse(url), Err(Error::Url { .. })), "{url}");
        }
        for url in ["http://a:99999/", "http://u@a/", "http://a/ b", "http://[::1", "http://[::1]x"]
        {
            assert!(matches!(Parts::parse(url), Err(Error::Url { .. })), "{url}");
        }
        assert_eq!(parts("https://a/").2, 443);
    }

    #[test]
    fn an_address_needs_no_resolver() {
        let target = Target::resolve("http://127.0.0.1:9/x").expect("resolved");
        assert_eq!(target.address, SocketAddr::from(([127, 0, 0, 1], 9)).into());
        assert_eq!((&*target.host, &*target.path), ("127.0.0.1:9", "/x"));
    }
}
