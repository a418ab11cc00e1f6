//! `drom profile --native` from outside: functions of a small program in C have the shares that it
//! gives them.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

/// Two functions that take turns, three parts of CPU time and one; told by the thread's own clock.
/// `thread`: in a thread that begins a moment later, while the first one waits. `fork`: in two
/// children, which end with it.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((noinline)) void three_parts(double until) {
    while (used() < until) for (int i = 0; i < 200000; i++) sum += i;
}

__attribute__((noinline)) void one_part(double until) {
    while (used() < until) for (int i = 0; i < 200000; i++) sum += i;
}

static void *take_turns(void *nothing) {
    for (double due = used();;) {
        three_parts(due += 0.006);
        one_part(due += 0.002);
    }
    return nothing;
}

int main(int count, char **words) {
    pthread_t thread;
    puts("ready");
    fflush(stdout);
    if (count > 1 && !strcmp(words[1], "sleep")) return pause();
    if (count > 1 && !strcmp(words[1], "fork")) {
        for (int child = 0; child < 2; child++) {
            if (fork()) continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            take_turns(0);
        }
        return pause();
    }
    if (count > 1 && !strcmp(words[1], "leave")) return usleep(300000);
    if (count > 1 && !strcmp(words[1], "thread")) {
        getchar();
        pthread_create(&thread, 0, take_turns, 0);
        return pause();
    }
    take_turns(0);
}
"#;

fn drom(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["profile", "--native"]).args(words).stdin(Stdio::null());
    command.output().expect("it starts")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// By this compiler, with these flags besides.
fn compiled(folder: &Path, flags: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("turns.c"), folder.join("turns"));
    fs::write(&source, PROGRAM).expect("written");
    let mut gcc = Command::new("gcc");
    let gcc = gcc.args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&program).arg(&source);
    assert!(gcc.status().expect("gcc").success());
    program
}

/// A process that is ended with the test.
struct Target {
    child: Child,
    pid: String,
    _out: BufReader<ChildStdout>,
}

impl Target {
    /// One that has said that it is ready.
    fn ready(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("it says so");
        assert_eq!(line, "ready\n");
        Self { pid: child.id().to_string(), child, _out: out }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Root may sample; elsewhere it is the machine's choice, and then words are what is tested.
fn may_sample(target: &Target) -> bool {
    let output = drom(&["--pid", &target.pid, "-d", "1ms"]);
    let is_allowed = output.status.success();
    assert!(is_allowed || said(&output.stderr).contains("perf_event_paranoid"), "{output:?}");
    is_allowed
}

/// Folded stacks and their counts.
fn stacks(folded: &str) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    };
    folded.lines().map(line).collect()
}

fn share(stacks: &[(String, u64)], name: &str) -> f64 {
    let sum = |which: &dyn Fn(&str) -> bool| -> u64 {
        stacks.iter().filter(|(stack, _)| which(stack)).map(|(_, count)| count).sum()
    };
    let own = sum(&|stack| stack.split(';').any(|frame| frame == name));
    own as f64 / sum(&|_| true).max(1) as f64
}

const FOLDED: [&str; 4] = ["--format", "collapsed", "--rate", "2000"];

fn assert_three_to_one(folded: &str) {
    let stacks = stacks(folded);
    let [three, one] = ["three_parts", "one_part"].map(|name| share(&stacks, name));
    let ratio = three / (three + one);
    assert!((ratio - 0.75).abs() < 0.05, "{three} {one}\n{folded}");
    assert!(three + one > 0.9, "{folded}");
    assert!(folded.contains("[turns];three_parts"), "{folded}");
}

#[test]
fn functions_have_their_shares_wherever_the_program_lies() {
    for flag in ["-pie", "-no-pie"] {
        let folder = tempfile::tempdir().expect("a folder");
        let turns = Target::ready(&compiled(folder.path(), &[flag]), &[]);
        if !may_sample(&turns) {
            return;
        }
        let words = [&["--pid", &turns.pid, "-d", "800ms"], &FOLDED[..]].concat();
        let output = drom(&words);
        assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()));
        assert_three_to_one(&said(&output.stdout));
    }
}

#[test]
fn a_thread_that_begins_later_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut turns = Target::ready(&compiled(folder.path(), &[]), &["thread"]);
    if !may_sample(&turns) {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["profile", "--native", "--pid", &turns.pid, "-d", "1500ms"]).args(FOLDED);
    let mut drom = command.stdout(Stdio::piped()).spawn().expect("it starts");
    // It watches the first thread when it has its clock; nothing else of the kind is open there.
    let watches = || {
        let fds = fs::read_dir(format!("/proc/{}/fd", drom.id())).into_iter().flatten().flatten();
        let mut names = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
        names.any(|name| name.to_string_lossy().contains("perf_event"))
    };
    while !watches() {
        std::thread::yield_now();
    }
    drop(turns.child.stdin.take());
    let mut folded = String::new();
    let mut out = drom.stdout.take().expect("a pipe");
    out.read_to_string(&mut folded).expect("words");
    assert!(drom.wait().expect("it ends").success());
    assert_three_to_one(&folded);
}

#[test]
fn workers_are_seen_together_where_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Target::ready(&compiled(folder.path(), &[]), &["fork"]);
    if !may_sample(&server) {
        return;
    }
    let words = [&["--pid", &server.pid, "-d", "800ms"], &FOLDED[..]].concat();
    let alone = drom(&words);
    assert!(said(&alone.stderr).contains("no samples"), "{alone:?}");
    let output = drom(&[&words[..], &["--follow-forks"]].concat());
    assert_three_to_one(&said(&output.stdout));
}

#[test]
fn callers_are_there_where_frame_pointers_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), &["-fno-omit-frame-pointer"]);
    let turns = Target::ready(&program, &[]);
    if !may_sample(&turns) {
        return;
    }
    let words = [&["--callers", "--pid", &turns.pid, "-d", "300ms"], &FOLDED[..]].concat();
    let folded = said(&drom(&words).stdout);
    assert!(folded.contains("main;take_turns;three_parts"), "{folded}");
    assert!(share(&stacks(&folded), "main") > 0.8, "{folded}");
}

#[test]
fn what_has_no_names_is_said_to_have_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let turns = Target::ready(&compiled(folder.path(), &["-s"]), &[]);
    if !may_sample(&turns) {
        return;
    }
    let words = ["--pid", &turns.pid, "-d", "300ms"];
    let table = said(&drom(&words).stdout);
    // The two functions, by where they begin.
    assert!(table.lines().filter(|line| line.contains("  turns+0x")).count() >= 2, "{table}");
    assert!(table.lines().any(|line| line.ends_with("  [turns]")), "{table}");
    let out = folder.path().join("profile.json");
    let out = out.to_str().expect("text");
    assert!(drom(&[&words[..], &["--format", "json", "-o", out]].concat()).status.success());
    let mut show = Command::new(env!("CARGO_BIN_EXE_drom"));
    let shown = show.args(["profile", "show", out]).output().expect("it starts");
    assert!(said(&shown.stdout).contains("  turns+0x"), "{shown:?}");
    for format in ["html", "speedscope", "callgrind"] {
        let words = [&words[..], &["--format", format, "-o", "/dev/null"]].concat();
        assert_eq!(drom(&words).status.code(), Some(0), "{format}");
    }
}

#[test]
fn who_sleeps_gives_no_samples_and_who_ends_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), &[]);
    let asleep = Target::ready(&program, &["sleep"]);
    if !may_sample(&asleep) {
        return;
    }
    let output = drom(&["--pid", &asleep.pid, "-d", "200ms"]);
    let words = said(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("no samples: process ") && words.contains("had no CPU"), "{words}");
    let leaves = Target::ready(&program, &["leave"]);
    let output = drom(&["--pid", &leaves.pid]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_cannot_be_sampled_is_said() {
    let mut ended = Command::new("true").spawn().expect("true");
    ended.wait().expect("it ends");
    let output = drom(&["--pid", &ended.id().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("there is no process"), "{output:?}");
    for words in [&["x.pl"][..], &[], &["--exact", "--pid", "1"], &["--clock", "cpu", "--pid", "1"]]
    {
        assert_eq!(drom(words).status.code(), Some(2), "{words:?}");
    }
}

/// As somebody else, which takes root to try.
#[test]
fn another_users_process_is_refused_in_words() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    // SAFETY: only asks.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let asleep = Target::ready(&compiled(folder.path(), &[]), &["sleep"]);
    let path = folder.path().join("drom");
    // By another process: a file that this one has open for writing, and so perhaps a child that
    // another test starts meanwhile, cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_drom")).arg(&path).status();
    assert!(copied.expect("cp").success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let mut command = Command::new(path);
    command.args(["profile", "--native", "--pid", &asleep.pid, "-d", "100ms"]);
    let output = command.uid(65_534).gid(65_534).output().expect("it starts");
    let words = said(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("CAP_PERFMON"), "{words}");
    assert!(words.contains("/proc/sys/kernel/perf_event_paranoid"), "{words}");
}
