//! `drom profile --live`: the busiest subs on a terminal, again each second, and then the result.

use std::{
    fs::File,
    io::Read,
    os::fd::{FromRawFd, OwnedFd},
    process::Stdio,
};

use crate::profiled::{Target, command, drom, perl, said};

const BUSY: &str = "sub busy { 1 for 1 .. 1000 } print qq(ready\\n); busy() while 1";

/// Both sides of a terminal of 24 rows and 80 columns.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let (none, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the places for both numbers and the size are there; nothing else is asked for.
    let made =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, modes, &raw const size) };
    assert_eq!(made, 0);
    // SAFETY: both were just opened, and are nobody else's.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

#[test]
fn what_runs_is_drawn_over_itself_until_ctrl_c_and_then_told() {
    let (target, _out) = perl(BUSY);
    let (mut ours, theirs) = terminal();
    let mut live = command(&["--live", "--pid", &target.text()]);
    let child = live.stdout(Stdio::piped()).stderr(theirs).spawn().expect("it starts");
    // The command has the terminal as well.
    drop(live);
    let profiler = Target(child);
    let (mut shown, mut some) = (String::new(), [0; 4_096]);
    let drawn = |shown: &str| shown.matches("samples in the last second").count();
    while drawn(&shown) < 2 {
        let length = ours.read(&mut some).expect("it draws");
        shown += &said(&some[..length]);
    }
    assert!(shown.contains("%Now %Time ExclSec  CumulS  Name"), "{shown:?}");
    assert!(shown.contains("  main::busy"), "{shown:?}");
    assert!(shown.contains("\u{1b}[4A") || shown.contains("\u{1b}[3A"), "over itself: {shown:?}");
    profiler.signal(libc::SIGINT);
    let mut profiler = profiler;
    let mut result = String::new();
    profiler.0.stdout.take().expect("a pipe").read_to_string(&mut result).expect("text");
    assert_eq!(profiler.0.wait().expect("ours").code(), Some(130));
    let first = result.lines().nth(2).unwrap_or_default();
    assert!(first.ends_with("  main::busy"), "{result}");
}

#[test]
fn it_is_for_a_terminal_and_a_process() {
    let (target, _out) = perl(BUSY);
    let refused = drom(&["--live", "--pid", &target.text()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(said(&refused.stderr).contains("--live is for a terminal"), "{refused:?}");
    assert_eq!(drom(&["--live", "x.pl"]).status.code(), Some(2));
}
