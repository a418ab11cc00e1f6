//! Signals in a worker: being told to drain, stopping a request that runs too long, and dying well.
//!
//! A fatal signal (a fault in XS, `CORE::dump`, kill -SEGV) leaves the main thread where it is. Its
//! handler answers the client of the running request, writes down where Perl was, tells the master,
//! and lets the helper save the other connections. Everything here is async-signal-safe.

use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use crate::{
    scoreboard::{Sent, Slot, State},
    site::Site,
    sys,
};

const FATAL: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS];

static SLOT: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
static SOCKET: AtomicI32 = AtomicI32::new(-1);
static BEGAN: AtomicBool = AtomicBool::new(false);
static DRAIN: AtomicBool = AtomicBool::new(false);
static AT_REST: AtomicBool = AtomicBool::new(false);
static INTERRUPT: AtomicUsize = AtomicUsize::new(0);
static POSITION: AtomicUsize = AtomicUsize::new(0);
static ON_CRISIS: AtomicUsize = AtomicUsize::new(0);
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);
static KICK: AtomicI32 = AtomicI32::new(-1);
static ALARM: AtomicI32 = AtomicI32::new(-1);
/// The worker itself, not what Perl forked from it.
static OWN_PID: AtomicI32 = AtomicI32::new(0);
static GAVE_UP: AtomicBool = AtomicBool::new(false);
/// What this process dies of, 0 while it does not.
static DIES_OF: AtomicI32 = AtomicI32::new(0);
static SERVER_ENDS: AtomicBool = AtomicBool::new(false);
/// The helper's steps while it saves what can be saved.
static BEATS: AtomicUsize = AtomicUsize::new(0);
/// A helper that makes no step for so long never will.
const BEAT_MS: i32 = 2000;

type PerlFunctions = (unsafe extern "C" fn(), unsafe extern "C" fn(*mut u8, usize) -> usize);

/// Installs the handlers for this worker.
pub fn install(
    slot: &'static Slot,
    _site: &Site,
    perl: Option<PerlFunctions>,
    on_crisis: fn(bool),
) {
    SLOT.store(ptr::from_ref(slot).cast_mut(), Relaxed);
    ON_CRISIS.store(on_crisis as usize, Relaxed);
    // SAFETY: names this thread.
    MAIN_THREAD.store(unsafe { libc::pthread_self() } as u64, Relaxed);
    if let Some((interrupt, position)) = perl {
        INTERRUPT.store(interrupt as usize, Relaxed);
        POSITION.store(position as usize, Relaxed);
    }
    alternate_stack();
    for signal in FATAL {
        handle(signal, fatal as *const () as usize, libc::SA_ONSTACK | libc::SA_NODEFER);
    }
    handle(give_up_signal(), fatal as *const () as usize, libc::SA_ONSTACK | libc::SA_NODEFER);
    handle(interrupt_signal(), interrupt as *const () as usize, 0);
    handle(libc::SIGUSR2, drain as *const () as usize, 0);
    // A terminal's signals and those for a reload are the master's business. By a handler, because
    // programs that Perl starts would inherit that they are ignored.
    for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
        handle(signal, not_ours as *const () as usize, libc::SA_RESTART);
    }
    sys::set_signal(libc::SIGPIPE, true);
    sys::set_signal(libc::SIGXFSZ, true); // too large a file is an error of that write
    OWN_PID.store(std::process::id() as i32, Relaxed);
    handle(libc::SIGTERM, terminate as *const () as usize, 0);
}

pub fn interrupt_signal() -> i32 {
    libc::SIGRTMIN() + 3
}

pub fn give_up_signal() -> i32 {
    libc::SIGRTMIN() + 4
}

pub fn request_begins(socket: i32, head_sent: bool) {
    BEGAN.store(head_sent, Relaxed);
    SOCKET.store(socket, Relaxed);
}

/// A part of an answer leaves, with the head or after it. If it is the running request's, nobody
/// else can answer that any more.
pub fn answer_leaves(socket: i32, status: u16, body_bytes: u64) {
    if SOCKET.load(Relaxed) == socket {
        BEGAN.store(true, Relaxed);
        note_sent(Sent { status, body_bytes, whole: false });
    }
}

pub fn request_ends() {
    SOCKET.store(-1, Relaxed);
}

/// The main thread waits for events, in the middle of nothing.
pub fn at_rest(rest: bool) {
    AT_REST.store(rest, Relaxed);
}

pub fn drain_asked() -> bool {
    DRAIN.load(Relaxed)
}

/// What is given up from now on is given up because the server ends.
pub fn server_ends() {
    SERVER_ENDS.store(true, Relaxed);
}

/// Why a request is stopped now.
pub fn is_server_ending() -> bool {
    SERVER_ENDS.load(Relaxed)
}

/// The helper is at work.
pub fn beat() {
    BEATS.fetch_add(1, Relaxed);
}

/// What `fatal` does, on the helper's thread: the main one does not hear its signals. Where Perl is
/// cannot be looked at while it runs.
pub fn give_up_for_main_thread() {
    GAVE_UP.store(true, Relaxed);
    answer_client(give_up_signal());
    mark_dying();
}

/// By the signal that this process dies of, if there is one, so that the master can name it.
pub fn end_at_once() -> ! {
    let signal = DIES_OF.load(Relaxed);
    // SAFETY: all of these are async-signal-safe; nothing of the process is to be flushed. The
    // helper has its signals blocked, so the main thread hears this one; if that has blocked it
    // too, the wait comes to its end.
    unsafe {
        if signal != 0 {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
            libc::poll(ptr::null_mut(), 0, 200);
        }
        libc::_exit(70)
    }
}

/// Descriptors that wake this worker's loop and the master.
pub fn set_wakers(kick: i32, alarm: i32) {
    KICK.store(kick, Relaxed);
    ALARM.store(alarm, Relaxed);
}

extern "C" fn drain(_signal: i32) {
    DRAIN.store(true, Relaxed);
    wake();
}

extern "C" fn not_ours(_signal: i32) {}

/// Whoever sends SIGTERM to the whole group (a service manager, `timeout`) means the server, and
/// what runs is finished. A process that Perl forked is not the worker: it ends.
extern "C" fn terminate(signal: i32) {
    if is_worker() {
        return drain(signal);
    }
    die_of(signal);
}

fn is_worker() -> bool {
    // SAFETY: no pointers; async-signal-safe.
    unsafe { libc::getpid() == OWN_PID.load(Relaxed) }
}

/// As if there were no handler, once this one has returned.
fn die_of(signal: i32) {
    // SAFETY: signal and raise are async-signal-safe.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn interrupt(_signal: i32) {
    let function = INTERRUPT.load(Relaxed);
    if function != 0 {
        // SAFETY: the shim's function for exactly this place.
        unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(function)() };
    }
}

extern "C" fn fatal(signal: i32) {
    if !is_worker() {
        return die_of(signal); // a script's child: the request is its parent's
    }
    // SAFETY: names this thread.
    let here = unsafe { libc::pthread_self() } as u64;
    // A request that came to its end at the last moment leaves nothing to give up.
    if signal == give_up_signal() && (GAVE_UP.load(Relaxed) || SOCKET.load(Relaxed) < 0) {
        return;
    }
    if signal != give_up_signal() {
        DIES_OF.store(signal, Relaxed);
    }
    if here != MAIN_THREAD.load(Relaxed) || GAVE_UP.swap(true, Relaxed) {
        end_at_once(); // the helper failed, or dying failed: nothing is left to do well
    }
    note_position();
    answer_client(signal);
    mark_dying();
    let function = ON_CRISIS.load(Relaxed);
    if function != 0 {
        // SAFETY: stored from a function of this type.
        unsafe { std::mem::transmute::<usize, fn(bool)>(function)(AT_REST.load(Relaxed)) };
    }
    watch_helper()
}

/// For the line of the access log, should this worker not write it.
fn note_sent(sent: Sent) {
    // SAFETY: the slot lives as long as the server.
    if let Some(slot) = unsafe { SLOT.load(Relaxed).as_ref() } {
        slot.running.set_sent(Some(sent));
    }
}

/// This worker's loop looks around. Async-signal-safe.
pub fn wake() {
    sys::kick(KICK.load(Relaxed));
}

/// Its line on the scoreboard has changed.
pub fn tell_master() {
    sys::kick(ALARM.load(Relaxed));
}

fn mark_dying() {
    // SAFETY: the slot lives as long as the server.
    if let Some(slot) = unsafe { SLOT.load(Relaxed).as_ref() } {
        slot.set_state(State::Dying);
        tell_master();
    }
}

/// Stays until the helper ends the process. A crash inside malloc leaves its lock held, and a
/// helper that waits for that would keep its connections waiting too.
fn watch_helper() -> ! {
    loop {
        let before = BEATS.load(Relaxed);
        // SAFETY: no descriptors; a signal makes the wait shorter, so what is left of it is waited
        // again.
        while unsafe { libc::poll(ptr::null_mut(), 0, BEAT_MS) } != 0 {}
        if BEATS.load(Relaxed) == before {
            end_at_once();
        }
    }
}

fn note_position() {
    let (function, slot) = (POSITION.load(Relaxed), SLOT.load(Relaxed));
    if function == 0 || slot.is_null() {
        return;
    }
    let mut text = [0u8; 192];
    // SAFETY: the shim's function reads Perl's current place; the slot lives as long as the server.
    unsafe {
        let position: unsafe extern "C" fn(*mut u8, usize) -> usize = std::mem::transmute(function);
        let len = position(text.as_mut_ptr(), text.len());
        (*slot).position.set(&text[..len.min(text.len())]);
    }
}

fn answer_client(signal: i32) {
    let socket = SOCKET.load(Relaxed);
    if socket < 0 {
        return;
    }
    let late: &[u8] =
        b"HTTP/1.1 504 Gateway Timeout\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n\
        Connection: close\r\n\r\nThe request ran too long and had to be stopped\n";
    let failed: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\
        Content-Length: 44\r\nConnection: close\r\n\r\nThe process that ran this request crashed.\r\n";
    let ends: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
        Content-Length: 35\r\nConnection: close\r\n\r\nThe server ended before the answer\n";
    let (status, text) = match signal == give_up_signal() {
        true if SERVER_ENDS.load(Relaxed) => (503, ends),
        true => (504, late),
        false => (500, failed),
    };
    // SAFETY: writes a constant to a socket and shuts it; both are async-signal-safe.
    unsafe {
        if !BEGAN.load(Relaxed) {
            libc::send(
                socket,
                text.as_ptr().cast(),
                text.len(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            );
            let head = text.windows(4).position(|w| w == b"\r\n\r\n").map_or(0, |at| at + 4);
            let body_bytes = (text.len() - head) as u64;
            note_sent(Sent { status, body_bytes, whole: true });
        }
        libc::shutdown(socket, libc::SHUT_RDWR);
    }
}

/// A stack of its own for the handlers: the main one may be what overflowed.
fn alternate_stack() {
    const BYTES: usize = 64 * 1024;
    let stack: &'static mut [u8] = Box::leak(vec![0u8; BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: BYTES };
    // SAFETY: the memory is leaked for this purpose.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
}

fn handle(signal: i32, function: usize, flags: i32) {
    // SAFETY: sigaction is plain data; the functions above have the type of a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = function;
        action.sa_flags = flags;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}
