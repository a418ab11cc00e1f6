//! Ctrl-C as a flag: the first one ends the measurement, the second one the process. A terminal
//! that goes away ends it, too, unless somebody has asked for it to go on (`nohup`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use drom_observe::clock::monotonic_ns;

static STOP: AtomicBool = AtomicBool::new(false);
static FIRST_NS: AtomicU64 = AtomicU64::new(0);
/// Signals that come together are one: `timeout` sends it to the process and to its group.
const ONE_NS: u64 = 300_000_000;

/// From now on the first SIGINT, SIGTERM or SIGHUP sets the flag that is returned.
pub fn watch() -> &'static AtomicBool {
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    for signal in signals.into_iter().filter(|signal| !is_ignored_hangup(*signal)) {
        // SAFETY: the zeroed sigaction is a valid one (empty mask); the handler only stores to
        // atomics, reads the clock and raises a signal, all of which is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    &STOP
}

fn is_ignored_hangup(signal: libc::c_int) -> bool {
    // SAFETY: only asks; the zeroed sigaction is a valid place for the answer.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction
    };
    signal == libc::SIGHUP && action == libc::SIG_IGN
}

extern "C" fn on_signal(signal: libc::c_int) {
    let now_ns = monotonic_ns();
    if !STOP.swap(true, Relaxed) {
        FIRST_NS.store(now_ns, Relaxed);
    } else if now_ns.saturating_sub(FIRST_NS.load(Relaxed)) > ONE_NS {
        // SAFETY: takes numbers; the signal's default action ends the process when it is let in.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}
