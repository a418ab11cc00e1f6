//! A simulated world: virtual clock, servers with a known true speed, noise as on a shared machine
//! (slow environment, level of each start, slices), and faults that are planted by name.

#![allow(dead_code, reason = "each test file uses its part of the world")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use drom_compare::{
    Ceiling, Clock, Error, Launch, Load, Machine, NotReady, Order, Plan, Progress, Reply, Request,
    ServerId, Servers, Sink, run,
};
use drom_load::{ErrorKind, Outcome};
use drom_observe::{Counters, Process};
use drom_report::Findings;
use drom_stats::{Latency, Rng};
use drom_store::{Block, Dropped, End, Fact, Manifest};

/// One thing that is wrong with variant `b` or with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    SlowClient,
    BusyClient,
    MissingConnections,
    WrongBody,
    ServerErrors,
    BacklogOverflow,
    SynRetransmit,
    Starvation,
    ColdChild,
    Recycling,
    /// Every worker of `b` is another one after each slice.
    FastRecycling,
    Throttling,
    NoisyNeighbour,
    Drift,
    BimodalStart,
    ClockJump,
    Leak,
    IdleConnections,
    BaselineUnlikeItself,
    /// The first slice of every start of `b` begins a fifth slower, for 0.4 s.
    SlowBeginning,
    /// Every fifth server of `b` dies under its first load.
    DiesSometimes,
    /// Every page shows the number of seconds divided by this.
    Clock(u32),
    /// Every page shows which start it comes from, which is no difference.
    OwnPort,
    /// Every page shows a number that gets longer.
    Counter,
    /// Every second server of `b` never answers under load.
    HangsSometimes,
    /// So does every second server of the baseline, its control's included.
    BaselineHangs,
    /// From the third block on no server of `b` outlives its first load.
    DiesAlways,
}

pub struct SimWorld {
    pub fault: Fault,
    /// True rates by variant name (the first word of the command).
    pub speed: BTreeMap<String, f64>,
    pub start_sd: f64,
    pub slice_sd: f64,
    pub environment_sd: f64,
    /// Starts and stops so far, and the most servers alive at once.
    pub starts: usize,
    pub alive_most: usize,
    /// Sets this flag after so many slices: a Ctrl-C.
    pub interrupt_after: Option<usize>,
    /// A stranger is busy during the first slices of every server, which slows nothing down.
    pub first_disturbed: bool,
    pub slices: usize,
    rng: Rng,
    /// For the steps inside slices, so that they change nothing else.
    steps: Rng,
    now_s: f64,
    environment: f64,
    counters: Counters,
    client_cpu_s: f64,
    wall_offset_s: f64,
    servers: BTreeMap<ServerId, SimServer>,
    starts_of: BTreeMap<String, usize>,
    next: ServerId,
    /// Answers outside of slices.
    asked: usize,
}

struct SimServer {
    name: String,
    level: f64,
    cpu_s: f64,
    first_pid: i32,
    slices: u32,
    pss: u64,
    /// How many of this name there have been.
    start: usize,
}

impl SimWorld {
    pub fn new(seed: u64, fault: Fault) -> Self {
        Self {
            fault,
            speed: BTreeMap::from([("a".to_owned(), 10_000.0), ("b".to_owned(), 10_000.0)]),
            start_sd: 0.015,
            slice_sd: 0.015,
            environment_sd: 0.04,
            starts: 0,
            alive_most: 0,
            interrupt_after: None,
            first_disturbed: false,
            slices: 0,
            rng: Rng::new(seed),
            steps: Rng::new(!seed),
            now_s: 0.0,
            environment: 0.0,
            counters: Counters::default(),
            client_cpu_s: 0.0,
            wall_offset_s: 1.7e9,
            servers: BTreeMap::new(),
            starts_of: BTreeMap::new(),
            next: 1,
            asked: 0,
        }
    }

    fn dies(&self, id: ServerId) -> bool {
        let server = &self.servers[&id];
        server.name == "b"
            && match self.fault {
                Fault::DiesSometimes => server.start.is_multiple_of(5),
                // The first one is asked for its answer.
                Fault::DiesAlways => server.start > 3,
                _ => false,
            }
    }

    pub fn alive(&self) -> usize {
        self.servers.len()
    }

    fn pass(&mut self, seconds: f64) {
        self.now_s += seconds;
        self.counters.total_s += 2.0 * seconds;
        // AR(1), sd 4 %, as in the simulations that the protocol was chosen by.
        let step = self.environment_sd * (1.0_f64 - 0.81).sqrt() * self.rng.normal();
        self.environment = 0.9 * self.environment + step;
    }

    fn hits(&self, name: &str, fault: Fault) -> bool {
        self.fault == fault && name == "b"
    }

    fn rate(&mut self, id: ServerId) -> f64 {
        let slice = (self.slice_sd * self.rng.normal()).exp();
        let server = &self.servers[&id];
        let mut rate = self.speed[&server.name] * server.level * self.environment.exp() * slice;
        if self.hits(&server.name, Fault::ColdChild) && server.slices == 1 {
            rate *= 0.7;
        }
        if self.hits(&server.name, Fault::Drift) {
            rate *= (0.012 * self.now_s / 4.0).exp();
        }
        rate
    }

    fn pace(&mut self, id: ServerId, rate: f64, window_s: f64) -> Vec<f64> {
        let server = &self.servers[&id];
        // The first load is the warm-up.
        let slow = self.hits(&server.name, Fault::SlowBeginning) && server.slices == 2;
        let slow_s = if slow { 0.4 } else { 0.0 };
        let mut step = |at: usize| {
            let slower = (at as f64 * window_s / 50.0) < slow_s - 1e-9;
            rate * if slower { 0.8 } else { 1.0 } * (1.0 + 0.05 * self.steps.normal())
        };
        (0..50).map(&mut step).collect()
    }

    /// And without what is its own.
    fn page(&self, server: ServerId) -> (Vec<u8>, Vec<u8>) {
        let text = match self.fault {
            Fault::Clock(step) => format!("{:06}", self.now_s as u64 / u64::from(step)),
            Fault::Counter => self.asked.to_string(),
            Fault::OwnPort => return (format!("at {server}").into(), b"at {port}".to_vec()),
            _ => "hello".to_owned(),
        };
        (text.clone().into(), text.into())
    }

    fn disturb(&mut self, id: ServerId, outcome: &mut Outcome, seconds: f64) {
        let name = self.servers[&id].name.clone();
        let all = outcome.sent;
        // The warm-up and the first attempt, or two attempts where there is no warm-up.
        if self.first_disturbed && self.servers[&id].slices <= 2 {
            self.counters.busy_s += 0.6 * seconds;
        }
        let who = match self.fault {
            Fault::HangsSometimes => "b",
            Fault::BaselineHangs => "a",
            _ => "",
        };
        if name == who && self.servers[&id].start.is_multiple_of(2) {
            return hang(outcome);
        }
        match self.fault {
            Fault::SlowClient => outcome.thread_cpu = vec![outcome.duration.mul_f64(0.97)],
            Fault::BusyClient => outcome.thread_cpu = vec![outcome.duration.mul_f64(0.8)],
            Fault::Throttling => self.counters.throttled_s += 0.1 * seconds,
            Fault::NoisyNeighbour => self.counters.busy_s += 0.6 * seconds,
            Fault::ClockJump => self.wall_offset_s += 3.0,
            Fault::BacklogOverflow => self.counters.listen_overflows += 5,
            _ if name != "b" => {}
            Fault::MissingConnections => outcome.connected -= 3,
            Fault::WrongBody => {
                outcome.errors.insert(ErrorKind::BadBody, all / 10);
                outcome.failed = all / 10;
                outcome.ok -= all / 10;
            }
            Fault::ServerErrors => {
                outcome.status.insert(503, all / 20);
                outcome.failed = all / 20;
                outcome.ok -= all / 20;
            }
            Fault::SynRetransmit => (0..3).for_each(|_| outcome.latency.record_ns(1_003_000_000)),
            Fault::Starvation => {
                let share = all / 4;
                outcome.answers_per_connection = vec![share, share, share, share, 0, 0, 0, 0];
            }
            Fault::IdleConnections => outcome.accounted_time = outcome.connection_time.mul_f64(0.8),
            Fault::Recycling => self.servers.get_mut(&id).expect("alive").first_pid += 1,
            Fault::FastRecycling => self.servers.get_mut(&id).expect("alive").first_pid += 2,
            Fault::Leak => self.servers.get_mut(&id).expect("alive").pss += 12_000_000,
            _ => {}
        }
    }
}

/// Every connection waits for its first answer.
fn hang(outcome: &mut Outcome) {
    let waiting = outcome.answers_per_connection.len();
    outcome.sent = waiting as u64;
    (outcome.in_flight, outcome.ok) = (outcome.sent, 0);
    outcome.answers_per_connection = vec![0; waiting];
    (outcome.latency, outcome.pace) = (Latency::default(), vec![0.0; 50]);
}

impl Clock for SimWorld {
    fn now_s(&self) -> f64 {
        self.now_s
    }

    fn wall_s(&self) -> f64 {
        self.now_s + self.wall_offset_s
    }

    fn sleep(&mut self, pause: Duration) {
        self.pass(pause.as_secs_f64());
    }
}

impl Servers for SimWorld {
    fn start(&mut self, launch: &Launch, _stop: &AtomicBool) -> Result<ServerId, NotReady> {
        self.pass(0.2);
        let id = self.next;
        self.next += 1;
        self.starts += 1;
        let name = launch.argv[0].clone();
        let mut level = (self.start_sd * self.rng.normal()).exp();
        if self.hits(&name, Fault::BimodalStart) && self.rng.unit() < 0.5 {
            level *= 0.75;
        }
        if self.fault == Fault::BaselineUnlikeItself && id.is_multiple_of(2) {
            level *= 0.8;
        }
        let first_pid = (id * 100) as i32;
        let start = self.starts_of.entry(name.clone()).or_default();
        *start += 1;
        let (start, pss) = (*start, 30_000_000);
        let server = SimServer { name, level, cpu_s: 0.0, first_pid, slices: 0, pss, start };
        self.servers.insert(id, server);
        self.alive_most = self.alive_most.max(self.servers.len());
        Ok(id)
    }

    fn answer(&mut self, server: ServerId, _request: &Request) -> Result<Reply, String> {
        let content_type = "text/plain".to_owned();
        self.pass(0.001);
        self.asked += 1;
        let (body, same) = self.page(server);
        Ok(Reply { status: 200, content_type, body, same })
    }

    fn processes(&mut self, server: ServerId) -> Vec<Process> {
        let server = &self.servers[&server];
        let process = |pid: i32| {
            let (command, cpu_s) = (server.name.clone(), server.cpu_s / 2.0);
            Process { pid, parent: 1, command, cpu_s, reaped_s: 0.0, listens: true }
        };
        (0..2).map(|n| process(server.first_pid + n)).collect()
    }

    fn pss_bytes(&mut self, server: ServerId) -> Vec<(i32, u64)> {
        let server = &self.servers[&server];
        (0..2).map(|n| (server.first_pid + n, server.pss / 2)).collect()
    }

    fn ended(&mut self, server: ServerId) -> Option<String> {
        let loaded = self.servers[&server].slices > 0;
        (loaded && self.dies(server)).then(|| "its server ended; it wrote:\n  oops".to_owned())
    }

    fn stop(&mut self, server: ServerId) {
        self.servers.remove(&server).expect("stopped once");
        self.pass(0.05);
    }
}

impl Load for SimWorld {
    fn slice(&mut self, order: &Order<'_>, stop: &AtomicBool) -> Result<Outcome, String> {
        let (window_s, id) = (order.window.as_secs_f64(), order.server);
        let seconds = window_s + order.settle.as_secs_f64();
        self.servers.get_mut(&id).expect("alive").slices += 1;
        let rate = self.rate(id);
        self.pass(seconds);
        let sent = (rate * window_s) as u64;
        let mut latency = Latency::default();
        let mean_ns = f64::from(order.connections) / rate * 1e9;
        (0..10).for_each(|_| latency.record_ns(mean_ns as u64));
        let connection_time = order.window * order.connections;
        let mut outcome = Outcome {
            duration: order.window,
            sent,
            ok: sent,
            latency,
            connected: order.connections,
            answers_per_connection: vec![sent / 8; order.connections as usize],
            thread_cpu: vec![order.window.mul_f64(0.3)],
            pace: self.pace(id, rate, window_s),
            connection_time,
            accounted_time: connection_time,
            ..Outcome::default()
        };
        let (server_cpu_s, client_cpu_s) = (0.9 * seconds, 0.3 * seconds);
        self.servers.get_mut(&id).expect("alive").cpu_s += server_cpu_s;
        self.client_cpu_s += client_cpu_s;
        self.counters.busy_s += server_cpu_s + client_cpu_s;
        let body = self.page(id).0;
        let sum = (body.len() as u64, drom_load::body_hash(&body));
        if order.expect_body.is_some_and(|expected| !expected.is_met_by(sum)) {
            outcome.errors.insert(ErrorKind::BadBody, sent / 2);
            (outcome.failed, outcome.ok) = (sent / 2, sent - sent / 2);
        }
        self.disturb(id, &mut outcome, seconds);
        self.slices += 1;
        if self.interrupt_after.is_some_and(|after| self.slices >= after) {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    fn ceiling_rps(&mut self, order: &Ceiling, _stop: &AtomicBool) -> Result<f64, String> {
        self.pass(order.window.as_secs_f64());
        Ok(200_000.0)
    }
}

impl Machine for SimWorld {
    fn record(&mut self) -> Vec<Fact> {
        vec![Fact { name: "CPU".to_owned(), value: "simulated".to_owned() }]
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn client_cpu_s(&mut self) -> f64 {
        self.client_cpu_s
    }

    fn placement(&self) -> String {
        "simulated".to_owned()
    }
}

/// Keeps everything in memory.
#[derive(Default)]
pub struct Kept {
    pub manifest: Option<Manifest>,
    pub blocks: Vec<Block>,
    pub dropped: Vec<Dropped>,
    pub latencies: Vec<Vec<Latency>>,
    pub keep_latencies: bool,
    pub planned: Vec<(usize, usize)>,
}

impl Sink for Kept {
    fn begin(&mut self, manifest: &Manifest) -> Result<(), Error> {
        self.manifest = Some(manifest.clone());
        Ok(())
    }

    fn block(&mut self, block: &Block, latencies: &[Latency]) -> Result<(), Error> {
        self.blocks.push(block.clone());
        if self.keep_latencies {
            self.latencies.push(latencies.to_vec());
        }
        Ok(())
    }

    fn dropped(&mut self, dropped: &Dropped) -> Result<(), Error> {
        self.dropped.push(dropped.clone());
        Ok(())
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if let Progress::Planned { blocks, wanted, .. } = progress {
            self.planned.push((*blocks, *wanted));
        }
    }
}

pub struct Experiment {
    pub kept: Kept,
    pub world: SimWorld,
    pub end: End,
}

impl Experiment {
    pub fn findings(&self) -> Findings {
        let manifest = self.kept.manifest.as_ref().expect("it began");
        drom_compare::judge(manifest, &self.kept.blocks, &self.kept.dropped)
    }
}

/// `settings` is TOML before the tables; `load` goes into `[load]`.
pub fn plan(settings: &str, load: &str) -> Plan {
    let text = format!(
        "name = \"sim\"\nbaseline = \"a\"\n{settings}\n[load]\n{load}\n\
         [[variant]]\nname = \"a\"\ncommand = [\"a\", \"{{port}}\"]\nurl = \"/\"\n\
         [[variant]]\nname = \"b\"\ncommand = [\"b\", \"{{port}}\"]\nurl = \"/\"\n"
    );
    Plan::parse(&text, Path::new("/"), Path::new("/drom")).expect("a good plan")
}

pub fn experiment(plan: &Plan, seed: u64, mut world: SimWorld) -> Experiment {
    let mut kept = Kept::default();
    let stop = AtomicBool::new(false);
    let end = run(plan, seed, "test", &mut world, &mut kept, &stop).expect("it runs");
    Experiment { kept, world, end }
}
