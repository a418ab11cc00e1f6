//! A thousand runs against servers that fail in every way they know, and the two counts compared:
//! the engine's and the server's own. Nothing may be lost, invented or called by another name.
//!
//! A seed makes a script and a plan. `DROM_SEED=417 cargo test -p drom-load --test faults` runs one
//! alone, `DROM_SEED=1000..5000` others. What must hold is in [`reconcile`], kind by kind.

use std::{
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use drom_load::{
    Arrivals, Engine, ErrorKind, ExpectedBody, Outcome, Pace, Plan, Stage, Stop, Target, run,
};
use drom_stats::{Latency, Rng};
use drom_testkit::{
    Counts, Delay, Fate, Flaw, Form, Manner, Order, Script, Server, Then, Turn, Window, body,
};

const SEEDS: u64 = 1_000;
/// The machine has fewer cores; most of a run is waiting.
const AT_ONCE: usize = 8;
/// A run that never waits for its timeout has this one.
const LONG: Duration = Duration::from_secs(10);

/// A script and the plan of its client.
struct Case {
    script: Script,
    plan: Plan,
    /// The client may leave first: by its timeout, or at the end of its window.
    leaves: bool,
}

#[test]
fn a_thousand_runs_against_faulty_servers_reconcile() {
    let seeds: Vec<u64> = match std::env::var("DROM_SEED") {
        Ok(text) => seeds(&text).expect("DROM_SEED is a number, or two with .. between them"),
        Err(_) => (0..SEEDS).collect(),
    };
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, SeqCst) as usize) {
                    if catch_unwind(|| one(*seed)).is_err() {
                        failed.lock().expect("no panic while it is held").push(*seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic while it was held");
    assert!(failed.is_empty(), "seeds that failed: {failed:?}; DROM_SEED=N runs one alone");
}

fn seeds(text: &str) -> Option<Vec<u64>> {
    let (from, until) = text.split_once("..").unwrap_or((text, ""));
    let from = from.parse().ok()?;
    let until = if until.is_empty() { from + 1 } else { until.parse().ok()? };
    Some((from..until).collect())
}

fn one(seed: u64) {
    let mut case = case(seed);
    let server = Server::start(case.script.clone()).expect("a server");
    case.plan.target = Target::at(server.address(), "/");
    // Either engine has its half of them, where there are two.
    case.plan.engine = if seed.is_multiple_of(2) { Engine::Epoll } else { Engine::IoUring };
    let outcome = run(&case.plan, &AtomicBool::new(false), &mut |_| {});
    if let Some(why) = outcome.as_ref().ok().and_then(|outcome| outcome.fallback.as_ref()) {
        eprintln!("seed {seed} on epoll: {why}");
    }
    let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let settled = server.settle(Duration::from_secs(5));
    let counts = settled.unwrap_or_else(|| {
        panic!("seed {seed}: connections are open after the run: {:?}", server.counts())
    });
    let faults = reconcile(&case, &outcome, &counts);
    let counts = Counts { delays: Latency::default(), ..counts };
    assert!(
        faults.is_empty(),
        "seed {seed}:\n{}\n{}\n{counts:#?}\n{:#?}\n{:#?}",
        faults.join("\n"),
        told(&outcome),
        case.script,
        case.plan
    );
}

/// The outcome without its histograms.
fn told(outcome: &Outcome) -> String {
    format!(
        "sent {} resent {} ok {} failed {} in flight {} status {:?} errors {:?} connects {} \
         reconnects {} bytes {} little {}",
        outcome.sent,
        outcome.resent,
        outcome.ok,
        outcome.failed,
        outcome.in_flight,
        outcome.status,
        outcome.errors,
        outcome.connect.count(),
        outcome.reconnects,
        outcome.bytes_read,
        outcome.little_deviation(),
    )
}

/// The equations, the client on the left and the server on the right; those that do not hold.
///
/// | client | server |
/// |---|---|
/// | sent + resent | connect errors + requests begun + unseen + mute |
/// | complete answers, each status | whole answers that were taken |
/// | bad bodies | those with another body |
/// | protocol | flawed answers |
/// | closed + resent | cut by close or reset, in answer or request + late + unseen |
/// | timeout + in flight | abandoned + crossed + mute |
///
/// *late*: came when the server had closed; it still reads. *unseen*: came when the server had
/// reset, which cannot read: at most one a reset after a whole answer or of a fresh connection.
/// Such an answer may be lost in the client's kernel, too. *mute*: the run ended between the
/// connect and the write. A client that leaves first may do so while a close is under way to it:
/// then only the sum of the last two lines is known. Pipelined requests are *resent* when the
/// server announces the close; behind a reset each of them can be unseen.
fn reconcile(case: &Case, outcome: &Outcome, counts: &Counts) -> Vec<String> {
    let error = |kind| outcome.errors.get(&kind).copied().unwrap_or(0);
    let mut faults = Faults(Vec::new());
    faults.equal("the server's own counts", counts.begun, counts.accounted());
    faults.equal("sent", outcome.sent, outcome.ok + outcome.failed + outcome.in_flight);
    faults.equal("read and write errors", error(ErrorKind::Read) + error(ErrorKind::Write), 0);
    faults.equal("protocol", error(ErrorKind::Protocol), counts.flawed);
    faults.equal("latencies", outcome.latency.count(), outcome.answers());

    let expects = case.plan.expect_body.is_some();
    let other_bodies = if expects { counts.other_body } else { 0 };
    let bad_bodies = error(ErrorKind::BadBody);
    faults.at_most("bad bodies", bad_bodies.wrapping_sub(other_bodies), counts.reset_after);
    // Of the answers before a reset, those that came through.
    let saved = (outcome.answers() + bad_bodies).wrapping_sub(counts.answers());
    faults.at_most("answers", saved, counts.reset_after);
    if counts.reset_after == 0 && bad_bodies == 0 && outcome.status != counts.taken {
        faults.0.push(format!("statuses: {:?}, not {:?}", outcome.status, counts.taken));
    }

    let written = (outcome.sent + outcome.resent).wrapping_sub(error(ErrorKind::Connect));
    let ended = counts.cut_close + counts.cut_reset + counts.late + counts.reset_after;
    let ended = ended.wrapping_sub(saved);
    let left = counts.abandoned + counts.crossed;
    let closed = error(ErrorKind::Closed);
    let gone = error(ErrorKind::Timeout) + outcome.in_flight;
    let unseen = written.wrapping_sub(counts.begun);
    if case.leaves {
        faults.at_most("connected and not written", unseen, counts.mute);
        faults.equal(
            "closed, timeout, in flight",
            closed + gone,
            ended.wrapping_add(left + unseen),
        );
    } else {
        let mut resets = counts.reset_after + counts.turned_away;
        if case.plan.depth > 1 {
            resets = (resets + counts.cut_reset) * u64::from(case.plan.depth);
        }
        faults.at_most("unseen", unseen, resets);
        let ended = ended.wrapping_add(unseen).wrapping_sub(outcome.resent);
        faults.equal("closed", closed, ended);
        faults.equal("timeout, in flight", gone, left);
        connections_and_bytes(case, outcome, counts, &mut faults);
    }
    faults.0
}

/// What holds when no client leaves first.
fn connections_and_bytes(case: &Case, outcome: &Outcome, counts: &Counts, faults: &mut Faults) {
    let refused = outcome.errors.get(&ErrorKind::Connect).copied().unwrap_or(0);
    // Pipelined requests share a connect, and its error.
    if case.plan.pace.is_none() && case.plan.depth == 1 {
        faults.equal("connections", outcome.connect.count() + refused, counts.connections);
    }
    if counts.flawed + counts.cut_reset + counts.reset_after == 0 {
        faults.equal("bytes", outcome.bytes_read, counts.bytes_written);
    }
    if outcome.little_deviation().abs() > 0.02 {
        faults.0.push(format!("Little's law: {}", outcome.little_deviation()));
    }
}

struct Faults(Vec<String>);

impl Faults {
    fn equal(&mut self, what: &str, client: u64, server: u64) {
        if client != server {
            self.0.push(format!("{what}: {client}, not {server}"));
        }
    }

    fn at_most(&mut self, what: &str, value: u64, most: u64) {
        if value > most {
            self.0.push(format!("{what}: {}, not 0 to {most}", value as i64));
        }
    }
}

fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let leaves = rng.below(3) == 0;
    let expects = rng.below(3) == 0;
    let mut plan = plan(&mut rng, leaves);
    if !leaves && plan.keepalive && plan.body.len() < 1_000 && rng.below(3) == 0 {
        plan.depth = 2 + rng.below(3) as u32;
    }
    let posts = !plan.body.is_empty();
    let is_piped = plan.depth > 1;
    let mut draw = Draw { leaves, posts, is_piped, timeout: plan.timeout, body: None };
    if expects && plan.method != "HEAD" && !is_piped {
        let length = 1 + rng.below(300);
        plan.expect_body = Some(ExpectedBody::of(&body(length)));
        draw.body = Some(length);
    }
    let turns = (0..3 + rng.below(10)).map(|_| draw.turn(&mut rng)).collect();
    let depth = plan.depth as usize;
    let mut script = Script { seed, depth, order: Order::Random, ..Script::cycle(turns) };
    if !leaves && rng.below(4) == 0 {
        // No run goes on whose first connection is reset: the first eight are the first of each.
        let bad = if plan.threads == 1 { Manner::Reset } else { Manner::Close };
        script.manners = vec![Manner::Serve; 8];
        script.manners.extend([bad, Manner::Close, Manner::Serve]);
    }
    let window = Window::new(rng.below(10) as u64, 10 + rng.below(30) as u64);
    match rng.below(10) {
        0 => script.deaf.push(window),
        1 => script.freezes.push(window),
        _ => {}
    }
    Case { script, plan, leaves }
}

fn plan(rng: &mut Rng, leaves: bool) -> Plan {
    let target = Target::at(([127, 0, 0, 1], 1).into(), "/");
    let connections = 1 + rng.below(8) as u32;
    let threads = 1 + rng.below(2).min(connections as usize - 1) as u32;
    let timeout = if leaves { Duration::from_millis(40 + rng.below(40) as u64) } else { LONG };
    let mut plan = Plan {
        connections,
        threads,
        timeout,
        stop: Stop::Requests(10 + rng.below(50) as u64),
        keepalive: rng.below(5) > 0,
        ..Plan::get(target)
    };
    match rng.below(6) {
        0 => plan.method = "HEAD".to_owned(),
        1 => (plan.method, plan.body) = ("POST".to_owned(), vec![b'p'; rng.below(300)]),
        2 => (plan.method, plan.body) = ("PUT".to_owned(), vec![b'p'; rng.below(400_000)]),
        _ => {}
    }
    let window = Duration::from_millis(40 + rng.below(60) as u64);
    if rng.below(3) == 0 {
        let rps = 200.0 + rng.below(600) as f64;
        let seed = rng.next_u64();
        let poisson = rng.below(2) == 0;
        let arrivals = if poisson { Arrivals::Poisson { seed } } else { Arrivals::Constant };
        plan.pace = Some(Pace { arrivals, stages: vec![Stage::steady(window, rps)] });
        plan.stop = Stop::After(window);
    } else if leaves && rng.below(2) == 0 {
        plan.stop = Stop::After(window);
    }
    plan
}

/// What turns are drawn from.
struct Draw {
    leaves: bool,
    posts: bool,
    /// The requests behind a broken answer would be answered, and thrown away by the client.
    is_piped: bool,
    timeout: Duration,
    body: Option<usize>,
}

impl Draw {
    fn turn(&self, rng: &mut Rng) -> Turn {
        let form = match rng.below(8) {
            0 | 1 => Form::Chunked(1 + rng.below(100)),
            // Whether a client that leaves has seen the close is not to be known.
            2 if !self.leaves => Form::UntilClose,
            3 => Form::OldKeepAlive,
            4 if self.body.is_none() => Form::Bodiless,
            _ => Form::Length,
        };
        let large = if rng.below(10) == 0 { 200_000 } else { 200 };
        let mut turn = Turn {
            delay: self.delay(rng),
            status: [200, 200, 200, 301, 404, 500][rng.below(6)],
            body_bytes: self.body.unwrap_or_else(|| rng.below(large)),
            form,
            interim: rng.below(12).saturating_sub(9) as u32,
            early: self.posts && rng.below(4) == 0,
            then: self.then(rng),
            ..Turn::default()
        };
        // Half of a body that the close ends is a whole one when a request behind it brings the
        // close.
        let is_halved = self.is_piped && form == Form::UntilClose;
        if turn.body_bytes < 300 && rng.below(5) == 0 && !is_halved {
            let pause = Duration::from_micros(rng.below(300) as u64);
            turn.pieces = Some((20 + rng.below(100), pause));
        }
        if rng.below(2) == 0 {
            self.spoil(&mut turn, rng);
        }
        turn
    }

    fn delay(&self, rng: &mut Rng) -> Delay {
        match rng.below(8) {
            0 => Delay::Constant(Duration::from_micros(rng.below(3_000) as u64)),
            1 => Delay::Exponential { mean: Duration::from_millis(1) },
            2 if self.leaves => Delay::Constant(self.timeout * 3),
            _ => Delay::NONE,
        }
    }

    fn then(&self, rng: &mut Rng) -> Then {
        match rng.below(12) {
            0 | 1 => Then::Announced,
            2 => Then::Silent(Duration::ZERO),
            3 => Then::Silent(Duration::from_micros(rng.below(2_000) as u64)),
            4 if !self.leaves => Then::Reset,
            _ => Then::Keep,
        }
    }

    fn spoil(&self, turn: &mut Turn, rng: &mut Rng) {
        // A body that the close ends cannot be seen to be short.
        let at = if turn.form == Form::UntilClose { rng.below(17) } else { rng.below(300) };
        let flaws = if self.leaves { 5 } else { 8 };
        turn.fate = match rng.below(flaws) {
            0 => Fate::CutClose(at),
            1 if self.body.is_some() && turn.status < 400 => Fate::OtherBody,
            1 | 2 if !self.is_piped => Fate::Flawed(self.flaw(rng)),
            3 if self.leaves => Fate::Stall(at),
            3 | 4 => Fate::RequestCutClose(rng.below(1_000)),
            5 => Fate::RequestCutReset(rng.below(1_000)),
            _ => Fate::CutReset(at),
        };
        if matches!(turn.fate, Fate::Flawed(_)) {
            turn.pieces = None;
        }
    }

    fn flaw(&self, rng: &mut Rng) -> Flaw {
        let flaw = Flaw::ALL[rng.below(Flaw::ALL.len())];
        // A client that leaves could have read enough of it, or not.
        if self.leaves && flaw.is_long() { Flaw::NotHttp } else { flaw }
    }
}
