//! Reloads: one that fails leaves everything as it was, one that is asked for happens, and nothing
//! piles up from one to the next.

use std::{path::Path, process::Command, time::Duration};

use crate::support::{Server, alive, eventually, kill};

const SITE: &str = "\
PerlRequire {}/startup.pl
StartServers 2
MinSpareServers 1
MaxRequestWorkers 3
";
const VERSION: &str = "print \"Content-type: text/plain\\n\\n$Site::version\";\n";
/// Tells, in a file beside the server's, that it is being loaded.
const NOTE: &str = "open my $f, '>>', '{}/loads' or die; print $f \"$$\\n\"; close $f;\n";

fn startup(version: u32) -> String {
    format!("$Site::version = {version};\n1;\n")
}

fn server(config: &str) -> Server {
    let first = startup(1);
    let files = [("startup.pl", first.as_str()), ("perl/version.pl", VERSION)];
    Server::start(&format!("{SITE}{config}"), &files)
}

fn version(server: &Server) -> String {
    server.get("/registry/version.pl").text()
}

fn put_noted(server: &Server, code: &str) {
    server.put("startup.pl", &format!("{NOTE}{code}\n1;\n"));
}

/// How often code that notes it has begun to load.
fn loads(server: &Server) -> usize {
    std::fs::read_to_string(server.path("loads")).unwrap_or_default().lines().count()
}

fn loading(server: &Server, times: usize) {
    assert!(eventually(Duration::from_secs(20), || loads(server) >= times));
}

#[test]
fn start_up_code_that_is_killed_is_one_failed_reload() {
    for (code, how) in [
        ("use POSIX (); POSIX::_exit(3);", "ended with status 3"),
        ("kill 9, $$; sleep 60;", "was killed by signal 9"),
        ("kill 11, $$; sleep 60;", "was killed by signal 11"),
        // What it left running holds its socket open.
        ("if (!fork) { sleep 60; exit } kill 9, $$; sleep 60;", "was killed by signal 9"),
    ] {
        let server = server("");
        put_noted(&server, code);
        let (status, said) = server.reload();
        assert_eq!(status, 1, "{code}: {said}");
        let names = ["process that loads the Perl code", how, "startup.pl"];
        assert!(names.iter().all(|name| said.contains(name)), "{code}: {said}");
        assert!(said.contains("the old code keeps serving"), "{said}");
        std::thread::sleep(Duration::from_millis(500));
        let log = server.error_log();
        assert_eq!((loads(&server), log.matches(how).count()), (1, 1), "{log}");
        assert_eq!(version(&server), "1");
        server.put("startup.pl", &startup(2));
        assert_eq!(server.reload().0, 0);
        assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
    }
}

#[test]
fn a_reload_asked_for_while_one_is_loading_comes_after_it() {
    let server = server("");
    put_noted(&server, "select undef, undef, undef, 2; $Site::version = 2;");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.reload());
        loading(&server, 1);
        put_noted(&server, "$Site::version = 3;");
        let more: Vec<_> = (0..3).map(|_| scope.spawn(|| server.reload())).collect();
        for asked in more {
            let (status, said) = asked.join().unwrap();
            assert_eq!(status, 0, "{said}");
        }
        assert!(eventually(Duration::from_secs(10), || version(&server) == "3"));
        assert_eq!(first.join().unwrap().0, 0);
    });
    assert_eq!(loads(&server), 2, "one reload for all who asked meanwhile");
}

#[test]
fn each_who_asks_is_told_of_a_load_that_began_later() {
    let server = server("");
    put_noted(&server, "select undef, undef, undef, 2; $Site::version = 2;");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.reload());
        loading(&server, 1);
        put_noted(&server, "die 'not this one';");
        let (status, said) = server.reload();
        assert!(status == 1 && said.contains("not this one"), "{status}: {said}");
        assert_eq!(first.join().unwrap().0, 0);
    });
    assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
}

#[test]
fn start_up_code_that_hangs_gives_way_to_the_next_reload() {
    let server = server("");
    put_noted(&server, "while (1) { sleep 1 }");
    kill(server.pid(), libc::SIGHUP);
    loading(&server, 1);
    server.put("startup.pl", &startup(2));
    let (status, said) = server.reload();
    assert_eq!(status, 0, "{said}\n{}", server.error_log());
    assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
    let log = server.error_log();
    assert!(log.contains("reload failed") && log.contains("later reload"), "{log}");
}

#[test]
fn a_failed_reload_leaves_the_error_log_where_it_is() {
    let server = server("");
    let file = server.path("httpd.conf");
    let config = std::fs::read_to_string(&file).unwrap();
    let new_log = server.path("new.log");
    std::fs::write(&file, format!("{config}ErrorLog {}\n", new_log.display())).unwrap();
    server.put("startup.pl", "die 'not this one';");
    assert_eq!(server.reload().0, 1);
    assert!(server.logged("reload failed"), "{}", server.error_log());
    assert_eq!(std::fs::read_to_string(&new_log).unwrap_or_default(), "");
    server.put("startup.pl", &startup(2));
    server.put("perl/warn.pl", "warn 'from a worker'; print \"Content-type: x/y\\n\\nok\";\n");
    assert_eq!(server.reload().0, 0);
    let told = || std::fs::read_to_string(&new_log).unwrap_or_default();
    assert!(told().contains("the new code is loaded"), "{}", told());
    assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
    server.get("/registry/warn.pl");
    assert!(eventually(Duration::from_secs(5), || told().contains("from a worker")));
}

/// The logs that a process has open.
fn open_logs(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let targets = entries.into_iter().flatten().flatten().filter_map(|e| e.path().read_link().ok());
    let names = targets.map(|path| path.to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter_map(|n| Some(n[n.rfind("/access.log")? + 1..].to_owned())).collect();
    names.sort();
    names
}

#[test]
fn logs_that_were_rotated_are_closed() {
    let server = server("CustomLog {}/access.log common\n");
    for number in 1..=3 {
        let to = server.path(&format!("access.log.{number}"));
        std::fs::rename(server.path("access.log"), to).unwrap();
        assert_eq!(server.reload().0, 0);
    }
    std::fs::remove_file(server.path("access.log.1")).unwrap();
    let seen = || {
        let family = [vec![server.pid()], server.descendants()].concat();
        family.into_iter().flat_map(open_logs).collect::<Vec<_>>()
    };
    let only_new = || seen().iter().all(|name| name == "access.log");
    assert!(eventually(Duration::from_secs(10), only_new), "{:?}", seen());
    assert_eq!(open_logs(server.pid()), ["access.log"]);
    version(&server);
    let text = || std::fs::read_to_string(server.path("access.log")).unwrap();
    assert!(eventually(Duration::from_secs(5), || text().contains("version.pl")));
}

#[test]
fn what_takes_a_restart_is_said() {
    let server = server("");
    let file = server.path("httpd.conf");
    let config = std::fs::read_to_string(&file).unwrap();
    let changed = config.replace("Listen 127.0.0.1:0", "Listen 127.0.0.1:1\nListenBacklog 9");
    std::fs::write(&file, format!("{changed}MaxRequestWorkers 1000\n")).unwrap();
    let (status, said) = server.reload();
    assert_eq!(status, 0, "{said}");
    for (text, whose) in [(said, "the command"), (server.error_log(), "the log")] {
        assert!(text.contains("Listen changed from 127.0.0.1:0 to 127.0.0.1:1"), "{whose}: {text}");
        assert!(text.contains("ListenBacklog changed from 511 to 9"), "{whose}: {text}");
        assert!(text.contains("MaxRequestWorkers") && text.contains("restart"), "{whose}: {text}");
    }
    std::fs::write(&file, config).unwrap();
    assert!(!server.reload().1.contains("restart"));
}

/// `drom serve --reload` for a server that lives in a world of its own.
fn reload_from_outside(server: &Server, pid_file: &Path) -> (i32, String) {
    let outside = Path::new("/proc").join(server.pid().to_string()).join("root");
    let pid_file = outside.join(pid_file.strip_prefix("/").unwrap());
    let output = Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_drom"), "serve", "--reload", "-f"])
        .arg(server.path("httpd.conf"))
        .arg("--pid-file")
        .arg(pid_file)
        .output()
        .unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_full_file_system_keeps_no_outcome_back() {
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|s| s.success()) {
        eprintln!("not tested: no mount namespace can be made");
        return;
    }
    let world = "mkdir {}/run; mount -t tmpfs -o size=256k none {}/run; exec \"$@\"";
    let first = startup(1);
    let files = [("startup.pl", first.as_str()), ("perl/version.pl", VERSION)];
    let config = format!("{SITE}PidFile {{}}/run/pid\n");
    let server = Server::start_by(&["unshare", "-m", "sh", "-c", world, "sh"], &config, &files);
    let pid_file = server.path("run/pid");
    let inside = format!("/proc/{}/root{}", server.pid(), pid_file.parent().unwrap().display());
    let full = std::fs::write(Path::new(&inside).join("fill"), vec![b'x'; 1 << 20]);
    assert!(full.is_err(), "the file system is not full");
    server.put("startup.pl", &startup(2));
    let (status, said) = reload_from_outside(&server, &pid_file);
    assert_eq!((status, said.as_str()), (0, "reloaded\n"));
    server.put("startup.pl", "die 'not this one';");
    let (status, said) = reload_from_outside(&server, &pid_file);
    assert!(status == 1 && said.contains("not this one"), "{status}: {said}");
}

/// A folder in its place stands for every reason that the outcome cannot be written.
#[test]
fn an_outcome_that_cannot_be_written_is_said_to_be() {
    let first = startup(1);
    let files =
        [("startup.pl", first.as_str()), ("perl/version.pl", VERSION), ("pid.reload/x", "")];
    let server = Server::start(SITE, &files);
    server.put("startup.pl", &startup(2));
    let (status, said) = server.reload();
    assert!(status == 1 && said.contains("error log"), "{status}: {said}");
    assert!(server.logged("cannot be written"), "{}", server.error_log());
    assert!(eventually(Duration::from_secs(10), || version(&server) == "2"));
}

/// `drom serve --reload && curl` shows what was just written.
#[test]
fn who_connects_after_a_reload_gets_the_new_code() {
    let server = server("StartServers 4\nMinSpareServers 4\n");
    for number in 2..20 {
        server.put("startup.pl", &startup(number));
        assert_eq!(server.reload().0, 0);
        let versions: Vec<String> = (0..8).map(|_| version(&server)).collect();
        assert!(versions.iter().all(|v| *v == number.to_string()), "{number}: {versions:?}");
    }
}

/// A signal would end every wait of Perl's at once: select, sleep, a connection that is being made.
#[test]
fn a_reload_does_not_disturb_what_perl_waits_for() {
    let server = server("");
    let code = "use Time::HiRes; my $began = Time::HiRes::time();
        $SIG{USR2} = sub { print 'signal ' };
        open my $f, '>', '{}/waits.new'; print $f $$; close $f; rename '{}/waits.new', '{}/waits';
        select undef, undef, undef, 1; sleep 1;
        printf 'waited %s', Time::HiRes::time() - $began > 1.9 ? 'long' : 'too short';";
    server.put("perl/waits.pl", &format!("print \"Content-type: text/plain\\n\\n\";\n{code}\n"));
    let mut client = server.connect();
    client.send("GET /registry/waits.pl HTTP/1.0\r\n\r\n");
    assert!(eventually(Duration::from_secs(5), || server.path("waits").exists()));
    assert_eq!(server.reload().0, 0);
    assert_eq!(client.answer().unwrap().text(), "waited long");
    let worker: i32 = std::fs::read_to_string(server.path("waits")).unwrap().parse().unwrap();
    assert!(eventually(Duration::from_secs(5), || !alive(worker)), "the worker went on");
}
