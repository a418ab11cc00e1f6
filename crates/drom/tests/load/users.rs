//! `drom load` with users: scenarios, lists of URLs, archives, access logs. What they sent is what
//! the server saw.

use std::{fs, process::Output};

use crate::loading::{document, drom};
use crate::shop::{SCENARIO, Shop, scenario};
use serde_json::Value;

/// A test machine may be too busy to be believed; that is not the test's affair.
fn measured(output: &Output) -> Value {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3 | 6)), "{} {told}", output.status);
    document(output)
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn users_are_told_apart_and_do_what_the_scenario_says() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, SCENARIO);
    let told = measured(&drom(&[&path, "-c", "5", "-t", "2", "-n", "60", "--json"]));
    let ways = &told["scenario"];
    assert_eq!(told["requests"]["sent"], 240, "{told:#}");
    assert_eq!((&told["requests"]["ok"], &told["requests"]["failed"]), (&240.into(), &0.into()));
    assert_eq!((&ways["rounds"]["done"], &ways["rounds"]["begun"]), (&60.into(), &60.into()));
    let steps = ways["steps"].as_array().expect("a list");
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["log in", "look", "move"]);
    assert_eq!((&steps[1]["ok"], &steps[2]["ok"]), (&60.into(), &120.into()));
    let failed = ways["checks"].as_array().expect("a list").iter().map(|check| &check["failed"]);
    assert!(failed.clone().count() > 3 && failed.clone().all(|failed| failed == 0), "{ways:#}");
    assert_eq!((shop.visitors(), shop.times("POST /login"), shop.connections()), (60, 60, 5));
    assert_eq!((shop.times("GET /old"), shop.times("GET /new")), (60, 60));
}

#[test]
fn a_scenario_has_its_name_and_its_figures_in_every_form() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let named = format!("name = 'The shop'\n{SCENARIO}");
    let path = scenario(folder.path(), &shop.base, &named);
    let page = folder.path().join("page.html");
    let flags = [&path, "-c", "1", "-n", "2", "--csv", "-", "--html", page.to_str().expect("text")];
    let csv = String::from_utf8(drom(&flags).stdout).expect("text");
    let (names, values) = csv.split_once('\n').expect("two lines");
    let at = |name: &str| names.split(',').position(|known| known == name).expect(name);
    let value = |name: &str| values.split(',').nth(at(name)).expect(name).to_owned();
    assert_eq!(
        (value("scenario_name"), value("scenario_rounds_done")),
        ("The shop".into(), "2".into())
    );
    assert_eq!((value("plan_connections"), value("plan_requests")), ("1".into(), "2".into()));
    assert!(std::fs::read_to_string(page).expect("a page").contains("The shop ("));
    let text = String::from_utf8(drom(&[&path, "-c", "1", "-n", "1"]).stdout).expect("text");
    assert!(text.contains("The shop ("), "{text}");
    let plain =
        String::from_utf8(drom(&[&shop.base, "-n", "1", "--csv", "-"]).stdout).expect("text");
    assert_eq!(plain.lines().next(), Some(names), "the same columns for every run");
    let coloured = format!("name = \"\\u001b[31mred\"\n{SCENARIO}");
    let path = scenario(folder.path(), &shop.base, &coloured);
    let text = String::from_utf8(drom(&[&path, "-c", "1", "-n", "1"]).stdout).expect("text");
    assert!(text.contains("\\u{1b}[31mred (") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_text_names_steps_and_what_failed() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let text = SCENARIO.replace("text = \"known\"", "text = \"unknown\"");
    let path = scenario(folder.path(), &shop.base, &text);
    let output = drom(&[&path, "-c", "2", "-n", "4", "--seed", "9"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["3 steps", "seed 9", "2 users", "4 done", "look: text \"unknown\"", "4 of 4"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("4 answers failed checks"), "{text}");
}

#[test]
fn rounds_of_an_open_loop_are_planned_and_finished() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, SCENARIO);
    let told = measured(&drom(&[&path, "-c", "20", "--rate", "50", "-n", "25", "--json"]));
    assert_eq!((&told["open"]["planned"], &told["open"]["unsent"]), (&25.into(), &0.into()));
    assert_eq!((&told["scenario"]["rounds"]["done"], shop.visitors()), (&25.into(), 25));
    assert_eq!(told["requests"]["ok"], 100);
}

#[test]
fn connections_of_their_own_are_made_for_each_request_when_asked() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, SCENARIO);
    let told = measured(&drom(&[&path, "-c", "2", "-n", "3", "--no-keepalive", "--json"]));
    assert_eq!((&told["requests"]["ok"], shop.connections()), (&12.into(), 12));
    assert_eq!(told["scenario"]["rounds"]["done"], 3);
}

#[test]
fn a_list_is_asked_in_its_order_or_by_weight() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let list = folder.path().join("list");
    fs::write(&list, format!("# two of them\n/a\n{}/b\n", shop.base)).expect("written");
    let list = list.to_str().expect("text");
    let told = measured(&drom(&[&shop.base, "--urls", list, "-c", "1", "-n", "5", "--json"]));
    assert_eq!(told["requests"]["ok"], 5);
    let line = |path: &str| format!("GET {path} HTTP/1.1");
    assert_eq!(shop.asked(), ["/a", "/b", "/a", "/b", "/a"].map(line));
    let heavy = folder.path().join("heavy");
    fs::write(&heavy, format!("{0}/a 999\n{0}/b 1\n", shop.base)).expect("written");
    let heavy = heavy.to_str().expect("text");
    measured(&drom(&["--urls", heavy, "--order", "weighted", "-n", "100", "--json"]));
    assert!(shop.times("GET /a") > 3 + 80, "{:?}", shop.times("GET /a"));
}

#[test]
fn values_stand_in_one_request_without_a_scenario() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let rows = folder.path().join("items.csv");
    fs::write(&rows, "id,weight\n7,0\n8,1\n").expect("written");
    let rows = rows.to_str().expect("text");
    let url = format!("{}/item/{{{{id}}}}?n={{{{seq}}}}", shop.base);
    let told = measured(&drom(&[&url, "--feeder", rows, "-c", "1", "-n", "3", "--json"]));
    assert_eq!(told["requests"]["sent"], 3);
    let line = |path: &str| format!("GET /item/{path} HTTP/1.1");
    assert_eq!(shop.asked(), ["7?n=1", "8?n=2", "7?n=3"].map(line));
    let url = format!("{}/shop/{{{{shop}}}}", shop.base);
    let post = ["--data", "{{random 5 5}}", "--var", "shop=x", "-n", "1", "--json"];
    measured(&drom(&[&[&*url][..], &post].concat()));
    assert_eq!(shop.times("POST /shop/x"), 1);
    let weighted = ["--feeder", rows, "--order", "weighted", "-n", "20", "--json"];
    let url = format!("{}/heavy/{{{{id}}}}", shop.base);
    measured(&drom(&[&[&*url][..], &weighted].concat()));
    assert_eq!((shop.times("GET /heavy/7"), shop.times("GET /heavy/8")), (0, 20));
}

#[test]
fn what_cannot_be_written_is_a_failure_for_checks_and_thresholds() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let rows = folder.path().join("items.csv");
    fs::write(&rows, "id\na\nb c\n").expect("written");
    let rows = rows.to_str().expect("text");
    let url = format!("{}/{{{{id}}}}", shop.base);
    let flags = ["--feeder", rows, "-c", "1", "-n", "40", "--threshold", "failed<=10%"];
    let output = drom(&[&[&*url][..], &flags].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(9), "{text}");
    assert!(text.contains("could not be written for a bad value"), "{text}");
    assert!(text.contains("failed<=10%  50.0 %") && text.contains("{{name|url}}"), "{text}");
    fs::write(rows, "id\nb c\n").expect("written");
    let output = drom(&[&*url, "--feeder", rows, "-n", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was sent: 3 requests could not be written"), "{said}");
}

#[test]
fn values_stand_in_files_and_names_too() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let body = folder.path().join("body");
    fs::write(&body, "n={{seq}}").expect("written");
    let (body, url) = (body.to_str().expect("text"), format!("{}/form", shop.base));
    let flags = ["--data-file", body, "--basic", "{{who}}:x", "--var", "who=ann", "-n", "1"];
    measured(&drom(&[&[&*url, "--json"][..], &flags].concat()));
    assert_eq!(shop.times("POST /form"), 1);
    let without = ["--data-file", body, "-n", "1", "--json"];
    let told = measured(&drom(&[&[&*url][..], &without].concat()));
    assert_eq!(told["scenario"]["rounds"]["done"], 1);
}

#[test]
fn a_feeder_that_ends_ends_the_load_and_that_is_said() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    fs::write(folder.path().join("items.csv"), "id\n1\n2\n").expect("written");
    let text = "[feeder.items]\nfile = 'items.csv'\nonce = true\n\
                [[step]]\nurl = '/{{items.id}}'\n";
    let path = scenario(folder.path(), &shop.base, text);
    for flags in [&["--rate", "50", "-d", "1s"][..], &["-n", "10"]] {
        let output = drom(&[&[&*path, "-c", "2"], flags].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("the rows of items were all taken"), "{text}");
        assert!(text.contains("warn schedule") && text.contains("leave out `once`"), "{text}");
    }
}

#[test]
fn values_that_nobody_gives_are_refused() {
    for (arguments, words) in [
        (&["http://127.0.0.1:1/{{id}}"][..], "the request: `url`: unknown variable `id`"),
        (&["http://127.0.0.1:1/{{id"], "the }} of \"{{id\" is missing"),
        (&["http://127.0.0.1:1/", "--feeder", "/no/f.csv"], "--feeder: cannot read /no/f.csv"),
        (&["http://127.0.0.1:1/", "--feeder", "/dev/null"], "ends in .csv or .jsonl"),
        (&["http://127.0.0.1:1/", "--order", "random"], "--order goes with --urls or --feeder"),
        (&["a.toml", "--feeder", "f.csv"], "--feeder goes with a URL; a scenario names its own"),
        (&["http://127.0.0.1:1/{{seq}}", "--pipeline", "2"], "nothing to pipeline"),
        (&["http://127.0.0.1:1/", "--replay", "a.log", "--rate", "4"], "at its own times"),
        (&["http://127.0.0.1:1/pre", "--replay", "a.log"], "the log says the paths"),
        (&["http://127.0.0.1:1/", "--arrivals", "poisson"], "--arrivals goes with --rate"),
        (&["http://127.0.0.1:1/", "--speed", "2"], "--speed goes with a scenario"),
        (&["http://127.0.0.1:1/", "--pipeline", "2", "--http2"], "cannot be used with"),
        (&["http://127.0.0.1:1/", "--source-address", "192.0.2.1"], "has no such address"),
    ] {
        let said = refusal(&drom(arguments));
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn headers_of_the_command_line_go_with_every_step() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, "[[step]]\nurl = '/look/t0'\n");
    // The shop knows the first visitor by this.
    let login = "[[step]]\nurl = '/login'\nform = { user = 'ann' }\n";
    let other = scenario(folder.path(), &shop.base, login);
    measured(&drom(&[&other, "-n", "1", "--json"]));
    scenario(folder.path(), &shop.base, "[[step]]\nurl = '/look/t0'\n");
    let told = measured(&drom(&[&path, "-n", "2", "-H", "Cookie: id=0", "--json"]));
    assert_eq!(told["requests"]["ok"], 2);
    let told = measured(&drom(&[&path, "-n", "2", "--json"]));
    assert_eq!(told["requests"]["failed"], 2);
}

#[test]
fn a_log_is_replayed_at_its_times_or_faster() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let log = folder.path().join("access.log");
    let line = |second: u32, what: &str| {
        format!("1.2.3.4 - - [01/Jan/2026:00:00:{second:02} +0000] \"{what} HTTP/1.1\" 200 5\n")
    };
    let lines = [line(0, "GET /a"), line(1, "POST /login"), line(3, "GET /b"), "junk\n".to_owned()];
    fs::write(&log, lines.concat()).expect("written");
    let log = log.to_str().expect("text");
    let output = drom(&[&shop.base, "--replay", log, "--speed", "10", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 requests that are neither") && said.contains("line 4"), "{said}");
    let told = measured(&output);
    assert_eq!(
        (&told["requests"]["ok"], &told["open"]["arrivals"]),
        (&2.into(), &"recorded".into())
    );
    let seconds = told["duration_s"].as_f64().expect("seconds");
    assert!((0.3..3.0).contains(&seconds), "{seconds}");
    assert_eq!(shop.asked(), ["GET /a HTTP/1.1", "GET /b HTTP/1.1"]);
}

#[test]
fn an_archive_is_replayed_with_its_checks() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let entry = |at: &str, path: &str, status: u16| {
        serde_json::json!({
            "startedDateTime": at, "time": 1,
            "request": {
                "method": "GET", "url": format!("{}{path}", shop.base), "httpVersion": "HTTP/1.1",
                "headers": [], "queryString": [], "cookies": [], "headersSize": -1, "bodySize": 0
            },
            "response": {
                "status": status, "statusText": "", "httpVersion": "HTTP/1.1", "headers": [],
                "cookies": [], "content": { "size": 0, "mimeType": "" }, "redirectURL": "",
                "headersSize": -1, "bodySize": 0
            },
            "cache": {}, "timings": { "send": 0, "wait": 1, "receive": 0 }
        })
    };
    let entries = [
        entry("2026-01-01T00:00:00.000Z", "/a", 200),
        entry("2026-01-01T00:00:02.000Z", "/none", 404),
        entry("2026-01-01T00:00:03.000Z", "/blocked", 0),
    ];
    let har = serde_json::json!({ "log": {
        "version": "1.2", "creator": { "name": "x", "version": "1" }, "entries": entries
    }});
    let path = folder.path().join("shop.har");
    fs::write(&path, har.to_string()).expect("written");
    let path = path.to_str().expect("text");
    let told = measured(&drom(&[path, "-c", "1", "-n", "2", "--speed", "100", "--json"]));
    assert_eq!((&told["requests"]["ok"], &told["status"]["404"]), (&4.into(), &2.into()));
    assert!(told["duration_s"].as_f64() < Some(2.0), "a hundred times as fast: {told:#}");
    assert!(!shop.asked().iter().any(|line| line.contains("blocked")), "the browser did not ask");
}

/// Rounds that go on to their ends make the window longer, not the plan.
#[test]
fn a_counted_list_was_planned_at_its_rate() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let text = "[[step]]\nurl = '/'\nthink = '300ms'\n[[step]]\nurl = '/a'\n";
    let path = scenario(folder.path(), &shop.base, text);
    let told = measured(&drom(&[&path, "--rate", "100", "-n", "10", "--json"]));
    assert_eq!(
        (&told["open"]["planned"], &told["open"]["planned_rps"]),
        (&10.into(), &100.0.into())
    );
    assert!(told["duration_s"].as_f64() > Some(0.3), "{told:#}");
}

#[test]
fn what_cannot_be_run_is_refused_before_the_first_request() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, "[[step]]\nurl = '/'\nnonsense = 1\n");
    let said = refusal(&drom(&[&path]));
    assert!(said.contains("shop.toml:4") && said.contains("nonsense"), "{said}");
    let good = scenario(folder.path(), &shop.base, "[[step]]\nurl = '/'\n");
    assert!(refusal(&drom(&[&good, "--data", "x"])).contains("--data is for one request"));
    assert!(refusal(&drom(&[&good, "--pipeline", "4"])).contains("nothing to pipeline"));
    assert!(refusal(&drom(&[&good, "-H", "Content-Length: 3"])).contains("sender's business"));
    let empty = folder.path().join("empty");
    fs::write(&empty, "/a\n\n/b\n").expect("written");
    let empty = empty.to_str().expect("text");
    assert!(refusal(&drom(&[&shop.base, "--urls", empty])).contains("empty:2"));
    assert!(refusal(&drom(&[empty])).contains("--urls FILE"));
    assert!(refusal(&drom(&["no-such.toml"])).contains("cannot read no-such.toml"));
    assert_eq!(shop.asked(), Vec::<String>::new());
}
