//! Which cores a thread may run on.

use std::{fs::File, io, mem, os::unix::fs::FileExt};

/// The cores that the calling thread may use, ascending.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    // SAFETY: cpu_set_t is a plain bit array, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is ours and has the size that is passed; 0 means the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) } != 0;
    if failed {
        return vec![0];
    }
    // SAFETY: the index stays below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// How many cores this process can keep busy. Looked up once: the answer comes from half a dozen
/// files.
#[must_use]
pub fn core_count() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Cores that nobody but the calling thread wants at this moment; 0 where that cannot be read.
#[must_use]
pub fn free_cores() -> usize {
    // Asked a thousand times a second by each busy worker: the file stays open.
    static LOADAVG: std::sync::OnceLock<Option<File>> = std::sync::OnceLock::new();
    let file = LOADAVG.get_or_init(|| File::open("/proc/loadavg").ok());
    let mut text = [0; 64];
    let read = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
    let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
    runnable(text).map_or(0, |running| core_count().saturating_sub(running.saturating_sub(1)))
}

/// The fourth field, "running/all" (proc_loadavg(5)).
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// Keeps the calling thread, and what it starts from now on, on `cores`. Makes no allocation: safe
/// between fork and exec.
pub fn pin_current_thread(cores: &[usize]) -> io::Result<()> {
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &core in cores.iter().filter(|&&core| core < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is ours and has the size that is passed; 0 means the calling thread.
    match unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runnable_are_before_the_slash() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable("0.20 0.18"), None);
        assert_eq!(runnable(""), None);
    }

    #[test]
    fn a_pinned_thread_is_on_that_core_alone() {
        let core = allowed_cores()[0];
        let seen = std::thread::spawn(move || {
            pin_current_thread(&[core]).expect("a core that we may use");
            allowed_cores()
        });
        assert_eq!(seen.join().expect("no panic"), vec![core]);
    }
}
