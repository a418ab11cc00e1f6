//! `drom top` from outside: processes, the page of one, a Drom server whose worker is in the middle
//! of a script, and the view on a terminal.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use crate::support::{Server, eventually, kill};
use serde_json::Value;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("top").args(words).stdin(Stdio::null()).env("COLUMNS", "140");
    command.env("LC_ALL", "C.UTF-8");
    command
}

fn top(words: &[&str]) -> Output {
    command(words).output().expect("it starts")
}

fn text(words: &[&str]) -> String {
    let output = top(words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(words: &[&str]) -> Value {
    let text = text(&[words, &["--once", "--json"]].concat());
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

/// A process that is ended with the test.
struct Target(Child);

impl Target {
    fn perl(words: &[&str]) -> Self {
        let mut perl = Command::new("perl");
        let child = perl.args(words).env("TOP_TOKEN", "hunter2").stdout(Stdio::piped()).spawn();
        let mut target = Self(child.expect("perl"));
        // It says when it is where the test wants it.
        let mut line = String::new();
        let out = target.0.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("it speaks");
        target
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rows(snapshot: &Value) -> &Vec<Value> {
    snapshot["processes"].as_array().expect("processes")
}

const RESTS: &str = "$| = 1; print \"here\\n\"; sleep 60";

#[test]
fn a_process_is_found_by_its_command_and_its_secrets_are_masked() {
    let target =
        Target::perl(&["-e", RESTS, "topfind", "--password=hunter2", "--token", "hunter2"]);
    let pid = target.pid();
    let shown = text(&["--once", "--filter", "^perl .* topfind"]);
    let row = shown.lines().last().expect("a row");
    assert!(row.trim_start().starts_with(&format!("{pid} ")), "{shown}");
    assert!(row.ends_with("topfind --password=MASKED --token MASKED"), "{shown}");
    assert!(!shown.contains("hunter2") && shown.contains(" COMMAND"), "{shown}");
    for title in ["Load ", "CPU ", "Memory ", "Disks ", "Network "] {
        assert!(shown.lines().any(|line| line.starts_with(title)), "{title}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours in a file");
    assert!(shown.lines().all(|line| line.chars().count() <= 140), "{shown}");
    // Nor does it find itself by that.
    let none = text(&["--once", "--filter", "no such [p]rocess"]);
    assert!(none.ends_with("no process matches\n"), "{none}");
}

#[test]
fn json_has_figures_with_their_units() {
    let target = Target::perl(&["-e", RESTS, "topjson"]);
    let snapshot = json(&["--filter", "^perl .* topjson"]);
    let [row] = &rows(&snapshot)[..] else { panic!("{snapshot}") };
    assert_eq!((&row["pid"], &row["name"]), (&target.pid().into(), &"perl".into()));
    assert_eq!(row["parent"], std::process::id());
    let size = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert!(0 < size("uss_bytes") && size("uss_bytes") <= size("pss_bytes"), "{row}");
    assert!(size("pss_bytes") <= size("rss_bytes") && row["cpu_percent"].is_f64(), "{row}");
    let machine = &snapshot["machine"];
    let memory = &machine["memory"];
    assert!(memory["used_bytes"].as_u64() < memory["total_bytes"].as_u64(), "{memory}");
    assert!(machine["load"]["1_min"].is_f64() && machine["cores"].as_u64() > Some(0));
    let states = machine["cpu"].as_object().expect("states");
    let sum: f64 = states.values().filter_map(Value::as_f64).sum();
    assert!(states.len() == 8 && (sum - 100.0).abs() < 0.001, "{machine}");
    assert!(machine["mounts"].as_array().is_some_and(|mounts| !mounts.is_empty()));
}

#[test]
fn rows_are_sorted_and_no_more_than_asked_for() {
    let _target = Target::perl(&["-e", RESTS]);
    let of = |snapshot: &Value, key: &str| -> Vec<u64> {
        rows(snapshot).iter().map(|row| row[key].as_u64().unwrap_or(0)).collect()
    };
    let by_rss = of(&json(&["--sort", "rss"]), "rss_bytes");
    assert!(by_rss.len() > 2 && by_rss.is_sorted_by(|a, b| a >= b), "{by_rss:?}");
    let by_pid = of(&json(&["--sort", "pid", "--rows", "2"]), "pid");
    assert!(by_pid.len() == 2 && by_pid.is_sorted(), "{by_pid:?}");
    let cut = text(&["--once", "--rows", "1"]);
    assert!(cut.trim_end().ends_with("shows them"), "{cut}");
}

#[test]
fn a_tree_has_children_below_their_parents() {
    let parent = "print STDOUT ''; my $pid = fork // die; if (!$pid) { $0 = 'topchild'; sleep 60 }
                  $| = 1; print \"here\\n\"; $SIG{TERM} = sub { kill 9, $pid; exit }; sleep 60";
    let target = Target::perl(&["-e", parent, "toptree"]);
    let pid = i64::from(target.pid());
    let mut seen = Vec::new();
    let both = eventually(Duration::from_secs(10), || {
        seen = rows(&json(&["--tree", "--filter", "topchild"])).clone();
        seen.iter().any(|row| row["command"] == "topchild")
    });
    assert!(both, "{seen:?}");
    let at = seen.iter().position(|row| row["pid"] == pid).expect("who stands above is there");
    let child = &seen[at + 1];
    assert_eq!((&child["command"], &child["parent"]), (&"topchild".into(), &pid.into()));
    assert_eq!(child["depth"].as_u64(), seen[at]["depth"].as_u64().map(|depth| depth + 1));
    let shown = text(&["--once", "--tree", "--filter", "topchild"]);
    assert!(shown.lines().any(|line| line.ends_with("─ topchild")), "{shown}");
    kill(target.pid(), libc::SIGTERM);
    kill(child["pid"].as_i64().expect("a number") as i32, libc::SIGKILL);
}

#[test]
fn a_page_takes_a_process_apart_and_tells_no_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("rest.pl");
    let lines = "$| = 1;\nsub rest {\n    print \"here\\n\";\n    sleep 60;\n}\nrest();\n";
    std::fs::write(&script, lines).expect("written");
    let script = script.to_str().expect("text");
    let target = Target::perl(&[script, "--secret", "hunter2"]);
    let pid = target.pid().to_string();
    let shown = text(&["--once", "-p", &pid]);
    assert!(
        shown.starts_with(&format!("Process {pid}  perl {script} --secret MASKED\n")),
        "{shown}"
    );
    assert!(!shown.contains("hunter2") && shown.contains("TOP_TOKEN"), "{shown}");
    assert!(shown.contains(&format!("  main::rest  {script}:4\n")), "{shown}");
    assert!(shown.contains("Max open files") && shown.contains("[heap]"), "{shown}");
    let page = json(&["--pid", &pid]);
    let find = |list: &str, key: &str, wanted: &str| {
        let items = page[list].as_array().unwrap_or_else(|| panic!("{list}"));
        items.iter().any(|item| item[key].as_str().is_some_and(|text| text.contains(wanted)))
    };
    assert!(find("perl_stack", "sub", "main::rest") && find("memory", "name", "libc"), "{page}");
    assert!(find("open_files", "target", "pipe:") && find("limits", "name", "Max"), "{page}");
    let names = page["environment_names"].as_array().expect("names");
    assert!(names.contains(&"TOP_TOKEN".into()) && !page.to_string().contains("hunter2"));
}

#[test]
fn what_cannot_be_shown_is_said() {
    let dead = top(&["--once", "--pid", "99999999"]);
    assert_eq!((dead.status.code(), dead.stdout.len()), (Some(1), 0));
    let said = String::from_utf8_lossy(&dead.stderr).into_owned();
    assert!(said.contains("there is no process 99999999"), "{said}");
    let nowhere = top(&[]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--once or --json"));
    for words in [&["--filter", "("][..], &["--sort", "x"], &["-n", "1ms"], &["--pid", "x"]] {
        assert_eq!(top(&[words, &["--once"]].concat()).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_stream_ends_with_its_reader() {
    let mut stream = command(&["--json", "-n", "100ms"]);
    let mut stream = Target(stream.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut out = BufReader::new(stream.0.stdout.take().expect("a pipe"));
    for _ in 0..2 {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let snapshot: Value = serde_json::from_str(&line).expect("JSON");
        assert!(snapshot["process_count"].as_u64() > Some(0));
    }
    drop(out);
    let mut status = None;
    let ended = eventually(Duration::from_secs(10), || {
        status = stream.0.try_wait().expect("ours");
        status.is_some()
    });
    assert!(ended && status.and_then(|status| status.code()) == Some(0), "{status:?}");
}

// ---- servers ------------------------------------------------------------------------------

/// Waits in line 4 until the test lets it go on.
const HOLD: &str = "\
print \"Content-Type: text/plain\\n\\n\";
sub hold {
    until (-e '{}/go') {
        select undef, undef, undef, 0.005;
    }
}
hold();
print \"done\\n\";
";

/// The server's own entry, as soon as it is as wanted.
fn server_when(server: &Server, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let is_there = eventually(Duration::from_secs(20), || {
        let snapshot = json(&["--rows", "0"]);
        let servers = snapshot["servers"].as_array().expect("servers");
        found = servers.iter().find(|s| s["pid"] == server.pid()).cloned().unwrap_or_default();
        wanted(&found)
    });
    assert!(is_there, "{found}");
    found
}

fn workers(server: &Value) -> &[Value] {
    server["workers"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_worker_is_seen_in_the_middle_of_a_script() {
    let server = Server::start("CustomLog {}/access.log common\n", &[("perl/hold.pl", HOLD)]);
    let mut client = server.connect();
    let from = client.stream.local_addr().expect("an address").to_string();
    client.send(
        "GET /registry/hold.pl?token=hunter2&x=1 HTTP/1.1\r\nHost: test\r\n\
         Cookie: session=hunter2\r\n\r\n",
    );
    let in_perl = |worker: &&Value| worker["state"] == "perl";
    let place = |worker: &Value| worker["running"]["perl"]["line"].as_u64();
    let seen = server_when(&server, |server| {
        workers(server).iter().find(in_perl).and_then(place) == Some(4)
    });
    let worker = workers(&seen).iter().find(in_perl).expect("it runs");
    let running = &worker["running"];
    assert_eq!(running["request"], "GET /registry/hold.pl?token=MASKED&x=1 HTTP/1.1");
    assert_eq!(running["client"], from.as_str());
    assert!(running["elapsed_s"].as_f64() > Some(0.0), "{running}");
    let file = running["perl"]["file"].as_str().expect("a file");
    assert!(file.ends_with("/perl/hold.pl"), "{running}");
    assert!(running["perl"]["sub"].as_str().is_some_and(|sub| sub.ends_with("::hold")));
    assert_eq!((&worker["generation"], &worker["perl_requests"]), (&1.into(), &1.into()));
    assert!(worker["uss_bytes"].as_u64() > Some(0) && worker["growth_bytes"].is_i64(), "{worker}");
    assert!(server.descendants().contains(&(worker["pid"].as_i64().expect("a number") as i32)));

    let shown = text(&["--once", "--rows", "0"]);
    assert!(shown.contains(&format!("Drom server {}  generation 1", server.pid())), "{shown}");
    assert!(shown.contains("perl/hold.pl:4 hold") && !shown.contains("hunter2"), "{shown}");
    let pid = worker["pid"].to_string();
    let page = text(&["--once", "--pid", &pid]);
    assert!(page.contains("Request   GET /registry/hold.pl?token=MASKED&x=1"), "{page}");
    assert!(page.contains("::hold  ") && page.contains("perl/hold.pl:4\n"), "{page}");

    server.put("go", "");
    assert_eq!(client.answer().expect("an answer").text(), "done\n");
    let after = server_when(&server, |server| server["answers"] == 1);
    assert!(after["answered_bytes"].as_u64() > Some("done\n".len() as u64), "{after}");
    assert!(!workers(&after).iter().any(|worker| worker["state"] == "perl"), "{after}");
}

/// Files count as answers, a new generation is another one, and there is one server, not one for
/// each of its processes.
#[test]
fn a_server_is_one_through_reloads() {
    let server = Server::start("", &[("htdocs/a.txt", "hello")]);
    for _ in 0..3 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    let seen = server_when(&server, |server| server["answers"] == 3);
    assert!(workers(&seen).iter().all(|worker| worker["perl_requests"] == 0), "{seen}");
    assert_eq!(server.reload().0, 0);
    server_when(&server, |server| server["generation"] == 2);
    let snapshot = json(&["--rows", "0"]);
    let family = server.descendants();
    let below =
        |one: &&Value| one["pid"].as_i64().is_some_and(|pid| family.contains(&(pid as i32)));
    assert_eq!(snapshot["servers"].as_array().expect("servers").iter().filter(below).count(), 0);
}

/// Neither Perl in a worker nor a CGI script has the board, and their first file has the number it
/// always had.
#[test]
fn no_script_has_the_scoreboard() {
    let script = "print \"Content-Type: text/plain\\n\\n\";
        opendir my $d, '/proc/self/fd' or die;
        my @all = map { readlink \"/proc/self/fd/$_\" } readdir $d;
        print join(' ', grep { defined && /scoreboard/ } @all), \"|\";
        open my $f, '<', '/dev/null' or die; print fileno($f) < 100 ? 'low' : 'high';";
    let cgi = format!("#!/usr/bin/perl\n{script}");
    let server = Server::start("", &[("perl/fds.pl", script), ("cgi-bin/fds.pl", &cgi)]);
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("ours");
    let links = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let boards = links.filter(|to| to.to_string_lossy().contains("drom-scoreboard")).count();
    assert_eq!(boards, 1, "the master has it");
    for path in ["/registry/fds.pl", "/perlrun/fds.pl", "/cgi-bin/fds.pl"] {
        assert_eq!(server.get(path).text(), "|low", "{path}");
    }
}

// ---- the view -----------------------------------------------------------------------------

/// A terminal: our end, and the program's. No program of another test has either.
fn terminal() -> (File, OwnedFd) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let mut name = [0; 64];
    // SAFETY: the descriptors are new, the name is ours to write, the size is read.
    unsafe {
        let ours = File::from_raw_fd(libc::posix_openpt(flags));
        let fd = ours.as_raw_fd();
        assert_eq!((libc::grantpt(fd), libc::unlockpt(fd)), (0, 0));
        assert_eq!(libc::ptsname_r(fd, name.as_mut_ptr(), name.len()), 0);
        assert_eq!(libc::ioctl(fd, libc::TIOCSWINSZ, &raw const size), 0);
        let theirs = libc::open(name.as_ptr(), flags);
        assert!(theirs >= 0);
        (ours, OwnedFd::from_raw_fd(theirs))
    }
}

/// What a terminal of 80 columns shows, of all that a program has said so far.
fn shown(said: &str) -> String {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut row, mut column, mut letters) = (0, 0, said.chars());
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            if let Some(cell) = cells.get_mut(row).and_then(|cells| cells.get_mut(column)) {
                *cell = letter;
            }
            column += 1;
            continue;
        }
        let numbers: String = letters.by_ref().skip(1).take_while(|c| !c.is_alphabetic()).collect();
        // The letter that ends it was taken, too: of those with two numbers all but the places
        // are colours, which move nothing.
        let command = said[..said.len() - letters.as_str().len()].chars().next_back();
        let mut numbers = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        if command == Some('H') {
            let mut next = || numbers.next().unwrap_or(1).max(1) - 1;
            (row, column) = (next(), next());
        } else if command == Some('J') {
            cells.iter_mut().for_each(|cells| cells.fill(' '));
        }
    }
    cells.iter().map(|cells| cells.iter().collect::<String>() + "\n").collect()
}

type Turn<'a> = (&'a str, &'a mut dyn FnMut(&mut File));

/// Everything that is said until the other end is gone, and what is done when a text is seen.
fn talk(mut ours: File, turns: &mut [Turn]) -> String {
    let (mut said, mut turn) = (String::new(), 0);
    let mut buffer = [0; 4096];
    while is_ready(&ours, &said) {
        let Ok(got) = ours.read(&mut buffer) else { break };
        said += &String::from_utf8_lossy(&buffer[..got]);
        if let Some((wanted, then)) = turns.get_mut(turn)
            && shown(&said).contains(*wanted)
        {
            turn += 1;
            then(&mut ours);
        }
    }
    assert_eq!(turn, turns.len(), "{}", shown(&said));
    said
}

fn is_ready(ours: &File, said: &str) -> bool {
    let mut wait = libc::pollfd { fd: ours.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one record, which is ours to write.
    let ready = unsafe { libc::poll(&raw mut wait, 1, 20_000) };
    assert!(ready > 0, "nothing more is said:\n{}", shown(said));
    true
}

fn view(words: &[&str]) -> (Target, File) {
    let (ours, theirs) = terminal();
    let end = || Stdio::from(theirs.try_clone().expect("a copy"));
    let mut command = command(words);
    command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
    (Target(command.spawn().expect("it starts")), ours)
}

const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";

#[test]
fn the_view_obeys_its_keys_and_gives_the_terminal_back() {
    let (mut target, ours) = view(&["-n", "60s"]);
    let said = talk(
        ours,
        &mut [
            ("quit", &mut |to| to.write_all(b"h").expect("a key")),
            ("Keys and columns", &mut |to| to.write_all(b"x/drom top").expect("keys")),
            ("filter: /", &mut |to| to.write_all(b"\r\r").expect("keys")),
            ("Memory, largest", &mut |to| to.write_all(b"q").expect("a key")),
        ],
    );
    let status = target.0.wait().expect("it ended");
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains(ENTERS), "{said}");
    let rest = said.rsplit_once(LEAVES).expect("it leaves").1;
    assert!(!rest.contains("Load"), "{rest:?}");
}

#[test]
fn a_terminal_that_goes_away_ends_the_view() {
    let (mut target, mut ours) = view(&["-n", "60s"]);
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    while !shown(&said).contains("quit") && is_ready(&ours, &said) {
        let got = ours.read(&mut buffer).expect("it speaks");
        said += &String::from_utf8_lossy(&buffer[..got]);
    }
    drop(ours);
    let ended = || target.0.try_wait().expect("ours").is_some();
    assert!(eventually(Duration::from_secs(10), ended));
}

#[test]
fn a_signal_ends_the_view_and_gives_the_terminal_back() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (mut target, ours) = view(&["-n", "60s"]);
        let pid = target.pid();
        let said = talk(ours, &mut [("quit", &mut |_| kill(pid, signal))]);
        assert_eq!(target.0.wait().expect("it ended").code(), Some(0), "{said}");
        assert!(said.contains(LEAVES), "{said}");
    }
}
