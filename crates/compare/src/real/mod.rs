//! The real world: server processes on free loopback ports, the load engine, this machine.

mod http;
mod keeper;
mod scratch;
mod server;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use drom_load::{NullServer, Outcome, Stop, Target};
use drom_observe::{
    Counters, Process, allowed_cores, clock, machine_record, pin_current_thread, self_cpu_s,
};
use drom_store::Fact;

use self::server::Server;
use crate::{
    plan::{Launch, LoadSettings, Placement, Request},
    world::{Ceiling, Clock, Load, Machine, NotReady, Order, Reply, ServerId, Servers},
};

/// Ends its servers when it is dropped, also while a panic unwinds.
pub struct RealWorld {
    load: LoadSettings,
    client_cores: Vec<usize>,
    server_cores: Vec<usize>,
    servers: Vec<(ServerId, Server)>,
    next: ServerId,
    begin_ns: u64,
    /// Read before this process pinned itself, or it would know of the client's cores alone.
    machine: Vec<Fact>,
}

impl RealWorld {
    /// Pins the calling thread, and with it the client, to its cores.
    #[must_use]
    pub fn new(load: &LoadSettings, placement: Placement) -> Self {
        scratch::sweep();
        let facts = machine_record().into_iter();
        let machine = facts.map(|fact| Fact { name: fact.name, value: fact.value }).collect();
        let (client_cores, server_cores) = place(&allowed_cores(), placement);
        // Refused in some containers: then both share all cores, and the record says so.
        let pinned = pin_current_thread(&client_cores).is_ok();
        let all = allowed_cores();
        let (client_cores, server_cores) =
            if pinned { (client_cores, server_cores) } else { (all.clone(), all) };
        let begin_ns = clock::monotonic_ns();
        let (load, servers) = (load.clone(), vec![]);
        Self { load, client_cores, server_cores, servers, next: 1, begin_ns, machine }
    }

    fn server(&self, id: ServerId) -> &Server {
        let found = self.servers.iter().find(|(known, _)| *known == id);
        &found.expect("the schedule uses a server only between its start and stop").1
    }

    fn plan(&self, target: Target, connections: u32, window: Duration) -> drom_load::Plan {
        drom_load::Plan {
            connections,
            threads: self.load.threads,
            stop: Stop::After(window),
            keepalive: self.load.keepalive,
            timeout: self.load.timeout,
            ..drom_load::Plan::get(target)
        }
    }

    /// The null server takes the servers' place, on the servers' cores.
    fn null_server(&self) -> Result<NullServer, String> {
        let cores = self.server_cores.clone();
        let started = thread::spawn(move || {
            pin_current_thread(&cores).map_err(|e| e.to_string())?;
            drom_load::null_server().map_err(|e| e.to_string())
        });
        started.join().map_err(|_| "the null server could not be started".to_owned())?
    }
}

impl Clock for RealWorld {
    fn now_s(&self) -> f64 {
        (clock::monotonic_ns() - self.begin_ns) as f64 * 1e-9
    }

    fn wall_s(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
    }

    fn sleep(&mut self, pause: Duration) {
        clock::sleep(pause);
    }
}

impl Servers for RealWorld {
    fn start(&mut self, launch: &Launch, stop: &AtomicBool) -> Result<ServerId, NotReady> {
        let server = Server::start(launch, &self.server_cores, stop)?;
        let id = self.next;
        self.next += 1;
        self.servers.push((id, server));
        Ok(id)
    }

    fn answer(&mut self, server: ServerId, request: &Request) -> Result<Reply, String> {
        let server = self.server(server);
        let mut reply = http::ask(server.address(), request, self.load.timeout)?;
        reply.same = server.without_its_own(&reply.body);
        Ok(reply)
    }

    fn processes(&mut self, server: ServerId) -> Vec<Process> {
        self.server(server).processes()
    }

    fn pss_bytes(&mut self, server: ServerId) -> Vec<(i32, u64)> {
        let pids = self.processes(server).into_iter().map(|process| process.pid);
        pids.filter_map(|pid| Some((pid, drom_observe::memory(pid)?.pss_bytes))).collect()
    }

    fn ended(&mut self, server: ServerId) -> Option<String> {
        let found = self.servers.iter_mut().find(|(known, _)| *known == server);
        found.and_then(|(_, server)| server.ended())
    }

    fn ask_to_stop(&mut self, server: ServerId) {
        let found = self.servers.iter_mut().find(|(known, _)| *known == server);
        found.into_iter().for_each(|(_, server)| server.ask_to_stop());
    }

    fn stop(&mut self, server: ServerId) {
        self.servers.retain(|(known, _)| *known != server);
    }
}

const CEILING_TRIALS: usize = 3;

impl Load for RealWorld {
    fn slice(&mut self, order: &Order<'_>, stop: &AtomicBool) -> Result<Outcome, String> {
        let address = self.server(order.server).address();
        let target = Target { host: host(address), ..Target::at(address, &order.request.path) };
        let plan = drom_load::Plan {
            warmup: order.settle,
            method: order.request.method.clone(),
            headers: order.request.headers.clone(),
            body: order.request.body.clone(),
            expect_body: order.expect_body,
            ..self.plan(target, order.connections, order.window)
        };
        drom_load::run(&plan, stop, &mut |_| {}).map_err(|e| e.to_string())
    }

    /// The best of some trials: what disturbs the machine only makes the ceiling look lower.
    fn ceiling_rps(&mut self, order: &Ceiling, stop: &AtomicBool) -> Result<f64, String> {
        let server = self.null_server()?;
        let plan = drom_load::Plan {
            warmup: Duration::from_millis(100),
            ..self.plan(server.target(), order.connections, order.window / 2)
        };
        let mut highest = 0.0_f64;
        for _ in 0..CEILING_TRIALS {
            let outcome = drom_load::run(&plan, stop, &mut |_| {}).map_err(|e| e.to_string())?;
            highest = highest.max(outcome.rate_rps());
        }
        Ok(highest)
    }
}

impl Machine for RealWorld {
    fn record(&mut self) -> Vec<Fact> {
        self.machine.clone()
    }

    fn counters(&mut self) -> Counters {
        Counters::now()
    }

    fn client_cpu_s(&mut self) -> f64 {
        self_cpu_s()
    }

    fn placement(&self) -> String {
        if self.client_cores == self.server_cores {
            return format!("shared (cores {})", words(&self.client_cores));
        }
        let (client, server) = (words(&self.client_cores), words(&self.server_cores));
        format!("split (client on core {client}, servers on {server})")
    }
}

/// With two cores one each; with more the client gets half, since it must never be the limit.
fn place(cores: &[usize], placement: Placement) -> (Vec<usize>, Vec<usize>) {
    if placement == Placement::Shared || cores.len() < 2 {
        return (cores.to_vec(), cores.to_vec());
    }
    let (client, server) = cores.split_at(cores.len() / 2);
    (client.to_vec(), server.to_vec())
}

fn words(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn host(address: SocketAddr) -> String {
    address.to_string()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_counts_the_cores_of_the_machine_not_those_of_the_client() {
        let load = LoadSettings {
            connections: 1,
            threads: 1,
            slice: Duration::from_millis(50),
            warmup: Duration::ZERO,
            rounds: 1,
            keepalive: true,
            timeout: Duration::from_secs(1),
        };
        let cores = allowed_cores().len().to_string();
        // A thread of its own: it stays pinned.
        let record = thread::spawn(move || RealWorld::new(&load, Placement::Split).record());
        let record = record.join().expect("no panic");
        let fact = record.into_iter().find(|fact| fact.name == "cores").expect("recorded");
        assert_eq!(fact.value, cores);
    }

    #[test]
    fn cores_are_split_only_where_there_are_two() {
        assert_eq!(place(&[0, 1], Placement::Split), (vec![0], vec![1]));
        assert_eq!(place(&[0, 1, 2, 3], Placement::Split), (vec![0, 1], vec![2, 3]));
        assert_eq!(place(&[3], Placement::Split), (vec![3], vec![3]));
        assert_eq!(place(&[0, 1], Placement::Shared), (vec![0, 1], vec![0, 1]));
    }
}
