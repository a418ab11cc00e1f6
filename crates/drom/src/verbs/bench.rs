//! `drom bench`: which of several ways is faster: pieces of Perl, or whole commands. The arithmetic
//! is `drom-contest`'s; here is what runs them, and what is told.

mod commands;
mod contest;
mod export;
mod perl;
mod text;
mod told;

use std::{fs, path::PathBuf, time::Duration};

use super::load::{duration, output::cannot_write, watch_interrupts};
use crate::{
    exit::{self, Exit},
    say,
};
use told::Told;

/// Find out which of several pieces of Perl, or commands, is faster, and by how much
///
/// Perl: each is run in short batches, all in turn in random order, in several processes one after
/// the other, for the same code is faster or slower from process to process by where it comes to
/// lie in memory. Commands: all in turn in random order. A difference is told only where all of
/// them together show one; `~` where they do not.
#[derive(clap::Args)]
#[command(after_help = exit::help("bench", EXAMPLES))]
pub struct Args {
    /// A file whose named subs are compared; it is run once in each process
    #[arg(required_unless_present_any = ["code", "commands"], conflicts_with = "commands")]
    file: Option<PathBuf>,
    /// Code to compare: NAME=CODE; can be repeated
    #[arg(short = 'e', value_name = "NAME=CODE", value_parser = named)]
    #[arg(conflicts_with = "commands")]
    code: Vec<String>,
    /// Behind `--`: whole commands to compare, each in quotes; what they print is not shown
    #[arg(last = true, value_name = "COMMAND")]
    commands: Vec<String>,
    /// Give each line of this file to each sub as its argument (to code as `$_`), and tell which of
    /// them are slow
    #[arg(long, value_name = "FILE", conflicts_with = "commands")]
    inputs: Option<PathBuf>,
    /// The perl that runs it
    #[arg(long, default_value = "perl", value_name = "PATH", conflicts_with = "commands")]
    perl: PathBuf,
    /// Processes that are started, one after the other; more of them tell smaller differences
    #[arg(long, default_value = "16", value_name = "N", conflicts_with = "commands")]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=1000))]
    processes: u32,
    /// Batches of each way in a process, runs of each command [default: 200 and 20, fewer where
    /// that takes long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    rounds: Option<u32>,
    /// How long a batch takes, about
    #[arg(long, default_value = "500us", value_parser = duration::parse, value_name = "TIME")]
    #[arg(conflicts_with = "commands")]
    batch: Duration,
    /// The time that is compared [default: cpu for Perl, all that passes for commands]
    #[arg(long, value_enum, value_name = "CLOCK")]
    clock: Option<Clock>,
    /// Of the order of batches: the same number, the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A command that does not end with 0 is no reason to stop
    #[arg(long, requires = "commands")]
    ignore_failure: bool,
    /// What is written: for people, or for a program
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write it here in place of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Clock {
    Cpu,
    Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
    Csv,
}

const EXAMPLES: &str = "\
Examples:
  drom bench -e join='join \",\", 1..9' -e concat='my $s = \"\"; $s .= \"$_,\" for 1..9'
  drom bench ways.pl                      the subs that ways.pl defines
  drom bench --inputs lines.txt ways.pl   which of these lines is slow for which of the subs
  drom bench -- 'perl old.pl' 'perl new.pl'
  drom bench --processes 40 ways.pl       smaller differences";

pub fn run(args: &Args) -> Exit {
    let told = contest(args).and_then(|told| {
        let report = match args.format {
            Format::Text => text::render(&told),
            Format::Json => export::json(&told),
            Format::Markdown => export::markdown(&told),
            Format::Csv => export::csv(&told),
        };
        write(args, &report)?;
        Ok(told.is_interrupted)
    });
    match told {
        Ok(false) => Exit::Done,
        Ok(true) => Exit::Interrupted,
        Err(why) => {
            say::line(format!("drom bench: {why}"));
            Exit::Failed
        }
    }
}

fn contest(args: &Args) -> Result<Told, String> {
    let stop = watch_interrupts();
    match args.commands.is_empty() {
        true => contest::run(args, stop),
        false => commands::run(args, stop),
    }
}

fn write(args: &Args, report: &str) -> Result<(), String> {
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => fs::write(path, report).map_err(|error| cannot_write(path, &error)),
        None if args.format == Format::Text => say::words(report).map_err(cannot_print),
        None => say::result(report).map_err(cannot_print),
    }
}

fn cannot_print(error: std::io::Error) -> String {
    format!("cannot print the result: {error}")
}

fn named(text: &str) -> Result<String, String> {
    let is_name = |name: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(is_word)
    };
    match text.split_once('=') {
        Some((name, _)) if is_name(name) => Ok(text.to_owned()),
        _ => Err("write NAME=CODE, the name in letters, digits and _".to_owned()),
    }
}
