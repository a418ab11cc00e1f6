//! A copy of a worker: a process that has the worker's memory as it was at one moment, and does
//! nothing. Its name, [`NAME`] and a number, says how many nanoseconds it took to make it: no
//! thread of the worker has stood still for longer.
//!
//! It is no child that a script's `wait` would see (`__WCLONE`), holds no descriptor of the worker,
//! and ends with who has asked for it, or with the worker. All of this runs in a signal handler.

use std::{
    ptr,
    sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed},
};

use drom_observe::clock;

pub const NAME: &str = "copy ";
const PAGE: usize = 4096;
/// What fits behind the name: `comm` has fifteen bytes.
const DIGITS: usize = 10;

static COPY: AtomicI32 = AtomicI32::new(0);

pub fn begin(reader: i32) {
    end();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a page of nobody's, which both processes have until they let go of it; the clone is
    // a fork of this thread without the library's handlers, and the new process calls the kernel
    // only.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), PAGE, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        let took_ns = &*page.cast::<AtomicU64>();
        let began_ns = clock::monotonic_ns();
        const NONE: libc::c_long = 0;
        let pid = libc::syscall(libc::SYS_clone, NONE, NONE, NONE, NONE, NONE) as i32;
        if pid == 0 {
            stand(took_ns, reader);
        }
        took_ns.store((clock::monotonic_ns() - began_ns).max(1), Relaxed);
        libc::munmap(page, PAGE);
        COPY.store(pid.max(0), Relaxed);
    }
}

pub fn end() {
    let pid = COPY.load(Relaxed);
    if pid != 0 {
        // SAFETY: no pointers; nobody has waited for it yet, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        wait(pid, 0);
    }
}

/// One that has ended is waited for.
pub fn lives() -> bool {
    let pid = COPY.load(Relaxed);
    pid != 0 && !wait(pid, libc::WNOHANG)
}

/// Whether it is over.
fn wait(pid: i32, flags: i32) -> bool {
    // SAFETY: its status may be nowhere.
    let ended = unsafe { libc::waitpid(pid, ptr::null_mut(), flags | libc::__WALL) } != 0;
    if ended {
        COPY.store(0, Relaxed);
    }
    ended
}

fn stand(took_ns: &AtomicU64, reader: i32) -> ! {
    // SAFETY: calls of the kernel, with numbers and with locals that outlive them.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let door = libc::syscall(libc::SYS_pidfd_open, reader, 0) as i32;
        if door < 0 {
            libc::_exit(1);
        }
        // A connection that only we had would keep its client waiting.
        if door > 0 {
            libc::syscall(libc::SYS_close_range, 0, door - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, door + 1, u32::MAX, 0);
        while took_ns.load(Relaxed) == 0 {
            libc::sched_yield();
        }
        let name = named(took_ns.load(Relaxed));
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut wait = libc::pollfd { fd: door, events: libc::POLLIN, revents: 0 };
        while libc::poll(&raw mut wait, 1, -1) != 1 {}
        libc::_exit(0)
    }
}

/// With a zero at its end, made without memory.
fn named(took_ns: u64) -> [u8; NAME.len() + DIGITS + 1] {
    let mut name = [0; NAME.len() + DIGITS + 1];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    let mut left = took_ns.min(10u64.pow(DIGITS as u32) - 1);
    for digit in name[NAME.len()..NAME.len() + DIGITS].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_says_how_long_it_took() {
        assert_eq!(&named(1_234_567), b"copy 0001234567\0");
        assert_eq!(&named(u64::MAX), b"copy 9999999999\0");
    }
}
