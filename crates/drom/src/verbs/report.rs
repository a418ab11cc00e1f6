//! `drom report`: lists the stored runs, renders one again.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use drom_report::{Style, format, runs};
use drom_store::{Error, Listed, Run};

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
    /// Write the page here; `-` is standard output.
    #[arg(long, value_name = "FILE", requires = "run")]
    #[arg(help_heading = "Form")]
    html: Option<PathBuf>,
    /// Everything, or the list, for a program.
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    #[arg(help_heading = "Form")]
    json: bool,
    /// One row per slice, or per run of the list.
    #[arg(long, conflicts_with = "markdown")]
    #[arg(help_heading = "Form")]
    csv: bool,
    /// Tables for a page.
    #[arg(long)]
    #[arg(help_heading = "Form")]
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
    if args.html.as_deref() == Some(Path::new("-")) && (args.json || args.csv || args.markdown) {
        say::line("drom report: --html - and another form would both go to standard output");
        return Exit::Usage;
    }
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
    terminal_size(descriptor).map(|(columns, _)| columns).filter(|columns| *columns >= 40)
}

/// Its columns and rows, where it says them.
pub fn terminal_size(descriptor: i32) -> Option<(usize, usize)> {
    // SAFETY: the zeroed winsize is a valid one; the kernel writes into it and nothing else.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    size.filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

fn render(args: &Args, run: &Run) -> Result<(), Error> {
    let findings = drom_compare::analyse(run);
    if let Some(path) = &args.html {
        let page = drom_report::html(run, &findings);
        if path == Path::new("-") {
            return out(&page);
        }
        std::fs::write(path, page).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    match args {
        Args { json: true, .. } => out(&drom_report::json(run, &findings)),
        Args { csv: true, .. } => out(&drom_report::csv(run)),
        Args { markdown: true, .. } => out(&drom_report::markdown(run, &findings)),
        Args { html: Some(_), .. } => Ok(()),
        _ => out(&drom_report::text(run, &findings, style())),
    }
}

fn list(args: &Args, root: &Path) -> Result<(), Error> {
    if args.root.is_some() {
        // One that was named is there; the other comes with the first run.
        std::fs::read_dir(root).map_err(|source| Error::Read { path: root.to_owned(), source })?;
    }
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
            format::plain(&root.display().to_string())
        ));
    }
    table(&runs).iter().try_for_each(|line| say::words(line).map_err(unwritable))
}

/// The list for people, its head first.
fn table(runs: &[Listed]) -> Vec<String> {
    let names: Vec<String> = runs.iter().map(|run| format::plain(&run.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("run".len());
    let row = |name: &str, when: &str, blocks: &str, effect: &str| {
        format!("{name:width$}  {when:20}  {blocks:>6}  {effect:>6}  ")
    };
    let columns = style().width;
    let mut lines = vec![row("run", "started", "blocks", "effect") + "title\n"];
    for (run, name) in runs.iter().zip(&names) {
        let when = drom_store::utc(run.manifest.started_unix_s);
        let effect = format!("{} %", format::percent(run.manifest.effect));
        let (line, marks) = (row(name, &when, &run.blocks.to_string(), &effect), marks(run));
        let taken = line.chars().count() + marks.chars().count();
        let room = columns.map(|columns| columns.saturating_sub(taken));
        let title = shortened(&format::plain(&run.manifest.title), room);
        lines.push(format!("{line}{title}{marks}\n"));
    }
    lines
}

/// What is to be said of a run beside its title.
fn marks(run: &Listed) -> String {
    let mut marks = match runs::state(run) {
        "done" => String::new(),
        state => format!(" ({state})"),
    };
    if run.dropped > 0 {
        marks += &format!(" ({} dropped)", run.dropped);
    }
    if run.torn {
        marks += " (last block torn)";
    }
    marks
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
