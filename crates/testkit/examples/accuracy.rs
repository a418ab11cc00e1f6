//! How right the load generator is, beside what arithmetic and a server's own clock say: a table in
//! Markdown. `cargo run --release -p drom-testkit --example accuracy`, on a machine with little
//! else to do; two minutes. `make accuracy` puts it into bench/ACCURACY.md.
//!
//! The tests hold the same to wider limits, because they run on machines with much else to do.

use std::{net::SocketAddr, sync::atomic::AtomicBool, time::Duration};

use drom_load::{Arrivals, Latency, Outcome, Pace, Plan, Stage, Stop, Target, run};
use drom_testkit::{
    Awake, Delay, Script, Server, Turn, Window,
    known::{Freeze, poisson_distance, shapes},
};

/// Of each comparison; noise only adds, so the nearest one tells what the clock is worth.
const TRIES: usize = 20;

fn main() {
    println!("| what | figure | expected | measured | off by | asked | reached |");
    println!("|---|---|---|---|---|---|---|");
    freeze();
    for (name, delay) in shapes() {
        delays(name, delay);
    }
    for rps in [1_000.0, 10_000.0, 50_000.0] {
        arrivals(rps);
    }
}

fn row(
    what: &str,
    figure: &str,
    [expected, measured, off]: [String; 3],
    asked: &str,
    is_met: bool,
) {
    let reached = if is_met { "yes" } else { "no" };
    println!("| {what} | {figure} | {expected} | {measured} | {off} | {asked} | {reached} |");
}

fn go(plan: &Plan) -> Outcome {
    run(plan, &AtomicBool::new(false), &mut |_| {}).expect("the run is possible")
}

fn open_loop(address: SocketAddr, pace: Pace, connections: u32) -> Plan {
    let (stop, pace) = (Stop::After(pace.duration()), Some(pace));
    Plan { connections, pace, stop, ..Plan::get(Target::at(address, "/")) }
}

// ---- a freeze ----------------------------------------------------------------------------------

const FREEZE: Freeze = Freeze {
    window: Duration::from_secs(30),
    base: Duration::from_millis(50),
    freeze: Duration::from_millis(1_400),
};
const FREEZE_RPS: f64 = 2_000.0;
/// What comes in the freeze, and some.
const CONNECTIONS: u32 = 4_000;

fn freeze() {
    let freezes = vec![Window::new(10_000, 10_000 + FREEZE.freeze.as_millis() as u64)];
    let script = Script { freezes, ..Script::always(Turn::after(Delay::Constant(FREEZE.base))) };
    let server = Server::start(script).expect("a server");
    let pace = Pace::steady(FREEZE_RPS, FREEZE.window);
    let outcome = go(&open_loop(server.address(), pace, CONNECTIONS));
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let expected = FREEZE.latency_ms(quantile);
        let measured = outcome.latency.quantile_ns(quantile) as f64 / 1e6;
        let off = 100.0 * (measured / expected - 1.0);
        let figures =
            [format!("{expected:.1} ms"), format!("{measured:.1} ms"), format!("{off:+.2} %")];
        let what = "a server that freezes 1.4 s in 30 s, 2,000 req/s";
        row(what, name, figures, "2 %", off.abs() <= 2.0);
    }
}

// ---- known delays ------------------------------------------------------------------------------

/// The client's and the server's clock for the same 1,000 answers, of the nearest of the tries.
fn delays(name: &str, delay: Delay) {
    let tries: Vec<(Latency, Latency)> = (0..TRIES).map(|_| both_clocks(delay)).collect();
    for (figure, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let us = |latency: &Latency| latency.quantile_ns(quantile) as f64 / 1e3;
        let off = |(client, server): &(Latency, Latency)| us(client) - us(server);
        let nearest = tries.iter().min_by(|a, b| off(a).abs().total_cmp(&off(b).abs()));
        let nearest = nearest.expect("there are tries");
        let (expected, off) = (us(&nearest.1), off(nearest));
        let figures = [
            format!("{expected:.0} us"),
            format!("{:.0} us", us(&nearest.0)),
            format!("{off:+.0} us"),
        ];
        let is_met = off.abs() <= f64::max(50.0, expected / 100.0);
        row(&format!("delays of a server: {name}"), figure, figures, "50 us or 1 %", is_met);
    }
}

fn both_clocks(delay: Delay) -> (Latency, Latency) {
    let _awake: Vec<Awake> = (0..drom_observe::core_count()).map(|_| Awake::start()).collect();
    let script = Script { seed: 5, spins: true, ..Script::always(Turn::after(delay)) };
    let server = Server::start(script).expect("a server");
    let target = Target::at(server.address(), "/");
    let outcome = go(&Plan { connections: 1, stop: Stop::Requests(1_000), ..Plan::get(target) });
    let counts = server.settle(Duration::from_secs(10)).expect("every connection is closed");
    (outcome.latency, counts.delays)
}

// ---- Poisson arrivals --------------------------------------------------------------------------

/// Kolmogorov and Smirnov on the planned times of a run.
fn arrivals(rps: f64) {
    let server = drom_load::null_server().expect("a server");
    let stages = vec![Stage::steady(Duration::from_secs(5), rps)];
    let pace = Pace { arrivals: Arrivals::Poisson { seed: 11 }, stages };
    let plan = open_loop(server.address(), pace, 200);
    let outcome = go(&Plan { records_max: 1_000_000, ..plan });
    let mut times: Vec<u64> =
        outcome.records.iter().map(|record| record.exchange.planned_ns).collect();
    times.sort_unstable();
    let (distance, limit) = poisson_distance(&times, rps);
    let figures = [format!("< {limit:.4}"), format!("{distance:.4}"), "-".to_owned()];
    let what = format!("Poisson arrivals, {rps:.0} req/s");
    row(&what, "Kolmogorov-Smirnov distance", figures, "pass at 1 %", distance < limit);
}
