//! Asking a worker of a Drom server, another process: to count, and for what it has counted; for a
//! [`Copy`] of itself.

use std::{
    ffi::c_void,
    fs::{self, File},
    io::{self, Read},
    mem,
    os::fd::AsRawFd,
    time::Duration,
};

use drom_observe::clock;
use drom_perl::COUNTS;

use super::{Wish, copy::NAME, signal};
use crate::{sys, worker::HELPER_NAME};

/// So long it may take a worker to hear.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(200);

/// A process with the memory of a worker, which does nothing, until this is dropped.
#[derive(Debug)]
pub struct Copy {
    pub pid: i32,
    /// No thread of the worker has stood still for longer.
    pub pause: Duration,
    worker: i32,
}

impl Copy {
    /// # Errors
    /// That it is no worker that can be asked (`Unsupported`), has ended, is another user's, or has
    /// made none (`TimedOut`).
    pub fn of(worker: i32) -> io::Result<Self> {
        let helper = helper(worker)?.ok_or(io::ErrorKind::Unsupported)?;
        ask(worker, Wish::Copy)?;
        let until_ns = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
        while clock::monotonic_ns() < until_ns {
            let children = fs::read_to_string(format!("/proc/{worker}/task/{helper}/children"))?;
            let pids = children.split_whitespace().filter_map(|word| word.parse().ok());
            if let Some((pid, pause)) = pids.filter_map(named).next() {
                return Ok(Self { pid, pause, worker });
            }
            clock::sleep(LOOK);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A worker that has ended took it along.
        let _ = ask(self.worker, Wish::CopyOver);
    }
}

/// How long it took to make it, where that is known by now.
fn named(pid: i32) -> Option<(i32, Duration)> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let took_ns = name.trim_end().strip_prefix(NAME)?.parse().ok()?;
    Some((pid, Duration::from_nanos(took_ns)))
}

/// # Errors
/// That it is no worker that can be asked (`Unsupported`), has ended, or is another user's.
pub fn ask(pid: i32, wish: Wish) -> io::Result<()> {
    let helper = helper(pid)?.ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: all zeroes are an information; its value is a number that nobody follows.
    unsafe {
        let mut info: Queued = mem::zeroed();
        info.code = libc::SI_QUEUE;
        info.signal = signal();
        info.pid = std::process::id() as i32;
        info.uid = libc::getuid();
        info.value = wish as usize as *mut c_void;
        let place = &raw const info;
        match libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, helper, signal(), place) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// `None`: not yet, or nothing.
///
/// # Errors
/// That it has ended, or is another user's.
pub fn counts(pid: i32) -> io::Result<Option<Vec<u8>>> {
    for path in sys::memory_files(pid, COUNTS)? {
        let mut file = File::open(path)?;
        // SAFETY: no pointers.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals >= 0 && seals & libc::F_SEAL_WRITE != 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// The thread that hears; a signal that nobody handles would end the process.
fn helper(pid: i32) -> io::Result<Option<i32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if caught >> (signal() - 1) & 1 == 0 {
        return Ok(None);
    }
    let name = |tid: i32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
    let is_helper = |tid: &i32| name(*tid).is_ok_and(|name| name.trim_end() == HELPER_NAME);
    Ok(drom_observe::threads(pid).into_iter().find(is_helper))
}

/// The kernel's `siginfo_t` of a queued signal (64 bit): 128 bytes.
#[repr(C)]
struct Queued {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: *mut c_void,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == 128 && size_of::<libc::siginfo_t>() == 128);
