//! `drom check` from outside: what holds, what does not, and how it is told.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use crate::shop::{SCENARIO, Shop, scenario};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("check").args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_scenario_that_holds_is_told_step_by_step() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, SCENARIO);
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let steps: Vec<String> = text(&output).lines().map(|line| line[..2].to_owned()).collect();
    assert_eq!(steps, ["ok", "ok", "ok", "3 "], "{}", text(&output));
    assert_eq!(shop.asked().len(), 4, "the redirect is followed");
    assert_eq!(text(&check(&[&path, "--quiet"])).lines().count(), 1);
    assert_eq!(check(&[&path, "--times", "5"]).status.code(), Some(0));
    assert_eq!(shop.visitors(), 7);
}

#[test]
fn what_does_not_hold_is_named_with_what_was_there() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let wrong = SCENARIO.replace("text = \"known\"", "text = \"nobody\", max_bytes = 3");
    let path = scenario(folder.path(), &shop.base, &wrong);
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(9));
    let said = text(&output);
    assert!(said.contains("FAIL") && said.contains("text \"nobody\": "), "{said}");
    assert!(said.contains("2 failed") && said.contains("3 answers"), "{said}");
}

#[test]
fn tap_and_junit_are_what_their_readers_take() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, SCENARIO);
    let report = folder.path().join("report.xml");
    let output = check(&[&path, "--tap", "--junit", report.to_str().expect("text")]);
    let tap = text(&output);
    assert!(tap.starts_with("TAP version 13\n1..9\nok 1 - log in: status below 400\n"), "{tap}");
    let xml = fs::read_to_string(&report).expect("written");
    assert!(xml.contains("tests=\"9\" failures=\"0\" errors=\"0\""), "{xml}");
    let program = format!("{} check --tap", env!("CARGO_BIN_EXE_drom"));
    let proved = Command::new("prove").args(["--exec", &program, &path]).output();
    let proved = proved.expect("perl brings prove");
    let said = String::from_utf8_lossy(&proved.stdout);
    assert!(proved.status.success() && said.contains("Result: PASS"), "{said}");
}

#[test]
fn every_way_is_gone_once_and_every_line_of_a_list() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let ways = "[[scenario]]\nname = 'a'\nweight = 1000\n[[scenario.step]]\nurl = '/a'\n\
                [[scenario]]\nname = 'b'\n[[scenario.step]]\nurl = '/b'\n";
    let path = scenario(folder.path(), &shop.base, ways);
    assert_eq!(check(&[&path, "--times", "2"]).status.code(), Some(0));
    let line = |path: &str| format!("GET {path} HTTP/1.1");
    assert_eq!(shop.asked(), ["/a", "/b", "/a", "/b"].map(line));
    let list = folder.path().join("list");
    fs::write(&list, "/a\n/none\n/b\n").expect("written");
    let output = check(&[&shop.base, "--urls", list.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(9));
    assert!(text(&output).contains("GET /none\n"), "{}", text(&output));
    fs::write(&list, "/a 9\n/b 0\n").expect("written");
    let output = check(&[&shop.base, "--urls", list.to_str().expect("text")]);
    assert!(text(&output).starts_with("ok") && text(&output).contains("2 answers;"), "{output:?}");
}

#[test]
fn an_answer_that_does_not_come_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let shop = Shop::open();
    let slow = "[[step]]\nurl = '/'\n[[step]]\nurl = 'http://127.0.0.1:1/'\n";
    let path = scenario(folder.path(), &shop.base, slow);
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert!(text(&output).contains("no answer: no connection"), "{}", text(&output));
    // Where nobody listens at all nothing was tested.
    let path = scenario(folder.path(), "http://127.0.0.1:1", "[[step]]\nurl = '/'\n");
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused"), "{output:?}");
    assert_eq!(check(&["http://127.0.0.1:1/"]).status.code(), Some(2));
}

#[test]
fn steps_behind_the_one_that_ended_the_round_are_told() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let steps = "[[step]]\nname = 'first'\nurl = '/'\n[step.capture]\nid = { regex = 'none (x)' }\n\
                 [[step]]\nname = 'then'\nurl = '/a'\n[[step]]\nname = 'last'\nurl = '/b'\n";
    let path = scenario(folder.path(), &shop.base, steps);
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let said = text(&output);
    let starts: Vec<&str> = said.lines().map(|line| &line[..4]).collect();
    assert_eq!(starts, ["FAIL", "    ", "skip", "skip", "1 an"], "{said}");
    assert!(said.contains("-  last: `first` ended the round\n"), "{said}");
    assert!(said.contains("1 answer, 2 skipped; 2 checks, 1 failed"), "{said}");
    let tap = text(&check(&[&path, "--tap"]));
    assert!(tap.contains("ok 4 - last # SKIP `first` ended the round\n"), "{tap}");
    let xml = text(&check(&[&path, "--junit", "-"]));
    assert!(xml.contains("skipped=\"2\"") && xml.contains("<skipped message="), "{xml}");
}

/// Somebody who reads only the report sees that it is not whole.
#[test]
fn a_test_that_is_stopped_is_not_passed() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", silent.local_addr().expect("an address"));
    let path = scenario(folder.path(), &base, "[[step]]\nurl = '/'\n");
    let report = folder.path().join("report.xml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["check", &path, "--tap", "--junit", report.to_str().expect("text")]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let asked = silent.accept().expect("it asks");
    let pid = i32::try_from(child.id()).expect("a number");
    // SAFETY: takes numbers; the child is ours.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let output = child.wait_with_output().expect("it ends");
    drop(asked);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text(&output).contains("not ok 1 - the rest: an answer"), "{}", text(&output));
    let xml = fs::read_to_string(&report).expect("written");
    assert!(xml.contains("errors=\"1\"") && xml.contains("stopped before it was over"), "{xml}");
}

#[test]
fn a_test_that_asks_nothing_or_not_everything_does_not_pass() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let path = scenario(folder.path(), &shop.base, "[[step]]\nurl = '/'\nrepeat = 0\n");
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let nothing = check(&[&path]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
    assert!(said(&nothing).contains("nothing was asked"), "{}", said(&nothing));
    let list = folder.path().join("list");
    fs::write(&list, "/a 1\n").expect("written");
    let list = list.to_str().expect("text");
    let drawn = check(&[&shop.base, "--urls", list, "--order", "weighted"]);
    assert_eq!(drawn.status.code(), Some(2), "{drawn:?}");
    assert!(said(&drawn).contains("--order is for drom load"), "{}", said(&drawn));
    let unwritable = check(&[&path, "--junit", "/no/such/folder/x.xml"]);
    assert_eq!(unwritable.status.code(), Some(2), "{unwritable:?}");
    assert!(said(&unwritable).contains("cannot write /no/such/folder/x.xml"));
}

/// Programs that read the result are told that there is none, in their own words.
#[test]
fn a_server_that_is_not_there_is_no_empty_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = scenario(folder.path(), "http://127.0.0.1:1", "[[step]]\nurl = '/'\n");
    let report = folder.path().join("report.xml");
    let output = check(&[&path, "--tap", "--junit", report.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let tap = text(&output);
    assert!(tap.starts_with("TAP version 13\nBail out! 127.0.0.1:1 refused"), "{tap}");
    let xml = fs::read_to_string(&report).expect("written");
    assert!(xml.contains("errors=\"1\"") && xml.contains("refused the connection"), "{xml}");
}

#[test]
fn a_test_that_cannot_begin_leaves_no_file_and_one_that_ends_early_says_so() {
    let (shop, folder) = (Shop::open(), tempfile::tempdir().expect("a folder"));
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let report = folder.path().join("report.xml");
    let report_name = report.to_str().expect("text");
    let path = scenario(folder.path(), &shop.base, "[[step]]\nurl = '/'\n");
    let mistyped = check(&[&path, "--junit", report_name, "--var", "bsae=http://h"]);
    assert_eq!(mistyped.status.code(), Some(2), "{mistyped:?}");
    assert!(said(&mistyped).contains("nothing in it is {{bsae}}"), "{}", said(&mistyped));
    assert!(!report.exists());
    fs::write(folder.path().join("rows.csv"), "id\n1\n2\n").expect("written");
    let steps = "[feeder.rows]\nfile = 'rows.csv'\nonce = true\n[[step]]\nurl = '/?{{id}}'\n\
                 check = { status = 403 }\n";
    let path = scenario(folder.path(), &shop.base, steps);
    let output = check(&[&path, "--times", "5"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let wanted = "2 of 5 rounds: then the rows of rows were all taken (`once`)";
    assert!(said(&output).contains(wanted), "{}", said(&output));
    assert!(said(&check(&[&path, "--times", "2"])).is_empty());
}
