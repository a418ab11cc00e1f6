//! Every thread of a perl has its own interpreter, which is found, told apart and let go.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use drom_profile::{Clock, Profile, Sampler, profile::Kind};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/threads.pl");

struct Play {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Play {
    fn start() -> Self {
        let mut command = Command::new("perl");
        command.arg(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("perl is there");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut play = Self { child, said };
        play.waits_for("ready");
        play
    }

    fn waits_for(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        assert_eq!(line.trim_end(), word);
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

fn look(sampler: &mut Sampler, looks: usize) {
    for _ in 0..looks {
        sampler.sample().expect("it lives");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The subs of each thread, without what runs in them.
fn subs(profile: &Profile) -> BTreeMap<String, BTreeSet<String>> {
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (stack, _) in profile.stacks() {
        let thread =
            if stack[0].kind == Kind::Thread { stack[0].name.to_string() } else { "".into() };
        let subs = stack.iter().filter(|frame| frame.kind == Kind::Sub);
        seen.entry(thread).or_default().extend(subs.map(|frame| frame.name.to_string()));
    }
    seen
}

fn has_threads() -> bool {
    let has = Command::new("perl").args(["-Mthreads", "-e", "1"]).stderr(Stdio::null()).status();
    let has = has.expect("perl is there").success();
    if !has {
        println!("skipped: this perl has no threads");
    }
    has
}

fn each_thread_has_its_stack(stops: bool) {
    if !has_threads() {
        return;
    }
    let mut play = Play::start();
    let mut sampler = Sampler::attach(play.pid(), Clock::Wall).expect("a perl");
    if stops {
        sampler = sampler.with_stops().expect("allowed");
    }
    look(&mut sampler, 200);
    play.go_on();
    play.waits_for("joined");
    // Whoever has ended is no more looked at; the third goes on.
    look(&mut sampler, 50);
    assert_eq!(sampler.notice(), None);
    let profile = sampler.into_profile();
    let seen = subs(&profile);
    let main = format!("thread {}", play.pid());
    let expected: BTreeSet<BTreeSet<String>> =
        [&["main::waits"][..], &["main::one", "main::spin"], &["main::two"], &["main::three"]]
            .map(|subs| subs.iter().map(|sub| (*sub).to_owned()).collect())
            .into();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen.values().cloned().collect::<BTreeSet<_>>(), expected, "{seen:?}");
    assert!(seen[&main].contains("main::waits"), "{seen:?}");
    let samples = |name: &str| -> u64 {
        let stacks = profile.stacks();
        let of = stacks.filter(|(stack, _)| stack.iter().any(|frame| &*frame.name == name));
        of.map(|(_, count)| count).sum()
    };
    let (waits, all) = (samples("main::waits"), samples(&main));
    assert!(waits >= 240 && all == 250, "{waits} {all}");
    let (one, three) = (samples("main::one"), samples("main::three"));
    assert!((150..=225).contains(&one) && three >= 245, "{one} {three}");
}

#[test]
fn each_thread_has_its_stack_while_it_lives() {
    each_thread_has_its_stack(false);
}

#[test]
fn each_thread_has_its_stack_where_it_is_stopped_for_it() {
    each_thread_has_its_stack(true);
}

/// A debugger has it: no thread can be asked where its interpreter is.
#[test]
fn of_threads_that_may_not_be_asked_the_first_interpreter_is_seen_and_that_is_said() {
    if !has_threads() {
        return;
    }
    let play = Play::start();
    // SAFETY: this request takes numbers only.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, play.pid(), 0usize, 0usize) }, 0);
    let mut sampler = Sampler::attach(play.pid(), Clock::Wall).expect("a perl");
    look(&mut sampler, 20);
    let notice = sampler.notice().expect("it is said");
    assert!(notice.contains("only its first interpreter") && notice.contains("ptrace"), "{notice}");
    let seen = subs(&sampler.into_profile());
    assert_eq!(seen, [("".into(), ["main::waits".into()].into())].into());
}
