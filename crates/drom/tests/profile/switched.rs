//! `drom profile --exact` of a server that runs: what was compiled before counts, and afterwards
//! nothing of it is left.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileExt,
    process::Output,
    thread,
    time::{Duration, Instant},
};

use crate::{
    profiled::{Target, command, drom, said},
    support::{Server, eventually},
};

/// Each way in which perl calls a sub, so many times a request.
const WAYS: &str = r#"
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
sub by { $_[0] <=> $_[1] }
sub twice { $_[0] x 2 }
sub in_pattern { 1 }
sub dies { die "x\n" }
sub lands { 7 }
sub jumps { goto &lands }
my $anon = sub { 1 };
{ package Obj; sub new { bless [], shift } sub DESTROY { 1 } use overload '""' => sub { "obj" } }
print "Content-Type: text/plain\n\n";
my @sorted = sort { by($a, $b) } 2, 1;
local $_ = "abc"; s/(\w)/twice($1)/ge;
"ab" =~ /a(?{ in_pattern() })b/ or die;
eval { dies() } for 1 .. 4;
jumps() for 1 .. 2;
$anon->() for 1 .. 5;
{ my $object = Obj->new; my $text = "$object" }
eval "sub made { 1 } made() for 1 .. 2; 1" or die;
print fib(5), " $_\n";
"#;

const ROUNDS: u64 = 20;

/// Calls by name, without what tells scripts and anonymous subs apart.
fn calls(table: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in table.lines().skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words[6..].join(" ");
        let name = name.rsplit("_2epl::").next().expect("a part").split('[').next().expect("more");
        *found.entry(name.to_owned()).or_default() += words[3].parse::<u64>().expect("calls");
    }
    found
}

fn counting(pid: i32, words: &[&str]) -> Target {
    let pid = pid.to_string();
    let mut command = command(&[&["--exact", "--pid", &pid, "-O", "1000"], words].concat());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let target = Target(command.spawn().expect("it starts"));
    thread::sleep(Duration::from_millis(400));
    target
}

fn end(mut profiler: Target) -> Output {
    // SAFETY: no pointers; it is ours and not waited for.
    unsafe { libc::kill(profiler.pid(), libc::SIGINT) };
    let read = |from: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("text");
        bytes
    };
    let stdout = read(&mut profiler.0.stdout.take().expect("a pipe"));
    let stderr = read(&mut profiler.0.stderr.take().expect("a pipe"));
    Output { status: profiler.0.wait().expect("ours"), stdout, stderr }
}

#[test]
fn what_was_compiled_before_is_counted_from_now_on() {
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/ways.pl", WAYS)]);
    let page = || assert_eq!(server.get("/registry/ways.pl").text(), "5 aabbcc\n");
    page();
    for _ in 0..2 {
        let profiler = counting(server.pid(), &[]);
        (0..ROUNDS).for_each(|_| page());
        let output = end(profiler);
        page();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let table = said(&output.stdout);
        let calls = calls(&table);
        let each = [
            ("fib", 15),
            ("by", 1),
            ("twice", 3),
            ("in_pattern", 1),
            ("dies", 4),
            ("lands", 2),
            ("made", 2),
            ("Obj::new", 1),
            ("Obj::DESTROY", 1),
            ("handler", 1),
        ];
        for (name, count) in each {
            assert_eq!(calls.get(name), Some(&(count * ROUNDS)), "{name}: {table}");
        }
        assert_eq!(calls.get("__ANON__"), Some(&(5 * ROUNDS)), "{table}");
        assert_eq!(calls.get("Obj::__ANON__"), Some(&ROUNDS), "{table}");
    }
}

/// It is turned on and off in the middle of a request, whose sleep is as long as ever and whose
/// child is nobody's to count.
#[test]
fn a_request_that_runs_is_counted_and_does_not_notice() {
    let script = r#"
        use Time::HiRes qw(time sleep);
        sub tick { $n++ }
        sub work { my $until = time + shift; tick() while time < $until }
        print "Content-Type: text/plain\n\n";
        work(1.5);
        my $began = time; my $left = sleep 1; my $slept = time - $began;
        my $pid = fork; if (!$pid) { work(0.1); CORE::exit(3) } waitpid $pid, 0;
        print $slept > 0.999 && $left > 0.999 ? 'slept' : "woken after $slept", " ", $? >> 8, "\n";
    "#;
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/long.pl", script)]);
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(|| server.get("/registry/long.pl").text());
        thread::sleep(Duration::from_millis(200));
        let output = end(counting(server.worker(), &[]));
        let calls = calls(&said(&output.stdout));
        assert!(calls["tick"] > 1_000, "{output:?}");
        // They were called before anybody counted.
        assert_eq!((calls["work"], calls["handler"]), (0, 0), "{output:?}");
        let until_it_sleeps = counting(server.worker(), &["-d", "1s"]);
        let answer = asking.join().expect("an answer");
        end(until_it_sleeps);
        answer
    });
    assert_eq!(answer, "slept 3\n");
}

/// How often each address of the shim's code stands in memory that the process can write to, its
/// stacks left out, where anything may be left over.
fn addresses(pid: i32) -> BTreeMap<u64, usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let shim = |line: &&str| line.contains("drom-perl-shim") && line.contains(" r-xp ");
    let code = maps.lines().find(shim).and_then(range).expect("the shim");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("ours to read");
    let mut found = BTreeMap::new();
    // glibc's arena of this thread, and the data of libraries.
    let is_kept = |line: &&str| line.contains(" rw-p ") && !line.contains("[stack");
    for (start, end) in maps.lines().filter(is_kept).filter_map(range) {
        let mut bytes = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        words
            .filter(|word| (code.0..code.1).contains(word))
            .for_each(|word| *found.entry(word).or_default() += 1);
    }
    found
}

/// More than now and then before.
fn is_left(before: &BTreeMap<u64, usize>, now: &BTreeMap<u64, usize>) -> bool {
    now.iter().any(|(address, count)| *count > before.get(address).copied().unwrap_or(0) + 2)
}

fn is_counting(pid: i32, before: &BTreeMap<u64, usize>) -> bool {
    is_left(before, &addresses(pid))
}

#[test]
fn nothing_is_left_behind() {
    // Operators that are compiled and freed meanwhile leave addresses in memory that nobody has.
    let is_kept = |line: &&str| !line.starts_with("eval \"sub");
    let ways = WAYS.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
    assert_ne!(ways.lines().count(), WAYS.lines().count());
    let server = Server::start("MaxRequestWorkers 1\n", &[("perl/ways.pl", &ways)]);
    let pid = server.worker();
    let rounds = || (0..5).for_each(|_| drop(server.get("/registry/ways.pl")));
    // What a first time leaves: names, and the room of what is counted.
    rounds();
    end(counting(pid, &[]));
    rounds();
    let before = addresses(pid);
    let profiler = counting(pid, &[]);
    rounds();
    assert!(is_counting(pid, &before), "operators are patched meanwhile");
    assert!(said(&end(profiler).stdout).contains("::fib"));
    rounds();
    assert!(!is_counting(pid, &before));
    let files = || fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count();
    let files_before = files();
    let mut killed = counting(pid, &[]);
    assert!(is_counting(pid, &before));
    killed.0.kill().expect("ours");
    let began = Instant::now();
    assert!(eventually(Duration::from_secs(20), || !is_counting(pid, &before)), "for ever");
    assert!(began.elapsed() > Duration::from_secs(1), "not before it can be renewed");
    assert!(eventually(Duration::from_secs(5), || files() <= files_before), "{}", files());
    rounds();
}

#[test]
fn who_cannot_count_is_told() {
    let (target, _out) = crate::profiled::perl("print qq(x\\n); sleep 60");
    let refused = drom(&["--exact", "--pid", &target.text(), "-d", "1s"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(said(&refused.stderr).contains("is no worker of a Drom server"), "{refused:?}");
    assert_ne!(target.state(), 'Z', "it lives");
    let nobody = drom(&["--exact", "--pid", "4194304"]);
    assert!(said(&nobody.stderr).contains("there is no process 4194304"), "{nobody:?}");
    let script = drom(&["--exact", "-d", "1s", "x.pl"]);
    assert_eq!(script.status.code(), Some(2), "{script:?}");
}

/// All workers together, and as many as there were answers.
#[test]
fn a_page_is_counted_in_all_workers() {
    let server = Server::start("MaxRequestWorkers 2\n", &[("perl/ways.pl", WAYS)]);
    let url = format!("http://{}/registry/ways.pl", server.address);
    let output = drom(&["--exact", "--url", &url, "-c", "2", "-d", "1s", "-O", "1000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = calls(&said(&output.stdout));
    let told = said(&output.stderr);
    let answered = told.split("profile: ").nth(1).and_then(|rest| rest.split(' ').next());
    let answered: u64 = answered.and_then(|word| word.parse().ok()).expect("a number");
    // Those that were under way at its end are nobody's.
    assert!((answered..=answered + 2).contains(&calls["handler"]), "{told} {calls:?}");
    assert!(calls["fib"].abs_diff(15 * calls["handler"]) <= 30, "{calls:?}");
}
