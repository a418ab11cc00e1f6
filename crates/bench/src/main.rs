//! `make bench`: measures Drom against the installed peers, side by side, and writes
//! `bench/RESULTS.md`.
//!
//! Central noun: [`table::Row`], one line of that file: two contestants, one figure, what was
//! asked. The two are up at the same time and measured in rounds, in an order drawn anew for each
//! round; the ratio's interval comes from the rounds. Not a timed test: nothing fails because a
//! number is low.

mod alone;
mod arrivals;
mod client;
mod contest;
mod cost;
mod error;
mod get;
mod profile;
mod results;
mod server;
mod table;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use drom_stats::Rng;

use contest::Rounds;
use error::Error;
use results::Results;
use server::Ground;

/// Measure Drom against Apache httpd, nginx, a bare loop, its load generator and profiler against
/// others.
#[derive(Parser)]
struct Args {
    /// The drom to measure.
    #[arg(long, default_value = "target/release/drom")]
    drom: PathBuf,
    /// 4 rounds of 1 s in place of 8 of 2 s.
    #[arg(long)]
    quick: bool,
    /// Rounds a row.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: Option<u32>,
    /// Seconds a round and side.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Only rows whose name contains this; may be repeated. Written below bench/work.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// List the rows and end.
    #[arg(long)]
    list: bool,
    /// Where the table goes.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Order of the rounds, for a repetition; the default is a new one.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        table::rows().iter().for_each(|row| println!("{:28} {}", row.name, row.what));
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let ground = Ground::prepare(&args.drom)?;
    let seed = args.seed.unwrap_or_else(drom_observe::clock::monotonic_ns);
    let mut rng = Rng::new(seed);
    let rounds = rounds(args);
    let mut results = Results::new(out(args), seed, rounds)?;
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|o| name.contains(o));
    let rows: Vec<_> = table::rows().into_iter().filter(|row| wanted(row.name)).collect();
    let count = rows.len();
    for (number, row) in rows.into_iter().enumerate() {
        println!("{}/{count} {}: {} against {}", number + 1, row.name, row.what, row.against);
        let outcome = contest::hold(&row, &ground, rounds, &mut rng);
        println!("    {}", results.add(&row, outcome)?);
    }
    println!("\nThe table is in {}", results.path().display());
    Ok(())
}

fn rounds(args: &Args) -> Rounds {
    let (count, seconds) = if args.quick { (4, 1) } else { (8, 2) };
    let count = args.rounds.map_or(count, |r| r as usize);
    let seconds = args.seconds.unwrap_or(seconds);
    Rounds { count, each: Duration::from_secs(seconds), warm_up: Duration::from_secs(1) }
}

fn out(args: &Args) -> PathBuf {
    let default = if args.only.is_empty() { "bench/RESULTS.md" } else { "bench/work/RESULTS.md" };
    args.out.clone().unwrap_or_else(|| PathBuf::from(default))
}
