//! One server process and everything below it: started in a session of its own on a free loopback
//! port, polled until it answers, stopped for sure. Dropping it ends it: SIGTERM, then SIGKILL for
//! all that it started, also while a panic unwinds. Should the parent itself be killed, the kernel
//! sends SIGTERM.

use std::{
    fs::{self, File},
    io,
    net::{SocketAddr, TcpListener},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use drom_observe::{Process, clock, pin_current_thread};

use super::{http, keeper::Kept, loopback, scratch::Scratch};
use crate::{
    answers::beginning,
    plan::{Launch, Request},
    world::NotReady,
};

/// A running server.
pub struct Server {
    kept: Kept,
    address: SocketAddr,
    scratch: Scratch,
}

/// How long a server may take to end in order before it is killed.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long what is left of an ended server may take: by itself, and once it was asked to.
const GOING: Duration = Duration::from_millis(300);
const LEFT_BEHIND: Duration = Duration::from_secs(1);
const POLL_EVERY: Duration = Duration::from_millis(5);
/// A server that takes a connection and says nothing must not hold up Ctrl-C.
const ASK_AT_MOST: Duration = Duration::from_secs(2);

impl Server {
    /// Returns when it answers its readiness URL with less than 500.
    pub fn start(launch: &Launch, cores: &[usize], stop: &AtomicBool) -> Result<Self, NotReady> {
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let scratch = Scratch::new().map_err(|e| format!("no scratch folder: {e}"))?;
        let kept = spawn(launch, port, scratch.path(), cores)?;
        let mut server = Self { kept, address: loopback(port), scratch };
        server.wait_until_ready(launch, stop)?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A body with words in place of this start's port and folder.
    pub fn without_its_own(&self, body: &[u8]) -> Vec<u8> {
        let folder = self.scratch.path().as_os_str().as_bytes();
        let body = replaced(body, folder, b"{dir}", |_| true);
        let port = self.address.port().to_string();
        // Part of a longer number is no port.
        let alone = |byte: Option<&u8>| !byte.is_some_and(u8::is_ascii_digit);
        replaced(&body, port.as_bytes(), b"{port}", |around| around.iter().all(|b| alone(*b)))
    }

    pub fn ask_to_stop(&mut self) {
        self.kept.signal_root(libc::SIGTERM);
    }

    fn wait_until_ready(&mut self, launch: &Launch, stop: &AtomicBool) -> Result<(), NotReady> {
        let begin_ns = clock::monotonic_ns();
        let request = Request {
            method: "GET".to_owned(),
            path: launch.ready_path.clone(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let (mut last, mut answered) = ("nothing listens".to_owned(), None);
        while clock::monotonic_ns() - begin_ns < launch.ready_within.as_nanos() as u64 {
            if stop.load(Ordering::Relaxed) {
                return Err("stopped by Ctrl-C".to_owned().into());
            }
            if let Some(status) = self.kept.ended() {
                return Err(format!("it ended at once with {status}{}", self.last_words()).into());
            }
            let left_ns = (launch.ready_within.as_nanos() as u64)
                .saturating_sub(clock::monotonic_ns() - begin_ns);
            let patience = Duration::from_nanos(left_ns).clamp(POLL_EVERY, ASK_AT_MOST);
            match http::ask(self.address, &request, patience) {
                Ok(reply) if reply.status < 500 => return Ok(()),
                Ok(reply) => {
                    last = format!("status {}: {}", reply.status, beginning(&reply.body));
                    answered = Some(reply.status);
                }
                Err(reason) => (last, answered) = (reason, None),
            }
            clock::sleep(POLL_EVERY);
        }
        let within = launch.ready_within.as_secs_f64();
        let words = self.last_words();
        let reason = match answered {
            Some(_) => format!("{last}, still after {within} s{words}"),
            None => format!("not ready within {within} s ({last}){words}"),
        };
        Err(NotReady { reason, status: answered })
    }

    /// How the process that was started ended, if it did: better than "connection refused".
    pub fn ended(&mut self) -> Option<String> {
        let status = self.kept.ended()?;
        Some(format!("its server ended with {status}{}", self.last_words()))
    }

    /// The end of what it wrote, which mostly says why.
    fn last_words(&self) -> String {
        let text = fs::read(self.scratch.path().join("output")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return "; it wrote nothing".to_owned();
        }
        let short = |line: &&str| line.trim_end().chars().take(200).collect::<String>();
        let lines: Vec<String> = lines[lines.len().saturating_sub(8)..].iter().map(short).collect();
        format!("; it wrote:\n  {}", lines.join("\n  "))
    }

    /// In order, then with a word to what was left behind, then for sure.
    fn stop(&mut self) {
        self.ask_to_stop();
        self.wait(PATIENCE, |kept| kept.ended().is_some());
        // Workers of a server that has ended mostly are about to.
        self.wait(GOING, Kept::is_over);
        self.kept.signal_all(libc::SIGTERM);
        self.wait(LEFT_BEHIND, Kept::is_over);
        let killed = |kept: &mut Kept| {
            kept.signal_all(libc::SIGKILL);
            kept.is_over()
        };
        self.wait(PATIENCE, killed);
    }

    fn wait(&mut self, at_most: Duration, mut until: impl FnMut(&mut Kept) -> bool) {
        let begin_ns = clock::monotonic_ns();
        while !until(&mut self.kept) {
            if clock::monotonic_ns() - begin_ns >= at_most.as_nanos() as u64 {
                return;
            }
            clock::sleep(POLL_EVERY);
        }
    }

    /// All that it started, whatever session or parent that has now, and itself.
    pub fn processes(&self) -> Vec<Process> {
        self.kept.processes()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(launch: &Launch, port: u16, scratch: &Path, cores: &[usize]) -> Result<Kept, String> {
    let fill = |text: &str| {
        text.replace("{port}", &port.to_string()).replace("{dir}", &scratch.display().to_string())
    };
    let argv: Vec<String> = launch.argv.iter().map(|word| fill(word)).collect();
    let output = File::create(scratch.join("output")).map_err(|e| e.to_string())?;
    let errors = output.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(output).stderr(errors);
    command.envs(launch.env.iter().map(|(key, value)| (key, fill(value))));
    let cores = cores.to_vec();
    let pin = move || {
        // Where pinning is refused the server runs on all cores, as the record says.
        let _ = pin_current_thread(&cores);
        Ok(())
    };
    // SAFETY: between fork and exec one call that is safe there, sched_setaffinity.
    unsafe { command.pre_exec(pin) };
    let words = |e: io::Error| format!("cannot run `{}`: {e}", argv[0]);
    Kept::spawn(&mut command).map_err(words)
}

/// `what` becomes `word` wherever the bytes before and behind it are right.
fn replaced(
    text: &[u8],
    what: &[u8],
    word: &[u8],
    is_right: impl Fn([Option<&u8>; 2]) -> bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        if text[at..].starts_with(what) && is_right([before, text.get(at + what.len())]) {
            out.extend_from_slice(word);
            at += what.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

/// Free now; nobody else on this machine is likely to take it in the next milliseconds.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(loopback(0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_server_is_started_answers_and_leaves_no_process() {
        let server = Server::start(&perl_server("200 OK"), &[], &AtomicBool::new(false));
        let server = server.expect("perl answers");
        let (found, scratch) = (pids(&server), server.scratch.path().to_owned());
        assert!(found.len() >= 2, "the shell and perl");
        drop(server);
        assert!(found.iter().all(|pid| is_gone(*pid)));
        assert!(!scratch.exists());
    }

    #[test]
    fn a_port_is_a_whole_number() {
        let alone = |around: [Option<&u8>; 2]| {
            around.iter().all(|byte| !byte.is_some_and(u8::is_ascii_digit))
        };
        let text = replaced(b"81 :8181 818 81", b"81", b"P", alone);
        assert_eq!(text, b"P :8181 818 P");
    }

    #[test]
    fn a_panic_ends_the_server_too() {
        let (send, receive) = std::sync::mpsc::channel();
        let panicked = std::thread::spawn(move || {
            let server = Server::start(&perl_server("200 OK"), &[], &AtomicBool::new(false));
            let server = server.expect("perl answers");
            send.send(pids(&server)).expect("the test listens");
            panic!("planted");
        });
        assert!(panicked.join().is_err());
        assert!(receive.recv().expect("pids").iter().all(|pid| is_gone(*pid)));
    }

    #[test]
    fn what_it_wrote_says_why_it_did_not_start() {
        let argv = ["sh", "-c", "echo no such module >&2; exit 3"].map(str::to_owned).to_vec();
        let failed = Server::start(&launch(argv), &[], &AtomicBool::new(false));
        let reason = failed.err().expect("it ended").reason;
        assert!(reason.contains("no such module") && reason.contains('3'), "{reason}");
        let nothing = launch(vec!["/no/such/program".to_owned()]);
        let failed = Server::start(&nothing, &[], &AtomicBool::new(false));
        assert!(failed.err().expect("missing").reason.contains("/no/such/program"));
    }

    #[test]
    fn what_left_its_session_and_its_parent_ends_with_it_and_counts() {
        let mut launch = perl_server("200 OK");
        // A daemon without session, parent and environment of the server, busy, deaf to SIGTERM.
        let busy = "$SIG{TERM} = q(IGNORE); 1 while 1";
        let leave = format!("setsid env -i perl -e '{busy}' & ");
        launch.argv[2].insert_str(0, &format!("({leave}) ; "));
        let other = Command::new("sleep").arg("30").spawn().expect("starts");
        let server = Server::start(&launch, &[], &AtomicBool::new(false)).expect("answers");
        let cpu_s = || server.processes().iter().map(|process| process.cpu_s).sum::<f64>();
        let begin_ns = clock::monotonic_ns();
        while cpu_s() < 0.2 && clock::monotonic_ns() - begin_ns < 20_000_000_000 {
            clock::sleep(POLL_EVERY);
        }
        assert!(cpu_s() >= 0.2, "{:?}", server.processes());
        let found = pids(&server);
        drop(server);
        assert!(found.iter().all(|pid| is_gone(*pid)), "{found:?}");
        assert!(!is_gone(other.id() as i32), "no server's");
        let mut other = other;
        other.kill().and_then(|()| other.wait()).expect("ends");
    }

    #[test]
    fn the_end_of_a_server_is_told_though_others_live_on() {
        let argv = ["sh", "-c", "setsid sleep 77 & kill -9 $$"].map(str::to_owned).to_vec();
        let failed = Server::start(&launch(argv), &[], &AtomicBool::new(false));
        let reason = failed.err().expect("it ended").reason;
        assert!(reason.contains("signal: 9"), "{reason}");
    }

    fn pids(server: &Server) -> Vec<i32> {
        server.processes().iter().map(|process| process.pid).collect()
    }

    fn is_gone(pid: i32) -> bool {
        // A zombie of the test's own child would not be gone, and is none of these.
        drom_observe::memory(pid).is_none()
    }

    fn launch(argv: Vec<String>) -> Launch {
        let ready_within = Duration::from_secs(10);
        Launch { argv, env: BTreeMap::new(), ready_path: "/".to_owned(), ready_within }
    }

    /// Ignores SIGTERM in the shell, so that only the sweep over the tree ends it.
    fn perl_server(status: &str) -> Launch {
        let script = format!(
            "use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalAddr => \
                '127.0.0.1:{{port}}', \
             Listen => 5, ReuseAddr => 1) or die; while (my $c = $l->accept) {{ <$c>; print $c \
             \"HTTP/1.1 {status}\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok\"; \
             close $c }}"
        );
        let shell = format!("perl -e '{}' & wait", script.replace('\'', "'\\''"));
        launch(["sh", "-c", &shell].map(str::to_owned).to_vec())
    }
}
