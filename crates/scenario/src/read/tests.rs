//! Scenarios as people write them, and their mistakes.

use std::{io, path::Path};

use proptest::prelude::*;

use crate::{Error, Scenario};

fn files(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("s/people.csv") => Ok(b"name,id\nAnn,1\nBo,2\n".to_vec()),
        Some("s/empty.csv") => Ok(b"name\n".to_vec()),
        Some("s/bad.jsonl") => Ok(b"{\"a\":1}\nnonsense\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn parse(text: &str) -> Result<Scenario, Error> {
    Scenario::parse(text, Path::new("s/a.toml"), &[], &files)
}

const FULL: &str = r#"
name = "shop"
base = "http://{{host}}:8080"
origins = ["https://other.example"]
cookies = true
session = "user"

[variables]
host = "shop.example"
id = "{{uuid}}"
rounds = 3

[feeder.people]
file = "people.csv"
order = "shuffle"
once = true
take = "iteration"

[defaults]
headers = { User-Agent = "drom", Accept = "*/*" }
think = { mean = "1s" }
follow = 2
gzip = true
stop_on = "check"
check = { no_text = "Error", max_time = "2s" }

[[scenario]]
name = "buyer"
weight = 3

[[scenario.step]]
url = "/"
check = { status = ["2xx", 304], header = ["Content-Type: html", "ETag"], no_header = "X",
          text = "a", regex = "b+", no_regex = ["c"], ignore_case = true, min_bytes = 1,
          max_bytes = 9,
          min_time = "1ms", title = "Hi {{people.name}}" }
capture = { token = { regex = 'csrf="(\w+)"' }, at = { header = "Location", default = "" } }

[[scenario.step]]
repeat = { from = 1, to = 3 }
chance = 0.5
think = "2s"
[[scenario.step.step]]
name = "login"
method = "PUT"
url = "/login?t={{token|url}}"
form = { user = "{{people.name}}", tags = ["a b", 1] }
basic = { user = "{{people.name}}", password = "x" }
capture = { sid = { cookie = "sid" }, key = { json = "$.key" } }
[[scenario.step.step]]
url = "https://other.example/{{id}}"
json = { a = [1, "{{key}}", true], b = { c = 1.5 } }
bearer = "{{key}}"
think = { from = "1s", to = "2s" }
check = { json = { "$.ok" = true, "$.n" = 2, "$.s" = "{{key}}" }, no_json = "$.error",
          no_text = [] }

[[scenario]]
name = "looker"
[[scenario.step]]
url = "/x"
[[scenario.step]]
think = 0.5
"#;

#[test]
fn everything_at_once_is_read() {
    let scenario = parse(FULL).expect("a good scenario");
    assert_eq!((&*scenario.name, scenario.flows().len(), scenario.steps().len()), ("shop", 2, 4));
    let origins: Vec<_> = scenario.origins().iter().map(|o| (&*o.authority, o.port)).collect();
    assert_eq!(origins, [("shop.example:8080", 8080), ("other.example", 443)]);
    let names: Vec<_> = scenario.steps().iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["buyer: GET /", "buyer: login", "buyer: POST /{{id}}", "looker: GET /x"]);
    let of_first: Vec<_> = scenario.checks().iter().filter(|check| check.step == 0).collect();
    assert_eq!(of_first.len(), 16, "{of_first:?}");
    assert!(of_first.iter().any(|check| check.name == "no text \"Error\""));
    assert!(of_first.iter().any(|check| check.name == "capture token"));
    let of_third = scenario.checks().iter().filter(|check| check.step == 2);
    assert!(of_third.clone().all(|check| !check.name.contains("Error")), "it was replaced");
}

#[test]
fn variables_of_the_command_line_come_first() {
    let set = [("host".to_owned(), "other".to_owned())];
    let text = "base='http://{{host}}'\n[variables]\nhost='a'\n[[step]]\nurl='/'\n";
    let scenario = Scenario::parse(text, Path::new("a"), &set, &files).expect("good");
    assert_eq!(scenario.origins()[0].host, "other");
}

#[test]
fn mistakes_are_placed_and_say_what_to_do() {
    let step = "base='http://h'\n[[step]]\nurl='/'\n";
    let cases = [
        ("", "s/a.toml: the file is empty"),
        ("name = 'x'\n", "s/a.toml: there is no [[step]]"),
        ("nam = 'x'\n[[step]]\nurl='/'\n", "s/a.toml:1: unknown key `nam`; did you mean `name`?"),
        ("[[step]]\nurl = '/x'\n", "s/a.toml:2: `url`: a path needs base = \"http://HOST\""),
        ("[[step]]\nurl = 'ftp://x'\n", "s/a.toml:2: `url`: it must begin with http://"),
        ("[[step]]\nurl = 'http://x/a b'\n", "percent-encoded"),
        ("[variables]\na='{{seq}}'\n[[step]]\nurl = 'http://x/{{a}}/b c'\n", "percent-encoded"),
        ("[[step]]\nthink = 'soon'\n", "s/a.toml:2: `think`: \"soon\" is not a time"),
        ("[[step]]\nthink = 1\n", "no step has a url"),
        ("[[step]]\nname = 'x'\n", "a step has a url, or think for a pause, or steps"),
        ("base = 'h'\n", "s/a.toml:1: `base`: it must begin with http://"),
        ("base = 'http://h/x'\n", "paths belong to the steps' url"),
        ("[feeder.x]\nfile='none.csv'\n", "s/a.toml:2: `file`: cannot read s/none.csv"),
        ("[feeder.x]\nfile='people.txt'\n", "cannot read"),
        ("[feeder.x]\nfile='empty.csv'\n", "s/empty.csv: there are no rows"),
        ("[feeder.x]\nfile='bad.jsonl'\n", "s/bad.jsonl:2: this is no JSON object"),
        (
            "[feeder.x]\nfile='people.csv'\ntake='request'\n[variables]\na = '{{x.id}}'\n",
            "s/a.toml:5: `a`: a feeder with take = \"request\" has no row yet here",
        ),
        ("[variables]\nseq = 1\n", "s/a.toml:2: `seq`: this name means something else"),
    ];
    for (text, said) in cases {
        let told = parse(text).expect_err(text).to_string();
        assert!(told.contains(said), "{text:?}: {told}");
    }
    let in_step = [
        ("header = 1", "s/a.toml:4: unknown key `header`; did you mean `headers`?"),
        ("headers = { 'a b' = 'x' }", "this is no name of a header"),
        ("headers = { content-length = 'x' }", "set by the sender"),
        ("headers = { a = \"b\\r\\nc: d\" }", "breaks the header"),
        ("body = '{{tokn}}'", "s/a.toml:4: `body`: unknown variable `tokn`"),
        ("body = 'a'\njson = {}", "s/a.toml:5: `json`: a request has one body"),
        ("body_base64 = '!'", "no Base64"),
        ("method = 'GE T'", "this is no method"),
        ("check = { regex = '(' }", "s/a.toml:4: `regex`: bad regular expression: unclosed group"),
        ("check = { status = '6xx' }", "is no status"),
        ("check = { json = { 'a' = 1 } }", "is no JSON path"),
        ("capture = { a = { regex = '(x)', group = 2 } }", "a number from 0 to 1 is wanted"),
        ("capture = { a = {} }", "one of `header`, `regex`, `json` and `cookie`"),
        ("capture = { 'a.b' = { json = '$' } }", "letters, digits"),
        ("repeat = -1", "a number from 0 to 1000000 is wanted"),
        ("chance = 2", "from 0 (never) to 1 (always)"),
        ("follow = 99", "a number from 0 to 50"),
        ("stop_on = 'x'", "\"capture\", \"check\" or \"never\""),
        ("think = { from = 2, to = 1 }", "longer than"),
    ];
    for (line, said) in in_step {
        let told = parse(&format!("{step}{line}\n")).expect_err(line).to_string();
        assert!(told.contains(said), "{line:?}: {told}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        text in "(([a-z.]{1,6} ?= ?['\\[{]?|\\[\\[step\\]\\]|\\PC|\n){0,30})",
    ) {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_of_a_good_one_makes_it_panic(
        at in 0..FULL.len(),
        with in "\\PC?",
        cut in 0usize..9,
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with.bytes());
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_value_for_what_is_nowhere_is_a_typing_mistake() {
    let text = "[variables]\nhost = 'a'\n[[step]]\nurl = 'http://{{host}}/{{ id|url }}'\n";
    let read = |names: &[&str]| {
        let set: Vec<_> = names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        let read = Scenario::parse(text, Path::new("s/a.toml"), &set, &files);
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read(&["id", "host", "id"]), Ok(()));
    let said = read(&["host", "id", "hsot"]).expect_err("a typing mistake");
    assert_eq!(said, "s/a.toml: nothing in it is {{hsot}}, which is given a value");
}
