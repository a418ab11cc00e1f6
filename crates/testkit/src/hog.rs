//! A thread that takes CPU time away from others on its core.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use drom_observe::{
    clock::{monotonic_ns, sleep},
    pin_current_thread,
};

/// Work and rest alternate in this rhythm.
const PERIOD: Duration = Duration::from_millis(10);

/// A running hog; it ends when this is dropped.
#[derive(Debug)]
pub struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Works on `core` for a share of the time.
    pub fn start(core: usize, share: f64) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("drom-hog".to_owned()).spawn(move || {
            pin_current_thread(&[core]).expect("the core may be used");
            while !told.load(Relaxed) {
                work(PERIOD.mul_f64(share.min(1.0)));
                sleep(PERIOD.mul_f64((1.0 - share).max(0.0)));
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(time: Duration) {
    let until_ns = monotonic_ns() + time.as_nanos() as u64;
    while monotonic_ns() < until_ns {
        std::hint::spin_loop();
    }
}
