//! Ctrl-C as a flag: the first one ends the measurement, the second one the process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on the first SIGINT or SIGTERM sets the flag that is returned.
pub fn watch() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the zeroed sigaction is a valid one (empty mask); the handler only stores to an
        // atomic, which is async-signal-safe; SA_RESETHAND gives the second signal its default
        // action.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    &STOP
}

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Relaxed);
}
