//! Ctrl-C and SIGTERM ask an experiment to end: the block that runs is dropped, the finished ones
//! are kept and printed. Servers are in sessions of their own, so the terminal's signal does not
//! reach them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first signal. A second one changes nothing: ending servers must not be cut short.
pub static STOP: AtomicBool = AtomicBool::new(false);

pub fn on_interrupt() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the zeroed sigaction is a valid one (no flags, empty mask); the handler only
        // stores to an atomic, which is safe at any point.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}
