//! One client thread: its epoll loop over its share of the connections, from start to end of
//! window.
//!
//! Nothing is shared with other threads but a stop flag that is read and progress that is written a
//! few times a second. Timeouts are found by a scan each tick: a request costs no timer.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use drom_observe::{machine_load::MachineLoad, thread_cpu::ThreadCpu};

use crate::{
    connection::{Connection, Phase, to_ns},
    error::Error,
    lane::Lane,
    open::{Due, Open, OpenTally},
    pace::{self, Mark},
    patience::{LOOK_NS_MAX, Patience},
    plan::{Plan, Stop},
    schedule::Schedule,
    tally::Tally,
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

/// What a thread is told.
pub struct Orders<'a> {
    pub plan: &'a Plan,
    pub request: &'a [u8],
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
    pub live: &'a Live,
}

/// What a thread lets others see while it runs; a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Live {
    pub ended: AtomicU64,
    pub failed: AtomicU64,
}

/// What a thread has measured.
pub struct Report {
    pub tally: Tally,
    pub in_flight: u64,
    pub open: Option<OpenTally>,
    pub warmup_requests: u64,
    pub connected: u32,
    pub answers_per_connection: Vec<u64>,
    pub cpu: ThreadCpu,
    pub looked_ns: u64,
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
    let kernel = Kernel::new(reports).map_err(|source| Error::EventLoop { source })?;
    work_in(kernel, orders)
}

fn work_in(world: impl World, orders: &Orders<'_>) -> Result<Report, Error> {
    let mut lane = Lane::new(orders.plan, orders.request, world, orders.quota);
    lane.open = orders.schedule.clone().map(|schedule| Open::new(schedule, orders.start_ns));
    let now_ns = lane.now_ns;
    let connections = (0..orders.connections).map(|token| Connection::new(token, now_ns)).collect();
    let window = Window::open(now_ns);
    let mut worker = Worker {
        orders,
        lane,
        connections,
        window,
        warmup_requests: 0,
        next_tick_ns: 0,
        patience: Patience::default(),
        looked_ns: 0,
        deadline_ns: None,
        marks: Vec::new(),
        next_mark_ns: u64::MAX,
    };
    worker.lane.resting = (0..orders.connections).collect();
    let ended = worker.turn();
    if let Some(error) = worker.lane.fatal.take() {
        return Err(error);
    }
    ended.map(|()| worker.report())
}

struct Worker<'a, W: World> {
    orders: &'a Orders<'a>,
    lane: Lane<'a, W>,
    connections: Vec<Connection<W::Stream>>,
    window: Window,
    warmup_requests: u64,
    next_tick_ns: u64,
    patience: Patience,
    /// Time spent looking in vain in this window.
    looked_ns: u64,
    /// When the window closes; none while it is not open, or when requests are counted.
    deadline_ns: Option<u64>,
    /// How the window came on.
    marks: Vec<Mark>,
    /// Never in a window without a deadline.
    next_mark_ns: u64,
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
        while !self.is_over() {
            self.housekeep();
            let before_ns = self.lane.now_ns;
            let ready = self.wait().map_err(|source| Error::EventLoop { source })?;
            self.serve(ready, &mut buffer);
            if self.lane.now_ns == before_ns {
                self.lane.now_ns = self.lane.world.now_ns();
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<usize> {
        if let Some(due_ns) = self.lane.open.as_mut().and_then(Open::wake_ns) {
            return self.wait_until(due_ns);
        }
        if self.patience.looks() {
            let ready = self.look()?;
            self.patience.learn(ready > 0);
            if ready > 0 {
                return Ok(ready);
            }
        }
        let longest = self.longest_wait();
        self.lane.world.wait(longest)
    }

    /// A sleep ends late by some tens of microseconds: the last of them are spent looking.
    fn wait_until(&mut self, due_ns: u64) -> io::Result<usize> {
        let left_ns = due_ns.saturating_sub(self.lane.now_ns);
        if left_ns > SLEEP_LATE_NS {
            let longest = self.longest_wait();
            return self
                .lane
                .world
                .wait(longest.min(Duration::from_nanos(left_ns - SLEEP_LATE_NS)));
        }
        let began_ns = self.lane.now_ns;
        let ready = self.lane.world.wait(Duration::ZERO)?;
        if ready == 0 {
            self.lane.now_ns = self.lane.world.now_ns();
            self.looked_ns += self.lane.now_ns - began_ns;
        }
        Ok(ready)
    }

    /// Looks for reports for a moment without sleeping; that time is not work and is told apart.
    fn look(&mut self) -> io::Result<usize> {
        let mut ready = self.lane.world.wait(Duration::ZERO)?;
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
    fn serve(&mut self, ready: usize, buffer: &mut [u8]) {
        for at in 0..ready {
            let ready = self.lane.world.report(at);
            let connection = &mut self.connections[ready.token as usize];
            self.lane.ready(connection, ready, buffer);
            if self.is_past_deadline() {
                return;
            }
        }
    }

    fn is_past_deadline(&self) -> bool {
        self.deadline_ns.is_some_and(|deadline_ns| self.lane.now_ns >= deadline_ns)
    }

    fn is_over(&mut self) -> bool {
        self.is_past_deadline()
            || self.lane.fatal.is_some()
            || self.orders.stop.load(Relaxed)
            || self.orders.abort.load(Relaxed)
            || self.is_finished()
    }

    fn is_finished(&mut self) -> bool {
        let now_ns = self.lane.now_ns;
        let none_left = match &mut self.lane.open {
            Some(open) => open.is_over(now_ns),
            None => self.lane.left == Some(0),
        };
        none_left && self.lane.tally.sent == self.lane.tally.ended()
    }

    #[inline]
    fn housekeep(&mut self) {
        if !self.lane.measuring && self.lane.now_ns >= self.orders.open_ns {
            self.open_window();
        }
        if !self.lane.resting.is_empty() {
            self.wake_resting();
        }
        if self.lane.open.is_some() {
            self.release();
        }
        if self.lane.now_ns >= self.next_mark_ns {
            self.mark();
        }
        if self.lane.now_ns >= self.next_tick_ns {
            self.tick();
        }
    }

    /// Begins what is due, as far as connections are free.
    fn release(&mut self) {
        let mut burst = 0;
        while let Some(due) = self.take_due() {
            self.lane.start_due(&mut self.connections[due.token as usize], due);
            burst += 1;
        }
        if let Some(open) = self.lane.open.as_mut().filter(|_| burst > 1) {
            open.tally.burst_max = open.tally.burst_max.max(burst);
        }
    }

    fn take_due(&mut self) -> Option<Due> {
        let now_ns = self.lane.now_ns;
        self.lane.open.as_mut()?.take_free(now_ns)
    }

    /// Requests under way belong to the window: they end in it.
    fn open_window(&mut self) {
        let in_flight = self.in_flight();
        let warmup = std::mem::take(&mut self.lane.tally);
        self.warmup_requests = warmup.ended();
        self.lane.tally.sent = in_flight;
        if let Some(open) = &mut self.lane.open {
            open.tally = OpenTally::default();
        }
        self.lane.left = self.lane.left.map(|left| left.saturating_sub(in_flight));
        self.lane.measuring = true;
        self.looked_ns = 0;
        for connection in &mut self.connections {
            connection.answers = 0;
            connection.accounted_to_ns = self.lane.now_ns;
        }
        self.window = Window::open(self.lane.now_ns);
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
        self.marks.push(Mark { after_ns, ok: self.lane.tally.ok });
        self.next_mark_ns = self.lane.now_ns.saturating_add(self.mark_step_ns());
    }

    fn wake_resting(&mut self) {
        let now_ns = self.lane.now_ns;
        for token in std::mem::take(&mut self.lane.resting) {
            let connection = &mut self.connections[token as usize];
            match connection.phase {
                Phase::Resting { until_ns } if until_ns <= now_ns => self.lane.next(connection),
                Phase::Resting { .. } => self.lane.resting.push(token),
                _ => {}
            }
        }
    }

    fn tick(&mut self) {
        for connection in &mut self.connections {
            self.lane.check_timeout(connection);
        }
        let live = self.orders.live;
        live.ended.store(self.warmup_requests + self.lane.tally.ended(), Relaxed);
        live.failed.store(self.lane.tally.failed, Relaxed);
        self.next_tick_ns = self.lane.now_ns + to_ns(self.tick_length());
    }

    fn tick_length(&self) -> Duration {
        (self.orders.plan.timeout / 20).clamp(TICK_MIN, TICK_MAX)
    }

    fn longest_wait(&self) -> Duration {
        let mut until_ns = self.next_tick_ns.min(self.next_mark_ns);
        if let Some(deadline_ns) = self.deadline_ns {
            until_ns = until_ns.min(deadline_ns);
        }
        if !self.lane.measuring {
            until_ns = until_ns.min(self.orders.open_ns);
        }
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.lane.now_ns));
        if self.lane.resting.is_empty() { wait } else { wait.min(REST_STEP) }
    }

    fn in_flight(&self) -> u64 {
        self.connections.iter().filter(|connection| connection.has_request()).count() as u64
    }

    /// When no request began any more, and what the open loop counted.
    fn settle(&self, mut open: Open) -> (u64, OpenTally) {
        let (planned, begun) = open.settle(self.lane.now_ns);
        assert_eq!(planned, begun + open.tally.unsent, "planned requests were lost or invented");
        (open.end_ns(), open.tally)
    }

    fn report(mut self) -> Report {
        if !self.lane.measuring {
            self.open_window();
        }
        self.mark();
        let stopped =
            self.orders.stop.load(Relaxed) && !self.is_past_deadline() && !self.is_finished();
        let open = self.lane.open.take().map(|open| self.settle(open));
        let (end_ns, window) = (self.lane.now_ns, &self.window);
        let window_ns = match &open {
            // It was the planned one, however early or late its last answer came.
            Some((planned_end_ns, _)) if !stopped => planned_end_ns - self.orders.open_ns,
            _ => end_ns.saturating_sub(window.opened_ns),
        };
        let open = open.map(|(_, tally)| tally);
        let rest = |c: &Connection<W::Stream>| end_ns.saturating_sub(c.accounted_to_ns) as f64;
        let rest_ns: f64 = self.connections.iter().map(rest).sum();
        let machine = MachineLoad::now().zip(window.machine);
        let service = open.as_ref().map(|open| &open.service);
        Report {
            in_flight: self.in_flight(),
            warmup_requests: self.warmup_requests,
            connected: self.connections.iter().filter(|c| c.established).count() as u32,
            answers_per_connection: self.connections.iter().map(|c| c.answers).collect(),
            cpu: ThreadCpu::own().since(window.cpu),
            looked_ns: self.looked_ns,
            steal_share: machine.and_then(|(now, opened)| now.steal_share_since(opened)),
            window_ns,
            span_ns: end_ns.saturating_sub(window.opened_ns),
            accounted_ns: self.lane.tally.accounted_ns(service) + rest_ns,
            stopped,
            open,
            marks: self.marks,
            tally: self.lane.tally,
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
