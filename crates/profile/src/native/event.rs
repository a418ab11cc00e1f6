//! One thread's clock of CPU time, which interrupts it each so many nanoseconds and has the kernel
//! write down where it was: `perf_event_open(2)`. An [`Event`] is the clock and its ring.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use super::record::SAMPLE_TYPE;

/// What is written down, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub period_ns: u64,
    /// Also while the kernel works for the thread.
    pub with_kernel: bool,
    /// All frames that frame pointers lead to.
    pub with_callers: bool,
}

pub struct Event {
    // Behind the ring: it is unmapped first.
    ring: Ring,
    _clock: OwnedFd,
}

/// As far as it is needed of the kernel's `struct perf_event_attr`, version 5.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Also what code is mapped meanwhile.
const WITH_MAPPED: u64 = 1 << 8;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const FLAG_CLOEXEC: libc::c_ulong = 8;
/// Where the innermost frame is all that is asked for; the next one comes with it in some kernels.
const LEAF_STACK: u16 = 2;

impl Event {
    /// Of a thread; its clock runs from now on.
    ///
    /// # Errors
    /// That there is no such thread, or it may not be watched.
    pub fn open(tid: i32, setting: Setting) -> io::Result<Self> {
        let mut attributes = attributes(setting);
        let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
        // SAFETY: the attributes are a whole struct of the size that it says; the kernel reads it
        // and, where it knows another size alone, writes that into it. All else is numbers.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw mut attributes,
                tid,
                any_cpu,
                no_group,
                FLAG_CLOEXEC,
            )
        };
        let fd =
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: a descriptor that the kernel has just made, and nobody else has.
        let clock = unsafe { OwnedFd::from_raw_fd(fd) };
        let pages = if setting.with_callers { PAGES_CALLERS } else { PAGES };
        Ok(Self { ring: Ring::of(&clock, pages)?, _clock: clock })
    }

    /// Appends what has been written down since the last time.
    pub fn read(&mut self, into: &mut Vec<u8>) {
        self.ring.read(into);
    }
}

fn attributes(setting: Setting) -> Attributes {
    let Setting { period_ns, with_kernel, with_callers } = setting;
    let mut flags = EXCLUDE_HYPERVISOR | WITH_MAPPED;
    if !with_kernel {
        flags |= EXCLUDE_KERNEL;
    }
    if !with_callers {
        flags |= EXCLUDE_CALLCHAIN_KERNEL;
    }
    Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: CPU_CLOCK,
        sample_period: period_ns,
        sample_type: SAMPLE_TYPE,
        flags,
        // 0: as many as the kernel's own limit.
        sample_max_stack: if with_callers { 0 } else { LEAF_STACK },
        ..Attributes::default()
    }
}

/// Shared with the kernel, which writes records behind `head` and never over what lies between
/// `tail` and that.
struct Ring {
    start: *mut u8,
    page: usize,
    /// Of records, a power of two.
    pages: usize,
}

/// Some 200 records, and as many with all that frame pointers lead to. The kernel lets those who
/// are not root have only so much of it.
const PAGES: usize = 4;
const PAGES_CALLERS: usize = 16;
/// In the first page, of which the rest of the ring begins behind.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

impl Ring {
    fn of(clock: &OwnedFd, pages: usize) -> io::Result<Self> {
        // SAFETY: only asks.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let (length, access) = ((1 + pages) * page, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of the event's own pages, at a place that the kernel chooses.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            libc::mmap(nowhere, length, access, libc::MAP_SHARED, clock.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), page, pages })
    }

    fn place(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of the two places above, inside the first page of the mapping, which
        // lives as long as the ring, and on a multiple of eight; both sides use it atomically.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) }
    }

    fn read(&mut self, into: &mut Vec<u8>) {
        let size = self.pages * self.page;
        // The records lie there before the head says so, and are read before the tail lets go.
        let head = self.place(HEAD_AT).load(Ordering::Acquire);
        let tail = self.place(TAIL_AT).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(size);
        let from = (tail % size as u64) as usize;
        let first = length.min(size - from);
        for (from, length) in [(from, first), (0, length - first)] {
            // SAFETY: inside the mapping behind its first page; the kernel writes nothing there
            // until the tail has passed it.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.start.add(self.page + from), length)
            });
        }
        self.place(TAIL_AT).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `of` made, of the same length; nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), (1 + self.pages) * self.page) };
    }
}

/// What the kernel lets those do who are not root.
pub fn paranoid() -> Option<i32> {
    let file = File::open("/proc/sys/kernel/perf_event_paranoid").ok()?;
    io::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::record::{Record, records};

    /// Takes the right to, which root has and others may not have.
    #[test]
    fn a_thread_at_work_is_sampled() {
        let setting = Setting { period_ns: 100_000, with_kernel: false, with_callers: false };
        // SAFETY: only asks.
        let tid = unsafe { libc::gettid() };
        let Ok(mut event) = Event::open(tid, setting) else { return };
        let (mut bytes, mut sum) = (Vec::new(), 0_u64);
        let mut samples = 0;
        // More than the ring holds at once, so that it comes round.
        while samples < 3_000 {
            for _ in 0..100_000 {
                sum = std::hint::black_box(sum + 1);
            }
            event.read(&mut bytes);
            for record in records(&bytes) {
                // Other tests map code in this process.
                let Record::Sample(sample) = record else { continue };
                assert_eq!((sample.tid, sample.kernel.len()), (tid, 0));
                samples += usize::from(!sample.user.is_empty());
            }
            bytes.clear();
        }
        let none = Event::open(i32::MAX, setting).err().and_then(|error| error.raw_os_error());
        assert_eq!(none, Some(libc::ESRCH));
    }
}
