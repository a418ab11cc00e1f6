//! Users against servers that answer anything: whatever comes, requests stay whole, counts
//! reconcile, and the same seed is the same run.

use std::path::Path;

use drom_scenario::{Answer, Next, Part, Scenario, Share, User, Version};
use proptest::prelude::*;

const SCENARIO: &str = r#"
base = "http://h.example"
origins = ["https://other.example"]

[variables]
v = "{{random 1 9}}"

[feeder.rows]
file = "rows.csv"
order = "random"
take = "request"

[defaults]
follow = 2
check = { text = "a", max_bytes = 20 }

[[step]]
url = "/{{v}}/{{rows.a|url}}"
headers = { A = "{{rows.a}}", Cookie = "own=1" }
capture = { v = { regex = "a(.*)b" }, w = { json = "$[*].w", default = "/d" } }

[[step]]
url = "{{w}}"
stop_on = "never"
repeat = { from = 0, to = 3 }
think = { mean = "1ms" }
form = { c = "{{v}}", n = "{{seq}}" }
check = { json = { "$.x" = "{{v}}" }, title = "{{v}}", header = "X: {{v}}" }

[[step]]
chance = 0.5
stop_on = "check"
method = "{{w}}"
url = "/z"
bearer = "{{v}}"
capture = { w = { header = "Location" }, v = { cookie = "s" } }
"#;

/// What a server says, or nothing at all.
type Said = Option<(u16, String, String)>;

fn said() -> impl Strategy<Value = Said> {
    let status = prop_oneof![Just(200u16), Just(302), Just(307), Just(404), 100u16..600];
    let location = "(https?://(h|other|evil)[.]example)?/?[!-~ ]{0,9}";
    let head = (location, "[a-z=; ]{0,12}", "[ -~]{0,8}").prop_map(|(location, cookie, x)| {
        format!("Location: {location}\r\nSet-Cookie: s={cookie}\r\nX: {x}\r\n\r\n")
    });
    let body = prop_oneof![
        "(a|b|<title>|</title>|\\PC|\r\n){0,9}",
        "[!-~]{0,5}".prop_map(|w| format!("[{{\"w\": \"/{w}\"}}, 1]")),
        Just("[{\"w\":\"a\\r\\nb\"}]".to_owned()),
    ];
    proptest::option::weighted(0.9, (status, head, body))
}

#[derive(Debug, Default, PartialEq)]
struct Run {
    wires: Vec<String>,
    /// By step: answers that were judged, first requests, and requests that could not be sent.
    judged: [u64; 3],
    begun: [u64; 3],
    unsent: [u64; 3],
}

fn run(scenario: &Scenario, share: &mut Share, seen: &[Said]) -> Run {
    let mut user = User::new(scenario, share, 5);
    let (mut run, mut now_ns, mut seen) = (Run::default(), 0, seen.iter());
    // Unsent requests and rounds take no answer, so turns are bounded as well.
    for _ in 0..2_000 {
        match user.next(scenario, share, now_ns) {
            Next::Send => {
                let request = &share.request;
                let step = request.step;
                run.begun[step] += u64::from(request.redirects == 0);
                let mut wire = Vec::new();
                request.write_http1(Version::Http11, true, &mut wire);
                run.wires.push(String::from_utf8_lossy(&wire).into_owned());
                let Some(said) = seen.next() else { return run };
                let Some((status, head, body)) = said else {
                    user.failed(scenario, share);
                    continue;
                };
                let (head, body) = (head.as_bytes(), body.as_bytes());
                let body_bytes = body.len() as u64;
                let answer = Answer { status: *status, head, body, body_bytes, after_ns: 7 };
                let judgement = user.answered(scenario, share, &answer, now_ns);
                run.judged[step] += u64::from(!judgement.is_redirect);
            }
            Next::Unsent { step, .. } => run.unsent[step] += 1,
            Next::Pause { until_ns } => now_ns = until_ns,
            Next::Done => {}
            Next::Exhausted { .. } => panic!("no feeder ends"),
        }
    }
    run
}

/// The head is lines, each a field, and nothing else.
fn is_whole(wire: &str) -> bool {
    let Some((head, _)) = wire.split_once("\r\n\r\n") else { return false };
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    let is_request = words.len() == 3 && words[1].starts_with('/') && words[2] == "HTTP/1.1";
    let is_field = |line: &str| line.contains(": ") && !line.contains(['\r', '\n', '\0']);
    is_request && lines.all(is_field) && head.matches("\r\nHost: ").count() == 1
}

proptest! {
    #[test]
    fn whatever_is_answered(seen in proptest::collection::vec(said(), 1..40), seed: u64) {
        let rows = |_: &Path| Ok("a\nplain\n\u{e4} \"x\"\n".as_bytes().to_vec());
        let scenario = Scenario::parse(SCENARIO, Path::new("a.toml"), &[], &rows).expect("good");
        let part = Part::whole(seed);
        let mut share = Share::new(&scenario, part);
        let first = run(&scenario, &mut share, &seen);
        for wire in &first.wires {
            prop_assert!(is_whole(wire), "{wire}");
            prop_assert!(!wire.contains("Host: evil"), "{wire}");
        }
        for (check, name) in scenario.checks().iter().enumerate() {
            let (passed, failed) = (share.counts.passed(check), share.counts.failed(check));
            if name.name == "request" {
                prop_assert_eq!(passed, first.begun[name.step], "{:?}", name);
                prop_assert_eq!(failed, first.unsent[name.step], "{:?}", name);
            } else {
                prop_assert_eq!(passed + failed, first.judged[name.step], "{:?}", name);
            }
        }
        let second = run(&scenario, &mut Share::new(&scenario, part), &seen);
        prop_assert_eq!(first, second);
    }
}
