//! `drom bench` from outside: what it finds, what it says of code that cannot be compared, and that
//! nothing of it stays behind. How seldom it is wrong is measured by `make bench`, not here.

use std::{
    fs,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Twice as much of the same, and a third of it.
const WAYS: &str = "\
sub once { my $n = 0; $n += $_ for 1 .. 40; return $n }
sub twice { my $n = 0; $n += $_ for 1 .. 80; return $n }
";

fn drom(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("bench").args(words).stdin(Stdio::null()).output().expect("it starts")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(words: &[&str]) -> Value {
    let output = drom(&[&["--format", "json", "--processes", "5"], words].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

/// How many times as long the first takes as the second.
fn ratio<'t>(told: &'t Value, of: &str, to: &str) -> &'t Value {
    let all = told["ratios"].as_array().expect("ratios");
    let found = all.iter().find(|ratio| ratio["of"] == of && ratio["to"] == to);
    found.unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn subs_of_a_file_are_compared() {
    let folder = TempDir::new().expect("a folder");
    let told = told(&["--rounds", "40", &file(&folder, "ways.pl", WAYS)]);
    let ratio = ratio(&told, "twice", "once");
    let of = |key: &str| ratio[key].as_f64().expect("a number");
    assert!(ratio["is_different"] == true, "{ratio}");
    assert!((1.6..2.1).contains(&of("time_ratio")), "{ratio}");
    assert!(of("time_ratio_low") < of("time_ratio") && of("time_ratio") < of("time_ratio_high"));
    let once = &told["candidates"][0];
    assert_eq!(once["process_time_ns"].as_array().map(Vec::len), Some(5));
    assert!(once["time_ns"].as_f64() > Some(100.0) && once["is_nothing"] == false, "{once}");
    assert_eq!((&once["grown_bytes"], &told["of"]["perl"]), (&Value::Null, &"perl".into()));
}

#[test]
fn people_see_benchmarks_lines_and_its_table() {
    let words =
        ["--processes", "4", "--rounds", "20", "-e", "none=1", "-e", "some=$x{$_}++ for 1..9"];
    let output = drom(&words);
    let text = said(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    let line = text.lines().find(|line| line.starts_with("      some: ")).expect("a line");
    assert!(line.contains(" wallclock secs (") && line.contains(" CPU) @ "), "{line}");
    let rate =
        |line: &str| -> Option<f64> { line.split("@ ").nth(1)?.split("/s").next()?.parse().ok() };
    assert!(rate(line) > Some(10_000.0), "{line}");
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("Rate"));
    assert_eq!(table.clone().nth(1).and_then(|row| row.split_whitespace().last()), Some("-"));
    assert!(text.contains("none: cannot be told from an empty loop"), "{text}");
}

#[test]
fn an_input_that_is_slow_is_found() {
    let folder = TempDir::new().expect("a folder");
    let code = "sub tries { my ($text) = @_; return $text =~ /^(a|aa)+$/ }\n\
                sub length_of { my ($text) = @_; return length $text }\n";
    let inputs = file(&folder, "inputs", "short\naaaaaaaaaaaaaaaaaaaaaaaa!\nhello world\n");
    let path = file(&folder, "ways.pl", code);
    let told = told(&["--rounds", "10", "--inputs", &inputs, &path]);
    let inputs = told["inputs"].as_array().expect("inputs");
    let ns = |line: usize, way: usize| inputs[line]["time_ns"][way].as_f64().expect("a time");
    assert!(ns(1, 0) > 5.0 * ns(0, 0), "{inputs:?}");
    assert!(ns(1, 1) < 3.0 * ns(0, 1), "{inputs:?}");
    assert_eq!(inputs[1]["input"], "aaaaaaaaaaaaaaaaaaaaaaaa!");
    let output = drom(&[
        "--processes",
        "3",
        "--inputs",
        &folder.path().join("inputs").display().to_string(),
        &path,
    ]);
    let text = said(&output.stdout);
    let slow = text.lines().find(|line| line.starts_with("tries") && line.ends_with('!'));
    assert!(slow.is_some_and(|line| line.contains("\u{d7}")), "{text}");
}

#[test]
fn code_that_keeps_memory_is_told() {
    let told = told(&[
        "--rounds",
        "10",
        "-e",
        "keeps=push @kept, 'x' x 100",
        "-e",
        "not=my $x = 'x' x 100",
    ]);
    let grown = |at: usize| told["candidates"][at]["grown_bytes"].as_f64();
    assert!(grown(0).is_some_and(|bytes| (100.0..400.0).contains(&bytes)), "{told}");
    assert_eq!(grown(1), None);
    let notes = told["notes"].to_string();
    assert!(notes.contains("keeps: leaves some") && !notes.contains("not: leaves"), "{notes}");
}

#[test]
fn whole_commands_are_compared() {
    let told = told_of_commands(&["--rounds", "6", "--", "sleep 0.02", "sleep 0.4"]);
    let ratio = ratio(&told, "sleep 0.4", "sleep 0.02");
    // A machine that does much else makes both longer.
    let centre = ratio["time_ratio"].as_f64().expect("a ratio");
    assert!(ratio["is_different"] == true && (2.0..20.0).contains(&centre), "{ratio}");
    assert_eq!((&told["clock"], &told["rounds"]), (&"wall".into(), &6.into()));
    assert_eq!(told["candidates"][0]["iterations"], 6);
}

fn told_of_commands(words: &[&str]) -> Value {
    let output = drom(&[&["--format", "json"], words].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn other_forms_have_what_they_must() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let written = |format: &str| {
        let path = out.to_str().expect("text");
        let flags = ["--format", format, "-o", path, "--processes", "3", "--rounds", "5"];
        let output = drom(&[&flags[..], &["-e", "a_b=$x++", "-e", "c=$x .= 'y'"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
        assert_eq!(said(&output.stdout), "");
        fs::read_to_string(&out).expect("written")
    };
    let csv = written("csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[1][0], rows[2][0]), (3, "name", "a_b", "c"));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let markdown = written("markdown");
    assert!(markdown.contains("| a\\_b | "), "{markdown}");
    let widths: Vec<usize> = markdown
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.matches('|').count())
        .collect();
    assert_eq!(widths, [4, 4, 4, 4, 4, 4, 4, 4], "{markdown}");
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = TempDir::new().expect("a folder");
    let (path, empty) = (file(&folder, "ways.pl", WAYS), file(&folder, "empty.pl", "1;\n"));
    let inputs = file(&folder, "inputs", "one\n");
    let nothing = file(&folder, "nothing", "");
    for (words, code, expected) in [
        (&[][..], 2, "required"),
        (&["-e", "a b=1"], 2, "write NAME=CODE"),
        (&["/no/such.pl"], 1, "/no/such.pl: No such file"),
        (&[&*empty], 1, "defines no named sub"),
        (&["-e", "a=die qq(gone\\n)"], 1, "a: gone"),
        (&["-e", "a=exit 3"], 1, "the code ended perl (exit 3)"),
        (&["-e", "a=kill 9, $$"], 1, "perl was ended (signal: 9"),
        (&["-e", "a=foo("], 1, "a: syntax error at -e a line"),
        (&["--perl", "/no/perl", &*path], 1, "/no/perl cannot be started"),
        (&["--inputs", &*inputs, "-e", "a=$_ .= 1"], 1, "an input was changed"),
        (&["--inputs", &*nothing, &*path], 1, "is empty: each line is an input"),
        (&["--inputs", "/no/inputs", &*path], 1, "/no/inputs: No such file"),
        (&["--", "false"], 1, "`false` ended with status 1"),
        (&["--", "drom-no-such"], 1, "`drom-no-such` was not found"),
        (
            &["-o", "/no/out", "--processes", "3", "--rounds", "2", "-e", "a=1"],
            1,
            "cannot write /no/out",
        ),
        (&[&*path, "--", "true"], 2, "cannot be used with"),
    ] {
        let output = drom(words);
        let text = said(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
        assert_eq!(said(&output.stdout), "", "{words:?}");
    }
}

#[test]
fn an_end_block_that_never_ends_holds_nobody_up() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "ways.pl", &format!("{WAYS}END {{ sleep 1000 }}\n1;\n"));
    let begun = Instant::now();
    let output = drom(&["--processes", "3", "--rounds", "2", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

fn has_perl_with(mark: &str) -> bool {
    let folders = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = folders.filter_map(|folder| fs::read(folder.path().join("cmdline")).ok());
    lines.map(|line| said(&line)).any(|line| line.starts_with("perl\0") && line.contains(mark))
}

/// Whatever the code does: it never comes back here.
#[test]
fn an_interrupt_ends_it_and_its_perl() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    let mark = format!("drom_bench_{}", std::process::id());
    command.args(["bench", "-e", &format!("{mark}=1 while 1")]);
    let mut run = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let is_there = || has_perl_with(&mark);
    let begun = Instant::now();
    while !is_there() && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(200));
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let status = run.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(!is_there(), "its perl runs on");
}
