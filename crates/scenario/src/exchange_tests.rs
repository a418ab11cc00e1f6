//! What is written can be read, and sends what was recorded.

use std::{io, path::Path};

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::{Answer, Next, Part, Scenario, Share, User};

const MS: u64 = 1_000_000;

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn session() -> Vec<Exchange> {
    let agent = ("User-Agent", "Moz \"5\"");
    vec![
        Exchange {
            at_ns: 500 * MS,
            took_ns: 20 * MS,
            method: "GET".to_owned(),
            url: "http://h.example:81/?q=a b#top".to_owned(),
            headers: pairs(&[("Host", "h.example:81"), agent, ("Cookie", "old=1; theme=dark")]),
            status: 200,
            answer_headers: pairs(&[("Set-Cookie", "sid=x; Path=/\nlang=de")]),
            ..Exchange::default()
        },
        Exchange {
            at_ns: 2_000 * MS,
            took_ns: 30 * MS,
            method: "POST".to_owned(),
            url: "http://h.example:81/login".to_owned(),
            headers: pairs(&[
                agent,
                ("Content-Length", "9"),
                ("Cookie", "old=1; sid=x"),
                ("Authorization", "Basic YTpi"),
            ]),
            body: b"password=p".to_vec(),
            status: 302,
            ..Exchange::default()
        },
        Exchange {
            at_ns: 2_010 * MS,
            method: "GET".to_owned(),
            url: "https://other.example/x".to_owned(),
            headers: pairs(&[agent]),
            ..Exchange::default()
        },
    ]
}

#[test]
fn packed_answers_are_asked_for_where_they_were() {
    let (packs, none) =
        (("Accept-Encoding", "br, gzip;q=0.5"), ("Accept-Encoding", "gzip;q=0, br"));
    let with = |fields: [(&str, &str); 3]| {
        let mut session = session();
        let all = session.iter_mut().zip(fields);
        all.for_each(|(exchange, field)| exchange.headers.extend(pairs(&[field])));
        write_scenario("x", &session, &WriteOptions::default())
    };
    let all = with([packs, packs, packs]);
    assert!(all.contains("\n[defaults]\ngzip = true\n\n[defaults.headers]\n"), "{all}");
    assert_eq!(all.matches("gzip").count(), 1, "{all}");
    let one = with([none, packs, none]);
    assert!(one.contains("url = \"/login\"\ngzip = true\n"), "{one}");
    assert_eq!(one.matches("gzip").count(), 1, "{one}");
}

#[test]
fn a_session_is_written_as_a_person_would() {
    let expected = r#"name = "shop"
base = "http://h.example:81"

[defaults.headers]
User-Agent = "Moz \"5\""

[[step]]
url = "/?q=a%20b"
headers = { Cookie = "old=1; theme=dark" }
think = "1480ms"
check = { status = 200 }

[[step]]
method = "POST"
url = "/login"
headers = { Cookie = "old=1", Authorization = "Basic YTpi" }
body = "password=p"
check = { status = 302 }

[[step]]
url = "https://other.example/x"
"#;
    assert_eq!(write_scenario("shop", &session(), &WriteOptions::default()), expected);
}

#[test]
fn secrets_are_masked_and_other_hosts_left_out() {
    let options = WriteOptions { mask: true, host: Some("H.example".to_owned()) };
    let text = write_scenario("shop", &session(), &options);
    for secret in ["YTpi", "=p\"", "old=1", "theme=dark", "other.example"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let set = [("secret_3".to_owned(), "YTpi".to_owned())];
    let read = Scenario::parse(&text, Path::new("a.toml"), &set, &no_file);
    assert_eq!(read.expect("it can be read").steps().len(), 2);
}

fn no_file(_: &Path) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::NotFound.into())
}

/// Method, URL, headers and body.
type Sent = (String, String, Vec<(String, String)>, Vec<u8>);

/// Sends every step and returns what went out.
fn replay(text: &str, count: usize) -> Vec<Sent> {
    let read = Scenario::parse(text, Path::new("a.toml"), &[], &no_file);
    let scenario = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut share = Share::new(&scenario, Part::whole(1));
    let mut user = User::new(&scenario, &share, 0);
    let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let (mut sent, mut now_ns) = (Vec::new(), 0);
    while sent.len() < count {
        match user.next(&scenario, &mut share, now_ns) {
            Next::Send => {
                let request = &share.request;
                let origin = &scenario.origins()[request.origin];
                let scheme = if origin.secure { "https" } else { "http" };
                let target = text_of(request.target());
                let url = format!("{scheme}://{}{target}", origin.authority);
                let mut fields: Vec<_> =
                    request.fields().map(|(name, value)| (text_of(name), text_of(value))).collect();
                fields.sort();
                let body = request.body().to_vec();
                sent.push((text_of(request.method()), url, fields, body));
                let answer =
                    Answer { status: 200, head: b"", body: b"", body_bytes: 0, after_ns: 0 };
                user.answered(&scenario, &mut share, &answer, now_ns);
            }
            Next::Pause { until_ns } => now_ns = until_ns,
            other => panic!("{other:?}\n{text}"),
        }
    }
    sent
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let origin = prop_oneof![Just("http://a.example"), Just("https://b.example:8443")];
    let header = ("[A-Z][a-z]{1,8}-X", "[!-~]([ -~]{0,10}[!-~])?");
    let headers = proptest::collection::btree_map(header.0, header.1, 0..4);
    let body = prop_oneof![
        Just(Vec::new()),
        "(\\PC|[\n{}\"\\\\]){1,20}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 1..20),
    ];
    let method = prop_oneof![Just("GET"), Just("POST"), Just("PATCH")];
    (origin, "/[!\"$-~]{0,20}", method, headers, body, 0u64..5_000).prop_map(
        |(origin, path, method, headers, body, at_ms)| Exchange {
            at_ns: at_ms * MS,
            method: method.to_owned(),
            url: format!("{origin}{path}"),
            headers: headers.into_iter().collect(),
            body,
            ..Exchange::default()
        },
    )
}

proptest! {
    #[test]
    fn what_was_recorded_is_sent_again(
        mut exchanges in proptest::collection::vec(exchange(), 1..5)
    ) {
        let text = write_scenario("a", &exchanges, &WriteOptions::default());
        exchanges.sort_by_key(|exchange| exchange.at_ns);
        for (sent, exchange) in replay(&text, exchanges.len()).into_iter().zip(exchanges) {
            let mut fields = exchange.headers;
            fields.sort();
            prop_assert_eq!(sent, (exchange.method, exchange.url, fields, exchange.body));
        }
    }
}
