//! The bytes that ab would send: HTTP/1.0, its headers in its order. Pure.

use super::Options;

const USER_AGENT: &str = "ApacheBench/2.3";
const CONTENT_TYPE: &str = "text/plain";

/// The request, its body last.
#[must_use]
pub fn request(options: &Options, body: &[u8]) -> Vec<u8> {
    let mut head = head(options, body.len()).into_bytes();
    if options.body.is_some() {
        head.extend_from_slice(body);
    }
    head
}

fn head(options: &Options, body_bytes: usize) -> String {
    let url = &options.url;
    // A proxy is told the whole URL, as it was written; for what is secured it only makes a way.
    let path = if options.proxy.is_some() && !url.tls { &url.full } else { &url.path };
    let mut head = format!("{} {path} HTTP/1.0\r\n", options.method);
    if options.keepalive {
        head += "Connection: Keep-Alive\r\n";
    }
    if let Some(cookie) = &options.cookie {
        head += &format!("Cookie: {cookie}\r\n");
    }
    head += &credentials(options, |line| !options.is_tunnelled() || !is_for_proxy(line));
    if options.body.is_some() {
        let kind = options.content_type.as_deref().unwrap_or(CONTENT_TYPE);
        head += &format!("Content-length: {body_bytes}\r\nContent-type: {kind}\r\n");
    }
    for line in &options.headers {
        head += &format!("{line}\r\n");
    }
    let usual = [("Host", url.host_field()), ("User-Agent", USER_AGENT.into())];
    for (name, value) in usual.into_iter().chain([("Accept", "*/*".to_owned())]) {
        if !has(options, name) {
            head += &format!("{name}: {value}\r\n");
        }
    }
    head + "\r\n"
}

/// What the proxy of an https URL is asked, for a way to the server.
#[must_use]
pub fn tunnel(options: &Options) -> Vec<u8> {
    let url = &options.url;
    crate::tunnel(&url.host, url.port, &credentials(options, is_for_proxy))
}

fn credentials(options: &Options, is_wanted: impl Fn(&str) -> bool) -> String {
    options.credentials.split_inclusive('\n').filter(|line| is_wanted(line)).collect()
}

fn is_for_proxy(line: &str) -> bool {
    line.starts_with("Proxy-Authorization:")
}

fn has(options: &Options, name: &str) -> bool {
    let is_it = |line: &String| {
        line.split_once(':').is_some_and(|(given, _)| given.eq_ignore_ascii_case(name))
    };
    options.headers.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    fn sent(line: &str, body: &str) -> String {
        String::from_utf8(request(&options(line), body.as_bytes())).expect("text")
    }

    const USUAL: &str = "User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n";

    // Each as ab 2.3 sent it to a server that wrote down what it was asked.
    #[test]
    fn a_get_is_abs() {
        let host = "Host: 127.0.0.1:81\r\n";
        assert_eq!(sent("http://127.0.0.1:81/x", ""), format!("GET /x HTTP/1.0\r\n{host}{USUAL}"));
        assert_eq!(sent("-i a/", ""), format!("HEAD / HTTP/1.0\r\nHost: a\r\n{USUAL}"));
        assert_eq!(sent("-m FOO a/", ""), format!("FOO / HTTP/1.0\r\nHost: a\r\n{USUAL}"));
    }

    #[test]
    fn headers_have_abs_order_and_some_replace_its_own() {
        let line = "-k -C a=1 -C b=2 -A u:p -P x:y -H X-A:1 -H User-Agent:foo -H accept:q \
                    -H Host:h http://a/x";
        let wanted = "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: b=2\r\n\
                      Authorization: Basic dTpw\r\nProxy-Authorization: Basic eDp5\r\n\
                      X-A:1\r\nUser-Agent:foo\r\naccept:q\r\nHost:h\r\n\r\n";
        assert_eq!(sent(line, ""), wanted);
    }

    #[test]
    fn a_body_has_its_length_and_type() {
        let head = "Content-length: 4\r\nContent-type: text/plain\r\nHost: a\r\n";
        assert_eq!(sent("-p f a/", "a=b\n"), format!("POST / HTTP/1.0\r\n{head}{USUAL}a=b\n"));
        assert_eq!(
            sent("-p f -m PUT a/", "a=b\n"),
            format!("PUT / HTTP/1.0\r\n{head}{USUAL}a=b\n")
        );
        let put = sent("-k -u f -T t/t a/", "a=b\n");
        assert!(put.starts_with("PUT / HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-length: 4"));
        assert!(put.contains("\r\nContent-type: t/t\r\n") && put.ends_with("\r\n\r\na=b\n"));
    }

    #[test]
    fn a_proxy_makes_a_way_for_https() {
        let line = "-X p:81 -P me:it -A you:that https://a/x";
        let asked = String::from_utf8(tunnel(&options(line))).expect("text");
        let wanted = "CONNECT a:443 HTTP/1.0\r\nHost: a:443\r\nProxy-Authorization: Basic ";
        assert!(asked.starts_with(wanted) && asked.ends_with("\r\n\r\n"), "{asked}");
        assert!(!asked.contains("\r\nAuthorization:"), "{asked}");
        let sent = sent(line, "");
        assert!(sent.starts_with("GET /x HTTP/1.0\r\nAuthorization: Basic "), "{sent}");
        assert!(!sent.contains("Proxy-"), "{sent}");
    }

    #[test]
    fn a_proxy_is_told_the_whole_url() {
        let wanted = format!("GET http://foo.bar:81/baz HTTP/1.0\r\nHost: foo.bar:81\r\n{USUAL}");
        assert_eq!(sent("-X 127.0.0.1:8080 http://foo.bar:81/baz", ""), wanted);
    }
}
