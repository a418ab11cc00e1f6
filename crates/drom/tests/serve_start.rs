//! What is checked before the server starts, and the processes that it keeps alive: beside Apache's
//! configuration test, and for the spawner of CGI processes.

mod support;

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use support::{Server, eventually, kill};

/// Exit status and words of `drom serve -t` for a configuration.
fn test(text: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("httpd.conf");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_drom"))
        .args(["serve", "-t", "-f"])
        .arg(&file)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_configuration_test_knows_users_groups_and_folders() {
    for (line, says) in [
        ("User nobody-of-this-name", "bad user name nobody-of-this-name"),
        ("Group nobody-of-this-name", "bad group name nobody-of-this-name"),
        ("User #x", "bad user name #x"),
        ("DocumentRoot /no/such/folder", "/no/such/folder is not a directory"),
        ("DocumentRoot /etc/passwd", "/etc/passwd is not a directory"),
        ("ErrorDocument 999 /x", "999 is no status"),
    ] {
        let (status, text) = test(&format!("Listen 127.0.0.1:0\n{line}\n"));
        assert_eq!(status, Some(2), "{line}: {text}");
        assert!(text.contains("httpd.conf:2: ") && text.contains(says), "{line}: {text}");
    }
    for line in ["User #0\nGroup #12345", "User root", "DocumentRoot /etc"] {
        assert_eq!(test(line), (Some(0), "Syntax OK\n".to_owned()), "{line}");
    }
    for line in ["ErrorDocument 401 http://example.com/x", "ErrorDocument 200 /x"] {
        let (status, text) = test(line);
        assert_eq!(status, Some(0), "{line}: {text}");
        assert!(text.contains("httpd.conf:1: ErrorDocument: "), "{line}: {text}");
    }
}

#[test]
fn a_spawner_that_was_killed_is_replaced_under_load() {
    let script = "#!/usr/bin/perl\nprint \"Content-type: text/plain\\n\\nperl\";\n";
    let shell = "#!/bin/sh\necho 'Content-type: text/plain'; echo; echo shell\n";
    let server = Server::start("", &[("cgi-bin/a.pl", script), ("cgi-bin/a.sh", shell)]);
    assert_eq!(server.get("/cgi-bin/a.pl").text(), "perl");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path in ["/cgi-bin/a.pl", "/cgi-bin/a.sh"] {
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    // What was with the dead spawner may fail; everybody gets an answer.
                    assert!([200, 500].contains(&server.get(path).status));
                }
            });
        }
        for _ in 0..3 {
            let spawner = spawner(&server);
            kill(spawner, libc::SIGKILL);
            assert!(server.logged(&format!("CGI spawner, process {spawner}, ended (signal 9)")));
            assert!(eventually(Duration::from_secs(10), || !support::alive(spawner)));
            assert_eq!(answer_of(&server, "/cgi-bin/a.pl"), "perl");
            assert_eq!(answer_of(&server, "/cgi-bin/a.sh"), "shell\n");
        }
        over.store(true, Relaxed);
    });
    for _ in 0..20 {
        assert_eq!(server.get("/cgi-bin/a.pl").text(), "perl");
    }
}

/// The answer of a script that may have been with a dying spawner at first.
fn answer_of(server: &Server, path: &str) -> String {
    let mut text = String::new();
    eventually(Duration::from_secs(10), || {
        let answer = server.get(path);
        text = answer.text();
        answer.status == 200
    });
    text
}

/// The child of the master that is not the template: the first one it started.
fn spawner(server: &Server) -> i32 {
    let mut found = 0;
    eventually(Duration::from_secs(10), || {
        found = direct_children(server.pid()).into_iter().find(|&p| !has_workers(p)).unwrap_or(0);
        found != 0
    });
    found
}

fn direct_children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|w| w.parse().ok()).collect()
}

/// Workers listen; so only their parent, the template, has children with the listening socket.
fn has_workers(pid: i32) -> bool {
    direct_children(pid).iter().any(|&child| {
        let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{child}/task")).map_or(0, Iterator::count);
        !name.is_empty() && threads > 1
    })
}

#[test]
fn cgi_scripts_find_the_default_signals() {
    let perl = "#!/usr/bin/perl\nprint \"Content-type: text/plain\\n\\n\", \
        map { \"$_=\" . ($SIG{$_} // 'default') . \"\\n\" } qw(HUP INT TERM CHLD USR1);\n";
    let shell = "#!/bin/sh\necho 'Content-type: text/plain'; echo\n\
        grep -E '^Sig(Ign|Blk)' /proc/self/status\n";
    let server = Server::start("", &[("cgi-bin/s.pl", perl), ("cgi-bin/s.sh", shell)]);
    for _ in 0..2 {
        let text = server.get("/cgi-bin/s.pl").text();
        assert_eq!(text, "HUP=default\nINT=default\nTERM=default\nCHLD=default\nUSR1=default\n");
    }
    let text = server.get("/cgi-bin/s.sh").text();
    for line in text.lines() {
        let mask = line.split_whitespace().last().and_then(|m| u64::from_str_radix(m, 16).ok());
        // From 32 on they are the C library's own.
        assert_eq!(mask.map(|m| m & 0x7fff_ffff), Some(0), "{text}");
    }
}
