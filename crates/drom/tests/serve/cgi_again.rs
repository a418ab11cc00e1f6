//! A CGI child that runs one script after another: no script finds anything of those before it, and
//! one that leaves something behind that cannot be put back takes its process along.

use std::collections::BTreeSet;

use crate::support::Server;

/// The number of its process without asking perl for it, which would end the process.
const PROCESS: &str =
    "sub process { open my $f, '<', '/proc/self/stat' or die; (split ' ', <$f>)[0] }";

/// One runner at a time serves them all: one core, one request after the other.
const ONE_CORE: [&str; 3] = ["taskset", "-c", "0"];

fn script(code: &str) -> String {
    format!("#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\"; {code};\n{PROCESS}\n")
}

fn start(scripts: &[(&str, &str)], config: &str) -> Server {
    let files: Vec<(String, String)> =
        scripts.iter().map(|(name, code)| (format!("cgi-bin/{name}.pl"), script(code))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (&n[..], &t[..])).collect();
    Server::start_by(&ONE_CORE, config, &files)
}

/// The answers to some requests for a script. The first one comes out of a zygote that does not
/// know its modules.
fn ask(server: &Server, name: &str, times: usize) -> Vec<String> {
    let path = format!("/cgi-bin/{name}.pl");
    server.get(&path);
    (0..times).map(|_| ask_later(server, &path)).collect()
}

/// A process goes back after its answer: who asks at once gets another one.
fn ask_later(server: &Server, path: &str) -> String {
    std::thread::sleep(std::time::Duration::from_millis(20));
    server.get(path).text()
}

#[test]
fn a_script_that_leaves_nothing_behind_shares_its_process_with_the_next() {
    let server = start(&[("clean", "print process()")], "");
    let processes: BTreeSet<String> = ask(&server, "clean", 20).into_iter().collect();
    assert!(processes.len() < 20, "{processes:?}");
    let server = start(&[("clean", "print process()")], "DromCGIReuse Off\n");
    let processes: BTreeSet<String> = ask(&server, "clean", 5).into_iter().collect();
    assert_eq!(processes.len(), 5, "{processes:?}");
}

/// Each of these may have left something in the kernel.
const SPOILING: [(&str, &str); 15] = [
    ("number", "my $own = $$; print process()"),
    ("quoted", "my $own = \"x$$\"; print process()"),
    ("fork", "print process(); $| = 1; if (!fork) { exit } wait"),
    ("system", "print process(); system 'true'"),
    ("backtick", "my $x = `true`; print process()"),
    ("pipe", "open my $p, '-|', 'true'; my @l = <$p>; print process()"),
    ("signal", "$SIG{USR1} = sub { 1 }; print process()"),
    ("ignore", "$SIG{HUP} = 'IGNORE'; print process()"),
    ("alarm", "alarm 100; print process()"),
    ("nice", "setpriority 0, 0, 1; print process()"),
    ("group", "setpgrp 0, 0; print process()"),
    ("posix", "use POSIX (); POSIX::nice(1); print process()"),
    ("session", "use POSIX (); POSIX::setsid(); print process()"),
    ("timer", "use Time::HiRes (); Time::HiRes::ualarm(90_000_000); print process()"),
    ("module", "require Sys::Hostname; require Sys::Syslog; print process()"),
];

#[test]
fn a_script_that_may_leave_something_behind_ends_its_process() {
    let server = start(&SPOILING, "");
    for (name, _) in SPOILING {
        let answers = ask(&server, name, 4);
        assert!(answers.iter().all(|a| a.parse::<u32>().is_ok()), "{name}: {answers:?}");
        let processes: BTreeSet<&String> = answers.iter().collect();
        assert_eq!(processes.len(), 4, "{name}: {answers:?}");
    }
}

/// Everything that a script can see of its process and its perl.
const REPORT: &str = r#"
    opendir my $d, '/proc/self/fd'; my @fds = sort { $a <=> $b } grep { /\d/ } readdir $d;
    open my $s, '<', '/proc/self/status';
    my @status = grep { /^(Name|Sig[^Q]|Shd|Uid|Gid|Cap|Thr)/ } <$s>;
    open my $c, '<', '/proc/self/comm'; my $comm = <$c>;
    our ($left, @left, %left); my ($user) = times;
    print map { "$_\n" } "fds @fds", @status, $comm, 'umask ' . umask, "0 $0",
        "cwd " . readlink('/proc/self/cwd'), 'env ' . join(',', sort keys %ENV), "inc @INC",
        'loaded ' . join(',', sort keys %INC), 'names ' . join(',', sort keys %main::),
        "left " . ($left // 'undef') . " @left " . join(',', %left), "sep $, $\\ $/ $; $| $^W",
        'in ' . (-p STDIN ? 'pipe' : -c STDIN ? 'null' : 'other'),
        'err ' . (-p STDERR ? 'pipe' : 'other'),
        'warn ' . ($SIG{__WARN__} // 'none'), 'sel ' . select,
        'cpu ' . ($user < 0.2 ? 'little' : $user),
        'tz ' . localtime(0), 'prio ' . getpriority(0, 0);
    print 'process ', process();
"#;

/// What scripts do to their process; none of it is the next one's.
const ACTS: [(&str, &str); 12] = [
    (
        "globals",
        "our $left = 1; our @left = 1 .. 1000; our %left = (1 .. 998); *other = sub { 1 };",
    ),
    ("environment", "$ENV{LEFT} = 'x'; delete $ENV{PATH}; $0 = 'renamed'; unshift @INC, '/left';"),
    ("folder", "chdir '/'; umask 077; $, = '-'; $\\ = \"\\n\"; $/ = undef; $; = 'x'; $^W = 1;"),
    (
        "files",
        "our @f; for (1 .. 50) { open my $f, '<', $0; push @f, $f } open STDERR, '>', '/dev/null';",
    ),
    ("closed", "close STDIN; close STDERR; open my $f, '<', '/dev/zero'; select STDERR; $| = 1;"),
    ("memory", "our $big = 'x' x 3e7; our @many = map { [$_] } 1 .. 1e5;"),
    ("work", "my $x; $x += sqrt $_ for 1 .. 4e6;"),
    ("exits", "END { $? = 3 } our $o = bless []; sub DESTROY { print 'gone' } exit 7;"),
    (
        "dies",
        "$SIG{__WARN__} = sub { }; $SIG{__DIE__} = sub { 1 }; local $SIG{ALRM}; die \"x\\n\";",
    ),
    (
        "deep",
        "no warnings; sub d { $_[0] && d($_[0] - 1) } d(5000); my $r = 'a' x 9e4; $r =~ /^(a)*$/;",
    ),
    (
        "modules",
        "use CGI (); our $q = CGI->new; require Text::Wrap; $CGI::POST_MAX = 1; srand 1; rand;",
    ),
    ("zone", "$ENV{TZ} = 'Asia/Tokyo'; localtime 0; binmode STDOUT, ':utf8'; print \"\\x{263a}\";"),
];

#[test]
fn nothing_of_a_script_is_there_for_the_next() {
    let scripts: Vec<_> = ACTS.into_iter().chain([("report", REPORT)]).collect();
    let server = start(&scripts, "");
    // A zygote for each set of modules: the report's own. Its first requests are of a new process.
    let told = |text: &str| {
        let (report, process) = text.rsplit_once("process").unwrap();
        (report.to_owned(), process.to_owned())
    };
    let (first, mut process) = told(&ask(&server, "report", 2)[1]);
    // Most acts happen in the very process that tells of it afterwards.
    let shared = ["globals", "environment", "folder", "files", "closed", "work", "exits", "zone"];
    for (name, _) in ACTS {
        let mut left = 3;
        let mut missing = shared.contains(&name);
        for _ in 0..50 {
            ask_later(&server, &format!("/cgi-bin/{name}.pl"));
            let (report, number) = told(&ask_later(&server, "/cgi-bin/report.pl"));
            assert_eq!(report, first, "after {name}");
            missing &= process != number;
            process = number;
            left -= 1;
            if left <= 0 && !missing {
                break;
            }
        }
        assert!(!missing, "{name} never shared a process with the report");
    }
}

#[test]
fn requests_side_by_side_get_their_own_answers() {
    let code = "my ($n) = $ENV{QUERY_STRING} =~ /n=(\\d+)/; our @all; push @all, $n; \
        select undef, undef, undef, 0.001 * ($n % 7); print \"@all\"";
    let server = start(&[("echo", code)], "");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for n in (0..60).map(|i| thread * 1000 + i) {
                    let answer = server.get(&format!("/cgi-bin/echo.pl?n={n}"));
                    assert_eq!((answer.status, answer.text()), (200, n.to_string()));
                }
            });
        }
    });
}

/// A module that reads its __DATA__ when it is asked, and counts it.
const KEEPS_OPEN: &str = "package KeepsOpen; my $lines; \
    sub lines { while (<DATA>) { $lines++ } $lines } 1;\n__DATA__\n";

/// Loaded ahead, it would share its file with every script, and the place in it.
#[test]
fn a_module_to_preload_that_is_not_there_is_named() {
    let server = start(&[("x", "print 1")], "DromCGIPreload Carp No::Such\n");
    assert!(server.logged("DromCGIPreload: No::Such is in no folder"), "{}", server.error_log());
    assert!(!server.error_log().contains("Carp"));
}

#[test]
fn a_module_that_keeps_a_file_open_is_loaded_by_each_script() {
    let text = KEEPS_OPEN.replace("KeepsOpen", "KeepsOpenForDrom") + &"a line\n".repeat(3000);
    let Some(_module) = put_module("KeepsOpenForDrom", &text) else { return };
    let code = "use KeepsOpenForDrom; open my $f, '<', $0; print KeepsOpenForDrom::lines()";
    for config in ["", "DromCGIReuse Off\n"] {
        let server = start(&[("keeps", code)], config);
        let answers: Vec<String> = ask(&server, "keeps", 8);
        assert!(answers.iter().all(|lines| lines == "3000"), "{config}{answers:?}");
    }
}

/// Puts a module where site's own modules are.
fn put_module(name: &str, text: &str) -> Option<Put> {
    let ask_perl = ["-MConfig", "-e", "print $Config{sitelib}"];
    let told = std::process::Command::new("/usr/bin/perl").args(ask_perl).output().unwrap();
    let folder = std::path::PathBuf::from(String::from_utf8(told.stdout).unwrap());
    let module = folder.join(format!("{name}.pm"));
    let put = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&module, text));
    if put.is_err() {
        eprintln!("not tested: no module can be put into perl's own folders");
    }
    put.ok().map(|()| Put(module))
}

/// Goes with its value, also when a test fails.
struct Put(std::path::PathBuf);

impl Drop for Put {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a module asks while it is loaded is answered for each script.
#[test]
fn a_module_that_asks_for_time_chance_or_name_is_loaded_by_each_script() {
    let salt = "our $salt = int rand 1e9;";
    let cwd = "use Cwd; our $salt = getcwd() . $0;";
    for (name, text, same) in [("SaltForDrom", salt, false), ("PlaceForDrom", cwd, true)] {
        let text = format!("package {name}; {text} 1;\n");
        let Some(_module) = put_module(name, &text) else { return };
        let server = start(&[("asks", &format!("use {name}; print ${name}::salt"))], "");
        let answers = ask(&server, "asks", 4);
        let expected = [server.path("cgi-bin"), server.path("cgi-bin/asks.pl")];
        let expected = expected.map(|path| path.display().to_string()).concat();
        let kinds: BTreeSet<&String> = answers.iter().collect();
        assert_eq!(kinds.len(), if same { 1 } else { 4 }, "{name}: {answers:?}");
        assert!(!same || answers[0] == expected, "{answers:?}");
    }
}

/// Traffic that goes on keeps no more processes than it needs.
#[test]
fn processes_of_a_burst_go_when_it_is_over() {
    let code = "select undef, undef, undef, 0.3; print 1";
    let server = start(&[("slow", code)], "MaxRequestWorkers 40\n");
    ask(&server, "slow", 2);
    let before = server.descendants().len();
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| assert_eq!(server.get("/cgi-bin/slow.pl").status, 200));
        }
    });
    let gone = || {
        server.get("/cgi-bin/slow.pl");
        server.descendants().len() <= before + 1
    };
    assert!(crate::support::eventually(std::time::Duration::from_secs(40), gone), "{before}");
}

#[test]
fn numbers_are_rounded_as_ever() {
    let round = "use POSIX (); POSIX::fesetround(POSIX::FE_UPWARD()); print 1";
    let third = "use POSIX (); printf '%.17g', 1 / 3";
    let server = start(&[("round", round), ("third", third)], "");
    let before = ask(&server, "third", 1);
    for _ in 0..10 {
        ask(&server, "round", 1);
        assert_eq!([ask_later(&server, "/cgi-bin/third.pl")], before[..]);
    }
}

/// A zygote knows 64 that run one script after another; the others run one.
#[test]
fn a_hundred_at_once_are_served_side_by_side() {
    let code = "select undef, undef, undef, 1; print $ENV{QUERY_STRING}";
    let server = start(&[("slow", code)], "MaxRequestWorkers 200\n");
    ask(&server, "slow", 1);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for n in 0..100 {
            let server = &server;
            scope.spawn(move || {
                let answer = server.get(&format!("/cgi-bin/slow.pl?n={n}"));
                assert_eq!((answer.status, answer.text()), (200, format!("n={n}")));
            });
        }
    });
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_child_that_is_killed_costs_its_own_request() {
    let die = "kill 9, (getpgrp) if $ENV{QUERY_STRING}; print 'alive'";
    let mut server = start(&[("die", die)], "");
    ask(&server, "die", 2);
    for _ in 0..5 {
        assert_eq!(server.get("/cgi-bin/die.pl?x=1").status, 500);
        assert_eq!(server.get("/cgi-bin/die.pl").text(), "alive");
    }
    let below = server.descendants();
    server.terminate();
    assert!(below.iter().all(|&pid| !crate::support::alive(pid)));
}
