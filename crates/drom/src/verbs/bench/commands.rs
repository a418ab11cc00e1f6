//! Whole commands against each other: in each round each of them once, in an order drawn anew. A
//! round is what a process is for pieces of Perl: the unit of all inference.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use drom_contest::Standing;
use drom_observe::{
    clock::{monotonic_ns, now},
    usage,
};
use drom_stats::Rng;

use super::{
    Args, Clock,
    perl::Ran,
    told::{Candidate, Kind, Told},
};

/// Without a wish: so many, or as many as this time allows.
const ROUNDS: u32 = 20;
const ROUNDS_MIN: u32 = 6;
const TIME: Duration = Duration::from_secs(10);

pub fn run(args: &Args, stop: &'static AtomicBool) -> Result<Told, String> {
    let seed = args.seed.unwrap_or_else(monotonic_ns);
    let mut rng = Rng::new(seed);
    let mut told = Told {
        kind: Kind::Commands,
        clock: args.clock.unwrap_or(Clock::Wall),
        seed,
        rounds: 0,
        candidates: args.commands.iter().map(|name| Candidate::new(name)).collect(),
        standing: Standing::new(vec![0; args.commands.len()]),
        is_interrupted: false,
    };
    // Once each, not counted: files come from the disk only the first time.
    for command in &args.commands {
        once(args, command)?;
    }
    let begun = now();
    while is_wanted(args, told.rounds, begun) {
        let Some(round) = round(args, &mut rng, stop)? else { break };
        told.take(&round);
    }
    told.is_interrupted = stop.load(Relaxed);
    Ok(told)
}

fn is_wanted(args: &Args, rounds: u32, begun: Instant) -> bool {
    match args.rounds {
        Some(wanted) => rounds < wanted,
        None => rounds < ROUNDS_MIN || (rounds < ROUNDS && begun.elapsed() < TIME),
    }
}

/// What each took; `None`: somebody asked for an end.
fn round(args: &Args, rng: &mut Rng, stop: &AtomicBool) -> Result<Option<Vec<Ran>>, String> {
    let mut order: Vec<usize> = (0..args.commands.len()).collect();
    rng.shuffle(&mut order);
    let mut round = vec![Ran::default(); order.len()];
    for at in order {
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let ran = once(args, &args.commands[at]);
        if stop.load(Relaxed) {
            return Ok(None);
        }
        round[at] = ran?;
    }
    Ok(Some(round))
}

fn once(args: &Args, command: &str) -> Result<Ran, String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = now();
    let child = shell.spawn().map_err(|error| format!("cannot start a shell: {error}"))?;
    let (status, usage) = usage::wait(child.id())
        .map_err(|error| format!("a command cannot be waited for: {error}"))?;
    let wall_ns = begun.elapsed().as_nanos() as f64;
    let (user_ns, system_ns) = (1e9 * usage.user_s, 1e9 * usage.system_s);
    let ran = Ran { wall_ns, cpu_ns: user_ns + system_ns, user_ns, system_ns };
    match status.success() || args.ignore_failure {
        true => Ok(ran),
        false => Err(failed(command, status)),
    }
}

fn failed(command: &str, status: ExitStatus) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(127), _) => "was not found (status 127)".to_owned(),
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    };
    format!("`{command}` {how} (by itself it says why); --ignore-failure goes on")
}
