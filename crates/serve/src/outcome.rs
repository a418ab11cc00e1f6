//! How reloads went: the master writes it beside the PidFile, `drom serve --reload` reads it there.
//!
//! The file has its size from the start and is written over in place, so that a file system that
//! became full keeps nothing back. It holds the last few outcomes, each with the time at which its
//! load began: who asks wants the first that began later.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// What somebody who asked for a reload finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// No load that began since then has come to its end.
    Nothing,
    Outcome(String),
    /// There is no file to read it in.
    Nowhere,
}

/// The master's side.
pub struct Board {
    path: PathBuf,
    last: Vec<(u64, String)>,
    serial: u64,
}

const FILE_BYTES: usize = 16 * 1024;
const KEPT: usize = 4;
const TEXT_MAX: usize = 3500;
/// Ends each outcome; no text of an operator's has it.
const END: char = '\x1e';

impl Board {
    pub fn new(pid_file: &Path) -> Self {
        Self { path: file_of(pid_file), last: Vec::new(), serial: 0 }
    }

    /// Makes the file, with all the room that it will need. When that cannot be the file goes: that
    /// is as good as a word to who waits for it.
    pub fn prepare(&mut self) -> io::Result<()> {
        self.write().inspect_err(|_| self.remove())
    }

    /// A load that began at this time came to this end.
    pub fn tell(&mut self, began_ns: u64, outcome: &str) -> io::Result<()> {
        let mut text = outcome.replace(END, " ");
        let is_end = |at: &usize| text.is_char_boundary(*at);
        text.truncate((0..=text.len().min(TEXT_MAX)).rev().find(is_end).unwrap_or(0));
        self.last.push((began_ns, text));
        self.last.drain(..self.last.len().saturating_sub(KEPT));
        self.prepare()
    }

    pub fn remove(&self) {
        // A file that somebody removed already is as good.
        let _ = std::fs::remove_file(&self.path);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self) -> io::Result<()> {
        self.serial += 1;
        let text = compose(self.serial, &self.last);
        let open = File::options().write(true).create(true).truncate(false).open(&self.path)?;
        open.write_all_at(text.as_bytes(), 0)
    }
}

/// What is said of the first load that began at this time (monotonic) or later.
pub fn heard(pid_file: &Path, asked_ns: u64) -> Heard {
    match std::fs::read(file_of(pid_file)) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            parse(&text, asked_ns).map_or(Heard::Nothing, Heard::Outcome)
        }
        Err(_) => Heard::Nowhere,
    }
}

fn file_of(pid_file: &Path) -> PathBuf {
    let mut name = pid_file.as_os_str().to_owned();
    name.push(".reload");
    PathBuf::from(name)
}

/// The serial number stands at both ends: who reads while it is written over sees two.
fn compose(serial: u64, outcomes: &[(u64, String)]) -> String {
    let mut text = format!("{serial:020}\n");
    for (began_ns, outcome) in outcomes {
        text += &format!("{began_ns} {outcome}{END}\n");
    }
    let end = format!("{serial:020}\n");
    text += &" ".repeat(FILE_BYTES.saturating_sub(text.len() + end.len()));
    text + &end
}

fn parse(text: &str, asked_ns: u64) -> Option<String> {
    let (serial, rest) = text.split_once('\n')?;
    let outcomes = rest.strip_suffix('\n')?.strip_suffix(serial)?;
    outcomes.split(END).find_map(|outcome| {
        let (began_ns, text) = outcome.trim_start().split_once(' ')?;
        (began_ns.parse::<u64>().ok()? >= asked_ns).then(|| text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(outcomes: &[(u64, &str)]) -> String {
        let outcomes: Vec<_> =
            outcomes.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
        compose(7, &outcomes)
    }

    #[test]
    fn who_asks_hears_of_the_first_load_that_began_later() {
        let text = text(&[(10, "done"), (20, "failed: a\nb"), (30, "done")]);
        let seen = [5, 11, 20, 21, 31].map(|asked_ns| parse(&text, asked_ns));
        let seen = seen.each_ref().map(Option::as_deref);
        assert_eq!(
            seen,
            [Some("done"), Some("failed: a\nb"), Some("failed: a\nb"), Some("done"), None]
        );
        assert_eq!(parse(&compose(1, &[]), 0), None);
    }

    #[test]
    fn a_text_that_is_being_written_is_none() {
        let (old, new) = (compose(6, &[(10, "done".to_owned())]), text(&[(20, "failed: x")]));
        assert_eq!((old.len(), new.len()), (FILE_BYTES, FILE_BYTES));
        for at in [30, FILE_BYTES / 2, FILE_BYTES - 2] {
            assert_eq!(parse(&format!("{}{}", &new[..at], &old[at..]), 0), None);
        }
        assert_eq!(parse("", 0), None);
    }

    #[test]
    fn the_file_holds_the_last_outcomes_whatever_their_length() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        assert_eq!(heard(&pid_file, 0), Heard::Nowhere);
        let mut board = Board::new(&pid_file);
        board.prepare().unwrap();
        assert_eq!(heard(&pid_file, 0), Heard::Nothing);
        for began_ns in 1..10 {
            board.tell(began_ns, &"ü".repeat(5000)).unwrap();
            let Heard::Outcome(text) = heard(&pid_file, began_ns) else { panic!("nothing heard") };
            assert_eq!(text, "ü".repeat(TEXT_MAX / 2));
        }
        let length = std::fs::metadata(board.path()).unwrap().len();
        assert_eq!(length, FILE_BYTES as u64);
        board.remove();
        assert_eq!(heard(&pid_file, 0), Heard::Nowhere);
    }
}
