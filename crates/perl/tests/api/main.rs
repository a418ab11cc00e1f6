//! The API that Perl code sees, method by method, against a fake request. Each case runs in a process of
//! its own, since an interpreter is per process. Central noun: [`Case`]. Not a test of the server.

mod cases;
mod counting;
mod fake;
mod leftovers;
mod perl;

use std::{
    io::{Read, Write},
    os::fd::FromRawFd,
};

/// A name and what is to hold; it runs in a fresh process.
pub struct Case {
    pub name: &'static str,
    pub body: fn(),
}

fn main() {
    if !drom_perl::available() {
        println!("api: skipped, drom was built without Perl");
        return;
    }
    let filter = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    let cases: Vec<_> =
        cases::all().into_iter().chain(leftovers::all()).chain(counting::all()).collect();
    let chosen: Vec<_> = cases.iter().filter(|c| c.name.contains(&filter)).collect();
    let failed = chosen.iter().filter(|case| !passes(case)).count();
    println!("api: {} cases, {failed} failed", chosen.len());
    std::process::exit(i32::from(failed > 0));
}

fn passes(case: &Case) -> bool {
    let (text, status) = in_child(case.body);
    let passed = status == 0;
    println!("case {} ... {}", case.name, if passed { "ok" } else { "FAILED" });
    if !passed {
        println!("{text}(wait status {status})");
    }
    passed
}

/// Runs the body in a child; what it says on standard error, and its wait status.
fn in_child(body: fn()) -> (String, i32) {
    std::io::stdout().flush().expect("standard output is open");
    let mut ends = [0; 2];
    // SAFETY: this process has one thread; the child leaves with _exit and never returns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let child = libc::fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            libc::dup2(ends[1], 2);
            libc::alarm(60);
            let result = std::panic::catch_unwind(body);
            libc::_exit(i32::from(result.is_err()));
        }
        libc::close(ends[1]);
        let mut text = Vec::new();
        let read = std::fs::File::from_raw_fd(ends[0]).read_to_end(&mut text);
        read.expect("a pipe can be read");
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        (String::from_utf8_lossy(&text).into_owned(), status)
    }
}
