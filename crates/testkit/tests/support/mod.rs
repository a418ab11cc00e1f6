//! Cases for the verdict "the client was the limit": planted ones, in which it was, and clean ones.
//!
//! What is true is made so, not measured: in a planted case the client has no CPU, or much more to
//! do for an answer than the server; in a clean one the server waits, or has no CPU.

// The test and the example use different parts.
#![allow(dead_code)]

use std::{sync::atomic::AtomicBool, time::Duration};

use drom_load::{
    Arrivals, ClientVerdict, Pace, Plan, Stage, Stop, Target, client_limited, null_server, run,
};
use drom_observe::{allowed_cores, pin_current_thread};
use drom_testkit::{Delay, Fate, Form, Hog, Pauser, Process, Script, Server, Turn, wire};

const WINDOW: Duration = Duration::from_millis(400);

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
}

/// What came of it.
pub struct Seen {
    pub verdict: ClientVerdict,
    /// Of the rate that a client without cost would have measured.
    pub lost_share: Option<f64>,
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

fn planted() -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in [8, 32, 64, 128] {
        let null = Case::planted("server that does nothing").connections(connections);
        for hogs in 1..=3 {
            cases.push(null.same().hogs(hogs, 1.0));
        }
        cases.push(null.same().threads(2).hogs(1, 1.0));
        cases.push(null.shared());
    }
    for connections in [16, 48, 96] {
        for share in [0.7, 0.9] {
            let null = Case::planted("server that does nothing").connections(connections);
            cases.push(null.hogs(1, share));
        }
    }
    for connections in [32, 64, 128] {
        for hogs in 1..=2 {
            let case = Case::planted("open loop over its means").connections(connections);
            cases.push(case.rate(400_000.0, Arrivals::Constant).hogs(hogs, 1.0));
        }
    }
    for connections in [8, 32, 64] {
        for hogs in 1..=2 {
            let case = Case::planted("a connection a request").connections(connections);
            cases.push(case.without_keepalive().hogs(hogs, 1.0));
        }
    }
    for connections in [4, 16] {
        for chunk in [1, 2, 4, 8] {
            let name = format!("chunks of {chunk} bytes");
            cases.push(Case::planted(&name).connections(connections).script(dear_answer(chunk)));
        }
    }
    for (connections, pause) in [(8, 20), (32, 20), (8, 60), (32, 60)] {
        let case = Case::planted("client stopped now and then").connections(connections);
        let times = (Duration::from_millis(20), Duration::from_millis(pause));
        cases.push(case.script(Script::always(Turn::default())).paused(times));
    }
    cases
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
    /// Runs it: on the first core the client, on the last one the server.
    pub fn run(&self) -> Seen {
        let all = allowed_cores();
        let (own, other) = (all[0], all[all.len() - 1]);
        let server_core = if self.is_shared { own } else { other };
        let pin = |cores: &[usize]| pin_current_thread(cores).expect("the cores may be used");
        pin(&[server_core]);
        let (mut kit, mut null, mut process) = (None, None, None);
        let address = match &self.served {
            Served::Null => null.insert(null_server().expect("a server")).address(),
            Served::Kit(script) if self.pauses.is_some() => {
                process.insert(Process::start(script.clone()).expect("a process")).address()
            }
            Served::Kit(script) => {
                let server = Server::start_pinned(script.clone(), Some(server_core));
                kit.insert(server.expect("a server")).address()
            }
        };
        let hog = |core, share| Hog::start(core, share).expect("a thread");
        let (count, share) = self.client_hogs;
        let mut hogs: Vec<Hog> = (0..count).map(|_| hog(own, share)).collect();
        hogs.extend((0..self.server_hogs).map(|_| hog(other, 1.0)));
        pin(&[own]);
        let pauser = self.pauses.map(|(work, pause)| Pauser::start(work, pause).expect("a pauser"));
        let target = Target::at(address, "/");
        let plan = Plan { target, ..self.plan.clone() };
        let outcome = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect("possible");
        drop(pauser);
        pin(&all);
        let lost_share = self.ideal_rps.map(|ideal| 1.0 - outcome.rate_rps() / ideal);
        Seen { verdict: client_limited(&outcome, None), lost_share }
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

    fn rate(mut self, rps: f64, arrivals: Arrivals) -> Self {
        self.plan.pace = Some(Pace { arrivals, stages: vec![Stage::steady(WINDOW, rps)] });
        self.name += &format!(", {rps}/s");
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

/// One byte after the other is looked at, and written by one call.
fn dear_answer(chunk: usize) -> Script {
    let form = Form::Chunked(chunk);
    let bytes = wire(&Turn { form, body_bytes: 16 * 1024, ..Turn::default() }, false);
    Script::always(Turn::with(Fate::Raw(bytes)))
}

fn constant(ms: u64) -> Delay {
    Delay::Constant(Duration::from_millis(ms))
}
