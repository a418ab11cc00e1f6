//! `drom compare` and what a wrong answer is, from outside: pages with a clock or their own port
//! are none, a server that goes wrong under load is.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::answering;

/// Both variants run this code for each answer.
fn compare(folder: &Path, settings: &str, code: &str) -> Output {
    let plan = answering::plan_with(folder, &format!("{settings}\n"), 6, code);
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("compare").arg(plan).env("DROM_RUNS", folder.join("runs"));
    command.stdin(Stdio::null()).output().expect("runs")
}

fn text(out: &Output) -> String {
    let (text, news) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    format!("{text}\n--- stderr ---\n{news}")
}

#[test]
fn a_page_with_a_clock_is_not_wrong() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "same_answer = true", "\"It is \" . localtime");
    // A busy machine may call the A/A pair different: 6.
    assert!(matches!(out.status.code(), Some(0 | 6)), "{}", text(&out));
    assert!(text(&out).contains("V1") && !text(&out).contains("WRONG"), "{}", text(&out));
}

#[test]
fn a_page_with_its_own_url_is_not_wrong_and_still_checked() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "", "\"http://127.0.0.1:$port/self\"");
    assert!(matches!(out.status.code(), Some(0 | 6)), "{}", text(&out));
    assert!(!text(&out).contains("V1") && !text(&out).contains("WRONG"), "{}", text(&out));
}

#[test]
fn a_server_that_goes_wrong_under_load_is_wrong() {
    let folder = tempfile::tempdir().expect("scratch");
    let out = compare(folder.path(), "", "$n < 30 ? \"hello\" : \"good bye\"");
    assert_eq!(out.status.code(), Some(7), "{}", text(&out));
    for words in ["expected 5 bytes", "the first one has 8 bytes", "good bye"] {
        assert!(text(&out).contains(words), "{words}: {}", text(&out));
    }
}
