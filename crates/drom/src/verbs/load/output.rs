//! Where the result goes: flags, and who writes what they ask for.

use std::io;

use drom_load::{Threshold, threshold};

use super::{json, text, told::Told};
use crate::{say, verbs::report};

#[derive(clap::Args)]
pub struct Output {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Judge the run: p99<250ms, failed<0.1%, rate>=2k; see --help
    #[arg(long, value_parser = Threshold::parse, value_name = "METRIC<LIMIT")]
    #[arg(value_delimiter = ',', long_help = threshold::help())]
    pub threshold: Vec<Threshold>,
    /// No progress on the terminal
    #[arg(short, long)]
    pub quiet: bool,
}

impl Output {
    /// The report, on standard output.
    pub fn tell(&self, told: &Told<'_>) -> io::Result<()> {
        if self.json {
            return say::result(&json::render(told));
        }
        say::words(&text::render(told, text::Paint::for_stdout(), report::style().width))
    }
}
