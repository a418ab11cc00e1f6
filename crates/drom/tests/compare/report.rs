//! `drom report` from outside, over runs that are written here: its forms, the list, runs that are
//! damaged or named by somebody who wants more than to be read.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use drom_stats::Latency;
use drom_store::{Block, End, Flag, Group, LoadFacts, Manifest, SCHEMA, Slice, Variant, Writer};

/// Clears the screen, and turns the letters around behind it.
const SPITEFUL: &str = "nice\u{1b}[2J\u{9b}31m\u{202e} | *bold* <b>_x_";

fn report(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drom")).arg("report").args(args).output().expect("runs")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn kept(root: &Path, name: &str, title: &str) -> String {
    let mut writer = Writer::create(&root.join(name), &manifest(title)).expect("new");
    for index in 0..6 {
        let block = block(index, title);
        let latencies = vec![Latency::default(); block.slices.len()];
        writer.block(&block, &latencies).expect("written");
    }
    let end = End { reason: "done".to_owned(), duration_s: 9.0, ..End::default() };
    writer.end(&end).expect("ended").display().to_string()
}

#[test]
fn markdown_has_lists_and_headings() {
    let root = tempfile::tempdir().expect("scratch");
    let run = kept(root.path(), "plain", "Which one?");
    let page = words(&report(&[&run, "--markdown"]).stdout);
    assert!(page.contains("\n\n- undecided: b, about "), "{page}");
    assert!(page.contains("\n\n## Checks that failed\n\n- L6 "), "{page}");
    assert!(!page.contains("\n  ") && !page.contains("\n\n\n"), "{page}");
    let text = words(&report(&[&run]).stdout);
    assert!(text.contains("\n  undecided: b, about ") && text.contains("\nChecks that failed\n"));
}

#[test]
fn nothing_in_a_run_reaches_the_terminal_as_a_command() {
    let root = tempfile::tempdir().expect("scratch");
    let run = kept(root.path(), "run", SPITEFUL);
    let root = root.path().display().to_string();
    let mut forms: Vec<Vec<&str>> = vec![vec![], vec!["--markdown"], vec!["--csv"], vec!["--json"]];
    forms.extend(forms.clone().into_iter().map(|form| [vec![&run[..]], form].concat()));
    for form in forms {
        let out = report(&[form.clone(), vec!["--root", &root]].concat());
        let shown = words(&out.stdout) + &words(&out.stderr);
        assert!(out.status.success() && shown.contains("nice"), "{form:?} {shown}");
        let strange = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(strange), "{form:?} {shown:?}");
        if form.contains(&"--markdown") {
            assert!(shown.contains(r"\*bold\* \<b\>\_x\_"), "{form:?} {shown}");
            assert!(!shown.contains(" | *"), "{form:?} {shown}");
        }
    }
    let missing = report(&["no\u{1b}[2Jrun", "--root", &root]);
    assert!(!missing.stderr.contains(&0x1b), "{}", words(&missing.stderr));
}

#[test]
fn a_dash_is_standard_output_for_the_page_too() {
    let root = tempfile::tempdir().expect("scratch");
    let run = kept(root.path(), "run", "A run");
    let here = Command::new(env!("CARGO_BIN_EXE_drom"))
        .args(["report", &run, "--html", "-"])
        .current_dir(root.path())
        .output()
        .expect("runs");
    assert!(here.status.success() && here.stdout.starts_with(b"<!"), "{}", words(&here.stderr));
    assert!(!root.path().join("-").exists());
    let both = report(&[&run, "--html", "-", "--json"]);
    assert_eq!((both.status.code(), both.stdout.len()), (Some(2), 0), "{}", words(&both.stderr));
}

#[test]
fn the_list_has_a_head() {
    let root = tempfile::tempdir().expect("scratch");
    kept(root.path(), "run", "A run");
    let root = root.path().display().to_string();
    let list = words(&report(&["--root", &root]).stdout);
    let lines: Vec<&str> = list.lines().collect();
    let columns: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(columns, ["run", "started", "blocks", "effect", "title"], "{list}");
    assert!(lines[1].starts_with("run  ") && lines[1].ends_with("  2 %  A run"), "{list}");
    let under = |word: &str, cell: &str| {
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end(lines[0], word), end(lines[1], cell), "{list}");
    };
    under("effect", "2 %");
    under("blocks", " 6");
}

#[test]
fn a_damaged_run_that_is_asked_for_says_why() {
    let root = tempfile::tempdir().expect("scratch");
    kept(root.path(), "bad-two", "The other");
    let bad = kept(root.path(), "bad", "A run");
    fs::write(Path::new(&bad).join("manifest.json"), "{\"schema\": ").expect("damaged");
    let root = root.path().display().to_string();
    let listed = words(&report(&["--root", &root]).stderr);
    let asked = report(&["bad", "--root", &root]);
    assert_eq!(asked.status.code(), Some(1));
    assert_eq!(words(&asked.stderr), listed);
    assert!(listed.contains("manifest.json is damaged"), "{listed}");
    let beginning = report(&["bad-t", "--root", &root]);
    assert!(beginning.status.success(), "{}", words(&beginning.stderr));
}

#[test]
fn a_root_that_is_not_there_is_an_error() {
    let root = tempfile::tempdir().expect("scratch");
    let missing = root.path().join("mistyped").display().to_string();
    for form in [&["--root", &missing][..], &["--root", &missing, "--json"]] {
        let out = report(form);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0), "{form:?}");
        assert!(words(&out.stderr).contains("mistyped"), "{}", words(&out.stderr));
    }
    // The folder that nobody named comes with the first run.
    let out = Command::new(env!("CARGO_BIN_EXE_drom"))
        .arg("report")
        .current_dir(root.path())
        .env_remove("DROM_RUNS")
        .output()
        .expect("runs");
    assert!(out.status.success() && words(&out.stdout).contains("no runs in runs"));
}

fn manifest(title: &str) -> Manifest {
    let variant = |name: &str, is_control| Variant {
        name: name.to_owned(),
        is_control,
        path: "/".to_owned(),
        command: "server".to_owned(),
        answer: None,
    };
    let variants = vec![variant("a", false), variant("b", false), variant("a (again)", true)];
    Manifest {
        schema: SCHEMA,
        tool: "drom 0".to_owned(),
        name: "race".to_owned(),
        title: title.to_owned(),
        started_unix_s: 1_772_874_301,
        seed: 1,
        quick: false,
        mode: "interleave".to_owned(),
        placement: "shared".to_owned(),
        effect: 0.02,
        budget_s: 10.0,
        pilot_blocks: 6,
        load: LoadFacts {
            connections: 1,
            threads: 1,
            slice_s: 1.0,
            warmup_s: 0.1,
            rounds: 1,
            keepalive: true,
        },
        client_ceiling_rps: None,
        machine: vec![],
        groups: vec![Group {
            name: title.to_owned(),
            baseline: "a".to_owned(),
            connections: 1,
            variants,
        }],
        skipped: vec![],
        flags: vec![],
        plan_toml: String::new(),
    }
}

/// `b` is here the faster and there the slower one; somebody else was at work, too.
fn block(index: usize, title: &str) -> Block {
    let other = if index.is_multiple_of(2) { 1_300 } else { 800 };
    let rates = [("a", 1_000), ("b", other + index as u64), ("a (again)", 1_001 + index as u64)];
    let slices = rates.map(|(variant, ok)| Slice {
        id: format!("b{index}-{}", variant.len()),
        variant: variant.to_owned(),
        used: true,
        duration_s: 1.0,
        sent: ok,
        ok,
        connected: 1,
        mean_ns: 1e9 / ok as f64,
        flags: vec![Flag { code: "L6".to_owned(), detail: title.to_owned() }],
        ..Slice::default()
    });
    Block {
        index,
        group: title.to_owned(),
        begin_s: index as f64,
        end_s: index as f64 + 1.0,
        starts: vec![],
        slices: slices.to_vec(),
    }
}
