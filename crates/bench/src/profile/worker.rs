//! A [`Worker`]: a perl that works when it is told to, and answers with a line. It ends with this
//! value, by the end of its input, so that a profiler can write what it has to.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use drom_observe::clock;

use super::tail;
use crate::{error::Error, server::end_with_us};

/// What NYTProf has to write at its end.
const END_WAIT: Duration = Duration::from_secs(20);
const END_STEP: Duration = Duration::from_millis(5);

pub struct Worker {
    name: &'static str,
    child: Child,
    told: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Worker {
    /// When it is ready. What it says of errors goes to the log.
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Self, Error> {
        let file = fs::File::create(log).map_err(|error| Error::File(log.to_owned(), error))?;
        end_with_us(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(|error| Error::Start(name.to_owned(), error))?;
        let (told, said) = (child.stdin.take(), child.stdout.take().expect("it was asked for"));
        let log = log.to_owned();
        let mut worker = Self { name, child, told, said: BufReader::new(said), log };
        match &*worker.hear()? {
            "ready" => Ok(worker),
            other => Err(Error::Client(name, other.to_owned())),
        }
    }

    /// The answer to a line.
    pub fn ask(&mut self) -> Result<String, Error> {
        let told = self.told.as_mut().expect("there until it is dropped");
        // One that is gone says nothing either.
        let _ = told.write_all(b"go\n");
        self.hear()
    }

    /// The time that it says its work took, in milliseconds.
    pub fn work_ms(&mut self) -> Result<f64, Error> {
        let said = self.ask()?;
        let took_s = said.parse::<f64>().ok().filter(|took_s| *took_s > 0.0);
        took_s.map(|took_s| took_s * 1e3).ok_or(Error::Client(self.name, said))
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn hear(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.said.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            _ => Err(Error::Ended(self.name.to_owned(), tail(&self.log))),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.told.take());
        let until = clock::now() + END_WAIT;
        while matches!(self.child.try_wait(), Ok(None)) && clock::now() < until {
            clock::sleep(END_STEP);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(program: &str) -> Result<Worker, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut perl = Command::new("perl");
        Worker::start("it", perl.args(["-e", program]), &folder.path().join("log"))
    }

    #[test]
    fn it_works_when_it_is_told_to() {
        let program = "$| = 1; print qq(ready\\n); print 0.5 * $., qq(\\n) while <STDIN>";
        let mut worker = worker(program).expect("ready");
        assert!(worker.work_ms().is_ok_and(|ms| (ms - 500.0).abs() < 1e-9));
        assert!(worker.work_ms().is_ok_and(|ms| (ms - 1_000.0).abs() < 1e-9));
    }

    #[test]
    fn one_that_ends_says_why() {
        let ended = worker("die qq(no reason\\n)").err().expect("it ends").to_string();
        assert!(ended.contains("no reason"), "{ended}");
        let program = "$| = 1; print qq(ready\\n); <STDIN>; print qq(none\\n)";
        let mut worker = worker(program).expect("ready");
        assert!(matches!(worker.work_ms(), Err(Error::Client("it", said)) if said == "none"));
        assert!(matches!(worker.work_ms(), Err(Error::Ended(..))));
    }
}
