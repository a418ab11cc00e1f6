//! A thread that keeps a core from going to sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

/// Work that everybody else goes before, until this is dropped: a virtual CPU that halts is woken
/// by its host, some 50 us later, which would be compared with the client's clock.
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    #[must_use]
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // SAFETY: all zeroes is a valid `sched_param`, which this policy ignores but for that.
            let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
            // SAFETY: the parameter lives through the call; 0 is the calling thread.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
            while !told.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
