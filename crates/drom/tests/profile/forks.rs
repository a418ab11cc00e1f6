//! `drom profile --follow-forks`: children and theirs, told apart; and programs that become others.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, Read},
    path::Path,
    process::Stdio,
};

use crate::profiled::{Target, command, drom, perl, said, script};

/// Samples of each process by its name, the number left out, and all its frames.
fn processes(folded: &str) -> BTreeMap<String, (u64, String)> {
    let mut seen: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let (process, frames) = stack.split_once(';').expect("frames");
        let name = process.split_once('(').map_or("", |(_, name)| name.trim_end_matches(')'));
        let known = seen.entry(name.to_owned()).or_default();
        known.0 += count.parse::<u64>().expect("a number");
        known.1 += frames;
    }
    seen
}

fn folded(folder: &Path, text: &str, words: &[&str]) -> (String, Option<i32>) {
    let path = script(folder, text);
    let always = ["--format", "collapsed", "--rate", "200"];
    let output = drom(&[&always[..], words, &[path.to_str().expect("text")]].concat());
    (said(&output.stderr), output.status.code())
}

/// Two workers, a Perl below a shell, and a program that is none.
const SERVER: &str = r#"
    use Time::HiRes 'time';
    sub busy { my $until = time + shift; 1 while time < $until }
    sub work { busy(@_) }
    for my $n (1 .. 2) { fork or do { $0 = "worker $n"; work(0.3 * $n); exit 0 } }
    fork or exec 'sleep', '0.5';
    my $other = 'sub other { 1 for 1 .. 1000 } $t = time; other() while time < $t + 2';
    system "sh", "-c", "perl -e '$other'; sleep 0.1";
    1 while wait > 0;
    print "over\n";
    exit 7;
"#;

#[test]
fn children_and_theirs_are_seen_below_a_frame_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, status) = folded(folder.path(), SERVER, &["--follow-forks"]);
    assert_eq!(status, Some(7), "{text}");
    let seen = processes(&text);
    assert!(seen["worker 1"].1.contains("main::work") && seen["worker 2"].1.contains("main::work"));
    assert!(seen["worker 2"].0 > seen["worker 1"].0, "{text}");
    assert!(seen["-e"].1.contains("main::other"), "{text}");
    assert!(seen["hot.pl"].1.contains("CORE:system"), "{text}");
    let (text, status) = folded(folder.path(), SERVER, &[]);
    assert_eq!(status, Some(7), "{text}");
    assert!(text.starts_with("main") && !text.contains("process"), "{text}");
    assert!(!text.contains("main::work"), "{text}");
}

#[test]
fn a_child_of_50_ms_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
        use Time::HiRes 'time';
        sub child { my $until = time + 0.05; 1 while time < $until }
        for my $n (1 .. 20) { fork ? wait : do { $0 = "child $n"; child(); exit 0 } }
    "#;
    let (text, status) = folded(folder.path(), text, &["-f"]);
    assert_eq!(status, Some(0), "{text}");
    let seen = text.lines().filter(|line| line.contains(";main::child"));
    let children = seen.filter_map(|line| line.split(';').next()).collect::<BTreeSet<_>>().len();
    assert!(children >= 15, "{children} of 20: {text}");
}

/// The last one is waited for, though it is nobody's child any more.
#[test]
fn a_process_that_runs_is_followed_until_the_last_one_ends() {
    let (mut target, mut out) = perl(
        "sub outlives { 1 for 1 .. 1000 } print qq(ready\\n); \
         $SIG{USR1} = sub { $go = 1 }; 1 until $go; \
         if (fork) { sleep 1; exit 0 } print qq(forked\\n); \
         $t = time; outlives() while time < $t + 3",
    );
    let words = ["-f", "--exact-stacks", "--format", "collapsed", "--pid", &target.text()];
    let mut profiler = command(&words);
    let mut profiler = Target(profiler.stdout(Stdio::piped()).spawn().expect("it starts"));
    while !target.is_traced() {}
    target.signal(libc::SIGUSR1);
    out.read_line(&mut String::new()).expect("it has forked");
    target.0.wait().expect("ours");
    let mut text = String::new();
    profiler.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert_eq!(profiler.0.wait().expect("ours").code(), Some(0));
    assert!(text.contains("main::outlives"), "{text}");
}

/// It goes on with the interpreter of the thread that has forked.
#[test]
fn a_child_of_a_thread_is_seen_as_that_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
        BEGIN { eval { require threads; threads->import; 1 } or do { print "no threads"; exit } }
        sub busy { my $until = time + 2; 1 while time < $until }
        sub inside { my $pid = fork; $pid ? waitpid $pid, 0 : do { busy(); CORE::exit(0) } }
        sub thread { sleep 1; inside() }
        threads->create(\&thread)->join;
    "#;
    let path = script(folder.path(), text);
    let words = ["-f", "--format", "collapsed", path.to_str().expect("text")];
    let output = drom(&words);
    if said(&output.stdout).contains("no threads") {
        println!("skipped: this perl has no threads");
        return;
    }
    let text = said(&output.stderr);
    let has = |line: &str| line.contains(";main::thread;main::inside;main::busy");
    assert!(text.lines().any(has), "{text}");
}

/// By exec, with the same number: a Perl is looked at, and of anything else it is said.
#[test]
fn a_program_that_becomes_another_one_is_looked_at_as_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let busy = |name: &str| {
        format!(
            "use Time::HiRes q(time); sub {name} {{ 1 for 1 .. 1000 }} \
             $t = time; {name}() while time < $t + 0.7;"
        )
    };
    let before = busy("before");
    let perl = format!("exec $^X, '-e', '{} exit 3'", busy("after"));
    for words in [&[][..], &["-f"], &["--exact-stacks"]] {
        let (text, status) = folded(folder.path(), &format!("{before}{perl}"), words);
        assert_eq!(status, Some(3), "{text}");
        assert!(text.contains("main::before") && text.contains("main::after"), "{words:?} {text}");
    }
    let other = format!("{before}exec 'sh', '-c', 'sleep 1; exit 4'");
    let (text, status) = folded(folder.path(), &other, &[]);
    assert_eq!(status, Some(4), "{text}");
    assert!(text.contains("runs another program now, which is no Perl: sh"), "{text}");
    assert!(text.contains("main::before"), "{text}");
}

#[test]
fn children_of_what_is_no_perl_are_followed() {
    let busy = "perl -e 'sub busy { 1 while time < $_[0] } busy(time + 2)'";
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("s.sh");
    std::fs::write(&script, format!("#!/bin/sh\n{busy}\nexit 7\n")).expect("written");
    let drom = || std::process::Command::new(env!("CARGO_BIN_EXE_drom"));
    let output = drom().args(["profile", "-f"]).arg(&script).output().expect("it starts");
    let table = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{table}");
    assert!(table.contains("main::busy"), "{table}");
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", &format!("{busy}; true")]).spawn().expect("sh");
    let pid = shell.id().to_string();
    let output = drom().args(["profile", "-f", "--pid", &pid]).output().expect("it starts");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    shell.wait().expect("it ends");
    assert!(table.contains("main::busy") && output.status.success(), "{table}");
}

#[test]
fn a_name_commands_no_terminal_and_ends_no_line() {
    let code = "$0 = qq(evil \\e]0;x\\a\nsecond); \n#line 1 \"f\u{1b}[5mile\"\n\
                my $busy = sub { 1 while time < $_[0] }; fork; $busy->(time + 2); wait";
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("e.pl");
    std::fs::write(&script, code).expect("written");
    let stacks = folder.path().join("stacks");
    let drom = || std::process::Command::new(env!("CARGO_BIN_EXE_drom"));
    let mut profile = drom();
    profile.args(["profile", "-f", "--format", "collapsed", "-o"]).arg(&stacks).arg(&script);
    assert!(profile.output().expect("it starts").status.success());
    let text = std::fs::read_to_string(&stacks).expect("stacks");
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
    let shown = drom().args(["profile", "show"]).arg(&stacks).output().expect("it starts");
    assert!(shown.status.success(), "{shown:?}");
}
