//! Help, manual and completions from outside: all are written from the same flags.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

fn drom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drom")).args(arguments).output().expect("drom")
}

fn text(arguments: &[&str]) -> String {
    let output = drom(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Long flags at the beginning of a line, or behind a short one.
fn flags(help: &str) -> BTreeSet<String> {
    let words = help.lines().filter(|line| line.starts_with(' ')).filter_map(|line| {
        line.split_whitespace().take(2).find_map(|word| word.strip_prefix("--"))
    });
    words.map(|word| word.trim_end_matches(',').to_owned()).collect()
}

#[test]
fn both_helps_are_short_and_aligned_and_the_long_one_is_a_verb() {
    let short = text(&["load", "-h"]);
    assert_eq!(short, text(&["load", "--help"]));
    for section in ["Load:", "Open loop:", "Requests:", "Connections:", "Results:"] {
        assert!(short.lines().any(|line| line == section), "{section}\n{short}");
    }
    assert!(short.contains("\n  -c, --connections <N>  Connections, each"), "{short}");
    let long = text(&["help", "load"]);
    assert!(long.contains("never more than there are requests"), "{long}");
    assert!(!short.contains("never more than there are requests"), "{short}");
    assert!(flags(&short).is_subset(&flags(&long)), "{long}");
}

#[test]
fn the_manual_has_a_page_for_each_verb_with_all_its_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("share/man1");
    text(&["man", &pages.display().to_string()]);
    let verbs = ["serve", "load", "profile", "memory", "record", "compare", "report"];
    for verb in verbs.into_iter().chain(["ab", "http_load", "httperf"]) {
        let page = fs::read_to_string(pages.join(format!("drom-{verb}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH drom-{verb} 1")), "{page}");
        if !["ab", "http_load", "httperf"].contains(&verb) {
            for flag in flags(&text(&[verb, "--help"])) {
                let written = format!("\\-\\-{}", flag.replace('-', "\\-"));
                assert!(page.contains(&written), "{verb} {flag}");
            }
        }
    }
    let first = fs::read_to_string(pages.join("drom.1")).expect("the first page");
    assert_eq!(first, text(&["man"]));
}

#[test]
fn a_manual_that_cannot_be_written_says_why() {
    let output = drom(&["man", "/proc/nowhere"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("drom man: /proc/nowhere: "), "{said}");
}

#[test]
fn completions_are_right_for_the_shell_and_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        assert!(script.contains("threshold") && script.contains("http_load"), "{shell}");
        assert!(script.contains("How many requests") || shell == "bash", "ab's words, {shell}");
        assert!(script.contains("wsesslog"), "httperf's words, {shell}");
    }
    let mut bash = Command::new("bash");
    let mut bash = bash.arg("-n").stdin(Stdio::piped()).spawn().expect("bash");
    let mut stdin = bash.stdin.take().expect("a pipe");
    stdin.write_all(text(&["completions", "bash"]).as_bytes()).expect("bash reads");
    drop(stdin);
    assert!(bash.wait().expect("bash").success());
}
