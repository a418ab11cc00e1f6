//! A perl that runs batches when it is told to, over a socket that is its standard input. What the
//! code itself prints goes where it always goes.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, ErrorKind, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use drom_contest::Turn;

/// What runs in it, whatever that perl's library holds; docs/bench.md says how.
const PROGRAM: &str =
    concat!(include_str!("../../../../../perl/lib/Drom/Clock.pm"), "\n", include_str!("runner.pl"));

/// What each process is started with.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    pub perl: &'a Path,
    /// Its named subs are candidates.
    pub file: Option<&'a Path>,
    /// `NAME=CODE`, candidates as well.
    pub codes: &'a [String],
    /// Each line is handed to each candidate.
    pub inputs: Option<&'a PathBuf>,
    /// Somebody asked for an end.
    pub stop: &'static AtomicBool,
}

/// A perl that was told to end has ended after so many of these.
const END: Duration = Duration::from_millis(2);
const ENDS_MAX: u32 = 1_000;
/// So often it is looked whether somebody asked for an end while a batch runs.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Runner {
    child: Child,
    socket: BufReader<UnixStream>,
    stop: &'static AtomicBool,
    version: String,
    inputs: usize,
    names: Vec<String>,
    bare: Vec<usize>,
}

/// A batch that was run, or many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ran {
    pub wall_ns: f64,
    pub cpu_ns: f64,
    pub user_ns: f64,
    pub system_ns: f64,
}

impl Ran {
    pub fn add(&mut self, other: Self) {
        self.wall_ns += other.wall_ns;
        self.cpu_ns += other.cpu_ns;
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
    }
}

impl Runner {
    /// `seed` is of where in its memory things come to lie.
    pub fn start(start: &Start<'_>, seed: u64) -> Result<Self, String> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| format!("no socket: {error}"))?;
        let mut command = Command::new(start.perl);
        command.args(["-e", PROGRAM, "--"]);
        command.arg((seed % (1 << 31)).to_string());
        command.arg(start.inputs.map_or(OsStr::new(""), |path| path.as_os_str()));
        command.arg(start.file.map_or(OsStr::new(""), Path::as_os_str)).args(start.codes);
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn();
        let child = child
            .map_err(|error| format!("{} cannot be started: {error}", start.perl.display()))?;
        // The child's end is the child's alone: its end is an end of file here.
        drop(command);
        let timed = ours.set_read_timeout(Some(LOOK));
        timed.map_err(|error| format!("no timeout on a socket: {error}"))?;
        let mut runner = Self::unknown(child, ours, start.stop);
        let mut words = runner.answer("ready")?.into_iter();
        runner.version = words.next().unwrap_or_default();
        runner.inputs = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
        for word in words {
            let (kind, name) = word.split_once(' ').unwrap_or(("", &word));
            runner.names.push(name.to_owned());
            runner.bare.push(usize::from(kind == "code"));
        }
        Ok(runner)
    }

    fn unknown(child: Child, socket: UnixStream, stop: &'static AtomicBool) -> Self {
        let socket = BufReader::new(socket);
        let (names, bare) = (Vec::new(), Vec::new());
        Self { child, socket, stop, version: String::new(), inputs: 1, names, bare }
    }

    /// As `$^V` has it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Lines that are handed to each candidate; 1 without any.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Which of the bare loops, counted behind the candidates, each is run in.
    pub fn bare(&self) -> &[usize] {
        &self.bare
    }

    /// Batches one behind the other, each so many iterations of a loop.
    pub fn run(&mut self, turns: &[Turn]) -> Result<Vec<Ran>, String> {
        let words = turns.iter().map(|turn| format!("{} {}", turn.candidate, turn.iterations));
        let numbers = self.ask(&format!("run {}", words.collect::<Vec<_>>().join(" ")), "ran")?;
        let ran =
            |of: &[f64]| Ran { wall_ns: of[0], cpu_ns: of[1], user_ns: of[2], system_ns: of[3] };
        match numbers.len() == 4 * turns.len() {
            true => Ok(numbers.chunks(4).map(ran).collect()),
            false => Err(format!("perl answered {numbers:?}")),
        }
    }

    /// Bytes by which the process's data grew while a turn was run so often.
    pub fn grown(&mut self, turn: Turn, batches: u32) -> Result<f64, String> {
        let Turn { candidate, iterations } = turn;
        let numbers = self.ask(&format!("grow {candidate} {iterations} {batches}"), "grown")?;
        numbers.first().copied().ok_or_else(|| "perl answered nothing".to_owned())
    }

    fn ask(&mut self, order: &str, wanted: &str) -> Result<Vec<f64>, String> {
        let sent = self.socket.get_mut().write_all(format!("{order}\n").as_bytes());
        sent.map_err(|_| self.ended())?;
        let words = self.answer(wanted).map_err(|why| self.named(&why))?;
        let numbers: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
        numbers.ok_or_else(|| format!("perl answered {words:?}"))
    }

    /// What died begins with the number of its loop.
    fn named(&self, why: &str) -> String {
        let (at, rest) = why.split_once(' ').unwrap_or((why, ""));
        let name = |at: usize| self.names.get(at / self.inputs).map_or("the loop", |name| name);
        match at.parse::<usize>() {
            Ok(at) => format!("{}: {rest}", name(at)),
            Err(_) => why.to_owned(),
        }
    }

    /// The words behind this one, which a good answer begins with.
    fn answer(&mut self, wanted: &str) -> Result<Vec<String>, String> {
        let line = self.line()?;
        let mut words = line.trim_end_matches('\n').split('\t').map(str::to_owned);
        let first = words.next().unwrap_or_default();
        let rest: Vec<String> = words.collect();
        if first == wanted { Ok(rest) } else { Err(rest.join(" ").trim().to_owned()) }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        loop {
            match self.socket.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    return Ok(String::from_utf8_lossy(&line).into_owned());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.stop.load(Relaxed) {
                        let _ = self.child.kill();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return Err(self.ended()),
            }
        }
    }

    fn ended(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => match status.code() {
                Some(code) => format!("the code ended perl (exit {code})"),
                None => format!("perl was ended ({status})"),
            },
            Err(error) => format!("perl is gone: {error}"),
        }
    }
}

/// Loops of nothing: around a sub, and around code.
pub const BARE: usize = 2;

impl Drop for Runner {
    fn drop(&mut self) {
        // Without orders it ends by itself, and its END blocks run; one that waits in them for ever
        // is ended.
        let _ = self.socket.get_mut().shutdown(std::net::Shutdown::Both);
        let mut looks = 0;
        while matches!(self.child.try_wait(), Ok(None)) {
            if looks == ENDS_MAX || self.stop.load(Relaxed) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            looks += 1;
            drom_observe::clock::sleep(END);
        }
    }
}
