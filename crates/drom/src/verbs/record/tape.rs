//! What was recorded so far, and its file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use drom_record::{Filter, Seen};
use drom_scenario::{Exchange, WriteOptions, write_scenario};

use crate::say;

/// More lies in memory, and in one file, than anybody replays.
const EXCHANGES_MAX: usize = 100_000;
const BODY_BYTES_MAX: usize = 256 << 20;

pub struct Tape {
    name: String,
    /// None: standard output, at the end.
    file: Option<PathBuf>,
    filter: Filter,
    options: WriteOptions,
    exchanges: Vec<Exchange>,
    body_bytes: usize,
    left_out: usize,
    is_saved: bool,
}

impl Tape {
    pub fn new(name: String, file: Option<PathBuf>, filter: Filter, options: WriteOptions) -> Self {
        let (exchanges, is_saved) = (Vec::new(), true);
        Self { name, file, filter, options, exchanges, body_bytes: 0, left_out: 0, is_saved }
    }

    /// That its file can be there, before anything was recorded for it.
    pub fn check(&self) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let why = match (folder.is_dir(), path.is_dir()) {
            (true, false) => return Ok(()),
            (true, true) => "it is a folder".to_owned(),
            (false, _) => format!("there is no folder {}", folder.display()),
        };
        Err(format!("{} cannot be written: {why}", path.display()))
    }

    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Why it was left out, if it was.
    pub fn add(&mut self, seen: Seen) -> Option<&'static str> {
        let Some(exchange) = seen.exchange else {
            self.left_out += 1;
            return Some("not recorded");
        };
        if !self.filter.keeps(&seen.path, &seen.content_type) {
            return Some("left out");
        }
        let bytes = self.body_bytes + exchange.body.len();
        if self.exchanges.len() >= EXCHANGES_MAX || bytes > BODY_BYTES_MAX {
            self.left_out += 1;
            return Some("not recorded: the recording is full");
        }
        self.body_bytes = bytes;
        self.exchanges.push(exchange);
        self.is_saved = false;
        None
    }

    /// Writes the file, if there is one and something new; or says what is wrong with it.
    pub fn save(&mut self) -> Option<String> {
        let path = self.file.as_ref().filter(|_| !self.is_saved)?;
        // Trouble is told once, and again when there is more to lose.
        self.is_saved = true;
        let written = replace(path, &self.text());
        written.err().map(|error| format!("{} cannot be written: {error}", path.display()))
    }

    /// Writes all; what there is to say of it, or why it is not there.
    pub fn finish(mut self) -> Result<String, String> {
        let text = self.text();
        // Texts in it are quoted, each on one line.
        let count = text.matches("\n[[step]]\n").count();
        if count == 0 {
            return Err(format!("nothing was recorded{}", self.others()));
        }
        self.is_saved = false;
        let trouble = self.save();
        if self.file.is_none() || trouble.is_some() {
            // Better there than lost.
            say::result(&text)
                .map_err(|error| format!("the scenario cannot be printed: {error}"))?;
        }
        if let Some(trouble) = trouble {
            return Err(format!("{trouble}; the scenario went to standard output"));
        }
        let place = self.file.as_ref().map(|path| format!(" in {}", path.display()));
        let plural = if count == 1 { "" } else { "s" };
        let (place, others) = (place.unwrap_or_default(), self.others());
        Ok(format!("{count} request{plural} recorded{place}{others}"))
    }

    fn text(&self) -> String {
        write_scenario(&self.name, &self.exchanges, &self.options)
    }

    fn others(&self) -> String {
        match self.left_out {
            0 => String::new(),
            more => format!("; {more} could not be"),
        }
    }
}

/// The old file or the new one, never half of it. What is no plain file is written as it is.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return fs::write(path, text);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
