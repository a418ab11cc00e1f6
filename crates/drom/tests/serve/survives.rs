//! What the server lives through, and what it leaves behind when it cannot: its own processes
//! killed.

use std::time::Duration;

use crate::support::{Client, Server, alive, eventually, kill};

const HELLO: &str = "print \"Content-type: text/plain\\n\\nHello, world!\\n\";\n";
const HELLO_CGI: &str =
    "#!/usr/bin/perl\nprint \"Content-type: text/plain\\n\\nHello, world!\\n\";\n";
/// Tells that it runs, in a file beside the server's.
const NOTE: &str = "open my $f, '>', '{}/ran.NAME' or die; print $f \"$$\\n\"; close $f;\n";

/// Scripts that do not end by themselves: asleep, busy, waiting for a child, deaf to what would
/// stop them.
const ENDLESS: [(&str, &str); 7] = [
    ("perl/asleep.pl", "select undef, undef, undef, 60;\n"),
    ("perl/busy.pl", "while (1) { $x++ }\n"),
    ("perl/child.pl", "system 'sleep', '60';\n"),
    ("perl/swallow.pl", "while (1) { eval { select undef, undef, undef, 60 } }\n"),
    ("cgi-bin/asleep.pl", "sleep 60;\n"),
    ("cgi-bin/stubborn.pl", "$SIG{TERM} = 'IGNORE'; while (1) { sleep 60 }\n"),
    ("cgi-bin/other.cgi", "sleep 60\n"),
];

fn endless_files() -> Vec<(&'static str, String)> {
    let text = |(name, text): &(&'static str, &str)| {
        let stem = name.replace('/', ".");
        let note = NOTE.replace("NAME", &stem);
        let whole = match (name.starts_with("cgi-bin"), name.ends_with(".cgi")) {
            (_, true) => format!("#!/bin/sh\necho $$ > {{}}/ran.{stem}\n{text}"),
            (true, _) => format!("#!/usr/bin/perl\n{note}{text}"),
            _ => format!("{note}{text}"),
        };
        (*name, whole)
    };
    ENDLESS.iter().map(text).collect()
}

/// Starts every endless script; returns their clients and every process there is then.
fn start_endless(server: &Server) -> (Vec<Client>, Vec<i32>) {
    let mut clients = Vec::new();
    for (name, _) in ENDLESS {
        let mut client = server.connect();
        let path = name.replace("perl/", "registry/");
        client.send(&format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let note = server.path(&format!("ran.{}", name.replace('/', ".")));
        let ran = || std::fs::read_to_string(&note).is_ok_and(|t| t.ends_with('\n'));
        assert!(eventually(Duration::from_secs(20), ran), "{name} does not run");
        clients.push(client);
    }
    let sleeps = || server.descendants().into_iter().filter(|&p| name_of(p) == "sleep").count();
    assert!(eventually(Duration::from_secs(5), || sleeps() == 2), "both children sleep");
    (clients, server.descendants())
}

fn name_of(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    text.trim().to_owned()
}

/// Those of the family that still live, once none does or the time is over.
fn left_after(within: Duration, family: &[i32]) -> Vec<String> {
    let left = || family.iter().copied().filter(|&pid| alive(pid)).collect::<Vec<_>>();
    eventually(within, || left().is_empty());
    left().into_iter().map(|pid| format!("{pid} {}", name_of(pid))).collect()
}

fn server_with_endless(config: &str) -> Server {
    let files = endless_files();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
    files.push(("perl/hello.pl", HELLO));
    files.push(("cgi-bin/hello.pl", HELLO_CGI));
    Server::start(
        &format!("StartServers 5\nMinSpareServers 1\nMaxRequestWorkers 6\n{config}"),
        &files,
    )
}

#[test]
fn nothing_outlives_a_master_that_was_killed() {
    let server = server_with_endless("");
    let (mut clients, family) = start_endless(&server);
    kill(server.pid(), libc::SIGKILL);
    // Asked is a second or so; the rest is for a busy machine.
    let left = left_after(Duration::from_secs(4), &family);
    family.iter().for_each(|&pid| kill(pid, libc::SIGKILL));
    assert!(left.is_empty(), "left: {left:?}\n{}", server.error_log());
    for client in &mut clients {
        assert!(client.answer().is_none_or(|a| a.status >= 500), "nobody got half an answer");
    }
}

#[test]
fn nothing_that_scripts_started_outlives_the_server() {
    let mut server = server_with_endless("DromRequestTimeout 1\n");
    let (mut clients, family) = start_endless(&server);
    for client in &mut clients {
        assert_eq!(client.answer().map(|a| a.status), Some(504));
    }
    assert_eq!(server.get("/registry/hello.pl").text(), "Hello, world!\n");
    assert_eq!(server.get("/cgi-bin/hello.pl").text(), "Hello, world!\n");
    assert_eq!(server.terminate(), Some(0));
    let left = left_after(Duration::from_secs(3), &family);
    assert!(left.is_empty(), "left: {left:?}\n{}", server.error_log());
}

#[test]
fn end_blocks_that_do_not_end_do_not_hold_the_server() {
    let files = [("lib/Stay.pm", "package Stay; END { sleep 60 } 1;\n"), ("perl/hello.pl", HELLO)];
    let mut server = Server::start("PerlModule Stay\nStartServers 2\n", &files);
    let family = server.descendants();
    assert_eq!(server.get("/registry/hello.pl").status, 200);
    assert_eq!(server.terminate(), Some(0));
    assert!(left_after(Duration::from_secs(3), &family).is_empty());
}

#[test]
fn start_up_code_that_does_not_end_goes_with_the_master() {
    let files = [("startup.pl", "1;\n"), ("perl/hello.pl", HELLO)];
    let server = Server::start("PerlRequire {}/startup.pl\n", &files);
    server.put("startup.pl", "open my $f, '>', '{}/ran'; close $f; sleep 60; 1;\n");
    kill(server.pid(), libc::SIGHUP);
    let ran = server.path("ran");
    assert!(eventually(Duration::from_secs(10), || ran.exists()));
    let family = server.descendants();
    kill(server.pid(), libc::SIGKILL);
    let left = left_after(Duration::from_secs(4), &family);
    family.iter().for_each(|&pid| kill(pid, libc::SIGKILL));
    assert!(left.is_empty(), "left: {left:?}");
}

#[test]
fn a_script_that_hears_no_signals_is_stopped_even_so() {
    let deaf = "use POSIX (); POSIX::sigprocmask(POSIX::SIG_BLOCK(), \
        POSIX::SigSet->new(1 .. 31, 34 .. 64)); while (1) { select undef, undef, undef, 1 }\n";
    let files = [("perl/deaf.pl", deaf), ("perl/hello.pl", HELLO)];
    let server = Server::start(
        "StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2\nDromRequestTimeout 1\n",
        &files,
    );
    let mut others: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|c| assert_eq!(c.get("/registry/hello.pl").status, 200));
    assert_eq!(server.get("/registry/deaf.pl").status, 504);
    others.iter_mut().for_each(|c| assert_eq!(c.get("/registry/hello.pl").status, 200));
    assert!(server.logged("while it answered \"GET /registry/deaf.pl"), "{}", server.error_log());
}

/// The processes that the master started and that serve nothing themselves: the spawner has no
/// thread beside its first, and its children are the perls that wait for scripts.
fn spawner_of(server: &Server) -> i32 {
    let children = |pid: i32| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|w| w.parse().ok()).collect::<Vec<i32>>()
    };
    let threads =
        |pid: i32| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |d| d.count());
    let is_spawner = |pid: &i32| children(*pid).iter().all(|&child| threads(child) == 1);
    let found = || children(server.pid()).into_iter().filter(|p| !children(*p).is_empty());
    let mut spawner = None;
    assert!(eventually(Duration::from_secs(5), || {
        spawner = found().find(is_spawner);
        spawner.is_some()
    }));
    spawner.unwrap()
}

/// Four clients ask for a CGI script again and again while `disturb` runs, and once more after it:
/// how often it went well, and what else came.
fn under_cgi_load(server: &Server, disturb: impl FnOnce()) -> (u32, Vec<String>) {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let load = || {
        let (mut good, mut other) = (0, Vec::new());
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let mut client = server.connect();
            client.send("GET /cgi-bin/hello.pl HTTP/1.1\r\nHost: x\r\n\r\n");
            match client.answer() {
                Some(answer) if answer.text() == "Hello, world!\n" => good += 1,
                // A job that was with the process that was killed is lost, and its client is told.
                Some(answer) if answer.status == 500 => {}
                answer => other.push(format!("{answer:?}")),
            }
        }
        (good, other)
    };
    let results = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(load));
        disturb();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.map(|t| t.join().unwrap())
    });
    (results.iter().map(|r| r.0).sum(), results.into_iter().flat_map(|r| r.1).collect())
}

const TWO: &str = "StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 2\n";

#[test]
fn cgi_goes_on_when_its_processes_are_killed() {
    let server = Server::start(TWO, &[("cgi-bin/hello.pl", HELLO_CGI)]);
    assert_eq!(server.get("/cgi-bin/hello.pl").text(), "Hello, world!\n");
    let (good, other) = under_cgi_load(&server, || {
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(100));
            let spawner = spawner_of(&server);
            let zygote = crate::support::descendants(spawner).first().copied();
            kill(if round % 2 == 0 { zygote.unwrap_or(spawner) } else { spawner }, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(300));
    });
    assert!(other.is_empty(), "{other:?}");
    assert!(good > 20, "{good} good answers");
    // As many at a time as there are places: none was lost.
    for _ in 0..10 {
        let mut clients = [server.connect(), server.connect()];
        for client in &mut clients {
            client.send("GET /cgi-bin/hello.pl HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.answer().unwrap().text(), "Hello, world!\n");
        }
    }
    assert!(server.logged("the CGI spawner was killed by signal 9"), "{}", server.error_log());
    assert!(server.logged("a perl that waits for CGI scripts was killed by signal 9"));
}

#[test]
fn a_killed_worker_takes_its_cgi_children_along_and_leaves_its_places() {
    let server = server_with_endless("MaxRequestWorkers 2\n");
    let pids = server.path("ran.cgi-bin.stubborn.pl");
    for _ in 0..3 {
        // Both places are taken, by whichever worker; two more wait for one.
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /cgi-bin/stubborn.pl HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        assert!(eventually(Duration::from_secs(5), || pids.exists()));
        std::thread::sleep(Duration::from_millis(50));
        let family = server.descendants();
        let threads =
            |pid: &i32| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |d| d.count());
        for worker in family.iter().filter(|pid| threads(pid) == 2) {
            kill(*worker, libc::SIGKILL);
        }
        for client in &mut clients {
            assert_eq!(client.answer(), None);
        }
        let scripts = |pid: &&i32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains("stubborn")
        };
        let running = || server.descendants().iter().filter(scripts).count();
        assert!(eventually(Duration::from_secs(4), || running() == 0), "{} run on", running());
        assert_eq!(server.get("/cgi-bin/hello.pl").text(), "Hello, world!\n");
        std::fs::remove_file(&pids).unwrap();
    }
}

/// Takes the lock of malloc's main arena and dies with it. A large block that was just freed points
/// back at the arena's list of such blocks, which lies 96 bytes behind the lock (glibc).
const BROKEN: &str = "open my $maps, '<', '/proc/self/maps' or die;\n\
    my ($from, $to) = map { /^(\\w+)-(\\w+) rw.*libc[.]so/ ? (hex $1, hex $2) : () } <$maps>;\n\
    open my $held, '<', '{}/held' or die;\n\
    { my @small = map { my $s = ''; vec($s, 8 + $_, 8) = 1; $s } 1 .. 200; }\n\
    my ($large, $behind) = ('', ''); vec($_, 4999, 8) = 1 for $large, $behind;\n\
    my $at = pack 'P', $large; undef $large;\n\
    my $lock = (unpack 'J2', unpack 'P16', $at)[1] - 96;\n\
    die 'this is not the lock' unless $from <= $lock && $lock < $to;\n\
    my ($fd, $pid) = (fileno $held, $$);\n\
    syscall 0, $fd, $lock, 4; # read\n\
    syscall 62, $pid, 11; # kill\n";

/// A heap that is broken makes the C library abort inside malloc, with its lock held.
#[test]
fn a_broken_heap_holds_nobody() {
    let server = Server::start(
        TWO,
        &[("perl/hello.pl", HELLO), ("perl/broken.pl", BROKEN), ("held", "\x01\0\0\0")],
    );
    let mut others: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|c| assert_eq!(c.get("/registry/hello.pl").status, 200));
    let mut client = server.connect();
    client.send("GET /registry/broken.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = client.answer();
    assert!(answer.as_ref().is_none_or(|a| a.status == 500), "{answer:?}");
    let told = "while it answered \"GET /registry/broken.pl";
    let told = || server.error_log().contains(told);
    assert!(eventually(Duration::from_secs(20), told), "{}", server.error_log());
    let start = std::time::Instant::now();
    for client in &mut others {
        client.send("GET /registry/hello.pl HTTP/1.1\r\nHost: x\r\n\r\n");
        // Those of the worker that broke may be lost, but they are told.
        assert!(client.answer().is_none_or(|a| a.status == 200));
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(server.get("/registry/hello.pl").status, 200);
}

const WARN: &str = "warn 'watch out'; print \"Content-type: text/plain\\n\\nwarned\\n\";\n";
const COUNT: &str = "my ($n, $b) = (0); while (my $got = read STDIN, $b, 65536) { $n += $got }\n\
    print \"Content-type: text/plain\\n\\n$n\\n\";\n";
const BIG: &str = "print \"Content-type: text/plain\\n\\n\"; print 'x' x 100_000 for 1 .. 300;\n";

#[test]
fn logs_that_cannot_be_written_stop_nothing() {
    let config = "ErrorLog /dev/full\nCustomLog /dev/full \"%h %r\"\n";
    let warn_cgi = format!("#!/usr/bin/perl\n{WARN}");
    let files = [
        ("htdocs/a.txt", "a file\n"),
        ("perl/warn.pl", WARN),
        ("perl/die.pl", "die 'no';\n"),
        ("cgi-bin/warn.pl", &warn_cgi),
    ];
    let mut server = Server::start(&format!("{TWO}{config}"), &files);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").text(), "a file\n");
        assert_eq!(client.get("/registry/warn.pl").text(), "warned\n");
        assert_eq!(client.get("/cgi-bin/warn.pl").text(), "warned\n");
        assert_eq!(client.get("/registry/die.pl").status, 500);
    }
    assert_eq!(server.reload().0, 0);
    assert_eq!(server.get("/registry/warn.pl").text(), "warned\n");
    assert_eq!(server.terminate(), Some(0));
}

/// Workers have a thread beside their first. What the spawner starts to ask perl something has not,
/// and ends.
fn workers_of(server: &Server) -> Vec<i32> {
    let threads =
        |pid: &i32| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |d| d.count());
    let mut workers = Vec::new();
    assert!(eventually(Duration::from_secs(10), || {
        workers = server.descendants();
        workers.retain(|pid| threads(pid) > 1);
        workers.len() == 2
    }));
    workers
}

/// Bodies and answers that need a scratch file larger than there is room for.
fn no_room(program: &[&str]) {
    let count_cgi = format!("#!/usr/bin/perl\n{COUNT}");
    let files = [
        ("perl/hello.pl", HELLO),
        ("perl/count.pl", COUNT),
        ("perl/big.pl", BIG),
        ("cgi-bin/count.pl", &count_cgi),
        ("tmp/here", ""),
    ];
    let mut server = Server::start_by(program, &format!("{TWO}LogLevel info\n"), &files);
    let workers = workers_of(&server);
    let small = vec![b'y'; 100_000];
    let body = vec![b'y'; 8_000_000];
    for tier in ["registry", "cgi-bin"] {
        let path = format!("/{tier}/count.pl");
        assert_eq!(server.connect().post(&path, &small).text(), "100000\n", "{tier}");
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
        let mut client = server.connect();
        client.send(&head);
        // The server may say no before it has read everything.
        let _ = std::io::Write::write_all(&mut client.stream, &body);
        let answer = client.answer().expect("an answer");
        assert!(matches!(answer.status, 500 | 507), "{tier}: {}", answer.head);
    }
    assert!(server.logged("no room for the request body"), "{}", server.error_log());
    // 30 MB that nobody reads: what has no room is missing, and the client can tell.
    let mut client = server.connect();
    client.send("GET /registry/big.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(300));
    let answer = client.answer();
    assert!(answer.as_ref().is_none_or(|a| a.status == 500), "{:?}", answer.map(|a| a.head));
    assert_eq!(server.get("/registry/hello.pl").text(), "Hello, world!\n");
    assert!(workers.iter().all(|&pid| alive(pid)), "nobody died: {}", server.error_log());
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_file_size_limit_is_an_answer_and_no_death() {
    no_room(&["sh", "-c", "ulimit -f 2000; exec \"$@\"", "sh"]);
}

#[test]
fn a_full_disk_is_an_answer_and_no_death() {
    let works = |flag: &str| {
        let made = std::process::Command::new("unshare")
            .args([flag, "mount", "-t", "tmpfs", "none", "/mnt"])
            .output();
        made.is_ok_and(|output| output.status.success())
    };
    let Some(flag) = ["-m", "-rm"].into_iter().find(|flag| works(flag)) else {
        eprintln!("not tested: a small file system cannot be mounted here");
        return;
    };
    let script = "mount -t tmpfs -o size=1m none {}/tmp && TMPDIR={}/tmp exec \"$@\"";
    no_room(&["unshare", flag, "sh", "-c", script, "sh"]);
}

/// A terminal that closes sends SIGHUP to the whole group.
#[test]
fn a_reload_signal_for_every_process_is_one_reload() {
    for signal in [libc::SIGHUP, libc::SIGUSR1] {
        one_reload(signal);
    }
}

fn one_reload(signal: i32) {
    let signals = "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\n\
        grep -E '^Sig(Ign|Blk)' /proc/self/status\n";
    let files =
        [("perl/hello.pl", HELLO), ("cgi-bin/hello.pl", HELLO_CGI), ("cgi-bin/s.sh", signals)];
    let server = Server::start("StartServers 2\n", &files);
    assert_eq!(server.get("/cgi-bin/hello.pl").status, 200);
    let spawner = spawner_of(&server);
    let mut family = server.descendants();
    family.retain(|&pid| pid != spawner);
    // The others hear it first: a spawner that was replaced by the reload would not show.
    for pid in [&family[..], &[spawner, server.pid()]].concat() {
        kill(pid, signal);
    }
    assert!(server.logged("reload: the new code is loaded"));
    for _ in 0..3 {
        assert_eq!(server.get("/cgi-bin/hello.pl").status, 200);
        assert_eq!(server.get("/registry/hello.pl").status, 200);
    }
    let text = server.get("/cgi-bin/s.sh").text();
    for line in text.lines() {
        let mask = line.split_whitespace().last().and_then(|m| u64::from_str_radix(m, 16).ok());
        let heard = mask.map(|m| m & 1 << (signal - 1));
        assert_eq!(heard, Some(0), "a script hears {signal}: {text}");
    }
    assert!(!server.error_log().contains("was killed"), "{}", server.error_log());
}

/// `timeout` tells its child and then the whole group.
#[test]
fn two_terminates_of_one_moment_are_one() {
    let slow = "print \"Content-type: text/plain\\n\\n\"; \
        my $u = time + 2; 1 while time < $u; print 'done';\n";
    let mut server = Server::start("StartServers 2\n", &[("perl/slow.pl", slow)]);
    let mut client = server.connect();
    client.send("GET /registry/slow.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(200));
    kill(server.pid(), libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(20));
    let reader = std::thread::spawn(move || client.answer().map(|a| a.text()));
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(reader.join().unwrap().as_deref(), Some("done"));
    assert!(!server.error_log().contains("was killed"), "{}", server.error_log());
}

#[test]
fn a_second_terminate_ends_what_runs() {
    let endless = [("perl/endless.pl", "1 while 1;\n")];
    let mut server = Server::start("StartServers 2\n", &endless);
    let mut client = server.connect();
    client.send("GET /registry/endless.pl HTTP/1.1\r\nHost: x\r\n\r\n");
    std::thread::sleep(Duration::from_millis(200));
    kill(server.pid(), libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(server.terminate(), Some(0));
    assert!(server.error_log().contains("was killed by signal 9"), "{}", server.error_log());
}
