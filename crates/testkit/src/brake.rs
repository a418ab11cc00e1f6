//! Busy work inside another thread's loop: a signal whose handler burns CPU time there. It makes a
//! slow client of a good one without a hook in it.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use drom_observe::clock::{monotonic_ns, sleep};

/// How long the handler works; a handler has no other way to be told.
static WORK_NS: AtomicU64 = AtomicU64::new(0);

/// Brakes the threads of a name; it ends when this is dropped.
#[derive(Debug)]
pub struct Brake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Brake {
    /// Each thread of this process with that name works for `work` in each `period`.
    pub fn start(name: &'static str, work: Duration, period: Duration) -> io::Result<Self> {
        WORK_NS.store(work.as_nanos() as u64, Relaxed);
        install()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("drom-brake".to_owned()).spawn(move || {
                while !told.load(Relaxed) {
                    for thread in threads(name) {
                        // SAFETY: no pointers are passed; a thread that has ended is an error.
                        unsafe {
                            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2)
                        };
                    }
                    sleep(period);
                }
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn install() -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`; the handler reads an atomic and the clock only.
    let status = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = work as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut())
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn work(_: libc::c_int) {
    let until_ns = monotonic_ns() + WORK_NS.load(Relaxed);
    while monotonic_ns() < until_ns {
        std::hint::spin_loop();
    }
}

fn threads(name: &str) -> Vec<libc::pid_t> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = tasks.filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}
