//! `drom profile --exact-stacks`: the program is stopped for each look, and notices nothing.

use std::{io::Read, process::Stdio};

use crate::profiled::{Target, byte, command, drom, perl, said, script};

const BUSY: &str = "sub busy { 1 for 1 .. 1000 } print qq(ready\\n); busy() while 1";

fn words(target: &Target) -> [String; 7] {
    ["--exact-stacks", "--rate", "5000", "--pid", &target.text(), "-d", "1s"].map(str::to_owned)
}

fn start(target: &Target) -> Target {
    start_for(target, "1s")
}

fn start_for(target: &Target, duration: &str) -> Target {
    let mut words = words(target);
    words[6] = duration.to_owned();
    let mut command = command(&words.each_ref().map(String::as_str));
    Target(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
}

/// What it has printed by its end, and its status.
fn end(mut profiler: Target) -> (String, Option<i32>) {
    let mut text = String::new();
    profiler.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    profiler.0.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
    (text, profiler.0.wait().expect("ours").code())
}

/// It sends itself signals, has a timer, sleeps, and waits for children.
#[test]
fn a_script_has_its_output_its_signals_and_its_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
        use Time::HiRes qw(ualarm sleep);
        $| = 1;
        my ($got, $ticks) = (0, 0);
        $SIG{USR1} = sub { $got++ };
        $SIG{ALRM} = sub { $ticks++ };
        sub own { kill USR1 => $$ for 1 .. 500 }
        own();
        ualarm 2000, 2000;
        sub tick { 1 while $ticks < 100 }
        tick();
        ualarm 0;
        my $out = join ' ', map { `perl -e 'exit print $_'` . ($? >> 8) } 1 .. 5;
        sleep 0.01 for 1 .. 10;
        print "$got $out ", $ticks >= 100, "\n";
        kill 11, $$;
    "#;
    let path = script(folder.path(), text);
    let bare = std::process::Command::new("perl").arg(&path).output().expect("perl is there");
    assert_eq!(said(&bare.stdout), "500 11 21 31 41 51 1\n");
    let words = ["--exact-stacks", "--rate", "5000", path.to_str().expect("text")];
    let profiled = drom(&words);
    assert_eq!(said(&profiled.stdout), said(&bare.stdout), "{profiled:?}");
    assert_eq!(profiled.status.code(), Some(128 + 11), "{profiled:?}");
    assert!(said(&profiled.stderr).contains("main::tick"), "{profiled:?}");
}

/// A wait that the kernel does not begin anew after a stop is not stopped.
#[test]
fn waiting_is_not_interrupted() {
    let (target, mut out) = perl(
        "my ($epoll, $room) = (syscall(291, 0), ' ' x 64); print qq(x\\n); \
         for (1 .. 3) { my $got = syscall(232, $epoll, $room, 1, 300); print $got == 0 ? 0 : 1 } \
         sleep 60",
    );
    let profiler = start(&target);
    let waits = [byte(&mut out), byte(&mut out), byte(&mut out)];
    assert_eq!(waits, [b'0'; 3], "neither of 300 ms was cut short");
    let (text, status) = end(profiler);
    assert!(status == Some(0) && text.contains("main"), "{text}");
}

#[test]
fn signals_from_outside_arrive_each() {
    let (target, mut out) =
        perl("$SIG{USR1} = sub { syswrite STDOUT, '.' }; print qq(x\n); 1 while 1");
    let profiler = start(&target);
    for _ in 0..500 {
        target.signal(libc::SIGUSR1);
        assert_eq!(byte(&mut out), b'.');
    }
    let (text, status) = end(profiler);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("main") && !text.contains("torn"), "{text}");
}

#[test]
fn who_is_stopped_stays_so_until_somebody_else_has_it_go_on() {
    let (mut target, _out) = perl(BUSY);
    // As long as the target lives, however slow this machine is.
    let profiler = start_for(&target, "5min");
    for signal in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGSTOP] {
        while !target.is_traced() {}
        target.signal(signal);
        while target.state() != 'T' {}
        let stays = (0..200).all(|_| ['T', 't'].contains(&target.state()));
        assert!(stays && !profiled_over(&profiler), "{signal}");
        target.signal(libc::SIGCONT);
        while target.state() != 'R' {}
    }
    target.0.kill().expect("ours");
    target.0.wait().expect("ours");
    let (text, status) = end(profiler);
    assert!(text.contains("main::busy") && status == Some(0), "{text}");
}

fn profiled_over(profiler: &Target) -> bool {
    profiler.state() == 'Z'
}

/// At a moment at which the program stands for a look.
#[test]
fn a_profiler_that_is_killed_leaves_the_program_running() {
    let (target, _out) = perl(BUSY);
    for _ in 0..5 {
        let mut profiler = start(&target);
        while !target.is_traced() {}
        profiler.0.kill().expect("ours");
        profiler.0.wait().expect("ours");
        while target.is_traced() || target.state() != 'R' {}
    }
}

/// Its parent is told of its end although somebody else was about to stop it.
#[test]
fn a_program_that_is_killed_meanwhile_is_not_held() {
    for _ in 0..5 {
        let (mut target, _out) = perl(BUSY);
        let profiler = start(&target);
        while !target.is_traced() {}
        target.0.kill().expect("ours");
        target.0.wait().expect("it is told");
        let (text, status) = end(profiler);
        assert_eq!(status, Some(0), "{text}");
        assert!(!text.contains("drom profile:"), "{text}");
    }
}

/// A debugger has it already: looking is allowed, stopping is not.
#[test]
fn who_may_not_stop_it_says_so() {
    refused(perl("print qq(ready\\n); sleep 60").0, "main");
    refused(perl(BUSY).0, "main::busy");
}

fn refused(target: Target, sub: &str) {
    // SAFETY: this request takes numbers only.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.pid(), 0usize, 0usize) };
    assert_eq!(seized, 0);
    let words = words(&target);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refused = drom(&words);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let why = said(&refused.stderr);
    assert!(why.contains("not be stopped (ptrace)") && why.contains("--exact-stacks"), "{why}");
    let text = target.text();
    let seen = drom(&["--pid", &text, "-d", "300ms"]);
    assert!(said(&seen.stdout).contains(sub), "{seen:?}");
    let both = drom(&["--exact", "--exact-stacks", "x.pl"]);
    assert_eq!(both.status.code(), Some(2));
}
