//! `drom man`: the manual, a page for the program and one for each verb, written from the flags and
//! the catalogues.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};
use drom_classics::{ab, http_load, httperf};

use crate::{
    cli,
    exit::Exit,
    reference::{self, Table},
    say,
};

/// Write the manual pages
///
/// Into a folder, drom.1 and one for each verb: drom-load.1, drom-serve.1 and so on.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the pages; none prints the first of them
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> Exit {
    let done = match &args.dir {
        Some(dir) => write(dir).map_err(|error| format!("{}: {error}", dir.display())),
        None => say::result(&page(&whole())).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(error) => {
            say::line(format!("drom man: {error}"));
            Exit::Failed
        }
    }
}

fn write(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let drom = whole();
    let mut commands = vec![&drom];
    while let Some(command) = commands.pop() {
        fs::write(dir.join(format!("{}.1", name(command))), page(command))?;
        commands.extend(command.get_subcommands());
    }
    Ok(())
}

/// Built, so that each verb knows its full name.
fn whole() -> clap::Command {
    let mut drom = cli::tree().disable_help_subcommand(true);
    drom.build();
    drom
}

/// `drom-load` of `load`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command) -> String {
    let mut out = Vec::new();
    let version = format!("drom {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("Drom").date("");
    let sections = [
        Man::render_title,
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ];
    // A list of bytes takes whatever comes.
    sections.iter().for_each(|section| drop(section(&man, &mut out)));
    if command.has_subcommands() {
        drop(man.render_subcommands_section(&mut out));
    }
    String::from_utf8_lossy(&out).into_owned() + &more(command).to_roff()
}

/// The sections that clap knows nothing of.
fn more(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(text) = old_tool(command.get_name()) {
        preformatted(&mut roff, "USAGE", &text);
    } else {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for (title, text) in blocks(&help) {
            preformatted(&mut roff, &title.to_uppercase(), text);
        }
        reference::tables(command.get_name()).iter().for_each(|table| section(&mut roff, table));
    }
    let others = match command.get_name() {
        "drom" => "drom-serve(1), drom-load(1), drom-compare(1)".to_owned(),
        _ => "drom(1)".to_owned(),
    };
    roff.control("SH", ["SEE ALSO"]).text([roman(others)]);
    roff
}

/// The old tools say themselves what their words are.
fn old_tool(verb: &str) -> Option<String> {
    match verb {
        "ab" => Some(ab::HELP.to_owned() + &ab::usage()),
        "http_load" => Some(http_load::USAGE.to_owned()),
        "httperf" => Some(httperf::USAGE.to_owned()),
        _ => None,
    }
}

/// Titles and texts at the end of a help: what its tables tell in full is left out.
fn blocks(help: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = help.split("\n\n").filter_map(|block| block.split_once(":\n"));
    blocks.filter(|(title, _)| !["Exit status", "Metrics of --threshold"].contains(title))
}

fn preformatted(roff: &mut Roff, title: &str, text: &str) {
    roff.control("SH", [title]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

/// What a row is called in bold, the other cells below it.
fn section(roff: &mut Roff, table: &Table) {
    roff.control("SH", [table.title.to_uppercase().as_str()]);
    for row in &table.rows {
        let Some((called, cells)) = row.split_first() else { continue };
        roff.control("TP", []).text([bold(called.replace('`', ""))]);
        let cells = cells.iter().zip(&table.heads[1..]).filter(|(cell, _)| !is_nothing(cell));
        for (at, (cell, head)) in cells.enumerate() {
            if at > 0 {
                roff.control("br", []);
            }
            roff.text(words(&match *head {
                "what it is" | "meaning" => cell.clone(),
                head => format!("{head}: {cell}"),
            }));
        }
    }
}

fn is_nothing(cell: &str) -> bool {
    matches!(cell, "" | "-")
}

/// What stands between backticks in bold.
fn words(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { roman(part) } else { bold(part) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_load_has_flags_and_catalogues() {
        let drom = whole();
        let load = page(drom.find_subcommand("load").expect("a verb"));
        for words in [
            ".TH drom-load 1",
            "\\-\\-connections",
            ".SH \"OPEN LOOP\"",
            ".SH EXAMPLES",
            ".SH CHECKS",
            "first_byte.p99",
            "drom_load_requests_sent_total",
            ".SH \"EXIT STATUS\"",
        ] {
            assert!(load.contains(words), "{words}\n{load}");
        }
        assert!(!load.contains('`'), "{load}");
    }

    #[test]
    fn every_verb_has_a_page_with_its_statuses_or_its_usage() {
        for verb in whole().get_subcommands() {
            let text = page(verb);
            assert!(text.contains("EXIT STATUS") || text.contains(".SH USAGE"), "{text}");
        }
    }
}
