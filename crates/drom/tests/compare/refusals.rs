//! What `drom compare` refuses before it starts anything, measured or only previewed.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::answering;

fn compare(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("compare").args(args).env("DROM_RUNS", folder.join("runs"));
    command.output().expect("runs")
}

fn news(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// The plan with one thing changed, refused both ways: status and message.
fn refused(from: &str, to: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = answering::plan(folder.path(), 6);
    let text = fs::read_to_string(&plan).expect("plan");
    assert!(text.contains(from), "{text}");
    fs::write(&plan, text.replacen(from, to, 1)).expect("written");
    let (foretold, run) =
        (compare(folder.path(), &["--preview", &plan]), compare(folder.path(), &[&plan]));
    assert!(!folder.path().join("runs").exists(), "nothing was started");
    assert!(!news(&run).contains("preflight"), "{}", news(&run));
    assert_eq!((foretold.status.code(), news(&foretold)), (run.status.code(), news(&run)));
    (run.status.code(), news(&run))
}

#[test]
fn a_budget_of_nothing() {
    let (status, news) = refused("baseline =", "budget = \"0s\"\nbaseline =");
    assert!(status == Some(2) && news.contains(":2: budget = 0"), "{news}");
}

#[test]
fn a_configuration_that_is_not_there() {
    let command = "command = [\"perl\", \"{plan_dir}/server.pl\", \"{port}\"]";
    let (status, news) = refused(command, "drom = \"nosuch.conf\"");
    assert!(status == Some(2) && news.contains("nosuch.conf"), "{news}");
    assert!(news.contains("plan.toml:12: "), "{news}");
    // A variant that is skipped needs no files.
    let skipped = "drom = \"nosuch.conf\"\nrequires = \"no-such-program\"";
    let folder = tempfile::tempdir().expect("scratch");
    let plan = answering::plan(folder.path(), 6);
    let text = fs::read_to_string(&plan).expect("plan").replacen(command, skipped, 1);
    fs::write(&plan, text).expect("written");
    assert!(compare(folder.path(), &["--preview", &plan]).status.success());
}

#[test]
fn a_program_that_is_not_there() {
    let (status, news) = refused("\"perl\", ", "\"{plan_dir}/nosuch\", ");
    assert!(status == Some(2) && news.contains("nosuch"), "{news}");
}

#[test]
fn more_connections_than_descriptors() {
    let (status, news) = refused("connections = 1\n", "connections = 2000000000\n");
    assert!(status == Some(1) && news.contains("open files are needed"), "{news}");
}

#[test]
fn a_folder_with_something_in_it() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = answering::plan(folder.path(), 6);
    let mine = folder.path().join("mine");
    fs::create_dir(&mine).expect("made");
    fs::write(mine.join("letters.txt"), "dear").expect("written");
    let out = compare(folder.path(), &[&plan, "--out", &mine.display().to_string()]);
    assert_eq!(out.status.code(), Some(1), "{}", news(&out));
    assert!(news(&out).contains("is not empty"), "{}", news(&out));
    assert_eq!(fs::read_dir(&mine).expect("folder").count(), 1);
}

#[test]
fn the_help_lists_the_statuses() {
    let help = compare(Path::new("."), &["--help"]).stdout;
    let help = String::from_utf8_lossy(&help).into_owned();
    let statuses = help.split("Exit status:").nth(1).expect("there are some");
    for status in ["0 ", "1 ", "2 ", "4 ", "5 ", "6 ", "7 ", "8 ", "130 "] {
        assert!(statuses.contains(status), "{status}: {help}");
    }
}
