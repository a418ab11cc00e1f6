//! The threads of a process that run a perl each. [`Threads`] finds them and the interpreter that
//! each has now; what runs there an [`Interpreter`](crate::interpreter::Interpreter) says.

use std::{fs, io, os::linux::fs::MetadataExt};

use drom_observe::{RunState, clock, threads};

use crate::{
    abi,
    error::Error,
    interpreter::{Interpreter, Lost},
    memory::{Memory, Part, Remote},
    perl::{Perl, gone, is_interpreter, u64_at},
    tracee::{Still, Tracee},
};

pub struct Threads {
    pid: i32,
    /// The main one first.
    pub living: Vec<Thread>,
    pub ended: Vec<Thread>,
    /// Why only the first interpreter is seen, though there are more threads.
    pub refused: Option<String>,
    renewed_ns: u64,
    /// Since when it has not been seen where pthreads' values are.
    doubtful_ns: Option<u64>,
}

pub struct Thread {
    pub tid: i32,
    pub interpreter: Interpreter,
    /// How often it was there to be looked at.
    pub looks: u64,
    state: RunState,
    tracee: Tracee,
    /// Where its own memory is, of which pthreads' values are a part; not known of the only one.
    base: Option<u64>,
    /// It runs a perl now.
    is_perl: bool,
}

/// How it is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Only if it has work to do.
    pub of_cpu: bool,
    pub stops: bool,
}

/// What became of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    Counted,
    Nothing,
    Ended,
    Lost,
}

/// New threads are looked for so often.
const RENEW_NS: u64 = 100_000_000;
/// While a thread is made the one that makes it has its interpreter, which is not whole yet.
const DOUBT_MAX_NS: u64 = 5_000_000_000;
const DOUBT_NS: u64 = 5_000_000;
/// glibc keeps the values of so many keys in the thread itself.
const KEYS_MAX: u32 = 32;

impl Threads {
    /// # Errors
    /// That there is no such process.
    pub fn of(pid: i32, is_child: bool, perl: Perl) -> Result<Self, Error> {
        let state = RunState::of(pid).map_err(|_| Error::NoProcess { pid })?;
        let interpreter = Interpreter::new(Remote { pid }, perl);
        let tracee = Tracee::new(pid, is_child);
        let main = Thread::new(pid, state, tracee, None, interpreter);
        Ok(Self {
            pid,
            living: vec![main],
            ended: Vec::new(),
            refused: None,
            renewed_ns: 0,
            doubtful_ns: None,
        })
    }

    /// Finds threads that are new, now and then, and which interpreter each has.
    pub fn renew(&mut self) -> io::Result<()> {
        let now_ns = clock::monotonic_ns();
        if self.refused.is_none() && now_ns >= self.renewed_ns + RENEW_NS {
            self.renewed_ns = now_ns;
            self.find()?;
        }
        if self.living[0].base.is_some() && self.refused.is_none() { self.switch() } else { Ok(()) }
    }

    /// Another program is there in place of what was: one thread, and nothing is where it was.
    pub fn begin_anew(&mut self, perl: Perl) {
        while self.living.len() > 1 {
            self.retire(1);
        }
        (self.refused, self.renewed_ns, self.doubtful_ns) = (None, 0, None);
        let main = &mut self.living[0];
        (main.base, main.is_perl) = (None, true);
        main.interpreter.begin_anew(perl);
    }

    /// Who has ended is looked at no more.
    pub fn retire(&mut self, at: usize) {
        self.ended.push(self.living.remove(at));
    }

    /// Of one thread nothing needs to be known but where perl has its first interpreter.
    fn find(&mut self) -> io::Result<()> {
        let folder = format!("/proc/{}/task", self.pid);
        let count = fs::metadata(&folder).map_or(0, |folder| folder.st_nlink().saturating_sub(2));
        let Perl { thread_key, is_embedded, .. } = self.living[0].interpreter.perl;
        let Some(key) = thread_key else { return Ok(()) };
        // A pool of interpreters needs no second thread.
        let is_known = self.living[0].base.is_some() || !is_embedded;
        if count as usize == self.living.len() && is_known {
            return Ok(());
        }
        if key >= KEYS_MAX {
            self.refused = Some(format!("perl's key of threads is {key}"));
            return Ok(());
        }
        if self.living[0].base.is_none() && !self.find_main(key)? {
            return Ok(());
        }
        for tid in threads(self.pid) {
            let is_new = self.living.iter().all(|known| known.tid != tid);
            if is_new && self.refused.is_none() {
                self.add(tid);
            }
        }
        Ok(())
    }

    /// Whether it has been seen where threads have their values; it is tried again for some time.
    fn find_main(&mut self, key: u32) -> io::Result<bool> {
        let Some(base) = self.base_of(self.pid, None) else { return Ok(false) };
        if self.is_there(base, key)? {
            self.living[0].base = Some(base);
            return Ok(true);
        }
        let since_ns = *self.doubtful_ns.get_or_insert(self.renewed_ns);
        if self.renewed_ns - since_ns > DOUBT_MAX_NS {
            self.refused = Some("this C library keeps the values of threads elsewhere".to_owned());
        }
        self.renewed_ns -= RENEW_NS - DOUBT_NS;
        Ok(false)
    }

    fn add(&mut self, tid: i32) {
        let Ok(state) = RunState::of(tid) else { return };
        let mut tracee = Tracee::new(tid, false);
        let Some(base) = self.base_of(tid, Some(&mut tracee)) else { return };
        let perl = self.living[0].interpreter.perl.clone();
        let interpreter = Interpreter::new(Remote { pid: self.pid }, perl);
        let mut new = Thread::new(tid, state, tracee, Some(base), interpreter);
        new.is_perl = false;
        self.living.push(new);
    }

    /// It is stopped for it, once.
    fn base_of(&mut self, tid: i32, tracee: Option<&mut Tracee>) -> Option<u64> {
        let tracee = tracee.unwrap_or(&mut self.living[0].tracee);
        match tracee.stop().and_then(|stopped| stopped.map(|s| s.thread_base()).transpose()) {
            Ok(base) => base,
            Err(error) => {
                // Who ends cannot be traced, either.
                let is_there = RunState::of(tid).and_then(|state| state.is_running()).is_ok();
                if is_there && error.raw_os_error() == Some(libc::EPERM) {
                    self.refused = Some(format!("they may not be stopped (ptrace): {error}"));
                }
                None
            }
        }
    }

    /// The values of threads are where glibc has them if there is an interpreter.
    fn is_there(&self, base: u64, key: u32) -> io::Result<bool> {
        let memory = Remote { pid: self.pid };
        let perl = &self.living[0].interpreter.perl;
        let at = memory.word(value_at(base, key))?.unwrap_or(0);
        Ok(perl.interpreter() == Some(at) || is_interpreter(&memory, &perl.layout, at)?)
    }

    /// Each thread's interpreter, which is another one now and then where they are in a pool.
    fn switch(&mut self) -> io::Result<()> {
        let Some(key) = self.living[0].interpreter.perl.thread_key else { return Ok(()) };
        let memory = Remote { pid: self.pid };
        let mut values = vec![[0; 8]; self.living.len()];
        let places = self.living.iter().map(|thread| value_at(thread.base.unwrap_or(0), key));
        let parts = places.zip(&mut values).map(|(at, value)| Part::new(at, value));
        memory.read(&mut parts.collect::<Vec<_>>())?;
        for (thread, value) in self.living.iter_mut().zip(values) {
            let at = u64_at(&value, 0);
            let is_known = thread.is_perl && thread.interpreter.perl.interpreter() == Some(at);
            if !is_known && thread.base.is_some() {
                thread.is_perl =
                    at != 0 && is_interpreter(&memory, &thread.interpreter.perl.layout, at)?;
                if thread.is_perl {
                    thread.interpreter.switch_to(at);
                }
            }
        }
        Ok(())
    }
}

/// Of a thread's key: a sequence number and the value, sixteen bytes each.
fn value_at(base: u64, key: u32) -> u64 {
    base.wrapping_add(abi::THREAD_VALUES + 16 * u64::from(key) + 8)
}

impl Thread {
    fn new(
        tid: i32,
        state: RunState,
        tracee: Tracee,
        base: Option<u64>,
        interpreter: Interpreter,
    ) -> Self {
        Self { tid, interpreter, looks: 0, state, tracee, base, is_perl: true }
    }

    /// Whether it may be stopped.
    ///
    /// # Errors
    /// Why not.
    pub fn try_stop(&mut self) -> Result<(), Error> {
        let refused = match Still::now(&self.state) {
            // Its wait would be over.
            Some(_) => is_traced(self.tid).then(|| io::Error::from_raw_os_error(libc::EPERM)),
            None => self.tracee.stop().err(),
        };
        let refused = refused.map(|source| not_stopped(self.tid, &self.state, source));
        // Of one that has just ended the first look tells.
        match refused {
            Some(error @ Error::NotStopped { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes a sample of what it does now.
    ///
    /// # Errors
    /// Why it cannot be looked at any more, but for its end.
    pub fn sample(&mut self, way: Way, is_main: bool) -> Result<Looked, Error> {
        // The memory of a process outlives its threads, so that each is asked.
        let is_asked = way.of_cpu || !is_main;
        let Ok(is_running) = (if is_asked { self.state.is_running() } else { Ok(true) }) else {
            return Ok(Looked::Ended);
        };
        if !self.is_perl {
            return Ok(Looked::Nothing);
        }
        self.looks += 1;
        if way.of_cpu && !is_running {
            self.interpreter.profile.taken.idle += 1;
            return Ok(Looked::Counted);
        }
        match self.look(way.stops) {
            Ok(Ok(())) => self.interpreter.count(),
            Ok(Err(Lost)) => return Ok(Looked::Lost),
            Err(Error::Ended { .. }) => return Ok(Looked::Ended),
            Err(error) => return Err(error),
        }
        Ok(Looked::Counted)
    }

    fn look(&mut self, stops: bool) -> Result<Result<(), Lost>, Error> {
        let ended = |source: io::Error| gone(self.tid, source);
        if !stops {
            return self.interpreter.look().map_err(ended);
        }
        // While nothing moves: it waits for something all the time, or is stopped.
        if let Some(still) = Still::now(&self.state) {
            let looked = self.interpreter.look().map_err(ended)?;
            if Still::now(&self.state) == Some(still) {
                return Ok(looked);
            }
        }
        let stopped = self.tracee.stop();
        let _stopped = stopped.map_err(|source| not_stopped(self.tid, &self.state, source))?;
        self.interpreter.look().map_err(ended)
    }
}

/// By somebody, who is the only one then.
fn is_traced(tid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Who is about to end cannot be traced any more, either.
fn not_stopped(pid: i32, state: &RunState, source: io::Error) -> Error {
    match source.raw_os_error() == Some(libc::ESRCH) || state.is_running().is_err() {
        true => Error::Ended { pid },
        false => Error::NotStopped { pid, source },
    }
}
