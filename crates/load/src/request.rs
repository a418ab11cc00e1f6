//! The request's bytes, built once per run. Pure. What would change the framing is refused here, so
//! that the loop can send the same bytes again and again without a look at them.

use crate::{
    error::Error,
    http2::Template,
    plan::{Plan, Version},
};

/// What every request is, where all are the same; users of a scenario make their own.
pub fn bytes(plan: &Plan) -> Result<Vec<u8>, Error> {
    if plan.scene.is_some() { Ok(Vec::new()) } else { build(plan) }
}

/// The bytes of the plan's request.
fn build(plan: &Plan) -> Result<Vec<u8>, Error> {
    if let Some(raw) = &plan.raw_request {
        return whole(raw);
    }
    if plan.method.is_empty() || !plan.method.bytes().all(is_token) {
        return refuse(format!("{:?} is not a method", plan.method));
    }
    if !plan.target.path.starts_with(['/', '*']) || !plan.target.path.bytes().all(is_visible) {
        return refuse(format!("{:?} is not a path; percent-encode it", plan.target.path));
    }
    let version = match plan.version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 | Version::Http2 => "HTTP/1.1",
    };
    let mut bytes = format!("{} {} {version}\r\n", plan.method, plan.target.path).into_bytes();
    if !has(plan, "host") {
        put(&mut bytes, "Host", &plan.target.host)?;
    }
    for (name, value) in &plan.headers {
        put(&mut bytes, name, value)?;
    }
    let connection = match (plan.version, plan.keepalive) {
        (Version::Http10, true) => Some("keep-alive"),
        (Version::Http11, false) => Some("close"),
        _ => None,
    };
    if let Some(connection) = connection.filter(|_| !has(plan, "connection")) {
        put(&mut bytes, "Connection", connection)?;
    }
    if !plan.body.is_empty() || matches!(&*plan.method, "POST" | "PUT" | "PATCH") {
        put(&mut bytes, "Content-Length", &plan.body.len().to_string())?;
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&plan.body);
    check_framing(plan)?;
    Ok(bytes)
}

/// The same for HTTP/2. The plan's request was found good by [`build`].
pub fn template(plan: &Plan) -> Template {
    let host = plan.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(&plan.target.host, |(_, value)| value);
    let scheme = if plan.target.secure { "https" } else { "http" };
    let pseudo = [
        (":method", &plan.method[..]),
        (":scheme", scheme),
        (":authority", authority),
        (":path", &plan.target.path),
    ];
    let field = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
    let mut fields: Vec<(String, String)> = pseudo.map(field).to_vec();
    // RFC 9113, section 8.2.2: what is about a connection has no place here.
    let of_connection = ["connection", "keep-alive", "proxy-connection", "host"];
    let given = plan.headers.iter().map(|(name, value)| field((name, value)));
    fields.extend(given.filter(|(name, _)| !of_connection.contains(&&name[..])));
    if !plan.body.is_empty() || matches!(&*plan.method, "POST" | "PUT" | "PATCH") {
        fields.push(("content-length".to_owned(), plan.body.len().to_string()));
    }
    Template::new(&fields, &plan.body)
}

/// A request as another tool would have written it; its framing is that tool's business.
fn whole(raw: &[u8]) -> Result<Vec<u8>, Error> {
    if memchr::memmem::find(raw, b"\r\n\r\n").is_none() {
        return refuse("no empty line ends its head".to_owned());
    }
    Ok(raw.to_vec())
}

fn check_framing(plan: &Plan) -> Result<(), Error> {
    for name in ["content-length", "transfer-encoding", "expect", "upgrade"] {
        if has(plan, name) {
            return refuse(format!("a {name} header of your own would break the framing"));
        }
    }
    let hosts = plan.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    if hosts.count() > 1 {
        return refuse(
            "Host is given twice; a request with two of them is 400 everywhere".to_owned(),
        );
    }
    Ok(())
}

fn has(plan: &Plan, name: &str) -> bool {
    plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
}

fn put(bytes: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Error> {
    if name.is_empty() || !name.bytes().all(is_token) {
        return refuse(format!("{name:?} is not a header name"));
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return refuse(format!("the value of header {name} holds a control character"));
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(Error::Request { reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;

    fn plan() -> Plan {
        let address = "127.0.0.1:80".parse().expect("an address");
        Plan::get(Target { host: "a.example".to_owned(), ..Target::at(address, "/x?y") })
    }

    #[test]
    fn a_get_is_as_short_as_wrks() {
        let bytes = build(&plan()).expect("a good plan");
        assert_eq!(bytes, b"GET /x?y HTTP/1.1\r\nHost: a.example\r\n\r\n");
    }

    #[test]
    fn a_body_has_a_length_and_no_keepalive_says_close() {
        let headers = vec![("host".to_owned(), "other".to_owned())];
        let plan = Plan {
            method: "POST".to_owned(),
            body: b"a=b".to_vec(),
            keepalive: false,
            headers,
            ..plan()
        };
        let text = "POST /x?y HTTP/1.1\r\nhost: other\r\nConnection: close\r\n\
                    Content-Length: 3\r\n\r\na=b";
        assert_eq!(build(&plan).expect("good"), text.as_bytes());
    }

    #[test]
    fn a_raw_request_is_sent_as_it_is() {
        let raw = |text: &str| build(&Plan { raw_request: Some(text.into()), ..plan() });
        let old = "GET / HTTP/1.0\r\nContent-length: 3\r\n\r\na=b";
        assert_eq!(raw(old).expect("good"), old.as_bytes());
        assert!(raw("GET / HTTP/1.0\r\n").is_err(), "the server would wait for its end");
    }

    #[test]
    fn what_would_smuggle_is_refused() {
        let with = |name: &str, value: &str| {
            build(&Plan { headers: vec![(name.to_owned(), value.to_owned())], ..plan() })
        };
        assert!(with("X", "a\r\nY: b").is_err());
        assert!(with("X Y", "a").is_err());
        assert!(with("", "a").is_err());
        assert!(with("Content-Length", "3").is_err());
        assert!(with("transfer-encoding", "chunked").is_err());
        assert!(with("X-Y", "a\tb").is_ok());
        let hosts = ["Host", "host"].map(|name| (name.to_owned(), "a".to_owned())).to_vec();
        assert!(build(&Plan { headers: hosts, ..plan() }).is_err());
        assert!(build(&Plan { method: "GET /".to_owned(), ..plan() }).is_err());
        let mut spaced = plan();
        spaced.target.path = "/a b".to_owned();
        assert!(build(&spaced).is_err());
    }
}
