//! What a profile is written as, and where to.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use drom_profile::{Profile, callgrind, json, pprof, speedscope, text};

use super::{Failure, page};
use crate::{exit::Exit, say, verbs::load::output::cannot_write};

#[derive(clap::Args)]
pub struct Form {
    /// What is written: a table, a page with a flame graph, drom's own file, or another tool's
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write it here; `-`, or no file: standard output (standard error for a script)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Rows of the table
    #[arg(short = 'O', long, default_value_t = text::ROWS, value_name = "N")]
    pub rows: usize,
    /// As text: who called whom, in place of the table
    #[arg(short = 'T', long)]
    tree: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Html,
    Json,
    Collapsed,
    Speedscope,
    Callgrind,
    Pprof,
}

/// What the profile is of, and where its relative names of files begin.
pub struct Watched<'a> {
    pub name: &'a str,
    pub base: &'a Path,
}

impl Form {
    /// Before anything is started.
    pub fn usable(&self) -> Result<(), Failure> {
        let is_for_people = self.output.is_none() && matches!(self.format, Format::Pprof);
        let message = "--format pprof is no text: -o FILE says where it goes".to_owned();
        if is_for_people { Err(Failure { message, exit: Exit::Usage }) } else { Ok(()) }
    }

    pub fn render(&self, profile: &Profile, watched: &Watched<'_>) -> Vec<u8> {
        let name = watched.name;
        let text = match self.format {
            Format::Text if self.tree => text::tree(profile),
            Format::Text => text::table(profile, self.rows),
            Format::Html => page::page(profile, name, watched.base),
            Format::Json => json(profile, name),
            Format::Collapsed => text::collapsed(profile, false),
            Format::Speedscope => speedscope(profile, name),
            Format::Callgrind => callgrind(profile, name),
            Format::Pprof => return pprof(profile, name, SystemTime::now()),
        };
        text.into_bytes()
    }

    pub fn write(&self, profile: &Profile, watched: &Watched<'_>) -> Result<(), Failure> {
        write(self.output.as_deref(), &self.render(profile, watched))
    }
}

/// To this file, or to standard output.
pub fn write(path: Option<&Path>, report: &[u8]) -> Result<(), Failure> {
    let done = match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => fs::write(path, report).map_err(|error| cannot_write(path, &error)),
        None => say::bytes(report).map_err(|error| format!("cannot print the result: {error}")),
    };
    done.map_err(|message| Failure { message, exit: Exit::Failed })
}
