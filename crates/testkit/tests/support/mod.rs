//! Cases for the verdict "the client was the limit": planted ones, in which it was, and clean ones.
//!
//! What is true is made so, not measured: in a planted case the client has no CPU, or much more to
//! do for an answer than the server; in a clean one the server waits, or has no CPU.

// The test and the example use different parts.
#![allow(dead_code, unused_imports)]

mod drawn;

pub use drawn::drawn;

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{
    Arrivals, ClientVerdict, Outcome, Pace, Plan, Stage, Stop, Target, client_limited, null_server,
    run,
};
use drom_observe::{
    allowed_cores,
    clock::{monotonic_ns, sleep},
    pin_current_thread,
};
use drom_testkit::{
    Brake, Delay, Fate, Form, Hog, Pauser, Process, Quota, Script, Server, Turn, wire,
};

const WINDOW: Duration = Duration::from_millis(400);
/// A clean case in which others took more of the client's CPU was none.
const FOREIGN_SHARE_MAX: f64 = 0.15;
const STEAL_SHARE_MAX: f64 = 0.05;

pub struct Case {
    pub name: String,
    pub limited: bool,
    served: Served,
    /// The plan without its target.
    plan: Plan,
    /// What the server answers in a second when the client costs nothing, where that is known.
    ideal_rps: Option<f64>,
    /// Hogs beside the client and beside the server, and the share of time that each works.
    client_hogs: (usize, f64),
    server_hogs: usize,
    /// The server is on the client's core.
    is_shared: bool,
    /// The client's process is stopped so long, and goes on for so long.
    pauses: Option<(Duration, Duration)>,
    nice: i32,
    /// Of one CPU, for the client's process.
    quota: Option<f64>,
    is_braked: bool,
}

/// What came of it.
pub struct Seen {
    pub verdict: ClientVerdict,
    /// Of the rate that a client without cost would have measured.
    pub lost_share: Option<f64>,
    /// Part of the client's CPU that went to neither the client nor what was planted: what the
    /// machine did itself.
    pub foreign_share: f64,
    pub steal_share: f64,
    /// Client and server went before all that others wanted.
    pub is_first: bool,
}

impl Seen {
    /// The machine took no CPU from the client that the case did not.
    pub fn is_undisturbed(&self) -> bool {
        let has_cpu = self.is_first || self.foreign_share < FOREIGN_SHARE_MAX;
        has_cpu && self.steal_share < STEAL_SHARE_MAX
    }
}

enum Served {
    /// The engine's server that does nothing.
    Null,
    Kit(Script),
}

/// All of them: fifty planted and fifty clean.
pub fn cases() -> Vec<Case> {
    planted().into_iter().chain(clean()).collect()
}

/// Six planted ones, in which the client always has more to do than it can, and six clean ones.
pub fn few() -> Vec<Case> {
    let dear = |connections, chunk| {
        let case = Case::planted(&format!("chunks of {chunk} bytes")).connections(connections);
        case.script(dear_answer(chunk))
    };
    let capacity = Script { capacity_rps: Some(200.0), ..Script::always(Turn::default()) };
    vec![
        dear(16, 1),
        dear(32, 1),
        dear(16, 1).hogs(1, 1.0),
        dear(32, 1).hogs(2, 1.0),
        dear(64, 2).hogs(1, 1.0),
        dear(32, 1).shared(),
        Case::slow("5 ms", constant(5)),
        Case::slow("20 ms", constant(20)).connections(64),
        Case::slow("10 ms, exponential", Delay::Exponential { mean: Duration::from_millis(10) }),
        Case::slow("at most 200/s", Delay::NONE).script(capacity),
        Case::slow("5 ms, short", constant(5)).window(Duration::from_millis(150)),
        Case::slow("open loop, 1 ms", constant(1)).rate(200.0, Arrivals::Constant),
    ]
}

/// Waits until the machine does little besides, for so long at most.
pub fn wait_for_quiet(longest: Duration) {
    let cores = allowed_cores();
    let ticks = || cores.iter().map(|core| core_ticks(*core)).collect::<Vec<_>>();
    let until_ns = monotonic_ns() + longest.as_nanos() as u64;
    while monotonic_ns() < until_ns {
        let before = ticks();
        sleep(Duration::from_millis(200));
        let pairs = before.into_iter().zip(ticks());
        let taken = pairs.map(|(before, after)| {
            let all = (after[0] - before[0]).max(1.0);
            (after[1] - before[1] + after[2] - before[2]) / all
        });
        if taken.fold(0.0, f64::max) < FOREIGN_SHARE_MAX {
            return;
        }
    }
}

fn planted() -> Vec<Case> {
    [hogged(), crowded(), dear(), stopped(), lean()].into_iter().flatten().collect()
}

/// Something else works on the client's CPU.
fn hogged() -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in [8, 32, 128] {
        let null = Case::planted("server that does nothing").connections(connections);
        cases.extend((1..=3).map(|hogs| null.same().hogs(hogs, 1.0)));
        cases.push(null.same().threads(2).hogs(1, 1.0));
    }
    for connections in [16, 96] {
        for share in [0.7, 0.9] {
            let null = Case::planted("server that does nothing").connections(connections);
            cases.push(null.hogs(1, share));
        }
    }
    for hogs in 1..=2 {
        for connections in [32, 128] {
            let case = Case::planted("open loop over its means").connections(connections);
            cases.push(case.rate(400_000.0, Arrivals::Constant).hogs(hogs, 1.0));
        }
        for connections in [8, 64] {
            let case = Case::planted("a connection a request").connections(connections);
            cases.push(case.without_keepalive().hogs(hogs, 1.0));
        }
    }
    for connections in [8, 64] {
        cases.push(Case::planted("nice 19").connections(connections).nice(19).hogs(1, 1.0));
    }
    cases
}

/// Server and client, or many client threads, on one CPU.
fn crowded() -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in [8, 32, 128] {
        let null = Case::planted("server that does nothing").connections(connections);
        cases.push(null.shared());
    }
    for threads in [4, 8] {
        cases.push(Case::planted("more threads than CPUs").connections(64).threads(threads));
    }
    cases
}

/// The client has more work with an answer than the server.
fn dear() -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in [4, 16] {
        for chunk in [1, 4] {
            let name = format!("chunks of {chunk} bytes");
            cases.push(Case::planted(&name).connections(connections).script(dear_answer(chunk)));
        }
    }
    for connections in [8, 64] {
        cases.push(Case::planted("slowed down").connections(connections).braked());
    }
    cases
}

/// The client is stopped now and then, once, or by a quota.
fn stopped() -> Vec<Case> {
    let mut cases = Vec::new();
    let ms = Duration::from_millis;
    let plain = || Script::always(Turn::default());
    for (connections, pause) in [(8, 20), (32, 20), (8, 60), (32, 60)] {
        let case = Case::planted("stopped now and then").connections(connections);
        cases.push(case.script(plain()).paused((ms(20), ms(pause))));
    }
    for connections in [8, 64] {
        let case = Case::planted("stopped once").connections(connections).window(ms(4_000));
        cases.push(case.script(plain()).paused((ms(2_500), ms(500))));
    }
    let case = Case::planted("stopped once, open loop").connections(8);
    let case = case.rate_for(ms(4_000), 500.0, Arrivals::Constant);
    cases.push(case.script(plain()).paused((ms(2_500), ms(500))));
    for connections in [8, 32] {
        for share in [0.1, 0.2] {
            let case = Case::planted("quota").connections(connections).window(ms(1_000));
            cases.push(case.script(plain()).quota(share));
        }
    }
    cases
}

/// An open loop with fewer connections than its rate needs, and a server without a queue.
fn lean() -> Vec<Case> {
    let lean = |connections, rps| {
        let case = Case::planted("few connections").connections(connections);
        case.script(Script::always(Turn::after(constant(2)))).rate(rps, Arrivals::Constant)
    };
    vec![lean(1, 2_000.0), lean(2, 3_000.0)]
}

fn clean() -> Vec<Case> {
    let mut cases = Vec::new();
    for ms in [1, 2, 5, 10, 20] {
        for connections in [1, 8, 64] {
            let case = Case::slow(&format!("{ms} ms"), constant(ms)).connections(connections);
            cases.push(case.ideal(f64::from(connections) * 1e3 / ms as f64));
        }
    }
    for ms in [2, 10] {
        let mean = Duration::from_millis(ms);
        for connections in [4, 32] {
            let case = Case::slow(&format!("{ms} ms, exponential"), Delay::Exponential { mean });
            cases.push(case.connections(connections));
            let case = Case::slow(&format!("{ms} ms, two threads"), constant(ms));
            cases.push(case.connections(2 * connections).threads(2));
        }
    }
    for rps in [200.0, 1_000.0, 3_000.0] {
        let script = Script { capacity_rps: Some(rps), ..Script::always(Turn::default()) };
        for connections in [8, 64] {
            let case = Case::slow(&format!("at most {rps}/s"), Delay::NONE);
            cases.push(case.script(script.clone()).connections(connections).ideal(rps));
        }
        for arrivals in [Arrivals::Constant, Arrivals::Poisson { seed: 3 }] {
            cases.push(Case::slow("open loop, 1 ms", constant(1)).rate(rps, arrivals));
        }
    }
    for connections in [8, 32] {
        for hogs in 1..=2 {
            let case = Case::slow("hogs beside the server", Delay::NONE).connections(connections);
            cases.push(case.server_hogs(hogs));
        }
        cases.push(Case::slow("a connection a request", constant(5)).without_keepalive());
    }
    // Its requests wait in the server anyway: what a small hog takes costs nothing.
    let busy = Script { capacity_rps: Some(500.0), ..Script::always(Turn::default()) };
    for connections in [16, 64] {
        for share in [0.2, 0.3] {
            let case = Case::slow("at most 500/s", Delay::NONE).connections(connections);
            cases.push(case.script(busy.clone()).hogs(1, share).ideal(500.0));
        }
    }
    for ms in [100, 150, 200] {
        cases.push(Case::slow("2 ms, short", constant(2)).window(Duration::from_millis(ms)));
    }
    for connections in [500, 1_000] {
        cases.push(
            Case::slow("50 ms, many", constant(50))
                .connections(connections)
                .ideal(f64::from(connections) * 20.0),
        );
    }
    cases
}

impl Case {
    /// Runs it: on the first core the client, on the last one the server. `None` where what it
    /// plants is not allowed.
    pub fn run(&self) -> Option<Seen> {
        let all = allowed_cores();
        let (own, other) = (all[0], all[all.len() - 1]);
        let server_core = if self.is_shared { own } else { other };
        let pin = |cores: &[usize]| pin_current_thread(cores).expect("the cores may be used");
        let hog = |core, share| Hog::start(core, share).expect("a thread");
        let (count, share) = self.client_hogs;
        let mut hogs: Vec<Hog> = (0..count).map(|_| hog(own, share)).collect();
        hogs.extend((0..self.server_hogs).map(|_| hog(other, 1.0)));
        pin(&[server_core]);
        // Whatever else the machine does, a clean case is clean.
        let is_first = !self.limited && count == 0 && self.server_hogs == 0 && go_first(true);
        let (mut kit, mut null, mut process) = (None, None, None);
        let address = match &self.served {
            Served::Null => null.insert(null_server().expect("a server")).address(),
            Served::Kit(script) if self.pauses.is_some() || self.quota.is_some() => {
                process.insert(Process::start(script.clone()).expect("a process")).address()
            }
            Served::Kit(script) => {
                let server = Server::start_pinned(script.clone(), Some(server_core));
                kit.insert(server.expect("a server")).address()
            }
        };
        let quota = self.quota.map(Quota::start).transpose().ok()?;
        pin(&[own]);
        let before = core_ticks(own);
        let outcome = self.load(Plan { target: Target::at(address, "/"), ..self.plan.clone() });
        let after = core_ticks(own);
        drop(quota);
        pin(&all);
        if is_first {
            go_first(false);
        }
        let lost_share = self.ideal_rps.map(|ideal| 1.0 - outcome.rate_rps() / ideal);
        let (foreign_share, steal_share) = self.besides(&outcome, before, after);
        let verdict = client_limited(&outcome, None);
        Some(Seen { verdict, lost_share, foreign_share, steal_share, is_first })
    }

    /// A thread of its own is as nice as the case wants, and those that it starts.
    fn load(&self, plan: Plan) -> Outcome {
        let pauser = self.pauses.map(|(work, pause)| Pauser::start(work, pause).expect("a pauser"));
        let (work, period) = (Duration::from_millis(9), Duration::from_millis(10));
        let brake = self.is_braked.then(|| Brake::start("drom-load", work, period));
        let outcome = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                // SAFETY: takes numbers; to be nicer is always allowed.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.nice) };
                run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("possible")
            });
            client.join().expect("no panic")
        });
        drop((pauser, brake));
        outcome
    }

    /// What others had of the client's core, and what the hypervisor took.
    fn besides(&self, outcome: &Outcome, before: [f64; 3], after: [f64; 3]) -> (f64, f64) {
        let [total, busy, stolen] = [0, 1, 2].map(|at| after[at] - before[at]);
        let cpu_s: f64 = outcome.thread_cpu.iter().map(Duration::as_secs_f64).sum();
        let own = cpu_s / outcome.duration.as_secs_f64().max(1e-3);
        let planted = self.client_hogs.0 as f64 * self.client_hogs.1;
        ((busy / total.max(1.0) - own - planted).max(0.0), stolen / total.max(1.0))
    }

    fn planted(name: &str) -> Self {
        Self::new(name, true, Served::Null)
    }

    fn slow(name: &str, delay: Delay) -> Self {
        Self::new(name, false, Served::Kit(Script::always(Turn::after(delay))))
    }

    fn new(name: &str, limited: bool, served: Served) -> Self {
        let target = Target::at(([127, 0, 0, 1], 1).into(), "/");
        let plan = Plan { connections: 8, stop: Stop::After(WINDOW), ..Plan::get(target) };
        Self {
            name: name.to_owned(),
            limited,
            served,
            plan,
            ideal_rps: None,
            client_hogs: (0, 0.0),
            server_hogs: 0,
            is_shared: false,
            pauses: None,
            nice: 0,
            quota: None,
            is_braked: false,
        }
    }

    /// Another like this, of those against the server that does nothing.
    fn same(&self) -> Self {
        Self { plan: self.plan.clone(), ..Self::planted(&self.name) }
    }

    fn connections(mut self, connections: u32) -> Self {
        self.plan.connections = connections;
        self.name += &format!(", {connections} connections");
        self
    }

    fn ideal(mut self, rps: f64) -> Self {
        self.ideal_rps = Some(rps);
        self
    }

    fn threads(mut self, threads: u32) -> Self {
        self.plan.threads = threads;
        self.name += &format!(", {threads} threads");
        self
    }

    fn window(mut self, window: Duration) -> Self {
        self.plan.stop = Stop::After(window);
        self.name += &format!(", {} ms", window.as_millis());
        self
    }

    fn without_keepalive(mut self) -> Self {
        self.plan.keepalive = false;
        self
    }

    fn rate(self, rps: f64, arrivals: Arrivals) -> Self {
        self.rate_for(WINDOW, rps, arrivals)
    }

    fn rate_for(mut self, window: Duration, rps: f64, arrivals: Arrivals) -> Self {
        self.plan.pace = Some(Pace { arrivals, stages: vec![Stage::steady(window, rps)] });
        self.plan.stop = Stop::After(window);
        self.name += &format!(", {rps}/s");
        self
    }

    fn nice(mut self, nice: i32) -> Self {
        self.nice = nice;
        self
    }

    fn quota(mut self, share: f64) -> Self {
        self.quota = Some(share);
        self.name += &format!(", {:.0} % of a CPU", share * 100.0);
        self
    }

    /// Busy work in the client's threads.
    fn braked(mut self) -> Self {
        self.is_braked = true;
        self
    }

    fn script(mut self, script: Script) -> Self {
        self.served = Served::Kit(script);
        self
    }

    fn hogs(mut self, hogs: usize, share: f64) -> Self {
        self.client_hogs = (hogs, share);
        self.name += &format!(", {hogs} hogs of {:.0} %", share * 100.0);
        self
    }

    fn server_hogs(mut self, hogs: usize) -> Self {
        self.server_hogs = hogs;
        self.name += &format!(", {hogs} hogs");
        self
    }

    fn shared(mut self) -> Self {
        self.is_shared = true;
        self.name += ", on the client's core";
        self
    }

    fn paused(mut self, (work, pause): (Duration, Duration)) -> Self {
        self.pauses = Some((work, pause));
        self.name += &format!(", {} of {} ms", pause.as_millis(), (work + pause).as_millis());
        self
    }
}

/// The calling thread, and those that it starts, go before all threads without such a rank, or go
/// like others again; whether that is allowed.
fn go_first(first: bool) -> bool {
    let (policy, sched_priority) =
        if first { (libc::SCHED_FIFO, 1) } else { (libc::SCHED_OTHER, 0) };
    let rank = libc::sched_param { sched_priority };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const rank) == 0 }
}

/// All, busy and stolen ticks of a core since boot (proc_stat(5)).
fn core_ticks(core: usize) -> [f64; 3] {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is there");
    let name = format!("cpu{core} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)).expect("the core is there");
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let total: f64 = ticks[..8].iter().sum();
    [total, total - ticks[3] - ticks[4] - ticks[7], ticks[7]]
}

/// One byte after the other is looked at, and written by one call.
fn dear_answer(chunk: usize) -> Script {
    let form = Form::Chunked(chunk);
    let bytes = wire(&Turn { form, body_bytes: 16 * 1024, ..Turn::default() }, false);
    Script::always(Turn::with(Fate::Raw(bytes)))
}

fn constant(ms: u64) -> Delay {
    Delay::Constant(Duration::from_millis(ms))
}
