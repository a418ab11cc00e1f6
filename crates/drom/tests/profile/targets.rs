//! `drom profile --pid` of processes that are not simply a running perl of one's own: what can be
//! seen is, what cannot be is said, and none of them is disturbed.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::profiled::{Target, drom, perl, said, target};

const BUSY: &str = "sub busy { 1 for 1 .. 1000 } print qq(ready\\n); busy() while 1";

fn skipped(why: &str) {
    println!("skipped: {why}");
}

#[test]
fn of_one_that_ends_there_is_what_was_seen() {
    let (target, _out) =
        perl("print qq(x\\n); $t = time; sub ends { 1 for 1 .. 9 } ends() while time < $t + 2");
    let seen = drom(&["--pid", &target.text()]);
    assert_eq!((seen.status.code(), said(&seen.stderr)), (Some(0), String::new()));
    assert!(said(&seen.stdout).contains("main::ends"), "{seen:?}");
}

/// Nobody has waited for it yet.
#[test]
fn one_that_has_ended_is_said_to_have() {
    let target = target("perl", &["-e", "exit 0"]);
    while target.state() != 'Z' {}
    let refused = drom(&["--pid", &target.text()]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(said(&refused.stderr), format!("drom profile: process {} ended\n", target.text()));
}

#[test]
fn one_that_is_stopped_is_seen_and_stays_so() {
    let (target, _out) = perl("sub busy { kill STOP => $$; 1 while 1 } print qq(ready\\n); busy()");
    while target.state() != 'T' {}
    for words in [&[][..], &["--exact-stacks"]] {
        let text = target.text();
        let seen = drom(&[words, &["--pid", &text, "-d", "300ms"]].concat());
        assert_eq!(seen.status.code(), Some(0), "{seen:?}");
        assert!(said(&seen.stdout).contains("main::busy"), "{seen:?}");
        assert!(target.state() == 'T' && !target.is_traced());
    }
    let idle = drom(&["--pid", &target.text(), "-d", "300ms", "--clock", "cpu"]);
    assert!(said(&idle.stdout).starts_with("0 samples of 0.00 s of CPU time"), "{idle:?}");
}

/// By nobody, who may not.
#[test]
fn of_another_users_it_is_said_who_may() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can be somebody else");
    }
    let (target, _out) = perl(BUSY);
    // Folders on the way to the command may be closed to nobody.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("drom");
    fs::copy(env!("CARGO_BIN_EXE_drom"), &copy).expect("a copy");
    open(folder.path());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(copy);
    let Ok(refused) = command.args(["profile", "--pid", &target.text()]).output() else {
        return skipped("there is no setpriv");
    };
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let why = said(&refused.stderr);
    assert!(why.contains("may not be looked into") && why.contains("be its user or root"), "{why}");
    assert_eq!(target.state(), 'R');
}

fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
}

/// In a container's manner: other numbers, and another view of the files.
#[test]
fn one_in_other_namespaces_is_looked_into() {
    let code = format!("$| = 1; {BUSY}");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount", "--kill-child", "sh", "-c"]);
    command.args(["mount -t tmpfs none /usr/share && exec perl -e \"$0\"", &code]);
    let Ok(child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return skipped("there is no unshare");
    };
    let mut outer = Target(child);
    let mut out = BufReader::new(outer.0.stdout.take().expect("a pipe"));
    if out.read_line(&mut String::new()).is_ok_and(|length| length == 0) {
        return skipped("namespaces are not allowed");
    }
    let path = format!("/proc/{0}/task/{0}/children", outer.0.id());
    let Ok(inner) = fs::read_to_string(path) else {
        return skipped("this kernel does not tell children");
    };
    let seen = drom(&["--pid", inner.trim(), "-d", "300ms"]);
    assert_eq!(seen.status.code(), Some(0), "{seen:?}");
    assert!(said(&seen.stdout).contains("main::busy"), "{seen:?}");
}

/// Makes two interpreters, and works in the second one.
const EMBEDS: &str = r#"
#include <EXTERN.h>
#include <perl.h>
#include <stdio.h>
static PerlInterpreter *make(void) {
    char *words[] = { "", "-e", "0", 0 };
    PerlInterpreter *perl = perl_alloc();
    PERL_SET_CONTEXT(perl);
    perl_construct(perl);
    perl_parse(perl, 0, 3, words, 0);
    return perl;
}
int main(int argc, char **argv, char **env) {
    PERL_SYS_INIT3(&argc, &argv, &env);
    make();
    PerlInterpreter *my_perl = make();
    puts("ready");
    fflush(stdout);
    eval_pv("sub second { 1 for 1 .. 1000 } second() while 1", 1);
    return my_perl == 0;
}
"#;

fn embedding(folder: &Path) -> Option<Child> {
    let (source, program) = (folder.join("two.c"), folder.join("two"));
    fs::write(&source, EMBEDS).expect("written");
    let flags = Command::new("perl").args(["-MExtUtils::Embed", "-e", "ccopts; ldopts"]).output();
    let flags = said(&flags.ok()?.stdout);
    let mut command = Command::new("cc");
    command.arg(&source).arg("-o").arg(&program).args(flags.split_whitespace());
    let compiled = command.stderr(Stdio::null()).status().ok()?;
    let mut command = Command::new(program);
    compiled.success().then(|| command.stdout(Stdio::piped()).spawn().expect("it starts"))
}

#[test]
fn of_several_interpreters_the_one_that_runs_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(child) = embedding(folder.path()) else {
        return skipped("no C compiler, or perl's headers are not there");
    };
    let mut two = Target(child);
    let mut out = BufReader::new(two.0.stdout.take().expect("a pipe"));
    out.read_line(&mut String::new()).expect("text");
    let seen = drom(&["--pid", &two.text(), "-d", "500ms"]);
    assert_eq!((seen.status.code(), said(&seen.stderr)), (Some(0), String::new()));
    let text = said(&seen.stdout);
    assert!(text.lines().nth(2).is_some_and(|row| row.ends_with("  main::second")), "{text}");
}
