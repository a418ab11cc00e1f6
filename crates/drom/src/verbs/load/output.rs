//! Where the result goes: flags, and who writes what they ask for.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use drom_load::Threshold;

use super::{capacity, csv, html, json, progress::How, series, text, told::Told};
use crate::{say, verbs::report};

#[derive(clap::Args)]
#[command(next_help_heading = "Results")]
pub struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the result as a line of CSV with a header; - is stdout, in place of the text
    ///
    /// Every figure of the JSON but its lists, flattened; the unit is at the end of a name. The
    /// columns are the same for every run (but for the thresholds' own), empty where a run has no
    /// such figure.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the run second by second as CSV
    ///
    /// A run of over two hours has lines of two, four, ... seconds.
    #[arg(long, value_name = "FILE")]
    csv_series: Option<PathBuf>,
    /// Write the latencies second by second as an HdrHistogram log
    ///
    /// Version 1.3, V2 histograms, deflated; latencies in nanoseconds. Its tools plot it and merge
    /// it with others.
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Write the result as a page for a browser
    ///
    /// In one file without a network: verdict, figures, rate, latency and failures over time, the
    /// percentile curve; light and dark. - is stdout, as for --csv.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Judge the run: p99<250ms, failed<0.1%, rate>=2k; can be repeated
    ///
    /// One that is not met makes the exit status 9. The metrics are listed below.
    #[arg(long, value_parser = Threshold::parse, value_name = "METRIC<LIMIT")]
    #[arg(value_delimiter = ',')]
    pub threshold: Vec<Threshold>,
    /// What is shown during the run, on stderr
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW", help_heading = DURING)]
    progress: How,
    /// Nothing during the run: --progress none
    #[arg(short, long, help_heading = DURING)]
    quiet: bool,
}

/// A section of the help.
pub const DURING: &str = "During the run";

/// What a file's content is made by.
type FormOf<T> = fn(&T) -> String;
type Form = fn(&Told<'_>) -> String;

impl Output {
    /// Whether all files can be written: known before the run, not after it.
    pub fn check(&self) -> Result<(), String> {
        let files = self.files();
        let to_stdout = files.iter().filter(|(path, _)| is_stdout(path)).count();
        if to_stdout + usize::from(self.json) > 1 {
            return Err("only one result can go to standard output".to_owned());
        }
        let paths: Vec<&Path> = files.iter().map(|(path, _)| *path).collect();
        let places: Vec<PathBuf> = paths.iter().map(|path| place(path)).collect();
        if let Some(twice) = (1..paths.len()).find(|at| places[..*at].contains(&places[*at])) {
            return Err(format!("two results would go to {}", paths[twice].display()));
        }
        for path in paths.into_iter().filter(|path| !is_stdout(path)) {
            openable(path).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }

    /// The report, on standard output, and every file; the first failure is told when all others
    /// are written.
    pub fn tell(&self, told: &Told<'_>) -> Result<(), String> {
        let words = || text::render(told, text::Paint::for_stdout(), report::style().width);
        self.tell_by(&self.files(), json::render, told, &words)
    }

    /// The same of a search, whose other forms the flags refuse.
    pub fn tell_search(&self, told: &capacity::Told<'_>) -> Result<(), String> {
        let files: Option<(&Path, FormOf<_>)> =
            self.csv.as_deref().map(|path| (path, capacity::csv as FormOf<_>));
        let words = || capacity::text(told, text::Paint::for_stdout(), report::style().width);
        self.tell_by(files.as_slice(), capacity::json, told, &words)
    }

    fn tell_by<T>(
        &self,
        files: &[(&Path, FormOf<T>)],
        json: FormOf<T>,
        told: &T,
        words: &dyn Fn() -> String,
    ) -> Result<(), String> {
        let form = files.iter().find(|(path, _)| is_stdout(path)).map(|(_, form)| *form);
        let said = match form.or(self.json.then_some(json)) {
            Some(form) => say::result(&form(told)),
            None => say::words(&words()),
        };
        let mut done = said.map_err(|error| format!("cannot print the result: {error}"));
        for (path, form) in files.iter().filter(|(path, _)| !is_stdout(path)) {
            let written = fs::write(path, form(told)).map_err(|error| cannot_write(path, &error));
            done = done.and(written);
        }
        done
    }

    pub fn progress(&self) -> How {
        if self.quiet { How::None } else { self.progress }
    }

    fn files(&self) -> Vec<(&Path, Form)> {
        let files: [(&Option<PathBuf>, Form); 4] = [
            (&self.csv, csv::summary),
            (&self.csv_series, series::csv),
            (&self.hdr, series::hdr_log),
            (&self.html, html::render),
        ];
        let asked = files.into_iter().filter_map(|(path, form)| Some((path.as_deref()?, form)));
        asked.collect()
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

pub fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// What a file of an earlier run holds stays until there is something to put in its place, and
/// where there is none yet nothing is left: the run may have no result. A pipe is not opened: its
/// reader would see an end.
pub fn openable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(known) if !known.is_file() && !known.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => creatable(path),
        _ => fs::OpenOptions::new().append(true).open(path).map(drop),
    }
}

/// What a path comes to, whichever way it is written; of a file that is not there yet, too.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let in_folder =
        || Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

fn creatable(path: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        // What cannot be removed again can be written all the same.
        Ok(_) => fs::remove_file(path).or(Ok(())),
        // A link to a file that is not there yet: what it points to is tried.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_symlink() => {
            let folder = path.parent().unwrap_or(Path::new(""));
            creatable(&folder.join(fs::read_link(path)?))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_tried_and_left_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old.csv"), "of an earlier run").expect("written");
        std::os::unix::fs::symlink("new.csv", at("link.csv")).expect("a link");
        for name in ["old.csv", "new.csv", "link.csv"] {
            assert!(openable(&at(name)).is_ok(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("old.csv")).expect("it is there"), "of an earlier run");
        assert!(!at("new.csv").exists() && at("link.csv").is_symlink());
        assert!(openable(&at("none/new.csv")).is_err() && openable(folder.path()).is_err());
        std::os::unix::fs::symlink("old.csv", at("other.csv")).expect("a link");
        assert_eq!(place(&at("other.csv")), place(&at("old.csv")));
        assert_eq!(place(&at("./new.csv")), place(&at("new.csv")));
        assert_ne!(place(&at("new.csv")), place(&at("newer.csv")));
    }
}
