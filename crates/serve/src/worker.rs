//! A worker process: two threads and one event loop between them.
//!
//! The main thread owns the [`Engine`] and runs Perl inline. While Perl runs nobody owns the engine; the
//! helper thread looks once a millisecond, and when the same request is still running it takes the engine,
//! serves what needs no Perl, gives the rest to idle workers, and returns the engine when the main thread
//! asks for it. A request shorter than a millisecond costs two atomic writes.
//!
//! The helper never touches Perl and has all signals blocked (a handler of perl's would find no interpreter
//! in its thread) but one of ours, by which it is asked to let others look inside.

use std::{
    cell::UnsafeCell,
    os::fd::{AsRawFd, RawFd},
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use drom_observe::clock;

use crate::{
    config::LogLevel,
    crisis,
    engine::{Engine, Move, Setup, Turn},
    inspection, lost,
    map::files::Disk,
    perl_tier::PerlTier,
    request::{Next, Request},
    scoreboard::State,
    site::Site,
    sys,
};

/// By it the helper is found from outside.
pub const HELPER_NAME: &str = "drom-helper";

const FREE: u32 = 0;
const MAIN: u32 = 1;
const HELPER: u32 = 2;

/// How often the helper looks; a request that outlives two looks is slow.
const LOOK: Duration = Duration::from_millis(1);
/// A request that used less than this of a core waits, for the kernel or for its turn on a busy
/// machine.
const RAN_NS: u64 = 500_000;
/// What a request may use of a core before those behind it go elsewhere even if no core is free:
/// sooner, connections would be spread over ever more workers that wait for the same cores.
const TURN_NS: u64 = 8_000_000;
/// Looks without any Perl running after which the helper sleeps until it is woken.
const LOOKS_IDLE_MAX: u32 = 50;
/// How long a stopped request may go on unwinding before its worker is given up.
const GRACE_NS: u64 = 1_000_000_000;
/// A draining or dying worker ends after this long, whatever is left.
const DRAIN_NS: u64 = 30_000_000_000;
/// The master is gone: what runs may come to its end for so long, and has so long to unwind after
/// that.
const ORPHAN_NS: u64 = 300_000_000;
/// Perl's END blocks have this long.
const END_BLOCKS_NS: u64 = 5_000_000_000;
/// Requests between looks at the worker's memory.
const MEMORY_EVERY: u64 = 16;

/// What both threads see.
struct Shared {
    /// Who owns the engine; also the futex that the main thread waits on.
    owner: AtomicU32,
    wanted: AtomicBool,
    /// 1 while the helper is to look; the futex that it sleeps on.
    awake: AtomicU32,
    /// Number and start of the Perl run; number 0: none.
    run: AtomicU64,
    since_ns: AtomicU64,
    /// Nanoseconds after which the running request is stopped; 0: never.
    limit_ns: AtomicU64,
    /// When Perl's END blocks must be over; 0: they do not run yet.
    end_ns: AtomicU64,
    dying: AtomicBool,
    main_thread: libc::pthread_t,
    main_tid: i32,
    kick: RawFd,
    engine: UnsafeCell<Engine>,
}

// SAFETY: the engine is touched only by the thread whose number is in `owner` (acquire on taking, release
// on giving); everything else is atomic or never changes.
unsafe impl Sync for Shared {}
// SAFETY: the raw thread id and descriptors are plain numbers.
unsafe impl Send for Shared {}

/// Serves until told to drain. Returns the process's exit status.
pub fn run(setup: Setup, mut perl: Option<PerlTier>) -> i32 {
    let (site, board, me, kick) = (setup.site, setup.board, setup.me, setup.kick);
    let engine = match Engine::new(setup) {
        Ok(engine) => engine,
        Err(e) => {
            site.log_error(LogLevel::Crit, None, "core", format!("a worker cannot start: {e}"));
            return 1;
        }
    };
    // SAFETY: names this thread.
    let main_thread = unsafe { libc::pthread_self() };
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        owner: AtomicU32::new(MAIN),
        wanted: AtomicBool::new(false),
        awake: AtomicU32::new(0),
        run: AtomicU64::new(0),
        since_ns: AtomicU64::new(0),
        limit_ns: AtomicU64::new(0),
        end_ns: AtomicU64::new(0),
        dying: AtomicBool::new(false),
        main_thread,
        main_tid: sys::thread_id(),
        kick,
        engine: UnsafeCell::new(engine),
    }));
    let slot = &board.slots[me];
    if let Some(perl) = &perl {
        perl.interpreter.after_fork();
    }
    crisis::install(slot, site, perl.as_ref().map(|p| p.interpreter.signal_functions()), on_crisis);
    CRISIS.store(std::ptr::from_ref(shared).cast_mut(), Ordering::Release);
    if let Some(perl) = &perl {
        inspection::install(&perl.interpreter);
        child_init(perl, site);
    }
    start_helper(shared, site, slot);
    slot.set_state(State::Ready);
    crisis::tell_master();
    site.log_error(LogLevel::Debug, None, "core", "a worker is ready");
    serve(shared, site, slot, perl.as_mut());
    end_perl(shared, perl.as_ref());
    0
}

/// `PerlChildInitHandler`, as start-up code pushed it; `PerlChildExitHandler` becomes an END block.
fn child_init(perl: &PerlTier, site: &Site) {
    if let Err(text) = perl.interpreter.require("Drom::Child::Begin", false) {
        let text = String::from_utf8_lossy(&text);
        site.log_error(LogLevel::Error, None, "perl", format!("PerlChildInitHandler: {text}"));
    }
}

/// Runs the END blocks. The helper ends the process when they do not end.
fn end_perl(shared: &'static Shared, perl: Option<&PerlTier>) {
    // SAFETY: this thread is the owner here.
    let master_gone = unsafe { &*shared.engine.get() }.master_gone;
    let limit_ns = if master_gone { ORPHAN_NS } else { END_BLOCKS_NS };
    shared.end_ns.store(clock::monotonic_ns() + limit_ns, Ordering::Release);
    shared.awake.store(1, Ordering::Release);
    sys::futex_wake(&shared.awake);
    if let Some(perl) = perl {
        perl.interpreter.end();
    }
    if master_gone {
        sys::kill_family(libc::SIGKILL);
    }
}

fn serve(
    shared: &'static Shared,
    site: &'static Site,
    slot: &'static crate::scoreboard::Slot,
    mut perl: Option<&mut PerlTier>,
) {
    let mut drain_until_ns = u64::MAX;
    let mut next_job = None;
    loop {
        // SAFETY: this thread is the owner here.
        let engine = unsafe { &mut *shared.engine.get() };
        let turn = match next_job.take() {
            Some(job) => Ok(Turn::Job(job)),
            None => {
                crisis::at_rest(true);
                let turn = engine.turn(if engine.draining { 20 } else { -1 });
                crisis::at_rest(false);
                turn
            }
        };
        match turn {
            Ok(Turn::Job(job)) => {
                next_job = run_job(shared, site, slot, perl.as_deref_mut(), job);
            }
            Ok(Turn::Idle) => {}
            Err(e) => {
                site.log_error(LogLevel::Crit, None, "core", format!("the event loop failed: {e}"));
                return;
            }
        }
        if let Some(perl) = &perl {
            inspection::settle(&perl.interpreter);
        }
        // SAFETY: as above; `run_job` took the engine back.
        let engine = unsafe { &mut *shared.engine.get() };
        if !engine.draining && (crisis::drain_asked() || engine.retire || is_worn(site, slot)) {
            engine.drain();
        }
        if engine.draining {
            let patience_ns = if engine.master_gone { 3 * ORPHAN_NS } else { DRAIN_NS };
            drain_until_ns = drain_until_ns.min(engine.now_ns + patience_ns);
            if next_job.is_none() && (engine.is_empty() || engine.now_ns > drain_until_ns) {
                return;
            }
        }
    }
}

/// `MaxConnectionsPerChild` and `DromWorkerMemoryLimit`.
fn is_worn(site: &Site, slot: &crate::scoreboard::Slot) -> bool {
    let settings = &site.config.server;
    let requests = slot.requests.load(Ordering::Relaxed);
    if settings.max_connections_per_child > 0 && requests >= settings.max_connections_per_child {
        return true;
    }
    let Some(limit) = settings.worker_memory_limit else { return false };
    let due = requests > 0 && requests.is_multiple_of(MEMORY_EVERY);
    let private_bytes =
        || drom_observe::memory(std::process::id() as i32).map_or(0, |memory| memory.uss_bytes);
    if !due || private_bytes() <= limit {
        return false;
    }
    let text =
        format!("a worker uses more than DromWorkerMemoryLimit ({limit} bytes) and is replaced");
    site.log_error(LogLevel::Notice, None, "core", &text);
    true
}

/// Runs Perl for one request. `Some` when its answer (an internal redirect) needs Perl again.
fn run_job(
    shared: &'static Shared,
    site: &'static Site,
    slot: &'static crate::scoreboard::Slot,
    perl: Option<&mut PerlTier>,
    job: usize,
) -> Option<usize> {
    // SAFETY: this thread is the owner until `enter`.
    let engine = unsafe { &mut *shared.engine.get() };
    let mut request = engine.begin_job(job)?;
    slot.requests.fetch_add(1, Ordering::Relaxed);
    let Some(perl) = perl else {
        request.next = Next::Error(status_without_perl(site, &request));
        return engine.finish_job(job, request);
    };
    let limit = request.mapped().policy.time_limit();
    lost::note(slot, &request);
    enter(shared, slot, engine.now_ns, limit, &request);
    let cleanups = perl.run(&mut request);
    let later = cleanups && request.next == Next::Finish;
    if cleanups && !later {
        perl.cleanup(&mut request);
    }
    leave(shared, slot);
    // SAFETY: `leave` took the engine back.
    let engine = unsafe { &mut *shared.engine.get() };
    engine.now_ns = clock::monotonic_ns();
    if !later {
        return engine.finish_job(job, request);
    }
    // The client need not wait for cleanups: the answer goes first.
    let mut after = engine.answer_job(job, request);
    enter(shared, slot, engine.now_ns, limit, &after);
    perl.cleanup(&mut after);
    leave(shared, slot);
    // SAFETY: as above.
    let engine = unsafe { &mut *shared.engine.get() };
    engine.recycle(after);
    None
}

/// A script that is not there is missed as anywhere else.
fn status_without_perl(site: &Site, request: &Request) -> u16 {
    if request.mapped().target(&Disk).finfo.is_none() {
        return 404;
    }
    let text = "this server runs without Perl";
    site.log_error(LogLevel::Error, Some(request.client), "perl", text);
    500
}

/// Perl is about to run: the engine is nobody's, the helper watches.
fn enter(
    shared: &Shared,
    slot: &crate::scoreboard::Slot,
    now_ns: u64,
    limit: Option<Duration>,
    request: &Request,
) {
    slot.perl_since_ns.store(now_ns, Ordering::Relaxed);
    crisis::request_begins(request.socket, request.head_sent);
    shared.since_ns.store(now_ns, Ordering::SeqCst);
    shared.limit_ns.store(limit.map_or(0, |l| l.as_nanos() as u64), Ordering::Relaxed);
    shared.run.fetch_add(1, Ordering::Relaxed);
    shared.wanted.store(false, Ordering::Relaxed);
    shared.owner.store(FREE, Ordering::Release);
    if shared.awake.load(Ordering::SeqCst) == 0 {
        shared.awake.store(1, Ordering::Release);
        sys::futex_wake(&shared.awake);
    }
}

/// Perl returned: the main thread takes the engine back, from the helper if need be.
fn leave(shared: &Shared, slot: &crate::scoreboard::Slot) {
    shared.since_ns.store(0, Ordering::Relaxed);
    crisis::request_ends();
    loop {
        let free = shared.owner.compare_exchange(FREE, MAIN, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            break;
        }
        shared.wanted.store(true, Ordering::SeqCst);
        sys::kick(shared.kick);
        sys::futex_wait(&shared.owner, HELPER, Some(LOOK * 10));
    }
    slot.perl_since_ns.store(0, Ordering::Relaxed);
    lost::over(slot);
}

// ---- the helper -------------------------------------------------------------------------------

fn start_helper(
    shared: &'static Shared,
    site: &'static Site,
    slot: &'static crate::scoreboard::Slot,
) {
    // SAFETY: the full set is a local; the thread inherits the mask, then this thread gets its own back.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let builder =
            std::thread::Builder::new().name(HELPER_NAME.to_owned()).stack_size(256 * 1024);
        if let Err(e) = builder.spawn(move || helper(shared, slot)) {
            let text = format!("a worker runs without its helper thread: {e}");
            site.log_error(LogLevel::Crit, None, "core", &text);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
    }
}

fn helper(shared: &'static Shared, slot: &'static crate::scoreboard::Slot) {
    inspection::listen();
    note_memory(slot);
    let mut watch = Watch { state: sys::ThreadState::of(shared.main_tid), cpu_ns: 0, ran: false };
    let (mut last_run, mut begun_ns, mut idle) = (0, 0, 0);
    loop {
        if shared.awake.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&shared.awake, 0, None);
            (last_run, idle) = (0, 0);
        }
        clock::sleep(LOOK);
        if shared.dying.load(Ordering::Acquire) {
            save_what_can_be_saved(shared, true);
        }
        let end_ns = shared.end_ns.load(Ordering::Acquire);
        if end_ns != 0 && clock::monotonic_ns() > end_ns {
            crisis::end_at_once();
        }
        if shared.since_ns.load(Ordering::Relaxed) == 0 {
            idle += u32::from(end_ns == 0);
            if idle > LOOKS_IDLE_MAX {
                shared.awake.store(0, Ordering::SeqCst);
                // Pairs with `enter`: either it sees 0 and wakes us, or we see its request.
                if shared.since_ns.load(Ordering::SeqCst) != 0 {
                    shared.awake.store(1, Ordering::SeqCst);
                }
            }
            continue;
        }
        idle = 0;
        let run = shared.run.load(Ordering::Relaxed);
        let cpu_ns = watch.look(shared);
        if run != last_run {
            (last_run, begun_ns) = (run, cpu_ns);
        } else if is_due(shared, &watch, cpu_ns - begun_ns) {
            stand_in(shared, &mut watch, begun_ns);
        }
    }
}

/// What growth is counted from. No work for the thread that has requests to answer.
fn note_memory(slot: &crate::scoreboard::Slot) {
    let memory = drom_observe::memory(std::process::id() as i32);
    slot.set_new_memory(memory.map_or(0, |memory| memory.uss_bytes));
}

/// The main thread as the helper sees it.
struct Watch {
    state: sys::ThreadState,
    /// CPU time of the thread at the last look.
    cpu_ns: u64,
    /// It computed between the last two looks.
    ran: bool,
}

impl Watch {
    /// Returns the CPU time of the thread.
    fn look(&mut self, shared: &Shared) -> u64 {
        let cpu_ns = sys::thread_cpu_ns(shared.main_thread);
        self.ran = cpu_ns >= self.cpu_ns + RAN_NS;
        self.cpu_ns = cpu_ns;
        cpu_ns
    }

    /// A thread that has just computed need not be asked what it does; the next look is not far.
    fn is_sleeping(&self) -> bool {
        !self.ran && self.state.is_sleeping()
    }
}

/// Whether standing in gains something for the connections behind a running request.
fn is_due(shared: &Shared, watch: &Watch, ran_ns: u64) -> bool {
    let since_ns = shared.since_ns.load(Ordering::Relaxed);
    let waited_ns = clock::monotonic_ns().saturating_sub(since_ns);
    waited_ns >= TURN_NS || worth_moving(watch, ran_ns) != Move::ToPrimaries(0)
}

/// Which of the requests behind a running one are worth giving to others. None behind one that
/// computes on a machine without a free core: they would only take its core from it. All behind one
/// that sleeps, or that has had its turn.
fn worth_moving(watch: &Watch, ran_ns: u64) -> Move {
    if ran_ns >= TURN_NS || watch.is_sleeping() {
        return Move::All;
    }
    Move::ToPrimaries(if ran_ns >= RAN_NS { drom_observe::free_cores() } else { 0 })
}

/// Serves in the main thread's place until it wants the engine back.
fn stand_in(shared: &'static Shared, watch: &mut Watch, begun_ns: u64) {
    if shared.owner.compare_exchange(FREE, HELPER, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    // SAFETY: this thread is the owner now.
    let engine = unsafe { &mut *shared.engine.get() };
    engine.set_can_run_perl(false);
    let (mut asked, mut gone_ns) = (Asked::Nothing, 0);
    while !shared.wanted.load(Ordering::SeqCst) && !shared.dying.load(Ordering::Acquire) {
        if engine.has_waiting() {
            let ran_ns = watch.look(shared).saturating_sub(begun_ns);
            engine.let_move(worth_moving(watch, ran_ns));
        }
        while let Ok(Turn::Job(_)) = engine.turn(50) {}
        if crisis::drain_asked() && !engine.draining {
            engine.drain();
        }
        if engine.master_gone && gone_ns == 0 {
            gone_ns = engine.now_ns;
        }
        asked = stop_if_too_long(shared, (engine.now_ns, gone_ns), asked);
        if asked == Asked::InVain {
            crisis::give_up_for_main_thread();
            save_what_can_be_saved(shared, false);
        }
    }
    if shared.dying.load(Ordering::Acquire) {
        save_what_can_be_saved(shared, true);
    }
    engine.set_can_run_perl(true);
    shared.owner.store(FREE, Ordering::Release);
    sys::futex_wake(&shared.owner);
}

/// What the helper asked of the running request so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// Its worker is given up.
    TheEnd,
    /// And the main thread does not even hear that: Perl blocked its signals.
    InVain,
}

/// A request over its limit is interrupted; one that does not end even so takes its worker with it. That
/// is said once: a second signal would find the first one's handler at work.
fn stop_if_too_long(shared: &Shared, (now_ns, gone_ns): (u64, u64), asked: Asked) -> Asked {
    let Some((end_ns, grace_ns)) = end_of_run(shared, gone_ns) else { return asked };
    if now_ns < end_ns || shared.dying.load(Ordering::Acquire) {
        return asked;
    }
    let signal = match (now_ns - end_ns) / grace_ns {
        0 => crisis::interrupt_signal(),
        1 if asked == Asked::Nothing => crisis::give_up_signal(),
        1 => return asked,
        _ => return Asked::InVain,
    };
    if gone_ns != 0 {
        crisis::server_ends();
    }
    // SAFETY: the main thread lives as long as the process.
    unsafe { libc::pthread_kill(shared.main_thread, signal) };
    if signal == crisis::give_up_signal() { Asked::TheEnd } else { asked }
}

/// When the running request has to end, and how long it may take to unwind then.
fn end_of_run(shared: &Shared, gone_ns: u64) -> Option<(u64, u64)> {
    let since_ns = shared.since_ns.load(Ordering::Relaxed);
    let limit_ns = shared.limit_ns.load(Ordering::Relaxed);
    let limit = (limit_ns > 0).then(|| (since_ns + limit_ns, GRACE_NS));
    let orphaned = (gone_ns > 0).then(|| (gone_ns + ORPHAN_NS, ORPHAN_NS));
    let end = limit.into_iter().chain(orphaned).min_by_key(|(end_ns, _)| *end_ns);
    end.filter(|_| since_ns != 0)
}

/// The main thread will not come back, and touches nothing any more when it is `still`. Idle
/// connections go to other workers, what needs no Perl is finished, then the process ends.
fn save_what_can_be_saved(shared: &'static Shared, still: bool) -> ! {
    if shared.owner.load(Ordering::Acquire) != HELPER {
        let taken =
            shared.owner.compare_exchange(FREE, HELPER, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            // The engine was in the middle of something: nothing is safe to touch.
            crisis::end_at_once();
        }
    }
    // SAFETY: this thread is the owner.
    let engine = unsafe { &mut *shared.engine.get() };
    engine.set_can_run_perl(false);
    if still {
        engine.drop_running(); // else Perl may write to a socket that has its number by then
    }
    engine.drain();
    let since_ns = clock::monotonic_ns();
    let patience_ns = |gone: bool| if gone { ORPHAN_NS } else { DRAIN_NS };
    while !engine.has_only_running() && engine.now_ns < since_ns + patience_ns(engine.master_gone) {
        crisis::beat();
        engine.let_move(Move::All);
        while let Ok(Turn::Job(_)) = engine.turn(20) {}
        engine.hand_off_idle();
        engine.now_ns = clock::monotonic_ns();
    }
    if engine.master_gone {
        sys::kill_family(libc::SIGKILL);
    }
    crisis::end_at_once()
}

static CRISIS: std::sync::atomic::AtomicPtr<Shared> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

/// Called in a fatal-signal handler: only atomics and a futex.
fn on_crisis(at_rest: bool) {
    // SAFETY: the pointer is null or to the leaked value.
    let Some(shared) = (unsafe { CRISIS.load(Ordering::Acquire).as_ref() }) else { return };
    if at_rest {
        // The main thread was waiting in the loop: nobody is in the middle of anything.
        let _ = shared.owner.compare_exchange(MAIN, FREE, Ordering::Release, Ordering::Relaxed);
    }
    shared.dying.store(true, Ordering::Release);
    shared.awake.store(1, Ordering::Release);
    sys::futex_wake(&shared.awake);
    sys::kick(shared.kick.as_raw_fd());
}
