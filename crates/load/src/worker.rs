//! One client thread: its epoll loop over its share of the connections, from start to end of
//! window.
//!
//! Nothing is shared with other threads but a stop flag that is read and progress that is written a
//! few times a second. Timeouts are found by a scan each tick: a request costs no timer.

use std::{
    cmp::Reverse,
    io,
    ops::Range,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, Sender},
    },
    time::{Duration, UNIX_EPOCH},
};

use drom_observe::{clock::wall_at, machine_load::MachineLoad, thread_cpu::ThreadCpu};

use crate::{
    connection::{Connection, Phase, to_ns},
    error::Error,
    exchange::Record,
    held::{Accounts, Ledger, Spent},
    lane::{Doubt, Lane, Signs},
    open::{Due, Open, OpenTally, Settled},
    pace::{self, Mark},
    patience::{LOOK_NS_MAX, Patience},
    plan::{Plan, Stop},
    rings::Rings,
    scene::SceneTally,
    schedule::Schedule,
    socket::Route,
    tally::Tally,
    timeline::{SLICE, Slice},
    tls::TlsFacts,
    users::Users,
    world::{Kernel, World},
};

/// Large answers come in few reads; the buffer stays in the second-level cache.
const BUFFER_BYTES: usize = 64 * 1024;
const REPORTS_MAX: usize = 256;
/// A timeout is noticed at most a twentieth late; a stop at most this late.
const TICK_MAX: Duration = Duration::from_millis(50);
const TICK_MIN: Duration = Duration::from_millis(1);
/// Between two looks, so that a sibling hyper-thread can work.
const PAUSES_A_LOOK: u32 = 20;
/// As late as most sleeps end on a virtual machine; a look costs a microsecond.
const SLEEP_LATE_NS: u64 = 60_000;
const REST_STEP: Duration = Duration::from_millis(2);
/// Of a plan that ends with hours of nothing the last slice is long.
const EMPTY_SLICES_MAX: u32 = 600;

/// What a thread is told.
pub struct Orders<'a> {
    pub plan: &'a Plan,
    pub request: &'a [u8],
    pub routes: &'a [Route],
    pub connections: u32,
    pub quota: Option<u64>,
    /// This thread's part of an open loop, on a clock that begins at `start_ns`.
    pub schedule: Option<Schedule>,
    pub start_ns: u64,
    /// When the warm-up ends.
    pub open_ns: u64,
    pub stop: &'a AtomicBool,
    /// Another thread cannot go on.
    pub abort: &'a AtomicBool,
    pub signs: &'a Signs,
    pub live: &'a Live,
    /// This thread's number, where its slices go, and where their empty tallies come back.
    pub uses_rings: bool,
    pub thread: usize,
    pub threads: u32,
    pub slices: Sender<Slice>,
    pub spare: Receiver<Tally>,
}

/// What a thread lets others see while it runs; a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Live {
    pub ended: AtomicU64,
    /// Of those, before the window opened.
    pub warmup: AtomicU64,
    pub failed: AtomicU64,
}

/// What a thread has measured.
pub struct Report {
    pub in_flight: u64,
    /// Why nobody was answered, if that is so of all threads.
    pub doubt: Option<Doubt>,
    pub records: Vec<Record>,
    pub first_head: Vec<u8>,
    pub tls: Option<TlsFacts>,
    pub scene: Option<SceneTally>,
    pub warmup_requests: u64,
    pub connected: u32,
    pub streams_max: Option<u32>,
    pub answers_per_connection: Vec<u64>,
    pub cpu: ThreadCpu,
    pub looked_ns: u64,
    pub accounts: Accounts,
    pub steal_share: Option<f64>,
    /// The window, and until the last answer to it.
    pub window_ns: u64,
    pub span_ns: u64,
    pub accounted_ns: f64,
    pub marks: Vec<Mark>,
    pub stopped: bool,
}

/// Runs the orders to their end.
pub fn work(orders: &Orders<'_>) -> Result<Report, Error> {
    let reports = REPORTS_MAX.min(orders.connections as usize);
    let failed = |source| Error::EventLoop { source };
    if orders.uses_rings {
        return work_in(Rings::new(reports).map_err(failed)?, orders);
    }
    work_in(Kernel::new(reports).map_err(failed)?, orders)
}

fn work_in(world: impl World, orders: &Orders<'_>) -> Result<Report, Error> {
    let places = (orders.connections, orders.quota);
    let mut lane = Lane::new(orders.plan, orders.request, orders.routes, world, places);
    lane.window_ns = orders.open_ns;
    lane.open = orders.schedule.clone().map(|schedule| Open::new(schedule, orders.start_ns));
    let now_ns = lane.now_ns;
    lane.users = users(orders, lane.now_ns);
    lane.signs = Some(orders.signs);
    if let Some(open) = lane.open.as_ref().filter(|_| !finishes_rounds(orders.plan)) {
        lane.end_ns = open.end_ns();
    }
    let connections = orders.connections * orders.routes.len() as u32;
    let connections = (0..connections).map(|token| Connection::new(token, now_ns)).collect();
    let window = Window::open(now_ns);
    let mut worker = Worker {
        orders,
        lane,
        connections,
        ledger: Ledger::open(now_ns, window.cpu),
        window,
        warmup_requests: 0,
        next_tick_ns: 0,
        back_ns: now_ns,
        patience: Patience::of(orders.connections, orders.plan.depth),
        looked_ns: 0,
        deadline_ns: None,
        marks: Vec::new(),
        next_mark_ns: u64::MAX,
        slices: 0,
        next_slice_ns: u64::MAX,
        sums: Sums::default(),
    };
    worker.lane.resting = worker.connections.iter().map(|connection| connection.token).collect();
    let ended = worker.turn();
    if let Some(error) = worker.lane.fatal.take() {
        return Err(error);
    }
    ended.map(|()| worker.report())
}

fn finishes_rounds(plan: &Plan) -> bool {
    plan.scene.as_ref().is_some_and(|scene| scene.finishes_rounds)
}

/// As many as have a place on the connections at once.
fn users<'a>(orders: &Orders<'a>, now_ns: u64) -> Option<Users<'a>> {
    let scene = orders.plan.scene.as_ref()?;
    let unix_s = wall_at(now_ns).duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let unix_s_at_zero = unix_s as i64 - (now_ns / 1_000_000_000) as i64;
    let users = orders.connections * orders.plan.depth;
    Some(Users::new(scene, users, (orders.thread as u32, orders.threads), unix_s_at_zero))
}

struct Worker<'a, W: World> {
    orders: &'a Orders<'a>,
    lane: Lane<'a, W>,
    connections: Vec<Connection<W::Stream>>,
    window: Window,
    ledger: Ledger,
    warmup_requests: u64,
    next_tick_ns: u64,
    /// When the thread wants to be back from its wait at the latest.
    back_ns: u64,
    /// None where looking never pays.
    patience: Option<Patience>,
    /// Time spent looking in vain in this window.
    looked_ns: u64,
    /// When the window closes; none while it is not open, or when requests are counted.
    deadline_ns: Option<u64>,
    /// How the window came on.
    marks: Vec<Mark>,
    /// Never in a window without a deadline.
    next_mark_ns: u64,
    /// Slices of the window that were handed in, and when the next one is.
    slices: usize,
    next_slice_ns: u64,
    sums: Sums,
}

/// Of the slices that were handed in.
#[derive(Default)]
struct Sums {
    ended: u64,
    ok: u64,
    failed: u64,
    stamped_ns: u64,
    recorded_ns: f64,
}

/// Where the measured window began.
struct Window {
    opened_ns: u64,
    cpu: ThreadCpu,
    machine: Option<MachineLoad>,
}

impl Window {
    fn open(now_ns: u64) -> Self {
        Self { opened_ns: now_ns, cpu: ThreadCpu::own(), machine: MachineLoad::now() }
    }
}

impl<W: World> Worker<'_, W> {
    fn turn(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER_BYTES];
        if self.lane.open.is_some() {
            // Before anything is judged to be over: a thread can come after the whole schedule.
            self.wake_resting();
        }
        while !self.is_over() {
            if self.lane.now_ns >= self.next_tick_ns {
                self.tick(&mut buffer)?;
                if self.is_over() {
                    break;
                }
            }
            self.housekeep();
            if self.lane.users.is_some() && self.is_finished() {
                // The last user's last step was no request.
                break;
            }
            self.read_on(&mut buffer);
            let ready = self.wait().map_err(|source| Error::EventLoop { source })?;
            self.serve(ready, &mut buffer);
        }
        Ok(())
    }

    /// Who has waited long enough may read again.
    fn read_on(&mut self, buffer: &mut [u8]) {
        while let Some(Reverse((at_ns, token))) = self.lane.throttled.peek().copied() {
            if at_ns > self.lane.now_ns || self.is_past_deadline() {
                return;
            }
            self.lane.throttled.pop();
            self.lane.read_on(&mut self.connections[token as usize], buffer);
        }
    }

    fn is_anyone_late(&self) -> bool {
        self.connections.iter().any(|connection| self.lane.is_late(connection).is_some())
    }

    /// Takes what is there already before anybody is said to be late: a client that stood still
    /// (Ctrl-Z, a paused machine) would take its own delay for the server's.
    fn catch_up(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        for _ in 0..=self.connections.len() / REPORTS_MAX {
            let ready = self.sleep(Duration::ZERO);
            self.serve(ready.map_err(|source| Error::EventLoop { source })?, buffer);
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<usize> {
        let now_ns = self.lane.now_ns;
        if let Some(due_ns) = self.lane.open.as_mut().and_then(|open| open.wake_ns(now_ns)) {
            return self.wait_until(due_ns);
        }
        // A ring sends what was written with the call that sleeps: a look would be a call more.
        let rings = self.orders.uses_rings;
        if !rings && self.patience.as_mut().is_some_and(Patience::looks) {
            let ready = self.look()?;
            self.patience.iter_mut().for_each(|patience| patience.learn(ready > 0));
            if ready > 0 {
                return Ok(ready);
            }
        }
        let longest = self.longest_wait();
        self.sleep(longest)
    }

    fn sleep(&mut self, longest: Duration) -> io::Result<usize> {
        self.back_ns = self.lane.now_ns + to_ns(longest);
        self.lane.world.wait(longest)
    }

    /// A sleep ends late by some tens of microseconds: the last of them are spent looking.
    fn wait_until(&mut self, due_ns: u64) -> io::Result<usize> {
        let left_ns = due_ns.saturating_sub(self.lane.now_ns);
        if left_ns > SLEEP_LATE_NS {
            let longest = self.longest_wait();
            return self.sleep(longest.min(Duration::from_nanos(left_ns - SLEEP_LATE_NS)));
        }
        let began_ns = self.lane.now_ns;
        let ready = self.sleep(Duration::ZERO)?;
        if ready == 0 {
            self.lane.now_ns = self.lane.world.now_ns();
            self.looked_ns += self.lane.now_ns - began_ns;
        }
        Ok(ready)
    }

    /// Looks for reports for a moment without sleeping; that time is not work and is told apart.
    fn look(&mut self) -> io::Result<usize> {
        let mut ready = self.sleep(Duration::ZERO)?;
        if ready > 0 {
            return Ok(ready);
        }
        let (began_ns, mut looked_ns) = (self.lane.world.now_ns(), 0);
        while ready == 0 && looked_ns < LOOK_NS_MAX {
            for _ in 0..PAUSES_A_LOOK {
                std::hint::spin_loop();
            }
            ready = self.lane.world.wait(Duration::ZERO)?;
            looked_ns = self.lane.world.now_ns() - began_ns;
        }
        self.looked_ns += looked_ns;
        Ok(ready)
    }

    /// A socket has one report a round and none after its close, so that no report can be stale.
    #[inline]
    fn serve(&mut self, reports: usize, buffer: &mut [u8]) {
        self.lane.now_ns = self.lane.world.now_ns();
        self.ledger.late(self.back_ns, self.lane.now_ns);
        // A thread that was stopped is woken without a report first.
        if reports == 0 {
            return;
        }
        // What may not be read yet lies there because it was told to.
        let is_free = self.orders.plan.throttle.is_none();
        let (is_wanted, before_ns) = self.ledger.wake(self.lane.now_ns);
        self.lane.lay.begin(is_wanted && is_free, self.lane.now_ns, before_ns);
        for at in 0..reports {
            let ready = self.lane.world.report(at);
            // The upper half tells which socket of the connection.
            let connection = &mut self.connections[ready.token as u32 as usize];
            self.lane.ready(connection, ready, buffer);
            self.lane.note_lay(connection);
            self.ledger.dealt_with(self.lane.now_ns, &mut self.lane.lay);
            if self.is_past_deadline() {
                break;
            }
            if self.lane.open.is_some() {
                self.release_between(at + 1..reports);
            }
        }
        self.ledger.end_round(self.lane.now_ns, self.lane.lay.is_wanted);
    }

    fn is_past_deadline(&self) -> bool {
        self.deadline_ns.is_some_and(|deadline_ns| self.lane.now_ns >= deadline_ns)
    }

    fn is_over(&mut self) -> bool {
        self.is_past_deadline()
            || self.lane.fatal.is_some()
            || self.lane.has_ended
            || self.orders.stop.load(Relaxed)
            || self.orders.abort.load(Relaxed)
            || self.is_finished()
    }

    fn is_finished(&mut self) -> bool {
        let now_ns = self.lane.now_ns;
        let none_left = match &mut self.lane.open {
            // What happens after the last answer belongs to the window, too.
            Some(open) => {
                let lasts = !finishes_rounds(self.orders.plan) && now_ns < open.end_ns();
                open.is_over(now_ns) && !lasts
            }
            None => self.lane.left == Some(0),
        };
        let nobody_left = self.lane.users.as_ref().is_some_and(|users| !users.has_anyone_left());
        (none_left || nobody_left) && self.lane.in_flight == 0 && self.lane.are_users_done()
    }

    #[inline]
    fn housekeep(&mut self) {
        if self.opens_ns().is_some_and(|opens_ns| self.lane.now_ns >= opens_ns) {
            self.open_window();
        }
        if !self.lane.resting.is_empty() {
            self.wake_resting();
        }
        if self.lane.now_ns >= self.next_mark_ns {
            self.mark();
        }
        if self.lane.now_ns >= self.next_slice_ns {
            self.hand_in(SLICE, false);
        }
        if self.lane.open.is_some() {
            self.release();
        }
        if self.lane.users.is_some() {
            self.let_users_go_on();
        }
    }

    /// Begins what is due, as far as connections are free.
    fn release(&mut self) {
        let mut burst = 0;
        while let Some(due) = self.take_due() {
            match self.lane.users {
                Some(_) => self.lane.begin_planned_round(due),
                None => self.lane.start_due(&mut self.connections[due.token as usize], due),
            }
            burst += 1;
        }
        if burst > 1 {
            let longest = &mut self.lane.tally.open.burst_max;
            *longest = burst.max(*longest);
        }
    }

    /// Begins what has come due while a batch of answers is dealt with, or the last of the batch
    /// would make it late. Not on a connection whose report is still to come: it may be its end.
    fn release_between(&mut self, to_come: Range<usize>) {
        let is_between_windows = !self.lane.measuring && self.lane.now_ns >= self.orders.open_ns;
        if is_between_windows || self.lane.users.is_some() {
            return;
        }
        while let Some(token) =
            self.lane.open.as_mut().and_then(|open| open.next_free(self.lane.now_ns))
        {
            let mut reports = to_come.clone().map(|at| self.lane.world.report(at));
            if reports.any(|report| report.token as u32 == token) {
                return;
            }
            let Some(due) = self.take_due() else { return };
            self.lane.start_due(&mut self.connections[token as usize], due);
        }
    }

    fn let_users_go_on(&mut self) {
        let now_ns = self.lane.now_ns;
        if let Some(users) = &mut self.lane.users {
            users.wake(now_ns);
        }
        while let Some(asking) = self.lane.next_asking(&mut self.connections) {
            self.lane.ask(&mut self.connections[asking.token as usize], asking);
            if self.is_past_deadline() {
                return;
            }
        }
    }

    fn take_due(&mut self) -> Option<Due> {
        let now_ns = self.lane.now_ns;
        self.lane.open.as_mut()?.take_free(now_ns)
    }

    /// When the window can open. Rounds that are counted begin in it: those under way at the end of
    /// the warm-up, of which some requests are the warm-up's, are waited for.
    fn opens_ns(&self) -> Option<u64> {
        let inside = self.lane.users.as_ref().map_or(0, |users| users.inside);
        let is_over = self.lane.now_ns >= self.orders.open_ns;
        let is_waiting = is_over && inside > 0 && self.lane.left.is_some();
        let is_open = self.lane.measuring;
        (!is_open && !is_waiting).then_some(self.orders.open_ns)
    }

    /// Requests under way belong to the window: they end in it.
    fn open_window(&mut self) {
        let in_flight = self.lane.in_flight;
        let under_way = match &mut self.lane.users {
            None => in_flight,
            Some(users) => {
                users.open_window();
                u64::from(users.inside)
            }
        };
        self.warmup_requests = self.lane.tally.ended();
        let OpenTally { sparse, sparse_throughout, .. } = self.lane.tally.open;
        self.lane.tally.clear();
        let open = &mut self.lane.tally.open;
        (open.sparse, open.sparse_throughout) = (sparse, sparse_throughout);
        self.lane.tally.counts.sent = in_flight;
        if let Some(open) = &mut self.lane.open {
            open.open_window(self.orders.open_ns);
            self.lane.tally.open.carried = under_way;
        }
        self.lane.left = self.lane.left.map(|left| left.saturating_sub(under_way));
        self.lane.measuring = true;
        self.looked_ns = 0;
        for connection in &mut self.connections {
            connection.answers = 0;
            connection.retired.iter_mut().for_each(|old| old.answers = 0);
        }
        self.window = Window::open(self.lane.now_ns);
        self.ledger = Ledger::open(self.lane.now_ns, self.window.cpu);
        self.next_slice_ns = self.slices_begin_ns() + to_ns(SLICE);
        if let (Stop::After(duration), None) = (self.orders.plan.stop, &self.lane.open) {
            self.deadline_ns = Some(self.lane.now_ns.saturating_add(to_ns(duration)));
            self.next_mark_ns = self.lane.now_ns + self.mark_step_ns();
        }
    }

    fn mark_step_ns(&self) -> u64 {
        match self.orders.plan.stop {
            Stop::After(duration) => to_ns(duration / pace::STEPS as u32).max(1_000_000),
            Stop::Requests(_) => u64::MAX,
        }
    }

    fn mark(&mut self) {
        let after_ns = self.lane.now_ns.saturating_sub(self.window.opened_ns);
        let ok = self.sums.ok + self.lane.tally.counts.ok;
        self.marks.push(Mark { after_ns, ok });
        self.next_mark_ns = self.lane.now_ns.saturating_add(self.mark_step_ns());
    }

    /// Slices of an open loop are of its plan, however late the thread was.
    fn slices_begin_ns(&self) -> u64 {
        if self.lane.open.is_some() { self.orders.open_ns } else { self.window.opened_ns }
    }

    /// The last slices: of an open loop there are some in which nothing is to be done any more.
    fn hand_in_rest(&mut self, window_ns: u64) {
        let span_ns = self.lane.now_ns.saturating_sub(self.slices_begin_ns());
        let whole_ns = if self.lane.open.is_some() { span_ns.max(window_ns) } else { span_ns };
        let left = Duration::from_nanos(whole_ns).saturating_sub(SLICE * self.slices as u32);
        let empty = match self.lane.open {
            Some(_) => (left.as_nanos().saturating_sub(1) / SLICE.as_nanos()) as u32,
            None => 0,
        };
        let empty = empty.min(EMPTY_SLICES_MAX);
        if empty == 0 {
            return self.hand_in(left, true);
        }
        self.hand_in(SLICE, false);
        (1..empty).for_each(|_| self.send_slice(Tally::default(), SLICE, false));
        self.send_slice(Tally::default(), left - SLICE * empty, true);
    }

    /// Hands in what was counted since the last time, and goes on with an empty tally.
    fn hand_in(&mut self, length: Duration, is_last: bool) {
        let empty = self.orders.spare.try_recv().unwrap_or_default();
        let tally = std::mem::replace(&mut self.lane.tally, empty);
        self.close_account(&tally);
        self.sums.ended += tally.ended();
        self.sums.ok += tally.counts.ok;
        self.sums.failed += tally.counts.failed;
        self.sums.stamped_ns += tally.counts.stamped_ns;
        self.sums.recorded_ns += tally.recorded_ns(self.lane.open.is_some());
        self.send_slice(tally, length, is_last);
    }

    fn send_slice(&mut self, tally: Tally, length: Duration, is_last: bool) {
        let (thread, number, in_flight) = (self.orders.thread, self.slices, self.lane.in_flight);
        let open = self.lane.open.as_mut();
        let waiting = open.map_or(0, |open| open.waiting(self.lane.now_ns));
        let slice = Slice { thread, number, length, tally, in_flight, waiting, is_last };
        // Nobody listens only when the run is given up.
        let _ = self.orders.slices.send(slice);
        self.slices += 1;
        self.next_slice_ns = self.next_slice_ns.saturating_add(to_ns(SLICE));
    }

    /// What this thread did with the slice's time.
    fn close_account(&mut self, tally: &Tally) {
        let now_ns = self.lane.now_ns;
        let passed_ns = now_ns.saturating_sub(self.ledger.began_ns());
        let places_ns = passed_ns.saturating_mul(self.connections.len() as u64);
        let is_open = self.lane.open.is_some();
        let asked_ns = match is_open || self.lane.users.is_some() {
            true => places_ns.min(tally.asked_ns(is_open)),
            false => places_ns,
        };
        let (cpu, looked_ns, lag_ns) = (ThreadCpu::own(), self.looked_ns, tally.lag_ns());
        let spent = Spent { now_ns, cpu, looked_ns, asked_ns, lag_ns };
        let start_ns = self.ledger.began_ns().saturating_sub(self.window.opened_ns);
        self.ledger.close_slice(&spent, Duration::from_nanos(start_ns));
    }

    fn wake_resting(&mut self) {
        let now_ns = self.lane.now_ns;
        for token in std::mem::take(&mut self.lane.resting) {
            let connection = &mut self.connections[token as usize];
            match connection.phase {
                Phase::Resting { until_ns } if until_ns <= now_ns => self.lane.refill(connection),
                Phase::Resting { .. } => self.lane.resting.push(token),
                _ => {}
            }
        }
    }

    fn tick(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        if self.is_anyone_late() {
            self.catch_up(buffer)?;
            if !self.is_over() {
                self.end_late();
            }
        }
        self.lane.settle_doubt(&self.connections);
        let live = self.orders.live;
        let tally = &self.lane.tally;
        live.ended.store(self.warmup_requests + self.sums.ended + tally.ended(), Relaxed);
        live.warmup.store(self.warmup_requests, Relaxed);
        live.failed.store(self.sums.failed + tally.counts.failed, Relaxed);
        self.next_tick_ns = self.lane.now_ns + to_ns(self.tick_length());
        Ok(())
    }

    fn end_late(&mut self) {
        for connection in &mut self.connections {
            self.lane.check_timeout(connection);
        }
    }

    fn tick_length(&self) -> Duration {
        let shortest = self.orders.plan.timeouts().min().unwrap_or(TICK_MAX);
        (shortest / 20).clamp(TICK_MIN, TICK_MAX)
    }

    fn longest_wait(&self) -> Duration {
        let mut until_ns = self.next_tick_ns.min(self.next_mark_ns).min(self.next_slice_ns);
        if self.lane.now_ns < self.lane.end_ns {
            until_ns = until_ns.min(self.lane.end_ns);
        }
        if let Some(deadline_ns) = self.deadline_ns {
            until_ns = until_ns.min(deadline_ns);
        }
        if let Some(opens_ns) = self.opens_ns() {
            until_ns = until_ns.min(opens_ns);
        }
        if let Some(wake_ns) = self.lane.users.as_ref().and_then(Users::wake_ns) {
            until_ns = until_ns.min(wake_ns);
        }
        if let Some(Reverse((at_ns, _))) = self.lane.throttled.peek() {
            until_ns = until_ns.min(*at_ns);
        }
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.lane.now_ns));
        if self.lane.resting.is_empty() { wait } else { wait.min(REST_STEP) }
    }

    /// Counts what the open loop left unsent; when no request was to begin any more.
    fn settle(&mut self) -> Option<u64> {
        let open = self.lane.open.as_mut()?;
        let Settled { planned, begun, unsent, carried } = open.settle(self.lane.now_ns);
        assert_eq!(planned, begun + unsent, "planned requests were lost or invented");
        self.lane.tally.open.unsent += unsent;
        self.lane.tally.open.carried += carried;
        Some(open.end_ns())
    }

    /// The connections to the servers of a scenario that belong together; mostly each is alone.
    fn groups(&self) -> impl Iterator<Item = &[Connection<W::Stream>]> {
        self.connections.chunks(self.orders.routes.len())
    }

    fn report(mut self) -> Report {
        if !self.lane.measuring {
            self.open_window();
        }
        self.mark();
        let told = self.orders.stop.load(Relaxed) || self.lane.has_ended;
        let stopped = told && !self.is_past_deadline() && !self.is_finished();
        let planned_end_ns = self.settle();
        let span_ns = self.lane.now_ns.saturating_sub(self.window.opened_ns);
        let window_ns = match planned_end_ns {
            // It was the planned one, however early or late its last answer came.
            Some(planned_end_ns) if !stopped || self.lane.now_ns >= planned_end_ns => {
                let planned_ns = planned_end_ns - self.orders.open_ns;
                if finishes_rounds(self.orders.plan) { span_ns.max(planned_ns) } else { planned_ns }
            }
            _ => span_ns,
        };
        self.hand_in_rest(window_ns);
        let machine = MachineLoad::now().zip(self.window.machine);
        let places_ns = span_ns as f64 * f64::from(self.orders.connections);
        let places_ns = places_ns * f64::from(self.orders.plan.depth);
        let connected = self.groups().filter(|group| group.iter().any(|c| c.established));
        let answers = self.groups().map(|group| group.iter().map(Connection::all_answers).sum());
        Report {
            connected: connected.count() as u32,
            answers_per_connection: answers.collect(),
            streams_max: self.lane.streams_max,
            in_flight: self.lane.in_flight,
            doubt: self.lane.doubt.take(),
            first_head: self.lane.first_head().to_vec(),
            records: self.lane.records,
            tls: self.lane.tls,
            warmup_requests: self.warmup_requests,
            scene: self.lane.users.map(Users::finish),
            cpu: ThreadCpu::own().since(self.window.cpu),
            looked_ns: self.looked_ns,
            accounts: self.ledger.accounts(),
            steal_share: machine.and_then(|(now, opened)| now.steal_share_since(opened)),
            window_ns,
            span_ns,
            accounted_ns: places_ns - self.sums.stamped_ns as f64 + self.sums.recorded_ns,
            stopped,
            marks: self.marks,
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "worker_scene_tests.rs"]
mod scene_tests;
