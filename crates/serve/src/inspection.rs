//! What a worker does for another process that looks into it ([`ask`]): counts calls and statements
//! for a while (the counter is drom-perl's), or makes a [`copy`] of itself to be read in peace.
//!
//! It is asked by a signal to the helper thread, so that nothing that Perl waits for ends early.
//! Whoever counts ends by itself when nobody has asked for [`LEASE`], and a copy ends with who has
//! asked for it: a profiler that was killed leaves nothing behind.

pub mod ask;
mod copy;

use std::{
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::clock;
use drom_perl::{Counting, Interpreter};

use crate::crisis;

/// Who wants counting to go on asks again before it is over.
pub const LEASE: Duration = Duration::from_secs(3);
/// Seconds between looks whether something is over.
const LOOK_S: i64 = 1;

/// What may be asked; the number is the signal's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Wish {
    /// Renews it, too.
    CountOn = 1,
    /// The counts are kept until they are forgotten or the lease is over.
    CountOff = 2,
    CountOver = 3,
    Copy = 4,
    CopyOver = 5,
}

impl Wish {
    fn of(value: usize) -> Option<Self> {
        let all = [Self::CountOn, Self::CountOff, Self::CountOver, Self::Copy, Self::CopyOver];
        all.into_iter().find(|wish| *wish as usize == value)
    }
}

/// By which the helper is asked.
fn signal() -> i32 {
    libc::SIGRTMIN() + 5
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// When the lease of who counts is over; 0: nobody does.
static COUNTS_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// The kernel's number of the timer that looks; -1: there is none.
static TIMER: AtomicI32 = AtomicI32::new(-1);

/// In a worker with Perl, once.
pub fn install(perl: &Interpreter) {
    COUNT.store(perl.count_function() as usize, Relaxed);
    // SAFETY: sigaction is plain data; the function has the type of a handler with its information.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = asked as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal(), &raw const action, ptr::null_mut());
    }
}

/// The helper hears all that is asked, and no other signal.
pub fn listen() {
    // SAFETY: the set is a local; it changes the mask of this thread alone.
    unsafe {
        let mut own = mem::zeroed();
        libc::sigemptyset(&raw mut own);
        libc::sigaddset(&raw mut own, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, ptr::null_mut());
    }
}

/// Between two requests: does what was asked of the counter.
pub fn settle(perl: &Interpreter) {
    if IS_ASKED.load(Relaxed) && IS_ASKED.swap(false, Relaxed) {
        perl.settle_counting();
    }
}

/// Everything in here is async-signal-safe.
extern "C" fn asked(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives the information to a handler that was installed for it, and a queued
    // signal has a sender and a value.
    let (code, sender, value) =
        unsafe { ((*info).si_code, (*info).si_pid(), (*info).si_value().sival_ptr as usize) };
    let wish = Wish::of(value).filter(|_| code == libc::SI_QUEUE);
    match wish {
        Some(Wish::CountOn) => count(Counting::On),
        Some(Wish::CountOff) => count(Counting::Off),
        Some(Wish::CountOver) => count(Counting::Forget),
        Some(Wish::Copy) => copy::begin(sender),
        Some(Wish::CopyOver) => copy::end(),
        None => {}
    }
    let until_ns = COUNTS_UNTIL_NS.load(Relaxed);
    if until_ns != 0 && clock::monotonic_ns() > until_ns {
        count(Counting::Forget);
    }
    let has_copy = copy::lives();
    look_later(has_copy || COUNTS_UNTIL_NS.load(Relaxed) != 0);
}

fn count(what: Counting) {
    let until_ns = clock::monotonic_ns() + LEASE.as_nanos() as u64;
    COUNTS_UNTIL_NS.store(if what == Counting::Forget { 0 } else { until_ns }, Relaxed);
    let function = COUNT.load(Relaxed);
    if function != 0 {
        // SAFETY: the shim's function for exactly this place.
        let count: unsafe extern "C" fn(i32) = unsafe { mem::transmute(function) };
        // SAFETY: as above.
        unsafe { count(what as i32) };
    }
    IS_ASKED.store(true, Relaxed);
    crisis::wake();
}

/// Once, or never. By the kernel's own calls: those of the library take memory.
fn look_later(is_needed: bool) {
    let timer = match TIMER.load(Relaxed) {
        -1 if is_needed => new_timer(),
        timer => timer,
    };
    if timer < 0 {
        return;
    }
    TIMER.store(if is_needed { timer } else { -1 }, Relaxed);
    // SAFETY: all zeroes are a time; the structure is a local.
    unsafe {
        let mut times: libc::itimerspec = mem::zeroed();
        times.it_value.tv_sec = LOOK_S;
        let old = ptr::null_mut::<libc::itimerspec>();
        match is_needed {
            true => libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const times, old),
            false => libc::syscall(libc::SYS_timer_delete, timer),
        };
    }
}

/// It tells the thread that was asked.
fn new_timer() -> i32 {
    let mut timer = -1;
    // SAFETY: all zeroes are an event; both structures are locals.
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
        let (event, into) = (&raw const event, &raw mut timer);
        libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, event, into);
    }
    timer
}
