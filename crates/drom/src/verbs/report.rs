//! `drom report`: lists the stored runs, renders one again.

use std::{io::IsTerminal, path::PathBuf};

use drom_report::{Style, format, runs};
use drom_store::{Error, Run};

use crate::{
    exit::Exit,
    say,
    verbs::compare::{out, unwritable},
};

/// List the runs that were kept, or render one of them again.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A run's name, the beginning of one, or its folder; none: list them all.
    run: Option<String>,
    /// Write the page here.
    #[arg(long, value_name = "FILE", requires = "run")]
    html: Option<PathBuf>,
    /// Everything, or the list, for a program.
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,
    /// One row per slice, or per run of the list.
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,
    /// Tables for a page.
    #[arg(long)]
    markdown: bool,
    /// Where runs are kept (default: $DROM_RUNS, or runs/).
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  drom report                                  what is there
  drom report ladder-2026 --html ladder.html   the page again
  drom report ladder-2026 --csv > slices.csv
  drom report --json | jq -r '.runs[].name'";

pub fn run(args: Args) -> Exit {
    let root = args.root.clone().unwrap_or_else(drom_store::root);
    let done = match &args.run {
        None => list(&args, &root),
        Some(name) => Run::find(&root, name).and_then(|run| render(&args, &run)),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(error) => {
            say::line(format!("drom report: {error}"));
            Exit::Failed
        }
    }
}

/// Colours only for a terminal, and never against `NO_COLOR`; its width.
pub fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_terminal = std::io::stdout().is_terminal();
    Style {
        colours: is_terminal && !refused,
        width: columns(libc::STDOUT_FILENO).filter(|_| is_terminal),
        ascii: !say::has_utf8(),
    }
}

/// Columns of the terminal behind this descriptor.
pub fn columns(descriptor: i32) -> Option<usize> {
    // SAFETY: the zeroed winsize is a valid one; the kernel writes into it and nothing else.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 40)
}

fn render(args: &Args, run: &Run) -> Result<(), Error> {
    let findings = drom_compare::analyse(run);
    if let Some(path) = &args.html {
        std::fs::write(path, drom_report::html(run, &findings))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    match args {
        Args { json: true, .. } => out(&drom_report::json(run, &findings)),
        Args { csv: true, .. } => out(&drom_report::csv(run)),
        Args { markdown: true, .. } => out(&drom_report::markdown(run, &findings)),
        Args { html: Some(_), .. } => Ok(()),
        _ => out(&drom_report::text(run, &findings, style())),
    }
}

fn list(args: &Args, root: &std::path::Path) -> Result<(), Error> {
    let (runs, damaged) = drom_store::list(root)?;
    if args.json {
        return out(&runs::json(&runs, &damaged));
    }
    damaged.iter().for_each(|error| say::line(format!("drom report: {error}")));
    if args.csv || args.markdown {
        return out(&if args.csv { runs::csv(&runs) } else { runs::markdown(&runs) });
    }
    if runs.is_empty() {
        return out(&format!(
            "no runs in {}; `drom compare PLAN.toml` makes one\n",
            root.display()
        ));
    }
    let width = runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
    for run in runs {
        let state = match runs::state(&run) {
            "done" => String::new(),
            state => format!(" ({state})"),
        };
        let dropped = match run.dropped {
            0 => String::new(),
            dropped => format!(" ({dropped} dropped)"),
        };
        let torn = if run.torn { " (last block torn)" } else { "" };
        let when = drom_store::utc(run.manifest.started_unix_s);
        let effect = format::percent(run.manifest.effect);
        let noun = if run.blocks == 1 { "block " } else { "blocks" };
        let line =
            format!("{:width$}  {when}  {:>3} {noun}  \u{b1}{effect} %", run.name, run.blocks);
        let marks = format!("{state}{dropped}{torn}");
        let room = style().width.map(|columns| {
            columns.saturating_sub(line.chars().count() + 2 + marks.chars().count())
        });
        let line = format!("{line}  {}{marks}\n", shortened(&run.manifest.title, room));
        say::words(&line).map_err(unwritable)?;
    }
    Ok(())
}

/// A title in this many columns; a short one tells too little.
fn shortened(title: &str, room: Option<usize>) -> String {
    let most = room.unwrap_or(usize::MAX).max(12);
    if title.chars().count() <= most {
        return title.to_owned();
    }
    let cut: String = title.chars().take(most - 1).collect();
    format!("{}\u{2026}", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_long_title_leaves_the_line_whole() {
        assert_eq!(shortened("which one is it, then", Some(16)), "which one is it\u{2026}");
        assert_eq!(shortened("which one", Some(3)), "which one");
        assert_eq!(shortened("which one is it, then", None), "which one is it, then");
    }
}
