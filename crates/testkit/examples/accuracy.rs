//! How right the load generator is, beside what arithmetic and a server's own clock say: a table in
//! Markdown. `cargo run --release -p drom-testkit --example accuracy`, on a machine with little
//! else to do; two minutes. `make accuracy` puts it into bench/ACCURACY.md.
//!
//! The tests hold the same to wider limits, because they run on machines with much else to do.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use drom_load::{Arrivals, Latency, Outcome, Pace, Plan, Stage, Stop, Target, run};
use drom_testkit::{Delay, Script, Server, Turn, Window};

const MS: Duration = Duration::from_millis(1);
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

const FREEZE: Duration = Duration::from_millis(1_400);
const WINDOW: Duration = Duration::from_secs(30);
const BASE: Duration = Duration::from_millis(50);
const FREEZE_RPS: f64 = 2_000.0;
/// What comes in the freeze, and some.
const CONNECTIONS: u32 = 4_000;

fn freeze() {
    let freezes = vec![Window::new(10_000, 10_000 + FREEZE.as_millis() as u64)];
    let script = Script { freezes, ..Script::always(Turn::after(Delay::Constant(BASE))) };
    let server = Server::start(script).expect("a server");
    let pace = Pace::steady(FREEZE_RPS, WINDOW);
    let outcome = go(&open_loop(server.address(), pace, CONNECTIONS));
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let expected = analytic_ms(quantile);
        let measured = outcome.latency.quantile_ns(quantile) as f64 / 1e6;
        let off = 100.0 * (measured / expected - 1.0);
        let figures =
            [format!("{expected:.1} ms"), format!("{measured:.1} ms"), format!("{off:+.2} %")];
        let what = "a server that freezes 1.4 s in 30 s, 2,000 req/s";
        row(what, name, figures, "2 %", off.abs() <= 2.0);
    }
}

/// Of requests planned at `x` after a freeze of `f` began, with answers after `b`: from `-b` to 0
/// they are answered when it ends, after `f - x`; from 0 to `f` after `f + b - x`; others after
/// `b`.
fn analytic_ms(quantile: f64) -> f64 {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let (base, freeze) = (ms(BASE), ms(FREEZE));
    // Requests planned in so many milliseconds are slower than it.
    let slower = (1.0 - quantile) * ms(WINDOW);
    match slower <= 2.0 * base {
        true => freeze + base - slower / 2.0,
        false => (freeze + 2.0 * base - slower).max(base),
    }
}

// ---- known delays ------------------------------------------------------------------------------

fn shapes() -> [(&'static str, Delay); 3] {
    [
        ("constant 1 ms", Delay::Constant(MS)),
        ("exponential, mean 1 ms", Delay::Exponential { mean: MS }),
        (
            "1 ms, and 10 ms one in twenty",
            Delay::TwoModes { usual: MS, slow: 10 * MS, slow_share: 0.05 },
        ),
    ]
}

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

/// Keeps a core from going to sleep by work that everybody else goes before: a virtual CPU that
/// halts is woken by its host, some 50 us later, and that would be compared with the client's
/// clock.
struct Awake(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Awake {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // SAFETY: all zeroes is a valid `sched_param`, which this policy ignores but for that.
            let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
            // SAFETY: the parameter lives through the call; 0 is the calling thread.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
            while !told.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
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
    let mut gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e9).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = (0..).zip(&gaps).map(|(at, gap)| {
        let expected = 1.0 - (-gap * rps).exp();
        (expected - f64::from(at) / n).abs().max((expected - f64::from(at + 1) / n).abs())
    });
    let (worst, limit) = (distance.fold(0.0, f64::max), 1.628 / n.sqrt());
    let figures = [format!("< {limit:.4}"), format!("{worst:.4}"), "-".to_owned()];
    let what = format!("Poisson arrivals, {rps:.0} req/s");
    row(&what, "Kolmogorov-Smirnov distance", figures, "pass at 1 %", worst < limit);
}
