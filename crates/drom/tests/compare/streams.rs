//! Standard streams that take nothing: a full disk behind them, or a reader that went away. No verb
//! panics, the exit status stays what it is, and no measurement is lost.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use crate::answering;

const PANIC: Option<i32> = Some(101);

fn drom(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux has it").into()
}

/// A pipe that nobody reads any more.
fn closed() -> Stdio {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are then owned here alone.
    let write_end = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::close(ends[0]);
        std::os::fd::FromRawFd::from_raw_fd(ends[1])
    };
    let write_end: std::os::fd::OwnedFd = write_end;
    write_end.into()
}

#[test]
fn every_verb_ends_with_its_own_status_when_nobody_hears_it() {
    let folder = tempfile::tempdir().expect("scratch");
    let root = folder.path().display().to_string();
    let cases: [(&[&str], i32); 5] = [
        (&["load", "http://127.0.0.1:1/", "-n", "1"], 1),
        (&["load", "ftp://x/"], 2),
        (&["report", "nosuch", "--root", &root], 1),
        (&["compare", "/nosuch/plan.toml"], 2),
        (&["serve", "-f", "/nosuch.conf"], 2),
    ];
    for (args, status) in cases {
        for stderr in [full(), closed()] {
            let ended = drom(args).stderr(stderr).status().expect("runs");
            assert_eq!(ended.code(), Some(status), "{args:?}");
        }
    }
}

#[test]
fn a_result_that_nobody_can_get_is_a_failure() {
    let folder = tempfile::tempdir().expect("scratch");
    let root = folder.path().display().to_string();
    let plan = answering::plan(folder.path(), 6);
    let cases: [&[&str]; 6] = [
        &["report", "--root", &root],
        &["compare", "--preview", &plan],
        &["load", "--help"],
        &["help", "load"],
        &["--version"],
        &["--help"],
    ];
    for args in cases {
        let said = drom(args).stdout(full()).status().expect("runs");
        assert_eq!(said.code(), Some(1), "{args:?} to a full disk");
        let shell = "exec \"$0\" \"$@\" >&-";
        let mut closed = Command::new("sh");
        closed.args(["-c", shell, env!("CARGO_BIN_EXE_drom")]).args(args);
        let ended = closed.output().expect("runs");
        let news = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{args:?} to a closed descriptor: {news}");
        assert!(news.contains("standard output"), "{news}");
    }
}

#[test]
fn a_server_serves_though_its_first_line_cannot_be_written() {
    let folder = tempfile::tempdir().expect("scratch");
    fs::write(folder.path().join("a.txt"), "here").expect("written");
    for stdout in [full(), closed()] {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let (site, listen) = (folder.path().display().to_string(), free.to_string());
        let mut server = drom(&["serve", &site, "--listen", &listen]);
        let mut server = server.stdout(stdout).stderr(Stdio::null()).spawn().expect("starts");
        let answer = (0..400).find_map(|_| {
            let Ok(mut stream) = TcpStream::connect(free) else {
                drom_observe::clock::sleep(Duration::from_millis(25));
                return None;
            };
            stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok().map(|_| answer)
        });
        // SAFETY: a signal to the process that this test started.
        unsafe { libc::kill(server.id() as i32, libc::SIGTERM) };
        let ended = server.wait().expect("ends");
        assert!(answer.expect("it answers").ends_with("here"));
        assert_ne!(ended.code(), PANIC);
    }
}

#[test]
fn a_run_is_kept_though_nobody_reads_its_news() {
    let folder = tempfile::tempdir().expect("scratch");
    let plan = answering::plan(folder.path(), 6);
    let out = folder.path().join("run");
    let args = ["compare", &plan, "--out", &out.display().to_string()];
    let ended = drom(&args).stderr(closed()).status().expect("runs");
    // The A/A pair may differ on a busy machine.
    assert!(matches!(ended.code(), Some(0 | 6)), "{ended}");
    assert!(out.join("end.json").exists() && out.join("report.html").exists());
}
