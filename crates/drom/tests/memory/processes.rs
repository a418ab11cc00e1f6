//! `drom memory` from outside: what it tells of processes, and that it changes nothing.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

const MB: u64 = 1_000_000;

/// Four children that share 40 MB with their parent.
const PREFORK: &str = "\
my $data = 'x' x 40_000_000;
for (1 .. 4) { fork or do { sleep 60; exit } }
$| = 1;
print \"ready\\n\";
1 while wait > 0;
";

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("memory").args(words).stdin(Stdio::null()).env_remove("COLUMNS");
    command
}

fn drom(words: &[&str]) -> Output {
    command(words).output().expect("it starts")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Of a look that went well.
fn json(words: &[&str]) -> Value {
    let output = drom(&[&["--json"], words].concat());
    assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn figure(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// A process in a group of its own, which is ended with the test.
struct Target(Child);

impl Target {
    /// One that has said that it is ready.
    fn ready(code: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let mut perl = Command::new("perl");
        perl.args(["-e", code]).process_group(0).stdout(Stdio::piped());
        let mut child = perl.spawn().expect("perl");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says so");
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: a signal to a group that this test made.
        unsafe { libc::kill(-self.0.id().cast_signed(), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("script.pl");
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn what_workers_share_since_the_fork_is_seen() {
    let server = Target::ready(PREFORK);
    let found = json(&["--pid", &server.pid(), "--tree"]);
    let processes = found["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 5, "{found}");
    for process in processes.iter().filter(|one| one["pid"] != server.0.id()) {
        assert_eq!(process["parent"], server.0.id(), "{process}");
        assert_eq!(process["command"], "perl", "{process}");
        let [rss, pss, uss, shared] = ["rss", "pss", "uss", "shared"].map(|n| figure(process, n));
        assert!(rss > 40 * MB && uss < 2 * MB, "{process}");
        assert!((8 * MB..24 * MB).contains(&pss), "a fifth of it: {process}");
        assert_eq!(shared, rss - uss);
        assert!(figure(process, "file_pages") < 20 * MB, "statm does not see it: {process}");
    }
    let whole = processes.iter().map(|one| figure(one, "rss")).max().expect("some");
    let (pss, rss) = (figure(&found, "pss"), figure(&found, "rss"));
    assert!(pss > 40 * MB && pss < whole + 15 * MB, "{pss} of {whole}");
    assert!(rss > 5 * 40 * MB, "{rss}");
    let text = said(&drom(&["--pid", &server.pid(), "--tree"]).stdout);
    let total = text.lines().find(|line| line.starts_with("total")).expect("a total");
    assert!(total.ends_with("5 processes"), "{text}");
    assert!(text.contains("PSS adds up"), "{text}");
}

#[test]
fn segments_and_files_are_the_whole() {
    let server = Target::ready("my $data = 'x' x 30_000_000; $| = 1; print qq(ready\\n); sleep 60");
    let found = json(&["--pid", &server.pid(), "--segments", "--libraries"]);
    let sum = |list: &str, name: &str| -> u64 {
        found[list].as_array().expect(list).iter().map(|part| figure(part, name)).sum()
    };
    for name in ["rss", "uss", "shared", "anonymous"] {
        assert!(sum("segments", name).abs_diff(figure(&found, name)) <= 64 << 10, "{name} {found}");
    }
    let segment = |name: &str| {
        let segments = found["segments"].as_array().expect("segments");
        segments.iter().find(|one| one["segment"] == name).expect(name).clone()
    };
    let data = figure(&segment("anonymous"), "uss") + figure(&segment("heap"), "uss");
    assert!(data > 30 * MB, "{found}");
    assert!(figure(&segment("program text"), "rss") > 0, "{found}");
    let kinds = ["program text", "program data", "library text", "library data", "files"];
    let of_files: u64 = kinds.iter().map(|kind| figure(&segment(kind), "rss")).sum();
    assert_eq!(sum("files", "rss"), of_files);
    let files = found["files"].as_array().expect("files");
    let is_libc = |one: &Value| one["file"].as_str().is_some_and(|file| file.contains("/libc."));
    assert!(files.iter().any(is_libc), "{found}");
    let text = said(&drom(&["--pid", &server.pid(), "--segments", "--libraries"]).stdout);
    assert!(text.contains("  SEGMENT\n") && text.contains("  FILE\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with("  total")).count(), 2, "{text}");
}

#[test]
fn a_script_that_grows_is_found_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "my @all; for (1 .. 40) { push @all, 'x' x 1_000_000;
                select undef, undef, undef, 0.02 } print STDERR qq(aside\\n);
                print scalar(<STDIN>), qq(@ARGV\\n); exit 7";
    let path = script(&folder, text);
    let report = folder.path().join("report.json");
    let report_name = report.to_str().expect("text");
    let path = path.to_str().expect("text");
    let input = folder.path().join("input");
    fs::write(&input, "the input\n").expect("written");
    let mut command = command(&["--json", "-o", report_name, path, "--its", "-o", "words"]);
    let output = command.stdin(fs::File::open(&input).expect("it is there")).output().expect("it");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(said(&output.stdout), "the input\n--its -o words\n");
    assert_eq!(said(&output.stderr), "aside\n");
    let told: Value = serde_json::from_slice(&fs::read(&report).expect("it")).expect("JSON");
    let growth = &told["growth"];
    for name in ["rss", "pss", "uss"] {
        let [first, last, max] = ["first", "last", "max"].map(|key| figure(&growth[name], key));
        assert!(max - first > 25 * MB && max >= last, "{name} {growth}");
        let slope = growth[name]["bytes_per_second"].as_f64().expect("a slope");
        assert!(slope > MB as f64 && slope < 60.0 * MB as f64, "{growth}");
    }
    let samples = growth["samples"].as_array().expect("samples");
    assert_eq!(samples.len() as u64, figure(growth, "looks"));
    let times: Vec<f64> = samples.iter().filter_map(|one| one["at_s"].as_f64()).collect();
    assert!(times.is_sorted() && times.len() > 10, "{growth}");
    let peak = figure(&told, "kernel_peak_rss");
    assert!(peak.abs_diff(figure(&growth["rss"], "max")) < 3 * MB, "{told}");
}

#[test]
fn a_scripts_table_is_aside_and_its_end_is_passed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "select undef, undef, undef, 0.3; my $all = 'x' x 90_000_000; kill 15, $$; sleep 9";
    let path = script(&folder, text);
    let output = drom(&["--interval", "1min", path.to_str().expect("text")]);
    assert_eq!((output.status.code(), said(&output.stdout)), (Some(143), String::new()));
    let table = said(&output.stderr);
    for line in ["RSS  ", "PSS  ", "USS  "] {
        assert!(table.lines().any(|own| own.starts_with(line)), "{table}");
    }
    assert!(table.contains(" MB at most, says the kernel"), "{table}");
    let output = drom(&["-e", "exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    let output = command(&["x.pl"]).env("PATH", "/nowhere").output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("perl cannot be started"), "{output:?}");
}

#[test]
fn growth_of_a_process_that_runs_is_watched_until_it_ends() {
    let code = "$| = 1; print qq(ready\\n); my @all;
                for (1 .. 30) { push @all, 'x' x 1_000_000; select undef, undef, undef, 0.02 }";
    let target = Target::ready(code);
    let found = json(&["--pid", &target.pid(), "--interval", "10ms"]);
    let rss = &found["growth"]["rss"];
    assert!(figure(rss, "max") - figure(rss, "first") > 10 * MB, "{found}");
    let mut target = Target::ready("$| = 1; print qq(ready\\n); sleep 60");
    let text = said(&drom(&["--pid", &target.pid(), "-d", "200ms", "--interval", "5ms"]).stdout);
    assert!(text.contains(" looks in ") && text.contains("  GROWTH\n"), "{text}");
    assert!(target.0.try_wait().expect("a child").is_none(), "it was not disturbed");
}

#[test]
fn ctrl_c_ends_the_watch_with_what_was_seen() {
    let target = Target::ready("$| = 1; print qq(ready\\n); sleep 60");
    let mut command = command(&["--pid", &target.pid(), "--interval", "1ms"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    // It is at work when it handles the signal itself.
    let status = format!("/proc/{}/status", child.id());
    let handles = |text: String| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        Some(u64::from_str_radix(&mask, 16).ok()? & (1 << (libc::SIGINT - 1)) != 0)
    };
    while fs::read_to_string(&status).ok().and_then(handles) == Some(false) {
        std::thread::yield_now();
    }
    // SAFETY: a signal to a child of this test that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    let mut text = String::new();
    let out = child.stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut BufReader::new(out), &mut text).expect("words");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
    assert!(text.contains("GROWTH"), "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let refused = |words: &[&str]| {
        let output = drom(words);
        assert_eq!((output.status.code(), said(&output.stdout)), (Some(1), String::new()));
        said(&output.stderr)
    };
    let mut ended = Command::new("true").spawn().expect("true");
    ended.wait().expect("it ends");
    let pid = ended.id().to_string();
    assert_eq!(refused(&["--pid", &pid]), format!("drom memory: there is no process {pid}\n"));
    let zombie = Command::new("true").spawn().expect("true");
    let pid = zombie.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    while !fs::read_to_string(&stat).expect("a zombie has one").contains(") Z ") {
        std::thread::yield_now();
    }
    assert!(refused(&["--pid", &pid]).contains("has ended"), "{pid}");
    drop(zombie.wait_with_output());
    let here = Target::ready("$| = 1; print qq(ready\\n); sleep 60");
    let nowhere = refused(&["--pid", &here.pid(), "-o", "/nowhere/at/all"]);
    assert!(nowhere.contains("cannot write /nowhere/at/all"), "{nowhere}");
    for words in [&["--pid", "0"][..], &["--pid", "x"], &[], &["--interval", "1us", "x.pl"]] {
        assert_eq!(drom(words).status.code(), Some(2), "{words:?}");
    }
}

/// As somebody else, which takes root to try.
#[test]
fn another_users_process_is_refused_in_words() {
    // SAFETY: only asks.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    use std::os::unix::process::CommandExt;
    let target = Target::ready("$| = 1; print qq(ready\\n); sleep 60");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drom");
    // By another process: a file that this one has open for writing, and so perhaps a child that
    // another test starts meanwhile, cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_drom")).arg(&path).status();
    assert!(copied.expect("cp").success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("ours");
    let mut command = Command::new(path);
    command.args(["memory", "--pid", &target.pid()]).uid(65_534).gid(65_534);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let words = said(&output.stderr);
    assert!(words.contains("may not be looked at: Permission denied"), "{words}");
}

#[test]
fn a_narrow_window_has_no_wide_line() {
    let server = Target::ready(PREFORK);
    let words = ["--pid", &server.pid(), "--tree", "--segments", "--libraries"];
    let output = command(&words).env("COLUMNS", "44").env("LC_ALL", "C.UTF-8").output();
    let text = said(&output.expect("it starts").stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 44), "{text}");
    assert!(text.lines().any(|line| line.starts_with("total")), "{text}");
    let wide = said(&drom(&words).stdout);
    assert!(wide.lines().any(|line| line.ends_with("/libc.so.6")), "{wide}");
}
